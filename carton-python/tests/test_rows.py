"""`Model.map` and `Model.map_to`: tables in, tables out."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import carton
from conftest import MakeNoop, RunScript

N_ROWS = 5000


@pytest.fixture(scope="module")
def pixels() -> np.ndarray:
    return np.random.default_rng(7).random((N_ROWS, 64), dtype=np.float32)


@pytest.fixture(scope="module")
def table(pixels: np.ndarray) -> pa.Table:
    images = pa.FixedSizeListArray.from_arrays(pa.array(pixels.reshape(-1)), 64)
    return pa.table({"id": pa.array(range(N_ROWS)), "image": images})


@pytest.fixture(scope="module")
def expected(digits_folder: Path, pixels: np.ndarray) -> np.ndarray:
    """What ONNX Runtime says of the same pictures; without it, the test of values is skipped."""
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(str(digits_folder / "model.onnx"), providers=["CPUExecutionProvider"])
    (probabilities,) = session.run(None, {"image": pixels.reshape(-1, 1, 8, 8)})
    return np.asarray(probabilities)


def children() -> set[int]:
    """The processes that this one has started."""
    found = set()
    for entry in os.listdir("/proc"):
        try:
            # The name of the program may contain spaces and parentheses.
            status = Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(status[1]) == os.getpid():
            found.add(int(entry))
    return found


def values(column: pa.ChunkedArray) -> np.ndarray:
    return np.concatenate([chunk.flatten().to_numpy() for chunk in column.chunks]).reshape(len(column), -1)


def check(found: pa.Table, model: carton.Model, pixels: np.ndarray, column: str = "probabilities") -> None:
    assert found["id"].to_pylist() == list(range(len(pixels)))
    outputs = model(image=pixels.reshape(-1, 1, 8, 8))["probabilities"]
    np.testing.assert_allclose(values(found[column]), outputs, rtol=1e-5, atol=1e-6)


def test_the_values_are_those_of_onnx_runtime(digits: carton.Model, table: pa.Table, expected: np.ndarray) -> None:
    np.testing.assert_allclose(values(digits.map(table).read_all()["probabilities"]), expected, rtol=1e-4, atol=1e-5)


def test_every_way_to_read_the_rows(digits: carton.Model, table: pa.Table, pixels: np.ndarray, tmp_path: Path) -> None:
    check(digits.map(table).read_all(), digits, pixels)
    check(pa.table(digits.map(table)), digits, pixels)
    check(pa.Table.from_batches(list(digits.map(table))), digits, pixels)
    for name in ("rows.parquet", "rows.arrow", "rows.arrows"):
        assert digits.map_to(tmp_path / name, table) == carton.MapReport(str(tmp_path / name), N_ROWS, 5)
    check(pq.read_table(tmp_path / "rows.parquet"), digits, pixels)
    check(pa.ipc.open_file(tmp_path / "rows.arrow").read_all(), digits, pixels)
    check(pa.ipc.open_stream(tmp_path / "rows.arrows").read_all(), digits, pixels)


def test_every_source_of_rows(digits: carton.Model, table: pa.Table, pixels: np.ndarray, tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(table, path, row_group_size=700)
    batches = table.to_batches(max_chunksize=333)
    sources: list[Any] = [
        table,
        path,
        str(path),
        table.combine_chunks().to_batches()[0],
        pa.RecordBatchReader.from_batches(table.schema, batches),
        pa.RecordBatchReader.from_batches(table.schema, (batch for batch in batches)),
    ]
    for source in sources:
        check(digits.map(source, workers=2, batch_size=100).read_all(), digits, pixels)


def test_a_data_frame_of_pandas(digits: carton.Model, pixels: np.ndarray) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"id": range(100), "image": list(pixels[:100].astype(np.float64))})
    check(digits.map(frame).read_all(), digits, pixels[:100].astype(np.float64).astype(np.float32))


def test_a_data_frame_of_polars(digits: carton.Model, table: pa.Table, pixels: np.ndarray) -> None:
    polars = pytest.importorskip("polars")
    check(polars.DataFrame(digits.map(polars.from_arrow(table))).to_arrow(), digits, pixels)


def test_the_columns_are_chosen(digits: carton.Model, table: pa.Table) -> None:
    def names(**options: Any) -> list[str]:
        return digits.map(table.slice(0, 10), **options).read_all().column_names

    assert names() == ["id", "probabilities"]
    assert names(keep=True) == ["id", "image", "probabilities"]
    assert names(keep=False) == ["probabilities"]
    assert names(keep=["image"]) == ["image", "probabilities"]
    assert names(outputs={"probabilities": "p"}) == ["id", "p"]
    renamed = table.rename_columns(["id", "pixels"])
    assert digits.map(renamed, inputs={"image": "pixels"}).read_all().column_names == ["id", "probabilities"]


def test_inputs_with_one_value(echo: carton.Model) -> None:
    # The model without a signature returns its inputs; a scalar has no row, and only `x` becomes a column.
    table = pa.table({"a": [1.5, 2.5, 3.5]})
    found = echo.map(table, inputs={"x": "a"}, outputs={"x": "b"}, constants={"scale": 2.0}, keep=True).read_all()
    assert found.to_pydict() == {"a": [1.5, 2.5, 3.5], "b": [1.5, 2.5, 3.5]}


@pytest.mark.parametrize(
    "array",
    [
        pa.array(["a", "ü", ""]),
        pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.int16())),
        pa.array([["a", "b"], ["c", "d"], ["e", "f"]]),
        pa.array([0, 255, 7], pa.uint8()),
        pa.array([2**64 - 1, 0, 1], pa.uint64()),
        pa.array([-1.5, float("inf"), 0.0], pa.float64()),
        pa.array(["x", "y", "x"]).dictionary_encode(),
    ],
    ids=lambda array: str(array.type),
)
def test_values_go_through_unchanged(echo: carton.Model, array: pa.Array) -> None:
    found = echo.map(pa.table({"x": array}), inputs={"x": "x"}).read_all()
    assert found["x"].to_pylist() == array.to_pylist()


def test_tensors_have_the_elements_that_pyarrow_reads(digits: carton.Model, pixels: np.ndarray, tmp_path: Path) -> None:
    images = pixels[:200].reshape(-1, 1, 8, 8)
    turned = np.ascontiguousarray(images.transpose(0, 1, 3, 2)).transpose(0, 1, 3, 2)
    column = pa.FixedShapeTensorArray.from_numpy_ndarray(turned)
    assert "permutation" in str(column.type) and np.array_equal(column.to_numpy_ndarray(), images)
    rows = pa.table({"id": pa.array(range(200)), "image": column})
    pq.write_table(rows, tmp_path / "rows.parquet", row_group_size=64)
    for source in (rows, rows.to_reader(), tmp_path / "rows.parquet"):
        check(digits.map(source).read_all(), digits, pixels[:200])
    # Kept columns stay what they are.
    kept = digits.map(rows, keep=True).read_all()
    assert kept.schema.field("image").type == column.type
    assert np.array_equal(kept["image"].combine_chunks().to_numpy_ndarray(), images)


def test_other_extension_types(echo: carton.Model) -> None:
    def column(kind: Any, storage: pa.Array) -> pa.Table:
        return pa.table({"x": pa.ExtensionArray.from_storage(kind, storage)})

    def found(rows: pa.Table) -> list[Any]:
        values: list[Any] = echo.map(rows, inputs={"x": "x"}).read_all()["x"].to_pylist()
        return values

    assert found(column(pa.bool8(), pa.array([0, 1, -3], pa.int8()))) == [0, 1, 1]
    assert found(column(pa.json_(), pa.array(["{}", "1"]))) == ["{}", "1"]
    for kind, storage in (
        (pa.uuid(), pa.array([b"0" * 16], pa.binary(16))),
        (pa.opaque(pa.int64(), "a", "b"), pa.array([1])),
    ):
        with pytest.raises(carton.InvalidInputError, match=f"column `x`: values of extension type `{kind.extension_name}`"):
            found(column(kind, storage))


def test_rows_of_several_shapes(echo: carton.Model) -> None:
    rows = [[1.0], [2.0, 3.0], [4.0, 5.0], [], [6.0]]
    assert echo.map(pa.table({"x": rows}), inputs={"x": "x"}).read_all()["x"].to_pylist() == rows


def test_what_is_wrong(digits: carton.Model, table: pa.Table, tmp_path: Path) -> None:
    def check(kind: type[Exception], text: str, rows: Any = table, **options: Any) -> None:
        with pytest.raises(kind, match=text):
            digits.map(rows, **options).read_all()

    check(carton.SignatureError, "no input `nosuch`; it has `image`", inputs={"nosuch": "id"})
    check(carton.SignatureError, "no output `nosuch`", outputs={"nosuch": "id"})
    check(carton.SignatureError, "input `image` has no column; the columns are `id`", table.select(["id"]))
    check(carton.InvalidInputError, "two columns `id`", outputs={"probabilities": "id"})
    check(carton.InvalidInputError, "no column `nosuch`", keep=["nosuch"])
    check(carton.InvalidInputError, "at least 1", workers=0)
    check(carton.InvalidInputError, "at least 1", batch_size=0)
    check(carton.InvalidInputError, "list of columns", keep="id")
    check(TypeError, "Arrow stream", 5)
    check(carton.InvalidInputError, "No such file", tmp_path / "nosuch.parquet")
    check(TypeError, "output", output=tmp_path / "rows.parquet")
    with pytest.raises(carton.InvalidInputError, match="expected a file .parquet"):
        digits.map_to(tmp_path / "rows.csv", table)
    nulls = pa.table({"image": pa.array([[0.0] * 64, None, [0.0] * 64])})
    check(carton.InvalidInputError, "row 1 of column `image`: is null", nulls)
    short = pa.table({"image": pa.array([[0.0] * 64, [0.0] * 63])})
    check(carton.InvalidInputError, r"row 1 of column `image` has shape \[63\], expected \[1, 8, 8\]", short)
    cut = tmp_path / "cut.parquet"
    pq.write_table(table, cut)
    cut.write_bytes(cut.read_bytes()[:-100])
    check(carton.IntegrityError, "cut.parquet", cut)


def test_the_rows_are_read_once(digits: carton.Model, table: pa.Table) -> None:
    rows = digits.map(table)
    rows.read_all()
    with pytest.raises(carton.ClosedError, match="can be read once"):
        rows.read_all()
    with digits.map(table) as rows:
        pass
    with pytest.raises(carton.ClosedError):
        list(rows)


def test_no_rows(digits: carton.Model, table: pa.Table, tmp_path: Path) -> None:
    found = digits.map(table.slice(0, 0)).read_all()
    assert found.num_rows == 0
    assert found.schema.field("probabilities").type == pa.list_(pa.float32(), 10)
    assert digits.map_to(tmp_path / "none.parquet", table.slice(0, 0)).rows == 0
    assert pq.read_table(tmp_path / "none.parquet").schema.names == ["id", "probabilities"]


def test_a_runner_that_dies_loses_no_row(noop: MakeNoop, tmp_path: Path) -> None:
    before = children()
    model = noop()
    table = pa.table({"x": pa.array(range(20_000))})
    rows = iter(model.map(table, inputs={"x": "x"}, batch_size=50, workers=2))
    found = next(rows)["x"].to_pylist()
    runners = children() - before
    assert len(runners) == 2
    for runner in runners:
        os.kill(runner, signal.SIGKILL)
    for batch in rows:
        found += batch["x"].to_pylist()
    assert found == list(range(20_000))


def test_progress_is_reported(digits: carton.Model, table: pa.Table, tmp_path: Path) -> None:
    seen: list[dict[str, Any]] = []
    path = tmp_path / "rows.parquet"
    pq.write_table(table, path)
    digits.map_to(tmp_path / "out.parquet", path, progress=lambda **event: seen.append(event))
    assert seen[-1] == {"stage": "running", "done": N_ROWS, "total": N_ROWS, "unit": "rows"}


def test_an_error_in_the_callback_leaves_no_file(digits: carton.Model, table: pa.Table, tmp_path: Path) -> None:
    def callback(**_: Any) -> None:
        raise RuntimeError("enough")

    path = tmp_path / "rows.parquet"
    pq.write_table(table, path)
    with pytest.raises(RuntimeError, match="enough"):
        digits.map_to(tmp_path / "out.parquet", path, progress=callback)
    assert not (tmp_path / "out.parquet").exists()


def test_threads_map_at_the_same_time(digits: carton.Model, table: pa.Table, pixels: np.ndarray) -> None:
    found: list[pa.Table] = []
    threads = [threading.Thread(target=lambda: found.append(digits.map(table).read_all())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    for one in found:
        check(one, digits, pixels)


ENDLESS = """
import pyarrow as pa

schema = pa.schema([("x", pa.int64())])
batch = pa.record_batch([pa.array(range(1000))], schema=schema)

def endless():
    while True:
        yield batch

def mapped(**options):
    reader = pa.RecordBatchReader.from_batches(schema, endless())
    if "path" in options:
        return noop().map_to(options["path"], reader, inputs={"x": "x"})
    return noop().map(reader, inputs={"x": "x"})
"""


def test_ctrl_c_ends_the_work_and_leaves_no_file(run_script: RunScript, tmp_path: Path) -> None:
    """Also where the signal interrupts the source."""
    for work in ("mapped(path='out.parquet')", "mapped().read_all()", "[None for _ in mapped()]"):
        ended = run_script(
            f"""{ENDLESS}
os.chdir({str(tmp_path)!r})
threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    {work}
except BaseException as error:
    print(type(error).__name__)
print(os.path.exists("out.parquet"))
"""
        )
        assert ended.code == 0, ended.stderr
        assert ended.stdout == "KeyboardInterrupt\nFalse\n", (work, ended)


@pytest.mark.parametrize("work", ["mapped(path='/dev/shm/out.parquet')", "mapped().read_all()", "[None for _ in mapped()]"])
def test_the_interpreter_may_exit_meanwhile(run_script: RunScript, work: str) -> None:
    ended = run_script(
        f"""{ENDLESS}
threading.Thread(target=lambda: {work}, daemon=True).start()
time.sleep(0.5)
"""
    )
    assert ended.code == 0, ended.stderr


def test_memory_does_not_grow_with_the_rows(run_script: RunScript) -> None:
    ended = run_script(
        f"""{ENDLESS}
import itertools, resource
wide = pa.schema([("x", pa.list_(pa.float32(), 1024))])
one = pa.record_batch([pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(1024 * 256, np.float32)), 1024)], schema=wide)

def rows(n):
    reader = pa.RecordBatchReader.from_batches(wide, itertools.repeat(one, n))
    n_rows = 0
    for batch in model.map(reader, inputs={{"x": "x"}}):
        n_rows += len(batch)
    assert n_rows == n * 256
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

model = noop()
first = rows(300)
print(rows(2000) - first)
""",
        seconds=120,
    )
    assert ended.code == 0, ended.stderr
    # In KiB: of 2 GB of rows.
    assert int(ended.stdout) < 150 << 10


def test_a_fork_leaves_the_stream_of_its_parent_alone(run_script: RunScript) -> None:
    ended = run_script(
        f"""{ENDLESS}
reader = pa.RecordBatchReader.from_stream(mapped())
reader.read_next_batch()
if os.fork() == 0:
    del reader
    os._exit(7)
print(os.waitstatus_to_exitcode(os.wait()[1]))
print(sum(len(reader.read_next_batch()) for _ in range(100)))
"""
    )
    # Calls have 1024 rows.
    assert (ended.code, ended.stdout) == (0, "7\n102400\n"), ended.stderr


def test_a_fork_is_told_so(run_script: RunScript) -> None:
    ended = run_script(
        f"""{ENDLESS}
rows = mapped()
if os.fork() == 0:
    try:
        rows.read_all()
    except carton.ForkError:
        os._exit(7)
    os._exit(1)
print(os.waitstatus_to_exitcode(os.wait()[1]))
rows.close()
"""
    )
    assert (ended.code, ended.stdout) == (0, "7\n"), ended.stderr


def test_a_declared_number_of_rows_takes_bounded_memory(tmp_path: Path) -> None:
    source = tmp_path / "model"
    source.mkdir()
    (source / "nothing").touch()
    spec = carton.TensorSpec("x", "string", [2**40])
    path = tmp_path / "huge.carton"
    carton.pack(source, path, runner="noop", framework_version="*", inputs=[spec], outputs=[spec], check=False)
    with carton.load(path) as model, pytest.raises(carton.InvalidInputError, match="calls of 1099511627776 rows"):
        model.map(pa.table({"x": ["a"]})).read_all()


def test_exit_does_not_wait_for_a_stream(run_script: RunScript) -> None:
    ended = run_script(
        f"""{ENDLESS}
threading.Thread(target=lambda: mapped().read_all(), daemon=True).start()
time.sleep(0.5)
print(time.monotonic(), flush=True)
"""
    )
    assert ended.code == 0, ended.stderr
    assert time.monotonic() - float(ended.stdout) < 4


def test_the_rows_may_come_from_another_model(echo: carton.Model, tmp_path: Path) -> None:
    """A source of rows that waits for a model uses the threads that wait for the rows."""
    schema = pa.schema([("x", pa.int64())])
    numbers = np.arange(100)

    def batches() -> Iterator[pa.RecordBatch]:
        for _ in range(20):
            yield pa.record_batch([pa.array(echo(x=numbers)["x"])], schema=schema)

    def mapped() -> carton.MappedRows:
        rows = echo.map(pa.RecordBatchReader.from_batches(schema, batches()), inputs={"x": "x"})
        return echo.map(rows, inputs={"x": "x"})

    assert mapped().read_all()["x"].to_pylist() == list(range(100)) * 20
    assert sum(len(batch) for batch in mapped()) == 2000
    assert echo.map_to(tmp_path / "rows.parquet", mapped(), inputs={"x": "x"}).rows == 2000


def test_threads_take_turns_at_one_stream(run_script: RunScript) -> None:
    """The library that has the stream may let them read at the same time."""
    ended = run_script(
        f"""{ENDLESS}
import itertools
rows = pa.RecordBatchReader.from_batches(schema, itertools.islice(endless(), 1000))
reader = pa.RecordBatchReader.from_stream(noop().map(rows, inputs={{"x": "x"}}))
found, errors = [], []

def read():
    while True:
        try:
            found.append(len(reader.read_next_batch()))
        except StopIteration:
            return
        except Exception as error:
            errors.append(error)

threads = [threading.Thread(target=read) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(sum(found), errors)
"""
    )
    assert (ended.code, ended.stdout) == (0, "1000000 []\n"), ended.stderr


def test_a_column_that_parquet_cannot_hold(echo: carton.Model, tmp_path: Path) -> None:
    kinds, offsets = pa.array([0, 1], pa.int8()), pa.array([0, 0], pa.int32())
    union = pa.UnionArray.from_dense(kinds, offsets, [pa.array([1]), pa.array(["a"])])
    table = pa.table({"x": [1, 2], "kept": pa.array([{"u": value} for value in (1, 2)]), "union": union})
    with pytest.raises(carton.InvalidInputError, match="column `union`: Parquet has no type for Union"):
        echo.map_to(tmp_path / "rows.parquet", table, inputs={"x": "x"})
    assert not (tmp_path / "rows.parquet").exists()
    assert echo.map_to(tmp_path / "rows.arrow", table, inputs={"x": "x"}).rows == 2


def test_a_corrupt_page_blames_the_file(digits: carton.Model, table: pa.Table, tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(table, path, use_dictionary=False, compression="none")
    column = pq.ParquetFile(path).metadata.row_group(0).column(1)
    data = bytearray(path.read_bytes())
    data[column.data_page_offset] = 0xFF
    path.write_bytes(data)
    with pytest.raises(carton.IntegrityError, match="a page at"):
        digits.map(path).read_all()
