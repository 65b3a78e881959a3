"""Models on the rows of tables, for `Model.map`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Iterator, Mapping, Sequence

from . import _carton, _progress
from ._errors import Error, InvalidInputError

if TYPE_CHECKING:
    import pyarrow as pa


def map_rows(
    model: _carton.Model,
    rows: Any,
    *,
    output: str | os.PathLike[str] | None,
    inputs: Mapping[str, str] | None,
    outputs: Mapping[str, str] | None,
    keep: bool | Sequence[str] | None,
    constants: Mapping[str, Any] | None,
    batch_size: int | None,
    batch_bytes: int | None,
    workers: int,
    progress: _progress.Callback | bool | None,
) -> _carton.MappedRows | int:
    """Implements `Model.map`, which documents it."""
    if isinstance(keep, str):
        raise InvalidInputError(f"expected a list of columns to keep, found the text {keep!r}")
    mapped = _carton.MappedRows(
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
        },
    )
    if output is None:
        return mapped
    with _progress.reporting(progress) as callback:
        return mapped.write(output, callback)


def _reader(mapped: _carton.MappedRows) -> pa.RecordBatchReader:
    try:
        import pyarrow as pa
    except ImportError as error:
        missing = Error("iterating over mapped rows needs pyarrow")
        missing.hint = "pip install pyarrow; or pass output=, or the rows to another library that reads Arrow streams"
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
