"""Conversions that change names and numbers, beside the libraries that define them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import carton
from carton import tensors

safetensors = pytest.importorskip("safetensors.numpy", reason="safetensors is not installed")
ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")

TYPES = {
    "bfloat16": ml_dtypes.bfloat16,
    "float16": np.float16,
    "float32": np.float32,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
}


def numbers(dtype: str) -> np.ndarray:
    """Numbers of many magnitudes, the middles of neighbors in the smaller types, and those next to the middles."""
    random = np.random.default_rng(7)
    spread = random.normal(size=4000) * 10.0 ** random.integers(-9, 3, 4000)
    halves = np.arange(2**16, dtype=np.uint16).view(np.float16).astype(np.float64)
    halves = halves[np.isfinite(halves)]
    middles = (halves[:-1] + halves[1:]) / 2
    around = np.concatenate([spread, halves, middles, np.nextafter(middles, np.inf), np.nextafter(middles, -np.inf)])
    return np.append(around[np.abs(around) <= 448], [0.0, -0.0, np.nan]).astype(dtype)


@pytest.mark.parametrize("to", TYPES)
@pytest.mark.parametrize("of", ["float64", "float32", "float16"])
def test_floats_are_rounded_as_numpy_rounds_them(tmp_path: Path, of: str, to: str) -> None:
    given = numbers(of)
    safetensors.save_file({"x": given, "n": np.arange(3)}, tmp_path / "a.safetensors")
    tensors.convert(tmp_path / "a.safetensors", tmp_path / "b.safetensors", dtype=to)
    file = tensors.open(tmp_path / "b.safetensors")
    assert file.dtype("n") == "int64"
    found, expected = file["x"], given.astype(TYPES[to])
    same = (found.view(f"u{found.itemsize}") == expected.view(f"u{found.itemsize}")) | np.isnan(given)
    if of == "float64":
        # NumPy and ml_dtypes may round twice, by way of float32 or float16. Then the other neighbor may be nearer.
        wide = given[~same]
        error = np.abs(found[~same].astype(np.float64) - wide)
        assert (error <= np.abs(expected[~same].astype(np.float64) - wide)).all()
    else:
        assert same.all()
    assert np.isnan(found.astype(np.float64)).sum() == np.isnan(given).sum()


def test_numbers_beyond_a_type(tmp_path: Path) -> None:
    safetensors.save_file({"x": np.array([1.0, 1e5, -1e6], "f4")}, tmp_path / "a.safetensors")
    with pytest.raises(carton.InvalidInputError, match="2 numbers of tensor `x` cannot be float16"):
        tensors.convert(tmp_path / "a.safetensors", tmp_path / "b.safetensors", dtype="float16")
    assert [path.name for path in tmp_path.iterdir()] == ["a.safetensors"]
    written = tensors.convert(tmp_path / "a.safetensors", tmp_path / "b.safetensors", dtype="float16", saturate=True)
    assert written.warnings == ["2 numbers of `x` became the largest finite float16 with the same sign"]
    assert tensors.open(tmp_path / "b.safetensors")["x"].tolist() == [1.0, 65504.0, -65504.0]


def test_shards_are_joined_again(tmp_path: Path) -> None:
    given = {f"model.{number}": np.full((10, 10), number, "f4") for number in range(5)}
    safetensors.save_file(given, tmp_path / "a.safetensors", metadata={"format": "pt"})
    written = tensors.convert(tmp_path / "a.safetensors", tmp_path / "m.safetensors", shard_size=1000)
    assert written.path.endswith("m.safetensors.index.json") and len(written.shards) == 3
    index = json.loads(Path(written.path).read_text())
    assert index["metadata"] == {"total_size": 2000} and sorted(index["weight_map"]) == sorted(given)
    for name, file in index["weight_map"].items():
        assert safetensors.load_file(tmp_path / file)[name].tobytes() == given[name].tobytes()
    for source in (written.path, written.shards):
        tensors.convert(source, tmp_path / "joined.safetensors")
        assert (tmp_path / "joined.safetensors").read_bytes() == (tmp_path / "a.safetensors").read_bytes()


def test_names_and_metadata(tmp_path: Path) -> None:
    safetensors.save_file({"model.a": np.ones(2), "model.b": np.zeros(1)}, tmp_path / "a.safetensors", metadata={"k": "1"})

    def convert(**options: object) -> tensors.TensorFile:
        tensors.convert(tmp_path / "a.safetensors", tmp_path / "b.safetensors", **options)  # type: ignore[arg-type]
        return tensors.open(tmp_path / "b.safetensors")

    file = convert(rename=[r"s/^model\.(.)/\1.weight/", "s/a/A/"], metadata={"license": "mit"})
    assert sorted(file) == ["A.weight", "b.weight"] and file.metadata == {"k": "1", "license": "mit"}
    file = convert(exclude="*.b", keep_metadata=False)
    assert list(file) == ["model.a"] and file.metadata == {}
    with pytest.raises(carton.InvalidInputError, match="two tensors would be called `model`"):
        convert(rename=r"s/\..*//")
    with pytest.raises(carton.InvalidInputError, match="is no substitution"):
        convert(rename="model")


def test_slices_are_those_of_numpy(tmp_path: Path) -> None:
    given = np.arange(2 * 30 * 40, dtype="i2").reshape(2, 30, 40)
    safetensors.save_file({"x": given}, tmp_path / "a.safetensors")
    part = tensors.open(tmp_path / "a.safetensors").get_slice("x")
    assert part.shape == given.shape and part.dtype == "int16"
    for index in [0, -1, (1, slice(3, 9, 2)), (slice(None), 5, slice(-4, None)), (..., 7), (0, ..., 1), (slice(9, 9),), ...]:
        assert np.array_equal(part[index], given[index]), index  # type: ignore[index]
    for index in [2, (0, 0, 0, 0), slice(None, None, -1), (..., ...)]:
        with pytest.raises(IndexError):
            part[index]  # type: ignore[index]
    with pytest.raises(KeyError):
        tensors.open(tmp_path / "a.safetensors").get_slice("y")


def test_models_are_blended(tmp_path: Path) -> None:
    random = np.random.default_rng(5)
    models = [{"w": random.normal(size=(40, 30)).astype("f4"), "n": np.arange(3)} for _ in range(3)]
    paths = [tmp_path / f"{number}.safetensors" for number in range(3)]
    for path, model in zip(paths, models):
        safetensors.save_file(model, path)
    tensors.merge(paths[:2], tmp_path / "m.safetensors", weights=[1, 3])
    found = tensors.open(tmp_path / "m.safetensors")
    np.testing.assert_allclose(found["w"], (models[0]["w"] + 3 * models[1]["w"]) / 4, rtol=1e-6, atol=1e-7)
    assert found["n"].tolist() == [0, 1, 2]
    tensors.merge(paths[1:], tmp_path / "t.safetensors", method="task-arithmetic", base=paths[0], lambda_=0.5)
    differences = sum(model["w"] - models[0]["w"] for model in models[1:])
    np.testing.assert_allclose(tensors.open(tmp_path / "t.safetensors")["w"], models[0]["w"] + 0.5 * differences, atol=1e-6)
    with pytest.raises(carton.InvalidInputError):
        tensors.merge(paths, tmp_path / "s.safetensors", method="slerp", t=0.5)


def test_adapters_are_merged(tmp_path: Path) -> None:
    random = np.random.default_rng(6)
    weight = random.normal(size=(8, 6)).astype("f4")
    a, b = random.normal(size=(2, 6)).astype("f4"), random.normal(size=(8, 2)).astype("f4")
    safetensors.save_file({"q.weight": weight}, tmp_path / "m.safetensors")
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    names = {"base_model.model.q.lora_A.weight": a, "base_model.model.q.lora_B.weight": b}
    safetensors.save_file(names, adapter / "adapter_model.safetensors")
    (adapter / "adapter_config.json").write_text(
        json.dumps({"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["q"]})
    )
    tensors.merge_adapters(tmp_path / "m.safetensors", [adapter], tmp_path / "o.safetensors", scales=[0.5])
    np.testing.assert_allclose(tensors.open(tmp_path / "o.safetensors")["q.weight"], weight + b @ a, atol=1e-5)
