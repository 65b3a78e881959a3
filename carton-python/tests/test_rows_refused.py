"""`Model.map`: what is refused, what fails on the way, and work that is ended early."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any, Iterator

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import carton
from conftest import MakeNoop, RunScript

TABLE = pa.table({"x": [1, 2, 3]})
SCHEMA = TABLE.schema
INPUTS = {"x": "x"}


def failing(error: BaseException) -> pa.RecordBatchReader:
    def batches() -> Iterator[pa.RecordBatch]:
        yield TABLE.to_batches()[0]
        raise error

    return pa.RecordBatchReader.from_batches(SCHEMA, batches())


class Lazy:
    """A table of another library, whose stream is made when it is asked for."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return failing(self.error).__arrow_c_stream__()


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError("the source\0failed"), SystemExit(3)], ids=lambda error: type(error).__name__)
def test_an_exception_of_the_source_is_raised_as_it_is(echo: carton.Model, tmp_path: Path, error: BaseException) -> None:
    def check(work: Any) -> None:
        with pytest.raises(type(error)) as raised:
            work()
        assert raised.value is error

    check(lambda: echo.map(failing(error), inputs=INPUTS).read_all())
    check(lambda: list(echo.map(failing(error), inputs=INPUTS)))
    check(lambda: echo.map_to(tmp_path / "rows.parquet", failing(error), inputs=INPUTS))
    # Rows of a model that are the rows of another one.
    check(lambda: echo.map(echo.map(failing(error), inputs=INPUTS), inputs=INPUTS).read_all())
    assert os.listdir(tmp_path) == []


def test_a_stream_may_outlive_everything_else(echo: carton.Model) -> None:
    """The library that drops it releases the interpreter's lock before."""
    for error in (None, ValueError("the source failed")):
        rows = failing(error) if error else pa.RecordBatchReader.from_batches(SCHEMA, TABLE.to_batches())
        reader = pa.RecordBatchReader.from_stream(echo.map(rows, inputs=INPUTS, batch_size=1))
        del rows
        if error:
            with pytest.raises(pa.ArrowInvalid):
                reader.read_all()
        del reader


def test_an_exception_of_another_library_is_told(echo: carton.Model) -> None:
    """An Arrow stream has only the text of it."""
    with pytest.raises(KeyboardInterrupt):
        echo.map(Lazy(KeyboardInterrupt()), inputs=INPUTS).read_all()
    with pytest.raises(carton.Error, match="the source failed"):
        echo.map(Lazy(ValueError("the source failed")), inputs=INPUTS).read_all()


def test_numbers_that_are_no_numbers_of_rows(echo: carton.Model) -> None:
    for options in ({"batch_size": -1}, {"batch_bytes": -1}, {"workers": -1}, {"workers": 0}):
        with pytest.raises(carton.InvalidInputError, match=f"at least 1, found {[*options.values()][0]}$"):
            echo.map(TABLE, inputs=INPUTS, **options)
    with pytest.raises(carton.InvalidInputError, match="100000 workers, expected at most 1024"):
        echo.map(TABLE, inputs=INPUTS, workers=100_000)
    with pytest.raises(TypeError):
        echo.map(TABLE, inputs=INPUTS, batch_size=1.5)  # type: ignore[arg-type]


def test_a_name_that_no_arrow_stream_can_hold(echo: carton.Model, tmp_path: Path) -> None:
    outputs = {"x": "a\0b"}
    with pytest.raises(carton.InvalidInputError, match=r"column `a\\0b` cannot be in an Arrow stream"):
        echo.map(TABLE, inputs=INPUTS, outputs=outputs).read_all()
    assert echo.map_to(tmp_path / "rows.parquet", TABLE, inputs=INPUTS, outputs=outputs).rows == 3


def test_an_output_that_cannot_be_written(echo: carton.Model, tmp_path: Path) -> None:
    def check(kind: type[Exception], path: Path, text: str) -> None:
        with pytest.raises(kind) as raised:
            echo.map_to(path, TABLE, inputs=INPUTS)
        assert str(raised.value) == f"cannot write `{path}`: {text}"

    (tmp_path / "folder.parquet").mkdir()
    missing = tmp_path / "missing"
    check(carton.InvalidInputError, missing / "rows.parquet", f"there is no folder `{missing}`")
    check(carton.InvalidInputError, tmp_path / "folder.parquet", "something is there that is not a file")


def test_paths_may_be_bytes(digits_path: Path, echo: carton.Model, tmp_path: Path) -> None:
    rows, output = os.fsencode(tmp_path / "rows.parquet"), os.fsencode(tmp_path / "out.parquet")
    pq.write_table(TABLE, tmp_path / "rows.parquet")
    assert echo.map_to(output, rows, inputs=INPUTS).rows == 3
    assert echo.map(TABLE, inputs=INPUTS).write(output).rows == 3
    carton.open(os.fsencode(digits_path)).unpack(os.fsencode(tmp_path / "unpacked"))
    model = os.fsencode(tmp_path / "unpacked" / "model" / "model.onnx")
    assert carton.recognize(model).runner == "onnx"
    packed = os.fsencode(tmp_path / "packed.carton")
    carton.pack(model, packed, files=carton.Files(misc={"notes": os.fsencode(digits_path)}))
    shrunk = os.fsencode(tmp_path / "shrunk.carton")
    carton.shrink(packed, shrunk, url_prefix="https://example.org", min_size=1000, save_files=os.fsencode(tmp_path / "saved"))
    assert carton.open(shrunk).manifest_sha256 == carton.open(packed).manifest_sha256


def test_a_closed_model_ends_its_maps(noop: MakeNoop, tmp_path: Path) -> None:
    def mapped(model: carton.Model) -> carton.MappedRows:
        def endless() -> Iterator[pa.RecordBatch]:
            while True:
                yield TABLE.to_batches()[0]

        return model.map(pa.RecordBatchReader.from_batches(SCHEMA, endless()), inputs=INPUTS, batch_size=3)

    model = noop()
    rows, unread = iter(mapped(model)), mapped(model)
    next(rows)
    model.close()
    for work in (lambda: next(rows), lambda: unread.read_all()):
        with pytest.raises(carton.ClosedError, match="the model is closed"):
            work()
    # While a call runs, and while rows are written.
    for work in (lambda rows: list(rows), lambda rows: rows.write(tmp_path / "rows.parquet")):
        for options in ({"delay_ms": 60_000}, {}):
            model = noop(**options)
            rows = mapped(model)
            timer = threading.Timer(0.5, model.close)
            timer.start()
            started = time.monotonic()
            with pytest.raises(carton.ClosedError, match="the model is closed"):
                work(rows)
            assert time.monotonic() - started < 10
            timer.join()
    assert os.listdir(tmp_path) == []


def test_a_model_that_is_not_named_any_more_goes_on(noop_folder: Path) -> None:
    rows = carton.load(noop_folder, runner="noop", bare=True).map(TABLE, inputs=INPUTS)
    assert rows.read_all()["x"].to_pylist() == [1, 2, 3]


def test_ctrl_c_ends_the_wait_for_a_named_pipe(run_script: RunScript, tmp_path: Path) -> None:
    ended = run_script(
        f"""
pipe = {str(tmp_path / "pipe")!r}
os.mkfifo(pipe)
model = noop()
threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    model.map(pipe, inputs={{"x": "x"}})
except KeyboardInterrupt:
    print("interrupted")
""",
        seconds=20,
    )
    assert (ended.code, ended.stdout) == (0, "interrupted\n"), ended.stderr
