"""GGUF files that are written, beside those of the package `gguf`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import carton
from carton import tensors

gguf = pytest.importorskip("gguf", reason="gguf is not installed")
ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")

PLAIN = ["float16", "float32", "float64", "int8", "int16", "int32", "int64"]


def written_by_gguf(path: Path, arrays: dict[str, Any], texts: dict[str, str], arch: str = "") -> bytes:
    """A file of the package. Tensors are arrays, or blocks with their type."""
    writer = gguf.GGUFWriter(path, arch)
    for key, text in texts.items():
        writer.add_key_value(key, text, gguf.GGUFValueType.STRING)
    for name, array in arrays.items():
        if isinstance(array, tuple):
            writer.add_tensor(name, array[0], raw_dtype=array[1])
        elif array.dtype == ml_dtypes.bfloat16:
            writer.add_tensor(name, array.view(np.uint8), raw_dtype=gguf.GGMLQuantizationType.BF16)
        else:
            writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path.read_bytes()


def some_arrays() -> dict[str, np.ndarray]:
    random = np.random.default_rng(3)
    arrays = {f"plain.{name}": random.integers(-100, 100, (3, 5)).astype(name) for name in PLAIN}
    arrays["brain"] = random.normal(size=(2, 3, 32)).astype(ml_dtypes.bfloat16)
    arrays["scalar"] = np.array(2.5, np.float32)
    return arrays


@pytest.mark.parametrize("texts", [{}, {"general.name": "Ü", "general.empty": "", "b": "x" * 1000}])
def test_files_are_those_of_the_package(tmp_path: Path, texts: dict[str, str]) -> None:
    arrays = some_arrays()
    expected = written_by_gguf(tmp_path / "expected.gguf", arrays, texts)
    assert tensors.save(arrays, tmp_path / "saved.gguf", metadata=texts).tensors == len(arrays)
    assert (tmp_path / "saved.gguf").read_bytes() == expected
    assert tensors.convert(tmp_path / "expected.gguf", tmp_path / "again.gguf").warnings == []
    assert (tmp_path / "again.gguf").read_bytes() == expected
    # A zTensor file has its tensors in the order of their names.
    expected = written_by_gguf(tmp_path / "expected.gguf", dict(sorted(arrays.items())), texts)
    tensors.save(arrays, tmp_path / "saved.zt")
    tensors.convert(tmp_path / "saved.zt", tmp_path / "converted.gguf", metadata=texts)
    assert (tmp_path / "converted.gguf").read_bytes() == expected


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("of", ["q8_0", "q4_0"])
def test_blocks_are_those_of_the_package(tmp_path: Path, of: Any, dtype: str) -> None:
    random = np.random.default_rng(5)
    floats_of = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    # More numbers than are read at a time.
    matrix = (random.normal(size=(1100, 512)) * random.choice([0, 1e-3, 1, 100], (1100, 1))).astype(floats_of)
    experts = random.normal(size=(3, 7, 64)).astype(floats_of)
    arrays = {"matrix": matrix, "experts": experts, "row": matrix[0], "odd": matrix[:5, :33], "one": matrix[0, 0],
              "numbers": np.arange(64, dtype=np.int32).reshape(2, 32)}
    tensors.save(arrays, tmp_path / "m.zt")
    kind = gguf.GGMLQuantizationType[of.upper()]
    blocks = {name: (gguf.quants.quantize(arrays[name], kind), kind) for name in ["matrix", "experts"]}
    floats = {name: np.asarray(arrays[name], np.float32) for name in ["row", "odd", "one"]}
    every = sorted({**blocks, **floats, "numbers": arrays["numbers"]}.items())
    expected = written_by_gguf(tmp_path / "expected.gguf", dict(every), {}, "llama")
    written = tensors.convert(tmp_path / "m.zt", tmp_path / "m.gguf", dtype=of, metadata={"general.architecture": "llama"})
    assert (tmp_path / "m.gguf").read_bytes() == expected
    assert [warning for warning in written.warnings if "3 tensors written as float32" in warning]
    tensors.verify(tmp_path / "m.gguf")
    # Blocks of that type stay, and others are quantized again only where their numbers are asked for.
    assert tensors.convert(tmp_path / "m.gguf", tmp_path / "n.gguf", dtype=of).tensors == len(arrays)
    assert (tmp_path / "n.gguf").read_bytes() == expected
    other: Any = "q4_0" if of == "q8_0" else "q8_0"
    with pytest.raises(carton.InvalidInputError, match="has blocks of"):
        tensors.convert(tmp_path / "m.gguf", tmp_path / "o.gguf", dtype=other)
    tensors.convert(tmp_path / "m.gguf", tmp_path / "o.gguf", dtype=other, groups="numbers", only="matrix", keep_metadata=False)
    numbers = gguf.quants.dequantize(blocks["matrix"][0], kind)
    again = gguf.GGMLQuantizationType[other.upper()]
    expected = written_by_gguf(tmp_path / "p.gguf", {"matrix": (gguf.quants.quantize(numbers, again), again)}, {})
    assert (tmp_path / "o.gguf").read_bytes() == expected


def test_metadata_and_blocks_of_a_file_are_kept(tmp_path: Path) -> None:
    def write(path: Path, names: list[str], alignment: int | None = 64, **splitting: int) -> None:
        writer = gguf.GGUFWriter(path, "llama", **splitting)
        writer.add_uint32("general.file_type", 7)
        if alignment is not None:
            writer.add_custom_alignment(alignment)
        writer.add_float32("llama.eps", 1e-5)
        writer.add_bool("b", True)
        writer.add_int64("i", -5)
        writer.add_float64("d", 0.1)
        writer.add_array("tokens", [f"<{number}>" * 3 for number in range(40_000)])
        writer.add_array("scores", [number / 3 for number in range(40_000)])
        writer.add_array("nested", [[1, 2], [3]])
        random = np.random.default_rng(9)
        for position in range(4):
            name = f"blk.{position}.weight"
            block = random.integers(0, 60, (4, 36 * position + 36), np.uint8)
            if name in names:
                writer.add_tensor(name, block[:, : 18 * (position + 1)], raw_dtype=gguf.GGMLQuantizationType.Q4_0)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()

    every = [f"blk.{position}.weight" for position in range(4)]
    write(tmp_path / "all.gguf", every)
    tensors.convert(tmp_path / "all.gguf", tmp_path / "again.gguf")
    assert (tmp_path / "again.gguf").read_bytes() == (tmp_path / "all.gguf").read_bytes()
    write(tmp_path / "some.gguf", every[1:3])
    tensors.convert(tmp_path / "all.gguf", tmp_path / "left.gguf", only="blk.*", exclude=["blk.0.*", "blk.3.*"])
    assert (tmp_path / "left.gguf").read_bytes() == (tmp_path / "some.gguf").read_bytes()
    # A model of several files becomes one, without what says so. The package states an alignment in the first file only.
    write(tmp_path / "whole.gguf", every, None)
    write(tmp_path / "parts.gguf", every, None, split_max_tensors=1)
    first = tmp_path / "parts-00001-of-00004.gguf"
    assert first.exists()
    tensors.convert(first, tmp_path / "joined.gguf")
    assert (tmp_path / "joined.gguf").read_bytes() == (tmp_path / "whole.gguf").read_bytes()
    tensors.convert(tmp_path / "all.gguf", tmp_path / "bare.gguf", rename="s/blk/block/", keep_metadata=False)
    fields = gguf.GGUFReader(tmp_path / "bare.gguf").fields
    assert [name for name in fields if not name.startswith("GGUF.")] == []
    # A text takes the place of a value.
    tensors.convert(tmp_path / "all.gguf", tmp_path / "set.gguf", metadata={"llama.eps": "small"})
    found = {name: field.contents() for name, field in gguf.GGUFReader(tmp_path / "set.gguf").fields.items()}
    assert found["llama.eps"] == "small" and found["tokens"][39_999] == "<39999>" * 3


def test_what_files_cannot_hold_is_refused(tmp_path: Path) -> None:
    def check(arrays: dict[str, Any], match: str, metadata: dict[str, str] | None = None) -> None:
        with pytest.raises(carton.InvalidInputError, match=match):
            tensors.save(arrays, tmp_path / "m.gguf", metadata=metadata)
        assert not (tmp_path / "m.gguf").exists()

    ones = np.ones(2, np.float32)
    check({"n" * 64: ones}, "has 64 bytes: ggml reads at most 63")
    check({"deep": np.ones((1, 1, 1, 1, 2), np.float32)}, "of 5 dimensions")
    check({"empty": np.ones((0, 2), np.float32)}, "`empty`.*no elements")
    check({"flags": np.array([True])}, "tensor `flags`, numbers of bool")
    check({"bytes": np.array([1], np.uint8)}, "numbers of uint8")
    check({"short": np.array([1], ml_dtypes.float8_e4m3fn)}, "numbers of float8_e4m3fn")
    check({"words": np.array(["a"])}, "strings")
    check({"x": ones}, "power of two", {"general.alignment": "32"})
    check({"x": ones}, "the key has 0 bytes", {"": "x"})
    matrix = np.ones((2, 32), np.float32)
    for number, match in [(np.nan, "NaN"), (np.inf, "too large"), (1e9, "too large")]:
        matrix[1, 7] = number
        tensors.save({"w": matrix}, tmp_path / "m.safetensors")
        with pytest.raises(carton.InvalidInputError, match=f"1 number of tensor `w` .*{match}"):
            tensors.convert(tmp_path / "m.safetensors", tmp_path / "m.gguf", dtype="q8_0")
    with pytest.raises(carton.InvalidInputError, match="for .gguf files"):
        tensors.convert(tmp_path / "m.safetensors", tmp_path / "n.safetensors", dtype="q8_0")
    written = tensors.convert(tmp_path / "m.safetensors", tmp_path / "m.gguf", dtype="q8_0", saturate=True)
    assert "became the largest of Q8_0" in written.warnings[0]
    [tensor] = gguf.GGUFReader(tmp_path / "m.gguf").tensors
    numbers = gguf.quants.dequantize(tensor.data, gguf.GGMLQuantizationType.Q8_0)
    assert numbers[1, 7] == 65504 * 127
