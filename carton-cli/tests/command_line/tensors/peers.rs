//! Compares files of `carton tensor convert` with Python's libraries.

use crate::sandbox::Sandbox;

/// Python's libraries read converted files, and converts files of Python's libraries.
#[test]
fn other_libraries_agree() {
    let Some(python) = std::env::var_os("CARTON_TEST_PYTHON") else {
        eprintln!("skipped: CARTON_TEST_PYTHON names no python3 that has NumPy and safetensors (scripts/test-setup)");
        return;
    };
    let sandbox = Sandbox::new();
    let run = |script: &str| {
        let output =
            std::process::Command::new(&python).args(["-c", script]).current_dir(sandbox.work()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    run("import numpy as np; from safetensors.numpy import save_file
r = np.random.default_rng(1)
t = {'a': r.normal(size=(3, 4)).astype('f4'), 'h': r.normal(size=7).astype('f2'), 'b': r.integers(0, 2, 9).astype(bool), 'i': r.integers(-9, 9, (2, 0, 3))}
save_file(t, 'their.safetensors', {'k': 'v'}); np.savez_compressed('their.npz', **t)");
    sandbox.carton("tensor convert their.safetensors ours.npz").expect_code(0);
    sandbox.carton("tensor convert their.npz ours.zt --zstd 1 --digest crc32c").expect_code(0);
    sandbox.carton("tensor convert ours.zt ours.safetensors").expect_code(0);
    run("import numpy as np; from safetensors.numpy import load_file
e = load_file('their.safetensors')
for found in [np.load('ours.npz'), load_file('ours.safetensors')]:
    assert set(found) == set(e)
    for k in e: assert found[k].dtype == e[k].dtype and np.array_equal(found[k], e[k]), k");
}

/// Reads sparse objects, quantized groups and files of version 1.1 with PyPI's ztensor 1.1.1 and 1.2.3. The expected values are NumPy's,
/// from the file before conversion. 1.1.1 reads matrices only, and groups component by component.
const READ_ZTENSOR: &str = r#"
import os, sys, numpy as np, scipy.sparse
from safetensors.numpy import load_file
is_1_1 = sys.argv[1] == "1.1"
if is_1_1: sys.path.insert(0, os.path.join(sys.prefix, "ztensor-1.1"))
import ztensor
assert hasattr(ztensor.Writer, "add_sparse_csr") == is_1_1

def parts(reader, name, kinds):
    if is_1_1:
        # The second is what owns the memory of the first.
        both = {role: reader._read_component(name, role, lambda: np.dtype(kind)) for role, kind in kinds.items()}
        return {role: np.array(array) for role, (array, owner) in both.items()}
    found = reader.read(name)
    assert {role: str(part.dtype) for role, part in found.components.items()} == kinds, name
    return found.components

def sparse(reader, name, expected):
    kind, shape = str(expected.dtype), expected.shape
    if expected.ndim == 2:
        found = parts(reader, name, {"values": kind, "indices": "uint64", "indptr": "uint64"})
        dense = np.zeros(shape, kind)
        for row in range(shape[0]):
            for at in range(int(found["indptr"][row]), int(found["indptr"][row + 1])):
                dense[row, int(found["indices"][at])] = found["values"][at]
        matrix = scipy.sparse.csr_matrix((found["values"], found["indices"], found["indptr"]), shape).toarray()
        np.testing.assert_array_equal(matrix, expected)
        if is_1_1: np.testing.assert_array_equal(reader.read_tensor(name).toarray(), expected)
    else:
        found = parts(reader, name, {"values": kind, "coords": "uint64"})
        dense = np.zeros(shape, kind)
        dense[tuple(found["coords"].reshape(len(shape), -1))] = found["values"]
    assert dense.tobytes() == expected.tobytes(), name

def group(reader, name, integers, scale):
    found = parts(reader, name, {"packed_weight": "int32", "scales": "float32", "zeros": "float32"})
    rows, columns = integers.shape
    per_word = rows * columns // found["packed_weight"].size
    bits = 32 // per_word
    words = found["packed_weight"].view(np.uint32).reshape(rows // per_word, columns)
    fields = np.stack([words[row // per_word] >> np.uint32(bits * (row % per_word)) & np.uint32(2**bits - 1) for row in range(rows)])
    weight = found["scales"].reshape(1, columns) * (fields.astype("f4") - found["zeros"].reshape(1, columns))
    assert weight.dtype == np.float32
    np.testing.assert_array_equal(weight, integers.astype("f4") * np.float32(1 / scale))
    if not is_1_1: assert reader.read(name).format == "quantized_group" and reader.read(name).attributes["bits"] == bits

expected = load_file("w.safetensors")
for version in ["1.1", "1.2"]:
    for how in ["raw", "zstd"]:
        reader = ztensor.Reader(f"{version}-{how}.zt")
        names = set(reader.tensor_names if is_1_1 else reader.keys())
        assert names == {name for name in expected if not name.endswith(".scale")}, names
        for name in names:
            if name.startswith("sparse"): sparse(reader, name, expected[name])
            elif name.startswith("group"): group(reader, name, expected[name], expected[name + ".scale"].item())
            else:
                given = reader.read_tensor(name) if is_1_1 else reader.read_numpy(name)
                found = np.asarray(given)
                assert found.dtype == expected[name].dtype and found.tobytes() == expected[name].tobytes(), name
"#;

#[test]
fn other_libraries_read_every_kind_of_object() {
    let Some(python) = std::env::var_os("CARTON_TEST_PYTHON") else {
        eprintln!("skipped: CARTON_TEST_PYTHON names no python3 that has ztensor (tests/python/setup.sh makes one)");
        return;
    };
    let sandbox = Sandbox::new();
    let run = |script: &str, argument: &str| {
        let mut command = std::process::Command::new(&python);
        let output = command.args(["-c", script, argument]).current_dir(sandbox.work()).output().unwrap();
        assert!(output.status.success(), "{argument}: {}", String::from_utf8_lossy(&output.stderr));
    };
    run(
        "import numpy as np; from safetensors.numpy import save_file
r = np.random.default_rng(1)
def few(shape, kind):
    t = r.normal(size=shape) * 9; t[r.random(shape) < 0.8] = 0
    return t.astype(kind)
m = few((9, 7), 'f4'); m[0] = 0; m[1, 1] = -0.0; m[2, 2] = np.nan; m[3, 3] = np.inf
save_file({'sparse.f4': m, 'sparse.f8': few((4, 30), 'f8'), 'sparse.i4': few((6, 6), 'i4'), 'sparse.1d': few((50,), 'f4'),
  'sparse.3d': few((3, 4, 5), 'i2'), 'sparse.zeros': np.zeros((3, 2), 'f4'), 'dense': np.ones((3, 4), 'f2'),
  'group.8': r.integers(-128, 128, (8, 3)).astype('i1'), 'group.8.scale': np.array(63.7),
  'group.4': r.integers(-8, 8, (16, 5)).astype('i1'), 'group.4.scale': np.array([3.3]),
  'group.2': r.integers(-2, 2, (32, 2)).astype('i1'), 'group.2.scale': np.array(1e-3)}, 'w.safetensors')",
        "",
    );
    for version in ["1.1", "1.2"] {
        for (how, options) in [("raw", ""), ("zstd", " --zstd 3 --digest crc32c")] {
            let convert = format!("tensor convert w.safetensors {version}-{how}.zt --version {version}{options}");
            sandbox.carton(&format!("{convert} --sparse-below 0.5 --quantized-groups")).expect_code(0);
        }
    }
    for peer in ["1.1", "1.2"] {
        run(READ_ZTENSOR, peer);
    }
}

/// Reads quantized tensors with PyPI's ztensor 1.2.3. NumPy computes the expected values from the floats.
const READ_QUANTIZED: &str = r#"
import json, sys, numpy as np, ztensor
from safetensors.numpy import load_file
name, group_size, per_channel = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "channel"
weights = load_file("w.safetensors")
report = {one["name"]: one for one in json.load(open(name + ".json"))["quantized"]}
reader = ztensor.Reader(name)

def half_away(numbers):
    return np.copysign(np.floor(np.abs(numbers) + 0.5), numbers)

def check_error(key, found, expected):
    finite = np.isfinite(expected)
    difference = np.where(finite, expected, 0).astype("f8") - found
    norm = np.linalg.norm(np.where(finite, expected, 0).astype("f8"))
    error = report[key]["error"]
    np.testing.assert_allclose(error["relative"], np.linalg.norm(difference) / norm, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(error["max_absolute"], np.abs(difference).max(), rtol=1e-9, atol=1e-12)
    assert report[key]["non_finite"] == (~finite).sum()

for key, weight in weights.items():
    clean = np.where(np.isfinite(weight), weight, 0)
    if group_size and weight.ndim == 2 and weight.shape[0] % 4 == 0:
        rows, columns = weight.shape
        size = min(group_size, rows)
        read = reader.read(key)
        assert read.format == "quantized_group" and read.attributes["bits"] == 8
        assert read.attributes["group_size"] == (-1 if size == rows else size) and read.attributes["packing"] == "4_per_i32"
        parts = read.components
        q = np.stack([parts["packed_weight"].view(np.uint32).reshape(rows // 4, columns) >> np.uint32(8 * i) & np.uint32(255) for i in range(4)], 1)
        of_row = np.arange(rows) // size
        scales, zeros = (parts[role].reshape(-1, columns)[of_row] for role in ("scales", "zeros"))
        found = scales * (q.reshape(rows, columns).astype("f4") - zeros)
        assert found.dtype == np.float32
        largest = np.stack([np.abs(clean[at:at + size].astype("f8")).max(0) for at in range(0, rows, size)])
        step = (largest / 127).astype("f4")[of_row]
        with np.errstate(all="ignore"):
            q = np.where(step > 0, half_away(clean.astype("f8") / step.astype("f8")), 0).astype("f4")
        np.testing.assert_array_equal(found, step * q)
    else:
        axes = tuple(range(1, weight.ndim)) if per_channel and weight.ndim > 1 else None
        largest = np.abs(clean.astype("f4")).max(axis=axes, keepdims=True)
        scale = np.where(largest > 0, np.float32(127) / largest, np.float32(1))
        integers, scales = reader.read_numpy(key), np.asarray(reader.read_numpy(key + ".scale"))
        assert integers.dtype == np.int8 and scales.dtype == np.float64
        np.testing.assert_array_equal(scales.ravel(), scale.astype("f8").ravel())
        np.testing.assert_array_equal(integers, half_away((clean.astype("f4") * scale).astype("f8")))
        found = integers / scale.astype("f8")
    check_error(key, found, weight)
"#;

#[test]
fn other_libraries_read_quantized_tensors() {
    let Some(python) = std::env::var_os("CARTON_TEST_PYTHON") else {
        eprintln!("skipped: CARTON_TEST_PYTHON names no python3 that has ztensor (tests/python/setup.sh makes one)");
        return;
    };
    let sandbox = Sandbox::new();
    let run = |script: &str, arguments: &[&str]| {
        let mut command = std::process::Command::new(&python);
        let output = command.args(["-c", script]).args(arguments).current_dir(sandbox.work()).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    run(
        "import numpy as np; from safetensors.numpy import save_file
r = np.random.default_rng(2)
m = r.normal(size=(12, 5)).astype('f4'); m[:, 1] = 0; m[3, 2] = np.nan; m[4, 3] = -np.inf
save_file({'m': m, 'half': r.normal(size=(256, 33)).astype('f2'), 'odd': r.normal(size=(10, 3)).astype('f4'),
  'cube': r.normal(size=(4, 3, 2)).astype('f4'), 'vector': r.normal(size=7).astype('f4')}, 'w.safetensors')",
        &[],
    );
    let mut n_files = 0;
    for version in ["1.1", "1.2"] {
        for (group_size, channel) in [("0", "tensor"), ("0", "channel"), ("8", "channel"), ("1000", "tensor")] {
            let file = format!("{version}-{group_size}-{channel}.zt");
            let groups = if group_size == "0" { String::new() } else { format!(" --group-size {group_size}") };
            let channels = if channel == "channel" { " --per-channel" } else { "" };
            let command =
                format!("tensor quantize w.safetensors {file}{groups}{channels} --version {version} --report --json");
            let outcome = sandbox.carton(&command).expect_code(0);
            sandbox.write(&format!("{file}.json"), outcome.stdout.as_bytes());
            sandbox.carton(&format!("tensor verify {file}")).expect_code(0);
            run(READ_QUANTIZED, &[&file, group_size, channel]);
            n_files += 1;
        }
    }
    assert_eq!(n_files, 8);
}
