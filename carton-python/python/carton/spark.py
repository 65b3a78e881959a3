"""Predictions over Spark DataFrames.

    from carton import spark

    predicted = spark.predict(df, "https://example.com/digits.carton", inputs={"image": "pixels"}, outputs={"probabilities": "p"})

Spark does the distributing: each Python worker loads the model once, and maps the rows of each task by it, as `Model.map` does. The package
carton must be installed on all machines. Every machine fetches a carton once, into its cache. A failed task is run again by Spark as any
other.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import threading
from dataclasses import asdict, dataclass, is_dataclass
from typing import TYPE_CHECKING, Any, Collection, Iterator, Mapping, Sequence

from . import _carton, _columns
from ._columns import Column
from ._errors import ClosedError, ForkError, InvalidInputError, RunnerCrashedError, SignatureError
from ._paths import AnyPath
from ._small_floats import BITS

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

__all__ = ["predict"]

#: Options of `carton.load` that opening on the driver takes as well.
_OF_OPEN = ("expect", "allow_file_links", "trusted_keys", "bundle", "require_signed", "offline")


def predict(
    df: DataFrame,
    model: AnyPath,
    *,
    inputs: Mapping[str, str] | None = None,
    outputs: Mapping[str, str] | None = None,
    batch_size: int | None = None,
    **load_options: Any,
) -> DataFrame:
    """Adds a model's outputs to a DataFrame as columns, lazily.

    A row is one element of the first dimension. An input of shape `[batch, 1, 8, 8]` is a column of `array<array<array<float>>>`, or of
    flat arrays of 64 elements; one of shape `[batch]` is a column of numbers or strings. Doubles become floats where the carton declares
    those. An output of shape `[batch, 10]` becomes `array<float>`. Unsigned integers become the next larger signed ones, `uint64` becomes
    `decimal(20,0)`. An error about a row counts the rows of its task from 0.

    Args:
        df: The rows. All their columns are kept.
        model: The carton: a path, or a URL that begins with `https://`, `http://`, `oci://`, `hf://`, `s3://`, `gs://` or `az://`.
            All machines have it at this place. It is opened here once, and the workers load exactly this carton, by its hash.
        inputs: The column of each input. By default each input is the column of its name.
        outputs: The new column of each output that is wanted. By default all of them, each under its name.
        batch_size: The most rows of a call, 1024 by default. Where the carton declares the number of rows, calls have that one.
        load_options: Options of `carton.load`, such as `device`, `timeout` and `options`.

    Returns:
        A DataFrame with the columns of `df` and those of the outputs.

    Raises:
        SignatureError: The carton has no such inputs or outputs, or they do not fit the columns.
        InvalidInputError: A column does not exist, or exists already. Nulls and rows of several shapes fail the job with it.
        Error: The carton cannot be opened.

        >>> predicted = spark.predict(df, "digits.carton", inputs={"image": "pixels"})  # doctest: +SKIP
        >>> predicted.select("probabilities").first()  # doctest: +SKIP
    """
    from pyspark.sql.types import StructField, StructType

    if load_options.get("bare"):
        raise InvalidInputError("a model that is not in a carton has no signature, which the new columns need: pack it first")
    location = _location(model)
    package = _open(location, load_options)
    input_columns = _columns.of_inputs(package.inputs, inputs)
    output_columns = _columns.of_outputs(package.outputs, outputs)
    if batch_size is not None and batch_size < 1:
        raise InvalidInputError(f"expected a batch_size of at least 1, found {batch_size}")
    names = df.columns
    for column in input_columns:
        if names.count(column.column) != 1:
            found = "no column" if column.column not in names else f"{names.count(column.column)} columns"
            raise InvalidInputError(f"the DataFrame has {found} `{column.column}`; its columns are {', '.join(names)}")
        _check_type(df.schema[names.index(column.column)].dataType, column)
    taken = {name.casefold() for name in names}
    for column in output_columns:
        if column.column.casefold() in taken:
            error = InvalidInputError(f"the DataFrame has a column `{column.column}` already")
            error.hint = f"pass outputs={{{column.name!r}: 'another name'}}"
            raise error
    fields = [StructField(column.column, _spark_type(column), nullable=True) for column in output_columns]
    work = _Predict(
        location=location,
        load_options={**load_options, "expect": package.manifest_sha256},
        inputs=_columns.mapping(input_columns),
        outputs=_columns.mapping(output_columns),
        batch_size=batch_size,
    )
    schema = StructType([*df.schema.fields, *fields])
    distinct = _distinct(names, work.inputs.values(), work.outputs.values())
    return (df if distinct == names else df.toDF(*distinct)).mapInArrow(work, schema)


def _distinct(names: Sequence[str], inputs: Collection[str], outputs: Collection[str]) -> list[str]:
    """The names of columns, with marks behind those that Spark takes for others. Inputs keep their names, and no column gets one of an output."""
    seen = {name.casefold() for name in (*inputs, *outputs)}
    distinct = []
    for name in names:
        other = name
        while name not in inputs and other.casefold() in seen:
            other += "'"
        seen.add(other.casefold())
        distinct.append(other)
    return distinct


def _location(model: AnyPath) -> str:
    """The location for other processes, whose current folder is another."""
    text = os.fsdecode(model)
    return text if isinstance(model, str) and "://" in text else os.path.abspath(text)


def _open(location: str, load_options: Mapping[str, Any]) -> _carton.Package:
    import carton

    return carton.open(location, **{name: load_options[name] for name in _OF_OPEN if name in load_options})


def _check_type(kind: DataType, column: Column) -> None:
    """Checks a column's type before the job runs."""
    from pyspark.sql.types import ArrayType, BinaryType, BooleanType, ByteType, DoubleType, FloatType, IntegerType, LongType, ShortType, StringType

    leaf, depth = kind, 0
    while isinstance(leaf, ArrayType):
        leaf, depth = leaf.elementType, depth + 1
    integers = (BooleanType, ByteType, ShortType, IntegerType, LongType)
    if column.dtype == "string":
        fits = isinstance(leaf, StringType)
    elif column.dtype == "bytes":
        fits = isinstance(leaf, (BinaryType, StringType))
    elif column.dtype.startswith(("float", "bfloat")):
        fits = isinstance(leaf, (*integers, FloatType, DoubleType))
    else:
        fits = isinstance(leaf, integers)
    declared = column.row_shape
    # Flat arrays are given the declared shape.
    if fits and declared is not None and depth != len(declared):
        fits = None not in declared
    if not fits:
        rows = "any shape" if declared is None else f"shape [{', '.join('*' if size is None else str(size) for size in declared)}]"
        error = SignatureError(
            f"column `{column.column}` is {kind.simpleString()}, and input `{column.name}` takes rows of {column.dtype} of {rows}"
        )
        if leaf.typeName() == "udt" or "vector" in leaf.simpleString():
            error.hint = "convert vectors of Spark ML by pyspark.ml.functions.vector_to_array"
        raise error


def _spark_type(column: Column) -> DataType:
    from pyspark.sql import types

    leaves: dict[str, DataType] = {
        "float32": types.FloatType(),
        "float64": types.DoubleType(),
        "int8": types.ByteType(),
        "uint8": types.ShortType(),
        "int16": types.ShortType(),
        "uint16": types.IntegerType(),
        "int32": types.IntegerType(),
        "uint32": types.LongType(),
        "int64": types.LongType(),
        "uint64": types.DecimalType(20, 0),
        "bool": types.BooleanType(),
        # Floats that Spark lacks have all their values as longer ones.
        **dict.fromkeys(("float16", *BITS), types.FloatType()),
        "string": types.StringType(),
        "bytes": types.BinaryType(),
    }
    if column.dtype not in leaves:
        raise SignatureError(f"output `{column.name}` is {column.dtype}, which Spark has no column of: choose other outputs")
    if column.row_shape is None:
        error = SignatureError(f"the carton does not declare how many dimensions output `{column.name}` has")
        error.hint = "pack it with TensorSpec shapes, such as ['batch', 10], or choose other outputs"
        raise error
    kind = leaves[column.dtype]
    for _ in column.row_shape:
        kind = types.ArrayType(kind, containsNull=True)
    return kind


@dataclass(frozen=True)
class _Predict:
    """What a task does with its batches. It travels to the workers as plain data."""

    location: str
    load_options: dict[str, Any]
    #: The column of each input, and of each output.
    inputs: dict[str, str]
    outputs: dict[str, str]
    batch_size: int | None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        batches = iter(batches)
        first = next(batches, None)
        if first is None:
            return
        reader = pa.RecordBatchReader.from_batches(first.schema, itertools.chain([first], batches))
        names, n_kept = [*first.schema.names, *self.outputs.values()], len(first.schema)
        with _model(self.location, self.load_options) as model:
            mapped = model.map(reader, keep=True, inputs=self.inputs, outputs=self.outputs, batch_size=self.batch_size)
            for rows in mapped:
                outputs = [column.cast(_arrow_type(column.type)) for column in rows.columns[n_kept:]]
                yield pa.RecordBatch.from_arrays([*rows.columns[:n_kept], *outputs], names=names)


def _arrow_type(kind: pa.DataType) -> pa.DataType:
    """The Arrow type that Spark reads values of this type as."""
    import pyarrow as pa

    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(_arrow_type(kind.value_type))
    if pa.types.is_float16(kind):
        return pa.float32()
    signed = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64(), pa.uint64(): pa.decimal128(20, 0)}
    return signed.get(kind, kind)


_models: dict[tuple[int, str, str], _carton.Model] = {}
_lock = threading.Lock()


def _plain(value: Any) -> Any:
    """An option that JSON does not have: a path, or a group of options."""
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else str(value)


@contextlib.contextmanager
def _model(location: str, load_options: dict[str, Any]) -> Iterator[_carton.Model]:
    """The model of this process, which is loaded by its first task and kept for later ones."""
    import carton

    # A worker that was forked from one with a model has none of its own.
    key = (os.getpid(), location, json.dumps(load_options, sort_keys=True, default=_plain))
    with _lock:
        model = _models.get(key)
        if model is None:
            model = _models[key] = carton.load(location, **load_options)
    try:
        yield model
    except (ClosedError, ForkError, RunnerCrashedError):
        # A task that Spark runs again loads the model again.
        with _lock:
            _models.pop(key, None)
        raise
