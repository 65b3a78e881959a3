"""Models on the rows of tables, for `Model.map` and `Model.map_to`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Iterator, Mapping, Sequence

from . import _carton, _progress
from ._errors import Error, InvalidInputError
from ._paths import AnyPath
from ._results import MapReport

if TYPE_CHECKING:
    import pyarrow as pa


class _Reader:
    """A reader of pyarrow that keeps the exception that ends it. An Arrow stream passes on only the text of an exception."""

    def __init__(self, reader: pa.RecordBatchReader) -> None:
        self._reader = reader
        self._raised: BaseException | None = None

    def _batches(self) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._reader
        except GeneratorExit:
            raise
        except BaseException as error:
            self._raised = error
            raise

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(self._reader.schema, self._batches()).__arrow_c_stream__()

    def _raise(self) -> None:
        """Raises the exception that ended the reader, if one did."""
        if self._raised is not None:
            raise self._raised


def map_rows(
    model: _carton.Model,
    rows: Any,
    *,
    inputs: Mapping[str, str] | None,
    outputs: Mapping[str, str] | None,
    keep: bool | Sequence[str] | None,
    constants: Mapping[str, Any] | None,
    batch_size: int | None,
    batch_bytes: int | None,
    workers: int,
    null: str | None,
    times: str | None,
) -> _carton.MappedRows:
    """Implements `Model.map`, which documents it."""
    if isinstance(keep, str):
        raise InvalidInputError(f"expected a list of columns to keep, found the text {keep!r}")
    # Only a program that has imported pyarrow has its readers.
    pyarrow = sys.modules.get("pyarrow")
    if pyarrow is not None and isinstance(rows, pyarrow.RecordBatchReader):
        rows = _Reader(rows)
    return _carton.MappedRows(
        model,
        rows,
        None if constants is None else dict(constants),
        {
            "inputs": dict(inputs or {}),
            "outputs": dict(outputs or {}),
            "keep": keep if keep is None or isinstance(keep, bool) else list(keep),
            "batch_size": batch_size,
            "batch_bytes": batch_bytes,
            "workers": workers,
            "null": null,
            "times": times,
        },
    )


def write(mapped: _carton.MappedRows, path: AnyPath, progress: _progress.Callback | bool | None) -> MapReport:
    """Writes the rows that `Model.map` returned, for `Model.map_to`."""
    with _progress.reporting(progress) as callback:
        return mapped.write(path, callback)


def _reader(mapped: _carton.MappedRows) -> pa.RecordBatchReader:
    try:
        import pyarrow as pa
    except ImportError as error:
        missing = Error("iterating over mapped rows needs pyarrow")
        missing.hint = "pip install pyarrow; or call map_to, or pass the rows to another library that reads Arrow streams"
        raise missing from error
    return pa.RecordBatchReader.from_stream(mapped)


def batches(mapped: _carton.MappedRows) -> Iterator[pa.RecordBatch]:
    """The rows as record batches of pyarrow."""
    reader = _reader(mapped)
    while True:
        try:
            batch = reader.read_next_batch()
        except StopIteration:
            return
        except Exception:
            mapped._raise()
            raise
        yield batch


def read_all(mapped: _carton.MappedRows) -> pa.Table:
    """All rows as a table of pyarrow."""
    reader = _reader(mapped)
    try:
        return reader.read_all()
    except Exception:
        mapped._raise()
        raise
