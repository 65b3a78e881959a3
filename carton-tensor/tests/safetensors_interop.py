"""The Python library's side of the test in safetensors_python.rs.

    safetensors_interop.py make DIRECTORY   write files for the test to read and write again, and tables of values
    safetensors_interop.py check DIRECTORY  compare what the test wrote
"""

import json
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
from safetensors import TensorSpec, deserialize, safe_open, serialize_file
from safetensors.numpy import load_file, save_file

NUMPY = ["bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"]
NUMPY += ["float16", "float32", "float64", "complex64"]
EIGHT_BITS = ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"]
SHAPES = [(), (0,), (1,), (7,), (2, 3), (3, 1, 4), (0, 3)]


def arrays(dtypes):
    random = np.random.default_rng(11)
    for dtype in dtypes:
        for shape in SHAPES:
            elements = random.integers(0, 256, (*shape, np.dtype(dtype).itemsize), np.uint8)
            elements = elements % 2 if dtype == "bool" else elements
            yield f"{dtype}.{'x'.join(map(str, shape))}", elements.view(dtype).reshape(shape)


def write_raw(path, tensors, metadata=None):
    """Tensors of any dtype that the library knows by name, some of which NumPy does not."""
    specs = {
        name: TensorSpec(dtype=dtype, shape=shape, data_ptr=data.ctypes.data, data_len=data.nbytes)
        for name, (dtype, shape, data) in tensors.items()
    }
    serialize_file(specs, path, metadata=metadata)


def make(directory):
    for folder in ("in", "out"):
        (directory / folder).mkdir()
    inputs = directory / "in"
    for dtype in NUMPY:
        save_file(dict(arrays([dtype])), inputs / f"{dtype}.safetensors")
    save_file(dict(arrays(NUMPY)), inputs / "all.safetensors", metadata={"format": "np", "ü\n\"": "\u0001👋", "": ""})
    save_file({}, inputs / "none.safetensors")
    save_file({}, inputs / "metadata.safetensors", metadata={"a": "b"})
    names = {"": 1, "\\\"/\u007f\u0000é👋": 2, "b" * 1000: 3}
    save_file({name: np.array([value]) for name, value in names.items()}, inputs / "names.safetensors")
    random = np.random.default_rng(12).integers(0, 256, 64, np.uint8)
    raw = {name: (name, (2, 4), random[:8].copy()) for name in EIGHT_BITS}
    raw["bfloat16"] = ("bfloat16", (2, 2), random[:8].copy())
    raw["float4_e2m1fn_x2"] = ("float4_e2m1fn_x2", (2, 4), random[:8].copy())
    write_raw(inputs / "small.safetensors", raw, {"a": "1", "b": "2"})

    # What each bit pattern is, for every type of at most 16 bits.
    with open(directory / "values.txt", "w", encoding="ascii") as table:
        small = [("float6_e2m3fn", 64), ("float6_e3m2fn", 64), ("float4_e2m1fn", 16)]
        types = [(name, 256) for name in EIGHT_BITS] + small + [("bfloat16", 65536), ("float16", 65536)]
        for name, n_patterns in types:
            dtype = np.dtype(getattr(ml_dtypes, name, name))
            patterns = np.arange(n_patterns, dtype=f"uint{dtype.itemsize * 8}")
            values = patterns.view(dtype).astype(np.float64)
            # Integers of the same bits: text would have to be rounded. One NaN is as good as another.
            words = np.where(np.isnan(values), np.nan, values).view(np.uint64)
            table.write(f"{name} {','.join(f'{word:x}' for word in words.tolist())}\n")


def check(directory):
    files = sorted((directory / "in").iterdir())
    for path in files:
        found = (directory / "out" / path.name).read_bytes()
        assert found == path.read_bytes(), f"{path.name}: {found[:200]} is not {path.read_bytes()[:200]}"
    for dtype in NUMPY:
        wanted = dict(arrays([dtype]))
        found = load_file(directory / "out" / f"{dtype}.safetensors")
        assert wanted.keys() == found.keys()
        for name, array in wanted.items():
            assert array.dtype == found[name].dtype and array.shape == found[name].shape, name
            assert array.tobytes() == found[name].tobytes(), name
    with safe_open(directory / "out" / "all.safetensors", framework="np") as file:
        assert file.metadata() == {"format": "np", "ü\n\"": "\u0001👋", "": ""}

    # A file of every dtype that the test made.
    wanted = json.loads((directory / "ours.json").read_text(encoding="utf-8"))
    found = dict(deserialize((directory / "ours.safetensors").read_bytes()))
    assert len(wanted) == 22 and wanted.keys() == found.keys(), found.keys()
    for name, (dtype, shape, data) in wanted.items():
        tensor = found[name]
        assert (tensor["dtype"], list(tensor["shape"]), tensor["data"].hex()) == (dtype, shape, data), name

    # A sharded checkpoint: the index as Python writes it, each tensor where it says, and nothing else.
    indices = sorted((directory / "sharded").glob("*.index.json"))
    assert len(indices) == 1, indices
    for index in indices:
        text = index.read_text(encoding="ascii")
        content = json.loads(text)
        assert text == json.dumps(content, indent=2, sort_keys=True) + "\n", text
        total = 0
        shards = set(content["weight_map"].values())
        for shard in shards:
            tensors = load_file(directory / "sharded" / shard)
            assert {name for name, file in content["weight_map"].items() if file == shard} == tensors.keys()
            total += sum(array.nbytes for array in tensors.values())
        assert content["metadata"]["total_size"] == total, total
        assert shards == {path.name for path in (directory / "sharded").glob("model-*.safetensors")}
        print(f"{len(content['weight_map'])} tensors in {len(shards)} shards")
    print(f"{len(files)} files are the same")


if __name__ == "__main__":
    {"make": make, "check": check}[sys.argv[1]](Path(sys.argv[2]))
