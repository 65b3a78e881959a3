"""Tensor files beside the libraries that define them: safetensors, and NumPy for npy and npz."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import pickle
import struct
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import carton
from carton import tensors

safetensors = pytest.importorskip("safetensors.numpy", reason="safetensors is not installed")
ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")

SAFETENSORS_DTYPES = ["?", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8"]
NUMPY_DTYPES = [*SAFETENSORS_DTYPES, ">f4", ">i8", ">u2", "c8", "c16"]

many = settings(
    max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
names = st.text(st.characters(min_codepoint=33, max_codepoint=0x24F, exclude_characters="/\\"), min_size=1, max_size=12)


def arrays(dtypes: list[str]) -> st.SearchStrategy[dict[str, np.ndarray]]:
    shapes = npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5)
    one = npst.arrays(st.sampled_from([np.dtype(name) for name in dtypes]), shapes)
    return st.dictionaries(names.filter(lambda name: name not in ("__metadata__", ".", "..")), one, max_size=5)


def same(found: np.ndarray, expected: np.ndarray) -> None:
    native = expected.astype(expected.dtype.newbyteorder("="))
    assert (found.dtype, found.shape) == (native.dtype, native.shape)
    assert found.tobytes() == native.tobytes() and not found.flags.writeable


@many
@given(saved=arrays(SAFETENSORS_DTYPES))
def test_safetensors(tmp_path: Path, saved: dict[str, np.ndarray]) -> None:
    path = tmp_path / "a.safetensors"
    saved = {name: np.ascontiguousarray(array).reshape(array.shape) for name, array in saved.items()}
    safetensors.save_file(saved, path, metadata={"made by": "a test"})
    with tensors.open(path) as file:
        assert file.format == "safetensors" and file.metadata == {"made by": "a test"}
        assert set(file) == set(saved) and len(file) == len(saved)
        for name, array in saved.items():
            assert name in file and file.shape(name) == array.shape and file.dtype(name) == array.dtype.name
            same(file[name], array)
            assert file.raw(name).tobytes() == array.tobytes()


@many
@given(saved=arrays(NUMPY_DTYPES), compressed=st.booleans(), fortran=st.booleans())
def test_npz(tmp_path: Path, saved: dict[str, np.ndarray], compressed: bool, fortran: bool) -> None:
    path = tmp_path / "a.npz"
    if fortran:
        saved = {name: np.asfortranarray(array) if array.ndim else array for name, array in saved.items()}
    (np.savez_compressed if compressed else np.savez)(path, **{f"x{name}": array for name, array in saved.items()})
    with tensors.open(path) as file:
        assert file.format == "npz" and set(file) == {f"x{name}" for name in saved}
        for name, array in saved.items():
            same(file[f"x{name}"], array)


def test_npy(tmp_path: Path) -> None:
    for dtype in NUMPY_DTYPES:
        saved = np.arange(12).reshape(3, 4).astype(dtype)
        np.save(tmp_path / "a.npy", saved)
        file = tensors.open(tmp_path / "a.npy")
        (name,) = file
        assert file.format == "npy"
        same(file[name], saved)


def test_strings_of_npz(tmp_path: Path) -> None:
    words = np.array([["a", "ü€"], ["", "two words"]])
    np.savez(tmp_path / "a.npz", words=words)
    file = tensors.open(tmp_path / "a.npz")
    assert file.dtype("words") is None and file.shape("words") == (2, 2)
    assert file["words"].tolist() == words.tolist() and file["words"].dtype == object
    with pytest.raises(carton.InvalidInputError, match="words"):
        file.raw("words")


def test_what_npz_holds_that_is_not_a_tensor(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", objects=np.array([1, None], dtype=object), dates=np.array(1, "M8[s]"), good=np.arange(3))
    file = tensors.open(tmp_path / "a.npz")
    same(file["good"], np.arange(3))
    for name in ("objects", "dates"):
        with pytest.raises(carton.InvalidInputError, match=name):
            file[name]


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_types_that_numpy_lacks(tmp_path: Path, name: str) -> None:
    dtype = np.dtype(getattr(ml_dtypes, name))
    saved = np.array([[0, 1.5], [-2, 0.25]], np.float32).astype(dtype)
    path = tmp_path / "a.safetensors"
    safetensors.save_file({"w": saved}, path)
    file = tensors.open(path)
    assert file.dtype("w") == name
    same(file["w"], saved)
    assert file["w"].astype(np.float32).tolist() == [[0, 1.5], [-2, 0.25]]
    # Without the package there are still the bytes, and an error that says what to install.
    script = f"""
import sys
sys.modules["ml_dtypes"] = None
import carton
file = carton.tensors.open({str(path)!r})
try:
    file["w"]
except carton.UnsupportedError as error:
    print(file.raw("w").tobytes().hex(), "ml_dtypes" in error.hint, {name!r} in str(error))
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30)
    assert ended.stdout.split() == [saved.tobytes().hex(), "True", "True"], ended.stderr


def test_a_sharded_checkpoint(tmp_path: Path) -> None:
    shards = {
        "model-00001-of-00002.safetensors": {"a": np.arange(6, dtype=np.float32).reshape(2, 3)},
        "model-00002-of-00002.safetensors": {"b": np.arange(4, dtype=np.int64), "c": np.zeros((0, 2), np.float16)},
    }
    for name, content in shards.items():
        safetensors.save_file(content, tmp_path / name)
    index = tmp_path / "model.safetensors.index.json"
    weight_map = {tensor: shard for shard, content in shards.items() for tensor in content}
    index.write_text(json.dumps({"metadata": {"total_size": 56}, "weight_map": weight_map}))
    file = tensors.open(index)
    assert file.format == "sharded safetensors" and set(file) == {"a", "b", "c"}
    for content in shards.values():
        for name, array in content.items():
            same(file[name], array)
    (tmp_path / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(carton.Error, match="model-00002-of-00002"):
        tensors.open(index)["b"]
    index.write_text(json.dumps({"weight_map": {"a": "../model.safetensors"}}))
    with pytest.raises(carton.IntegrityError):
        tensors.open(index)
    safetensors.save_file(shards["model-00002-of-00002.safetensors"], tmp_path / "model-00002-of-00002.safetensors")
    index.write_text(json.dumps({"weight_map": {**weight_map, "zz": "model-00001-of-00002.safetensors"}}))
    with pytest.raises(carton.Error, match="zz"):
        tensors.open(index)["zz"]


def test_links_out_of_the_folder_of_a_checkpoint(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "model", tmp_path / "elsewhere"
    folder.mkdir()
    safetensors.save_file({"a": np.arange(3)}, elsewhere)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "a.safetensors"}}))
    (folder / "a.safetensors").symlink_to(elsewhere)
    assert list(tensors.open(folder)) == list(tensors.open(folder, follow_links=True)) == ["a"]
    for call in (tensors.open, tensors.verify):
        with pytest.raises(carton.Error, match="outside of its folder") as caught:
            call(folder, follow_links=False)
        assert "follow_links=True" in (caught.value.hint or "")


def address(array: np.ndarray) -> int:
    return array.ctypes.data


@pytest.mark.parametrize("kind", ["safetensors", "npz", "npy"])
def test_views_are_not_copies(tmp_path: Path, kind: str) -> None:
    big = np.random.default_rng(0).standard_normal((2000, 1000)).astype(np.float32)
    path = tmp_path / f"a.{kind}"
    if kind == "safetensors":
        safetensors.save_file({"big": big, "small": big[:3]}, path)
    elif kind == "npz":
        # The name decides where the elements begin: here at a multiple of four.
        np.savez(path, big123=big)
    else:
        np.save(path, big)
    file = tensors.open(path)
    name = next(name for name in file if file.shape(name) == big.shape)
    one, other = file[name], file[name]
    same(one, big)
    assert address(one) == address(other) == address(file.raw(name))
    assert is_mapped(one, path)
    # What a library writes that ignores that the array is read-only stays in this process.
    before = path.read_bytes()
    ctypes.memset(address(one), 255, 4096)
    assert path.read_bytes() == before


def is_mapped(array: np.ndarray, path: Path) -> bool:
    mapped = [line.split() for line in Path("/proc/self/maps").read_text().splitlines() if str(path) in line]
    return any(int(line[0].split("-")[0], 16) <= address(array) < int(line[0].split("-")[1], 16) for line in mapped)


def test_arrays_of_npz_are_aligned(tmp_path: Path) -> None:
    """NumPy puts them anywhere. Those that do not lie at a multiple of their element size are copied; their bytes never are."""
    path = tmp_path / "a.npz"
    arrays = {"x" * length: np.arange(5000) + length for length in range(1, 9)}
    np.savez(path, bytes=np.arange(100, dtype=np.int8), **arrays)
    file = tensors.open(path)
    assert is_mapped(file["bytes"], path)
    with np.load(path) as expected:
        for name in expected:
            same(file[name], expected[name])
            assert file[name].flags.aligned and is_mapped(file.raw(name), path)
    assert {is_mapped(file[name], path) for name in arrays} == {True, False}
    np.savez_compressed(path, **arrays)
    compressed = tensors.open(path)
    assert not is_mapped(compressed.raw("x"), path)
    same(compressed["x"], arrays["x"])


def npy(header: str, data: bytes = b"") -> bytes:
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data


@pytest.mark.parametrize(
    "content",
    [
        npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000,)}", bytes(80)),
        npy("{'descr': '<f8', 'fortran_order': False, 'shape': (4611686018427387904, 4)}"),
        npy("{'descr': '<f8', 'fortran_order': False, 'shape': (-1,)}"),
        npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1,)}", bytes(9)),
        npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1,), 'shape': (2,)}", bytes(16)),
        npy("{'descr': '<f8', 'fortran_order': __import__('os').abort(), 'shape': (1,)}", bytes(8)),
        npy("{'descr': '<f8'}", bytes(8)),
    ],
)
def test_hostile_headers_of_npy(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.npy").write_bytes(content)
    with pytest.raises(carton.IntegrityError):
        tensors.open(tmp_path / "a.npy")
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("a.npy", content)
    with pytest.raises(carton.IntegrityError):
        tensors.open(tmp_path / "a.npz")


@pytest.mark.parametrize("kind", ["npy", "npz"])
def test_arrays_of_objects_are_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"a.{kind}"
    (np.save if kind == "npy" else np.savez)(path, np.array([1, "a", None], dtype=object))  # type: ignore[operator]
    with pytest.raises(carton.InvalidInputError, match="Python objects"):
        file = tensors.open(path)
        file[next(iter(file))]


def test_opening_reads_nothing(tmp_path: Path) -> None:
    """A file of 8 GiB that takes no room on the disk is opened at once, and one tensor of it is read."""
    size = 8 << 30
    header = json.dumps(
        {
            "first": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
            "rest": {"dtype": "U8", "shape": [size - 8], "data_offsets": [8, size]},
        }
    ).encode()
    header += b" " * (-len(header) % 8)
    path = tmp_path / "large.safetensors"
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + np.array([1, 2], np.float32).tobytes())
        file.truncate(8 + len(header) + size)
    opened = tensors.open(path)
    assert opened["first"].tolist() == [1, 2]
    assert opened["rest"].shape == (size - 8,) and opened["rest"][-1] == 0


def test_arrays_outlive_their_file(tmp_path: Path, echo: carton.Model) -> None:
    saved = np.arange(100_000, dtype=np.float32)
    path = tmp_path / "a.safetensors"
    safetensors.save_file({"w": saved}, path)
    with tensors.open(path) as file:
        array = file["w"]
    with pytest.raises(carton.ClosedError):
        file["w"]
    with pytest.raises(carton.ClosedError):
        file.raw("w")
    # The names are known without the file.
    assert list(file) == ["w"] and "TensorFile" in repr(file)
    file.close()
    del file
    os.unlink(path)
    gc.collect()
    same(array, saved)
    with pytest.raises(ValueError):
        array.setflags(write=True)
    # Tensors of files are inputs like the others.
    same(echo(x=array)["x"], saved)
    same(echo(x=array[5:10])["x"], saved[5:10])


def test_names_that_are_not_there(tmp_path: Path) -> None:
    safetensors.save_file({"a": np.zeros(3)}, tmp_path / "a.safetensors")
    file = tensors.open(tmp_path / "a.safetensors")
    for ask in (file.__getitem__, file.shape, file.dtype, file.raw):
        with pytest.raises(KeyError, match="zz"):
            ask("zz")
    assert "zz" not in file and 5 not in file and file.get("zz") is None
    assert dict(file.items())["a"].tolist() == [0, 0, 0]


def header(text: bytes, data: bytes = b"") -> bytes:
    return struct.pack("<Q", len(text)) + text + data


TENSOR: dict[str, Any] = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
MALFORMED: dict[str, bytes] = {
    "empty": b"",
    "short": b"\x01\x02\x03",
    "a header longer than the file": struct.pack("<Q", 1000) + b"{}",
    "a header longer than memory": b"\xff" * 20,
    "no JSON": header(b"not json"),
    "a list": header(b"[]"),
    "offsets past the end": header(json.dumps({"a": {**TENSOR, "data_offsets": [0, 800], "shape": [200]}}).encode(), bytes(8)),
    "offsets backwards": header(json.dumps({"a": {**TENSOR, "data_offsets": [8, 0]}}).encode(), bytes(8)),
    "another size": header(json.dumps({"a": {**TENSOR, "shape": [3]}}).encode(), bytes(8)),
    "a negative size": header(json.dumps({"a": {**TENSOR, "shape": [-2]}}).encode(), bytes(8)),
    "an overflow": header(json.dumps({"a": {**TENSOR, "shape": [1 << 62, 1 << 62]}}).encode(), bytes(8)),
    "overlaps": header(json.dumps({"a": TENSOR, "b": TENSOR}).encode(), bytes(8)),
    "a gap": header(json.dumps({"a": {**TENSOR, "data_offsets": [8, 16]}}).encode(), bytes(16)),
    "bytes at the end": header(json.dumps({"a": TENSOR}).encode(), bytes(9)),
    "a zip that is none": b"PK\x03\x04" + bytes(50),
    "an npy without a header": b"\x93NUMPY\x01\x00",
}


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_files(tmp_path: Path, case: str) -> None:
    path = tmp_path / "bad.safetensors"
    path.write_bytes(MALFORMED[case])
    with pytest.raises(carton.IntegrityError) as caught:
        tensors.open(path)
    assert "bad.safetensors" in str(caught.value)


def test_an_unknown_dtype(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(header(json.dumps({"a": {**TENSOR, "dtype": "F77"}}).encode(), bytes(8)))
    with pytest.raises((carton.IntegrityError, carton.UnsupportedError), match="F77"):
        tensors.open(path)["a"]


def test_damaged_npz(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, a=np.arange(1000))
    data = path.read_bytes()
    for length in (10, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:length])
        with pytest.raises(carton.IntegrityError):
            tensors.open(path)
    damaged = bytearray(data)
    damaged[4000] ^= 1
    path.write_bytes(damaged)
    np.savez_compressed(tmp_path / "b.npz", a=np.arange(1000))
    damaged = bytearray((tmp_path / "b.npz").read_bytes())
    damaged[len(damaged) // 2] ^= 0xFF
    (tmp_path / "b.npz").write_bytes(damaged)
    with pytest.raises(carton.IntegrityError):
        tensors.open(tmp_path / "b.npz")["a"]


@pytest.mark.parametrize("kind", ["pointer", "page", "pickle", "index"])
def test_other_files_are_called_what_they_are(tmp_path: Path, kind: str) -> None:
    """The same answer as the command's: what the file is, and what to do."""
    path = tmp_path / "a.bin"
    if kind == "pointer":
        path.write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345678\n")
        expected, hint = "a Git LFS pointer", "git lfs pull"
    elif kind == "page":
        path.write_bytes(b"<!doctype html><html>login</html>")
        expected, hint = "a web page", "download the file again"
    elif kind == "pickle":
        path.write_bytes(pickle.dumps({"weight": np.zeros(3)}))
        expected, hint = "a pickle of Python", "numpy.savez"
    else:
        path.write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345678\n")
        expected, hint = "a.bin` is a Git LFS pointer", "git lfs pull"
    opened = path
    if kind == "index":
        opened = tmp_path / "pytorch_model.bin.index.json"
        opened.write_text(json.dumps({"weight_map": {"a": "a.bin"}}))
    with pytest.raises(carton.Error, match=expected) as caught:
        tensors.open(opened)
    assert isinstance(caught.value, carton.IntegrityError if kind == "index" else carton.InvalidInputError)
    assert caught.value.hint is not None and hint in caught.value.hint


def test_checkpoints_of_pytorch(tmp_path: Path) -> None:
    """Files that PyTorch wrote, and one that would run a program."""
    files = Path(__file__).parents[2] / "carton-tensor/tests/data/torch"
    for name in ("views.pt", "views-5.stream.pt"):
        file = tensors.open(files / name)
        assert file.format == "PyTorch"
        np.testing.assert_array_equal(file["transposed"], file["base"].T)
        np.testing.assert_array_equal(file["expanded"], np.broadcast_to(file["base"][:1], (5, 6)))
    with zipfile.ZipFile(tmp_path / "a.pt", "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02cposix\nsystem\nX\x02\x00\x00\x00id\x85R.")
        archive.writestr("archive/version", "3\n")
    with pytest.raises(carton.Error, match="its pickle names `posix.system` at byte 2"):
        tensors.open(tmp_path / "a.pt")


def test_ztensor_2(tmp_path: Path) -> None:
    """Files of the library of version 2 are read as it reads them, and written byte for byte as it writes them."""
    files = Path(__file__).parents[2] / "carton-tensor/tests/data/ztensor2"
    expected = json.loads((files / "expected.json").read_text())["types.zt"]["objects"]
    file = tensors.open(files / "types.zt")
    assert file.format == "zTensor 2"
    for name in ("f64", "f32", "f16", "i64", "u8", "bool", "complex64", "scalar"):
        array = file[name]
        assert list(array.shape) == expected[name]["shape"]
        assert array.tobytes().hex() == expected[name]["parts"]["data"]["bytes"]
    np.testing.assert_array_equal(tensors.open(files / "sparse.zt")["csr"], [[1, 0, 0, 2], [0, 0, 0, 0], [0, 3, 0, 0]])
    assert tensors.verify(files / "sharded.zt").digests == 5
    with pytest.raises(carton.InvalidInputError, match="of the layout `zt.mx/1`"):
        tensors.open(files / "others.zt")["mx"]
    saved = {"b": np.arange(6, dtype=np.int16).reshape(2, 3), "a": np.array([True, False]), "c": np.array([1, 0], bool)}
    tensors.save(saved, tmp_path / "ours.zt", version="2")
    for name, array in saved.items():
        same(tensors.open(tmp_path / "ours.zt")[name], array)
    with pytest.raises(carton.InvalidInputError, match="zTensor 2"):
        tensors.save(saved, tmp_path / "c.zt", version="2", zstd=3)
    pytest.importorskip("ztensor.numpy").save_file(saved, tmp_path / "theirs.zt")
    assert (tmp_path / "ours.zt").read_bytes() == (tmp_path / "theirs.zt").read_bytes()


def test_tensors_of_onnx(tmp_path: Path) -> None:
    """The tensors of models that the package `onnx` wrote, beside what it reads: in the model, and in a file beside it."""
    onnx = pytest.importorskip("onnx")
    rng = np.random.default_rng(7)
    kinds = ["?", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8", "c8", "c16"]
    made = {kind: (rng.random((3, 500)) * 2).astype(kind) for kind in kinds}
    for kind in ["bfloat16", "float8_e4m3fn", "int4", "uint4"]:
        made[kind] = rng.integers(0, 8, (3, 5)).astype(kind)
    initializers = [onnx.numpy_helper.from_array(array, name) for name, array in made.items()]
    graph = onnx.helper.make_graph([], "g", [], [onnx.helper.make_tensor_value_info("f4", 1, [3, 500])], initializers)
    model = onnx.helper.make_model(graph, producer_name="test")
    onnx.helper.set_model_props(model, {"author": "someone"})
    onnx.save_model(model, str(tmp_path / "m.onnx"))
    onnx.save_model(model, str(tmp_path / "e.onnx"), save_as_external_data=True, location="e.data", size_threshold=100)
    for name in ("m.onnx", "e.onnx"):
        file = tensors.open(tmp_path / name)
        assert file.format == "ONNX" and file.metadata["onnx.producer_name"] == "test" and file.metadata["author"] == "someone"
        assert set(file.keys()) == set(made)
        for key, array in made.items():
            # Integers of four bits are read as bytes.
            wanted = array.astype("i1" if key == "int4" else "u1") if key in ("int4", "uint4") else array
            assert file[key].dtype == wanted.dtype, key
            np.testing.assert_array_equal(np.asarray(file[key]).view("u1"), wanted.view("u1"), err_msg=key)
        assert tensors.verify(tmp_path / name).ok
    (tmp_path / "e.data").unlink()
    with pytest.raises(carton.IntegrityError, match="`e.data`, which holds data of .*e.onnx`, is missing"):
        tensors.open(tmp_path / "e.onnx")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for path in (tmp_path / "missing", Path("/dev/null")):
        with pytest.raises(carton.MachineError) as caught:
            tensors.open(path)
        assert isinstance(caught.value, OSError)
    (tmp_path / "text").write_text("x" * 100)
    with pytest.raises(carton.InvalidInputError, match="is text .* expected a tensor file"):
        tensors.open(tmp_path / "text")
    with pytest.raises(TypeError):
        tensors.open(5)  # type: ignore[arg-type]


def test_a_file_from_a_carton(digits_path: Path, tmp_path: Path) -> None:
    path = tmp_path / "with.carton"
    model = tmp_path / "model"
    model.write_text("nothing")
    carton.pack(
        model, path, runner="noop", files=carton.Files(tensors={"w": np.arange(6).reshape(2, 3)}, tensor_format="safetensors"), check=False
    )
    package = carton.open(path)
    package.unpack(tmp_path / "unpacked")
    (stored,) = (tmp_path / "unpacked" / "tensor_data").glob("*.safetensors")
    assert [array.tolist() for array in tensors.open(stored).values()] == [[[0, 1, 2], [3, 4, 5]]]
    assert safetensors.load_file(stored)


@many
@given(saved=arrays(SAFETENSORS_DTYPES))
def test_what_is_saved_is_what_safetensors_reads(tmp_path: Path, saved: dict[str, np.ndarray]) -> None:
    path = tmp_path / "saved.safetensors"
    written = tensors.save(saved, path, metadata={"made by": "a test"})
    assert (written.path, written.tensors, written.size) == (str(path), len(saved), path.stat().st_size)
    found = safetensors.load_file(path)
    assert set(found) == set(saved)
    for name, array in saved.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        assert found[name].tobytes() == array.tobytes()
    with tensors.open(path) as file:
        assert file.metadata == {"made by": "a test"}


def test_what_is_saved_is_what_numpy_reads(tmp_path: Path) -> None:
    saved = {
        "big": np.arange(6, dtype=">f4").reshape(2, 3),
        "fortran": np.asfortranarray(np.arange(6).reshape(2, 3)),
        "words": np.array(["a", "ü€"]),
        "number": 3.5,
        "list": [[1, 2], [3, 4]],
        "empty": np.zeros((0, 3), np.float16),
    }
    tensors.save(saved, tmp_path / "a.npz")
    found = np.load(tmp_path / "a.npz")
    for name, array in saved.items():
        assert found[name].tolist() == np.asarray(array).tolist(), name
    tensors.save({"one": np.eye(3)}, tmp_path / "one.npy")
    assert (np.load(tmp_path / "one.npy") == np.eye(3)).all()


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz"])
def test_types_that_numpy_lacks_are_saved(tmp_path: Path, name: str) -> None:
    array = np.array([[0, 1.5], [-2, 0.25]], np.float32).astype(getattr(ml_dtypes, name))
    tensors.save({"x": array}, tmp_path / "a.zt", digest="sha256", zstd=3)
    same(tensors.open(tmp_path / "a.zt")["x"], array)


def test_what_cannot_be_saved_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    for wrong, match in [
        ({"x": np.array([None])}, "array of objects"),
        ({"x": np.array(1, "M8[s]")}, "datetime64"),
        ({"x": [[1], [1, 2]]}, "is no array"),
        ({"x": np.array(["a"])}, "strings"),
    ]:
        with pytest.raises(carton.InvalidInputError, match=match):
            tensors.save(wrong, path)
    for options, match in [({"zstd": 3}, "zstd"), ({"digest": "md5"}, "sha256"), ({"version": "3"}, "1.2"), ({"version": "2"}, "is for .zt files")]:
        with pytest.raises(carton.InvalidInputError, match=match):
            tensors.save({"x": 1}, path, **options)
    with pytest.raises(carton.InvalidInputError, match="extension"):
        tensors.save({"x": 1}, tmp_path / "a.pt")
    with pytest.raises(carton.InvalidInputError, match="metadata"):
        tensors.save({"x": 1}, tmp_path / "a.npz", metadata={"a": "b"})
    with pytest.raises(carton.MachineError):
        tensors.save({"x": 1}, tmp_path / "none" / "a.npz")
    assert list(tmp_path.iterdir()) == []


def test_convert(tmp_path: Path) -> None:
    saved = {"a.weight": np.arange(6, dtype=np.float32).reshape(2, 3), "b.bias": np.array([True, False])}
    tensors.save(saved, tmp_path / "a.safetensors")
    seen: list[str] = []
    written = tensors.convert(
        tmp_path / "a.safetensors", tmp_path / "a.zt", zstd=3, progress=lambda stage, **_: seen.append(stage)
    )
    assert written.tensors == 2 and set(seen) <= {"converting"}
    for name, array in saved.items():
        same(tensors.open(tmp_path / "a.zt")[name], array)
    assert tensors.convert(tmp_path / "a.zt", tmp_path / "b.npz", only="*.bias").tensors == 1
    assert np.load(tmp_path / "b.npz")["b.bias"].tolist() == [True, False]
    with pytest.raises(carton.InvalidInputError, match="no tensor"):
        tensors.convert(tmp_path / "a.zt", tmp_path / "c.npz", only=["*.nothing"])
    with pytest.raises(carton.InvalidInputError, match="the file that is read"):
        tensors.convert(tmp_path / "a.zt", tmp_path / "a.zt")


def test_quantize(tmp_path: Path) -> None:
    weight = np.random.default_rng(1).normal(size=(8, 16)).astype(np.float32)
    weight[0, 0] = np.nan
    tensors.save({"w": weight, "n": np.arange(3)}, tmp_path / "w.safetensors")
    report = tensors.quantize(tmp_path / "w.safetensors", tmp_path / "q.safetensors", measure=True)
    (one,) = report.quantized
    assert (one.name, one.scales, one.non_finite, report.unchanged) == ("w", 1, 1, 1) and report.warnings
    found = tensors.open(tmp_path / "q.safetensors")
    restored = found["w"] / found["w.scale"]
    expected = np.nan_to_num(weight, nan=0)
    loss = np.linalg.norm(restored - expected) / np.linalg.norm(expected)
    assert found["w"].dtype == np.int8 and report.total is not None
    assert abs(report.total.relative - loss) < 1e-6 and one.error == report.total
    report = tensors.quantize(tmp_path / "w.safetensors", tmp_path / "c.safetensors", per_channel=True)
    assert report.quantized[0].scales == 8 and report.total is None
    with pytest.raises(carton.InvalidInputError, match="no tensor of floats"):
        tensors.quantize(tmp_path / "q.safetensors#n", tmp_path / "d.safetensors")


def test_verify_looks_into_numbers(tmp_path: Path) -> None:
    values = np.arange(6, dtype=np.float32)
    broken = np.array([np.nan, np.inf, 1], np.float16)
    named = {"a": values, "b": values.reshape(2, 3), "ones": np.ones(4), "broken": broken}
    tensors.save(named, tmp_path / "odd.safetensors")
    assert tensors.verify(tmp_path / "odd.safetensors").deep is None
    report = tensors.verify(tmp_path / "odd.safetensors", deep=True)
    assert report.ok and report.deep is not None and report.deep.examined == 4
    assert report.deep.not_finite == [tensors.NotFinite("broken", nan=1, infinite=1, elements=3)]
    assert report.deep.constant == [tensors.Constant("ones", value=1.0, elements=4)]
    assert report.deep.copies == [tensors.Copies(["a", "b"], bytes=24, is_shared=False)]


def test_merge(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    a, b, base = (random.normal(size=(5, 4)).astype(np.float32) for _ in range(3))
    for name, array in [("a", a), ("b", b), ("base", base)]:
        tensors.save({"w": array, "ids": np.arange(3)}, tmp_path / f"{name}.safetensors")
    places = [tmp_path / "a.safetensors", tmp_path / "b.safetensors"]
    output = tmp_path / "out.zt"

    def merged(**options: Any) -> np.ndarray:
        assert tensors.merge(places, output, **options).tensors == 2
        with tensors.open(output) as file:
            assert file["ids"].tolist() == [0, 1, 2]
            return np.array(file["w"])

    assert np.allclose(merged(weights=[1, 3]), (a + 3 * b) / 4, rtol=1e-6)
    task = merged(method="task-arithmetic", base=tmp_path / "base.safetensors", weights=[0.5, 2], lambda_=0.5)
    assert np.allclose(task, base + 0.5 * (0.5 * (a - base) + 2 * (b - base)), rtol=1e-4, atol=1e-6)
    assert np.array_equal(merged(method="slerp", t=1.0), b) and merged(dtype="float16").dtype == np.float16
    with pytest.raises(carton.InvalidInputError, match="needs `t`"):
        tensors.merge(places, output, method="slerp")
    with pytest.raises(carton.InvalidInputError, match="does not have `w`"):
        tensors.save({"ids": np.arange(3)}, places[1])
        tensors.merge(places, output)


def test_merge_adapters(tmp_path: Path) -> None:
    random = np.random.default_rng(4)
    w, a, b = (random.normal(size=shape).astype(np.float32) for shape in [(5, 4), (2, 4), (5, 2)])
    tensors.save({"lin.weight": w, "other": w}, tmp_path / "model.safetensors")
    (tmp_path / "adapter").mkdir()
    (tmp_path / "adapter" / "adapter_config.json").write_text('{"peft_type": "LORA", "r": 2, "lora_alpha": 6}')
    named = {"base_model.model.lin.lora_A.weight": a, "base_model.model.lin.lora_B.weight": b}
    tensors.save(named, tmp_path / "adapter" / "adapter_model.safetensors")
    output = tmp_path / "out.safetensors"
    tensors.merge_adapters(tmp_path / "model.safetensors", [tmp_path / "adapter"], output, scales=[0.5])
    with tensors.open(output) as file:
        assert np.allclose(file["lin.weight"], w + 1.5 * b @ a, rtol=1e-5, atol=1e-6)
        assert np.array_equal(file["other"], w)


def test_verify_and_validate(tmp_path: Path) -> None:
    tensors.save({"x": np.arange(1000)}, tmp_path / "a.zt", digest="sha256")
    assert tensors.verify(tmp_path / "a.zt").ok and tensors.verify(tmp_path / "a.zt").digests == 1
    raw = bytearray((tmp_path / "a.zt").read_bytes())
    raw[raw.index(np.arange(1000).tobytes()) + 5] ^= 1
    (tmp_path / "a.zt").write_bytes(raw)
    report = tensors.verify(tmp_path / "a.zt")
    assert not report.ok and len(report.problems) >= 1
    found = tensors.validate(tmp_path / "a.zt", "bitnet-7b", digests=False)
    assert not found.ok and found.errors[0].category and found.model
    with pytest.raises(carton.InvalidInputError, match="no description"):
        tensors.validate(tmp_path / "a.zt", "nothing")
    with pytest.raises(carton.Error, match="layers"):
        tensors.validate(tmp_path / "a.zt", "bitnet-7b", sizes={"layers": 2})


def test_tensors_at_a_url_and_in_a_carton(tmp_path: Path) -> None:
    import functools
    import http.server
    import re as regex
    import threading

    class Ranges(http.server.SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            content = (tmp_path / self.path.lstrip("/")).read_bytes()
            wanted = regex.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
            assert wanted is not None
            start, end = int(wanted[1]), min(int(wanted[2]), len(content) - 1)
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{end}/{len(content)}")
            self.send_header("Content-Length", str(end + 1 - start))
            self.send_header("ETag", '"1"')
            self.end_headers()
            self.wfile.write(content[start : end + 1])

        def log_message(self, *_: object) -> None: ...

    saved = {"x": np.arange(100_000), "y": np.eye(2)}
    tensors.save(saved, tmp_path / "a.safetensors")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Ranges, directory=tmp_path))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/a.safetensors"
    try:
        file = tensors.open(url)
        assert sorted(file) == ["x", "y"]
        for name, array in saved.items():
            same(file[name], array)
        assert list(tensors.open(f"{url}#y")) == ["y"]
        with pytest.raises(carton.NetworkError):
            tensors.open(url, offline=True)
    finally:
        server.shutdown()
    with pytest.raises(carton.NetworkError):
        tensors.open(url.replace("/a.", "/b."))


def test_tensors_of_a_carton(digits_path: Path) -> None:
    with tensors.open(digits_path) as file:
        assert file.format == "carton" and len(file) > 0
        name = next(iter(file))
        assert file.shape(name) == file[name].shape


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i8", "u8", "f2", "f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("ending", ["npz", "zt"])
def test_diff_finds_what_numpy_finds(tmp_path: Path, dtype: str, ending: str) -> None:
    random = np.random.default_rng(7)

    def numbers(*shape: int) -> np.ndarray:
        numbers = np.clip(random.normal(size=shape) * 50, -100, 100)
        if dtype == "?":
            return numbers > 0
        return (np.abs(numbers) if dtype.startswith("u") else numbers).astype(dtype)

    before = numbers(300, 700)
    after = before.copy()
    after.reshape(-1)[random.integers(0, before.size, 1000)] = numbers(1000)
    if before.dtype.kind in "fc":
        before[3, 5] = after[3, 5] = np.nan
    np.savez_compressed(tmp_path / "a.npz", x=before, gone=before)
    tensors.save({"x": after, "new": after}, tmp_path / f"b.{ending}", **({"zstd": 1} if ending == "zt" else {}))
    found = tensors.diff(tmp_path / "a.npz", tmp_path / f"b.{ending}")
    assert not found.is_same and found.same == 0
    by_name = {tensor.name: tensor for tensor in found.tensors}
    assert (by_name["gone"].change, by_name["new"].change) == ("removed", "added")
    elements = by_name["x"].elements
    assert elements is not None and elements.largest is not None
    differs = (before != after) & ~((before != before) & (after != after))
    assert (elements.elements, elements.differing) == (before.size, np.count_nonzero(differs))
    wide = {"b": np.int64, "i": object, "u": object, "f": np.float64, "c": np.complex128}[before.dtype.kind]
    distances = np.abs(np.where(differs, after.astype(wide) - before.astype(wide), 0)).astype(np.float64)
    assert elements.largest.difference == pytest.approx(float(distances.max()), rel=1e-6)
    at = elements.largest.index
    assert distances[at] == pytest.approx(float(distances.max()), rel=1e-6)
    assert elements.largest.a == str(before[at]).lower() or before.dtype.kind in "fc"
    kept = np.isfinite(before) & np.isfinite(after)
    flat = [np.where(kept, array, 0).reshape(-1).astype(np.result_type(array, np.float64)) for array in (before, after)]
    expected = np.vdot(*flat).real / (np.linalg.norm(flat[0]) * np.linalg.norm(flat[1]))
    assert elements.cosine == pytest.approx(float(expected), rel=1e-12)
    assert (elements.not_finite > 0) == (before.dtype.kind in "fc")


def test_diff_of_one_tensor_each(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(6, dtype=np.float32))
    tensors.save({"x": np.arange(6, dtype=np.float64), "y": np.zeros(1)}, tmp_path / "b.safetensors")
    (found,) = tensors.diff(tmp_path / "a.npy", f"{tmp_path / 'b.safetensors'}#x").tensors
    assert (found.name, found.name_b, found.change) == ("a", "x", "dtype")
    assert found.elements is not None and found.elements.differing == 0
    with pytest.raises(carton.InvalidInputError, match="rtol is -1"):
        tensors.diff(tmp_path / "a.npy", tmp_path / "a.npy", rtol=-1)


def test_diff_of_cartons(tmp_path: Path, digits_path: Path, digits_folder: Path) -> None:
    other = tmp_path / "other.carton"
    carton.pack(digits_folder / "model.onnx", other, runner="onnx", metadata=carton.Metadata(license="MIT"))
    found = carton.diff(digits_path, other)
    assert not found.is_same and not found.is_incomplete
    assert carton.FieldChange("license", "Apache-2.0", "MIT") in found.metadata
    assert [test.change for test in found.self_tests] == ["removed", "removed"]
    assert "model/model.onnx" not in [file.path for file in found.files]
    assert carton.diff(digits_path, digits_path).is_same
