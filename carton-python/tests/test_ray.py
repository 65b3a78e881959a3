"""Predictions over datasets: the class by itself, and with real Ray."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any, Iterator

import numpy as np
import pytest

import carton
from carton import TensorSpec
from carton.ray import Predictor

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")


def test_the_module_does_not_import_ray(run_script: Any) -> None:
    ended = run_script("import carton.ray, carton.spark, carton.mlflow\nprint(sorted({'ray', 'pyspark', 'pyarrow', 'mlflow', 'pandas'} & set(sys.modules)))")
    assert (ended.stdout, ended.code) == ("[]\n", 0), ended.stderr


def check_both(predict: Predictor, batch: dict[str, np.ndarray], column: str, expected: np.ndarray) -> None:
    """Checks a batch as NumPy arrays and as a table."""
    answer = predict(batch)
    assert list(answer) == [*batch, column]
    np.testing.assert_allclose(answer[column], expected, rtol=1e-5, atol=1e-7)
    table = predict(pa.table({name: value.tolist() for name, value in batch.items()}))
    assert table.column_names == [*batch, column]
    np.testing.assert_allclose(np.array(table[column].to_pylist()), expected, rtol=1e-5, atol=1e-7)


def test_batches(digits_path: Path, pictures: tuple[np.ndarray, np.ndarray]) -> None:
    images, probabilities = pictures
    number = np.arange(len(images))
    predict = Predictor(digits_path, inputs={"image": "picture"}, outputs={"probabilities": "p"})
    check_both(predict, {"number": number, "picture": images}, "p", probabilities)
    # Flat, and as doubles.
    check_both(predict, {"number": number, "picture": images.reshape(-1, 64).astype(np.float64)}, "p", probabilities)
    # No rows.
    empty = predict({"picture": images[:0]})["p"]
    assert (empty.shape, empty.dtype) == ((0, 10), np.float32)
    table = predict(pa.table({"picture": pa.array([], pa.list_(pa.float32()))}))
    assert table.schema.field("p").type == pa.list_(pa.float32(), 10) and table.num_rows == 0
    # The outputs' own names.
    check_both(Predictor(digits_path), {"image": images}, "probabilities", probabilities)


def test_tables_of_several_chunks_and_slices(digits_path: Path, pictures: tuple[np.ndarray, np.ndarray]) -> None:
    images, probabilities = pictures
    flat = images.reshape(-1, 64)
    predict = Predictor(digits_path)
    chunks = pa.chunked_array([pa.array(flat[:5].tolist(), pa.list_(pa.float32())), pa.array(flat[5:].tolist(), pa.list_(pa.float32()))])
    fixed = pa.FixedSizeListArray.from_arrays(pa.array(flat.ravel()), 64)
    large = pa.array(flat.tolist(), pa.large_list(pa.float32()))
    tensors = pa.FixedShapeTensorArray.from_numpy_ndarray(np.ascontiguousarray(images))
    turned = np.ascontiguousarray(images.transpose(0, 1, 3, 2)).transpose(0, 1, 3, 2)
    permuted = pa.FixedShapeTensorArray.from_numpy_ndarray(turned)
    assert "permutation" in str(permuted.type) and np.array_equal(permuted.to_numpy_ndarray(), images)
    for column in (chunks, fixed, large, tensors, permuted):
        table = predict(pa.table({"image": column}).slice(3, 9))
        np.testing.assert_allclose(np.array(table["probabilities"].to_pylist()), probabilities[3:12], rtol=1e-5, atol=1e-7)


def test_a_model_with_a_fixed_batch(noop_folder: Path, tmp_path: Path) -> None:
    spec = [TensorSpec("x", "int64", [1, "m"])]
    carton.pack(noop_folder, tmp_path / "one.carton", runner="noop", inputs=spec, outputs=spec, check=False)
    predict = Predictor(tmp_path / "one.carton", outputs={"x": "y"})
    x = np.arange(6).reshape(3, 2)
    check_both(predict, {"x": x}, "y", x)


def test_strings(noop_folder: Path, tmp_path: Path) -> None:
    spec = [TensorSpec("s", "string", ["n"])]
    carton.pack(noop_folder, tmp_path / "text.carton", runner="noop", inputs=spec, outputs=spec, check=False)
    predict = Predictor(tmp_path / "text.carton", outputs={"s": "t"})
    assert predict({"s": np.array(["a", "ä"])})["t"].tolist() == ["a", "ä"]
    dictionary = pa.array(["a", "b", "a"]).dictionary_encode()
    assert predict(pa.table({"s": dictionary}))["t"].to_pylist() == ["a", "b", "a"]
    with pytest.raises(carton.InvalidInputError, match="column `s`: values of type Int64 cannot become input `s`, which takes string"):
        predict({"s": np.arange(3)})
    with pytest.raises(carton.InvalidInputError, match="row 1 of column `s`: is null"):
        predict({"s": np.array(["a", None], dtype=object)})


def objects(*rows: Any) -> np.ndarray:
    """An array of arrays, as Ray passes lists of several lengths."""
    array = np.empty(len(rows), dtype=object)
    array[:] = rows
    return array


def test_rows_of_several_shapes(noop_folder: Path, tmp_path: Path) -> None:
    spec = [TensorSpec("x", "float32", ["n", "m"])]
    carton.pack(noop_folder, tmp_path / "any.carton", runner="noop", inputs=spec, outputs=spec, check=False)
    predict = Predictor(tmp_path / "any.carton", outputs={"x": "y"})
    rows = [np.zeros(2), np.ones(3), np.array([]), np.arange(3.0)]
    found = predict({"x": objects(*rows)})["y"]
    assert found.dtype == object
    for row, other in zip(rows, found, strict=True):
        np.testing.assert_array_equal(row, other)
        assert other.dtype == np.float32
    assert predict(pa.table({"x": rows}))["y"].to_pylist() == [row.tolist() for row in rows]
    # Of one shape, although the array does not say so.
    assert predict({"x": objects(*rows[1::2])})["y"].shape == (2, 3)


def test_arrays_that_cartons_do_not_have(noop_folder: Path, tmp_path: Path) -> None:
    spec = [TensorSpec("x", "float32", ["n", 2, 1]), TensorSpec("flag", "bool", ["n"])]
    carton.pack(noop_folder, tmp_path / "any.carton", runner="noop", inputs=spec, outputs=spec, check=False)
    predict = Predictor(tmp_path / "any.carton", outputs={"x": "y", "flag": "z"})
    flag = np.array([True, False, True])
    found = predict({"x": np.arange(6, dtype=np.float16).reshape(3, 2, 1)[::-1], "flag": flag})
    assert found["y"].tolist() == [[[4], [5]], [[2], [3]], [[0], [1]]] and found["z"].tolist() == [True, False, True]
    assert (found["y"].dtype, found["z"].dtype) == (np.float32, np.bool_)
    # As numbers in lists, of which NumPy makes integers.
    np.testing.assert_array_equal(predict({"x": [[[0], [1]]], "flag": [1]})["y"], [[[0], [1]]])
    for wrong in (np.zeros((3, 2), "datetime64[s]"), np.zeros((3, 2), complex), objects({}, [1], 2)):
        with pytest.raises(carton.InvalidInputError, match="`x`|complex"):
            predict({"x": wrong, "flag": flag})


def test_errors(digits_path: Path) -> None:
    predict = Predictor(digits_path)

    def check(batch: Any, message: str) -> None:
        with pytest.raises(carton.InvalidInputError, match=message):
            predict(batch)

    check({"picture": np.zeros((2, 64))}, "has no column `image`")
    check({"image": np.zeros((2, 64)), "probabilities": np.zeros(2)}, "has a column `probabilities` already")
    check({"image": np.zeros((2, 63))}, r"row 0 of column `image` has shape \[63\], expected \[1, 8, 8\] for input `image`")
    check({"image": np.array(["a", "b"])}, "column `image`: values of type Utf8 cannot become input `image`, which takes float32")
    check({"image": objects(np.zeros(64), np.zeros(3))}, r"row 1 of column `image` has shape \[3\], expected \[1, 8, 8\]")
    check({"image": objects(np.zeros(64), None)}, "row 1 of column `image`: is null")
    check(pa.table({"image": [[0.0] * 64, None]}), "row 1 of column `image`: is null")
    check(pa.table({"image": [[0.0] * 64, [0.0] * 63 + [None]]}), "row 1 of column `image`: is null")
    check(pa.table({"image": [[0.0] * 64, [0.0] * 3]}), r"row 1 of column `image` has shape \[3\], expected \[1, 8, 8\]")
    check(pa.table({"image": [{"a": 1}]}), "column `image`: ")
    with pytest.raises(carton.SignatureError, match="no input `x`"):
        Predictor(digits_path, inputs={"x": "image"})
    with pytest.raises(carton.InvalidInputError, match="pack it first"):
        Predictor(digits_path, bare=True)


def test_integers_never_wrap(noop_folder: Path, tmp_path: Path) -> None:
    spec = [TensorSpec("x", "uint8", ["n"])]
    carton.pack(noop_folder, tmp_path / "bytes.carton", runner="noop", inputs=spec, outputs=spec, check=False)
    predict = Predictor(tmp_path / "bytes.carton", outputs={"x": "y"})
    check_both(predict, {"x": np.array([0, 255])}, "y", np.array([0, 255]))
    for wrong in (-1, 256):
        with pytest.raises(carton.InvalidInputError, match=f"row 1 of column `x`: {wrong} is out of range for uint8"):
            predict({"x": np.array([0, wrong])})
    with pytest.raises(carton.InvalidInputError, match="row 0 of column `x`: 1.5 is not an integer, which uint8 needs"):
        predict({"x": np.array([1.5])})


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    ray = pytest.importorskip("ray", reason="Ray is not installed")
    pytest.importorskip("ray.data", reason="Ray Data is not installed")
    os.environ["RAY_ENABLE_UV_RUN_RUNTIME_ENV"] = "0"
    # A socket's path has at most 107 bytes.
    folder = f"/tmp/carton-ray-{os.getpid()}"
    environment = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        object_store_memory=200 << 20,
        _temp_dir=folder,
        logging_level="ERROR",
        log_to_driver=False,
        runtime_env={"env_vars": environment},
    )
    yield ray
    ray.shutdown()
    shutil.rmtree(folder, ignore_errors=True)


def test_tensors_of_ray(digits_path: Path, pictures: tuple[np.ndarray, np.ndarray]) -> None:
    extensions = pytest.importorskip("ray.data.extensions", reason="Ray Data is not installed")
    images, probabilities = pictures
    predict = Predictor(digits_path)
    # The model takes [1, 8, 8].
    for shape in ((1, 8, 8), (8, 8), (64,)):
        column = extensions.ArrowTensorArray.from_numpy(np.ascontiguousarray(images.reshape(-1, *shape)))
        table = predict(pa.table({"image": column}))
        np.testing.assert_allclose(np.array(table["probabilities"].to_pylist()), probabilities, rtol=1e-5, atol=1e-7)
    turned = extensions.ArrowTensorArray.from_numpy(np.ascontiguousarray(images.reshape(-1, 8, 8, 1)))
    with pytest.raises(carton.InvalidInputError, match=r"shape \[8, 8, 1\], expected \[1, 8, 8\]"):
        predict(pa.table({"image": turned}))
    ragged = extensions.ArrowTensorArray.from_numpy(np.array([np.zeros((8, 8)), np.zeros((4, 16))][:1] + [np.zeros((4, 16))] * 15, dtype=object))
    with pytest.raises(carton.InvalidInputError, match="values of extension type `ray.data.arrow_variable_shaped_tensor` cannot become tensors"):
        predict(pa.table({"image": ragged}))


@pytest.mark.parametrize("batch_format", ["numpy", "pyarrow"])
def test_a_dataset(cluster: Any, digits_path: Path, pictures: tuple[np.ndarray, np.ndarray], batch_format: str) -> None:
    images, probabilities = pictures
    rows = [{"id": number, "picture": images[number % 16]} for number in range(200)]
    dataset = cluster.data.from_items(rows).map_batches(
        Predictor,
        fn_constructor_kwargs={"model": str(digits_path), "inputs": {"image": "picture"}},
        batch_format=batch_format,
        batch_size=64,
        compute=cluster.data.ActorPoolStrategy(size=1),
    )
    found = sorted(dataset.take_all(), key=lambda row: row["id"])
    assert [row["id"] for row in found] == list(range(200))
    expected = np.tile(probabilities, (13, 1))[:200]
    np.testing.assert_allclose(np.array([row["probabilities"] for row in found]), expected, rtol=1e-5, atol=1e-7)


def children(pid: int) -> list[int]:
    return [int(child) for file in Path(f"/proc/{pid}/task").glob("*/children") for child in file.read_text().split()]


def test_a_killed_actor_loses_no_row(
    cluster: Any, digits_path: Path, pictures: tuple[np.ndarray, np.ndarray], tmp_path: Path
) -> None:
    """One of two actors is killed in the middle of the job. Its runner ends with it, and its batch is made again."""

    class KilledOnce(Predictor):
        def __call__(self, batch: Any) -> Any:
            (tmp_path / f"actor-{os.getpid()}").touch()
            end = time.monotonic() + 60
            while len(list(tmp_path.glob("actor-*"))) < 2 and time.monotonic() < end:
                time.sleep(0.05)
            answer = super().__call__(batch)
            # Both actors have had batches. The answer to this one is lost.
            try:
                file = open(tmp_path / "killed", "x")
            except FileExistsError:
                return answer
            with file:
                file.write(f"{os.getpid()} {' '.join(map(str, children(os.getpid())))}")
            os.kill(os.getpid(), signal.SIGKILL)

    images, probabilities = pictures
    rows = [{"id": number, "picture": images[number % 16]} for number in range(400)]
    dataset = cluster.data.from_items(rows, override_num_blocks=8).map_batches(
        KilledOnce,
        fn_constructor_kwargs={"model": str(digits_path), "inputs": {"image": "picture"}},
        batch_size=10,
        num_cpus=0.5,
        compute=cluster.data.ActorPoolStrategy(size=2),
    )
    found = sorted(dataset.take_all(), key=lambda row: row["id"])
    assert [row["id"] for row in found] == list(range(400))
    expected = np.tile(probabilities, (25, 1))
    np.testing.assert_allclose(np.array([row["probabilities"] for row in found]), expected, rtol=1e-5, atol=1e-7)
    killed, *runners = (tmp_path / "killed").read_text().split()
    assert runners, "the actor had no runner"
    actors = {path.name.partition("-")[2] for path in tmp_path.glob("actor-*")}
    assert killed in actors and len(actors) >= 3, "no actor took the place of the killed one"
    end = time.monotonic() + 10
    while any(Path("/proc", runner).exists() for runner in runners):
        assert time.monotonic() < end, "the runner of the killed actor runs on"
        time.sleep(0.05)
