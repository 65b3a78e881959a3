"""Columns of Arrow tables as inputs of models, and outputs as columns: for Spark and Ray. A row is one element of the first dimension.

An array column is read through its flat values, without a Python object for a row. Needs pyarrow, which Spark and Ray bring.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Mapping, Sequence

import numpy as np

from ._errors import InvalidInputError, SignatureError

if TYPE_CHECKING:
    import pyarrow as pa

    from . import _carton

#: Lists have 32-bit offsets.
_MAX_LIST_VALUES = 2**31 - 1


@dataclass(frozen=True)
class Column:
    """An input or output of a model, and the column that it is: plain data, which goes to other processes."""

    #: The name of the input or output.
    name: str
    dtype: str
    #: The shape of one row: sizes, and None for any. None as a whole where the carton does not say the rank.
    row_shape: tuple[int | None, ...] | None
    #: How many rows a call takes; None for any number.
    n_rows: int | None
    column: str


def of_inputs(specs: Sequence[_carton.TensorSpec], columns: Mapping[str, str] | None) -> list[Column]:
    """The inputs that a mapping from inputs to columns names; without one each input is the column of its name.

    Raises:
        SignatureError: An input is unknown, a required one has no column, or an input does not have a dimension for rows.
    """
    chosen = {spec.name: spec.name for spec in specs if not spec.optional} if columns is None else dict(columns)
    _check_names("input", chosen, specs)
    if missing := [spec.name for spec in specs if not spec.optional and spec.name not in chosen]:
        raise SignatureError(f"input `{missing[0]}` has no column: name one in inputs={{…}}")
    return [_column("input", spec, chosen[spec.name]) for spec in specs if spec.name in chosen]


def of_outputs(specs: Sequence[_carton.TensorSpec], columns: Mapping[str, str] | None) -> list[Column]:
    """The outputs that a mapping from outputs to columns names; without one all of them, each as the column of its name."""
    chosen = {spec.name: spec.name for spec in specs} if columns is None else dict(columns)
    _check_names("output", chosen, specs)
    if not chosen:
        raise SignatureError("the carton declares no outputs, which become columns")
    found = [_column("output", spec, chosen[spec.name]) for spec in specs if spec.name in chosen]
    if len({column.column.casefold() for column in found}) < len(found):
        raise InvalidInputError("two outputs have the same column")
    return found


def _check_names(kind: str, chosen: Mapping[str, str], specs: Sequence[_carton.TensorSpec]) -> None:
    names = [spec.name for spec in specs]
    for name in chosen:
        if name not in names:
            raise SignatureError(f"the carton has no {kind} `{name}`; it has {', '.join(f'`{other}`' for other in names) or 'none'}")


def _column(kind: str, spec: _carton.TensorSpec, column: str) -> Column:
    shape = spec.shape
    if isinstance(shape, str):
        return Column(spec.name, spec.dtype, None, None, column)
    if not shape:
        raise SignatureError(f"{kind} `{spec.name}` is a scalar: it has no dimension for rows")
    sizes = tuple(size if isinstance(size, int) else None for size in shape)
    return Column(spec.name, spec.dtype, sizes[1:], sizes[0], column)


def rows_of_a_call(columns: Sequence[Column], batch_size: int | None) -> int | None:
    """How many rows a call takes at most: what the carton fixes, otherwise what the caller wants.

    Raises:
        InvalidInputError: The batch size is not positive, or not what the carton fixes.
    """
    if batch_size is not None and batch_size < 1:
        raise InvalidInputError(f"expected a batch_size of at least 1, found {batch_size}")
    fixed = {column.n_rows for column in columns if column.n_rows is not None}
    if not fixed:
        return batch_size
    (size, *others) = sorted(fixed)
    if others or batch_size not in (None, size):
        raise InvalidInputError(f"expected batches of {size} rows, which the carton declares, found {others[0] if others else batch_size}")
    return size


# Inputs.


def tensor(array: pa.Array | pa.ChunkedArray, column: Column) -> np.ndarray:
    """The elements of an Arrow column as the input, of shape `[rows, …]`. Numbers of the declared dtype are not copied.

    A column of flat lists is given the declared shape. Doubles become floats where those are declared, and integers any integers or floats
    that hold them.

    Raises:
        InvalidInputError: The column has nulls, rows of several shapes, or elements that do not fit.
    """
    import pyarrow as pa

    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
        if isinstance(array, pa.ChunkedArray):
            array = array.chunk(0) if array.num_chunks else pa.array([], array.type)
    shape = [len(array)]
    while True:
        if isinstance(array, pa.ExtensionArray):
            array = array.storage
        if array.null_count:
            raise _nulls(array, column, depth=len(shape))
        kind = array.type
        if pa.types.is_fixed_size_list(kind):
            shape.append(kind.list_size)
        elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
            shape.append(_length(array, column))
        else:
            break
        array = array.flatten()
    return _shaped(_values(array, column), shape, column)


def rows(values: Any, column: Column) -> np.ndarray:
    """The same for an array whose first dimension is the rows, as Ray passes them."""
    array = np.asarray(values)
    if array.dtype == object and array.size and not isinstance(array.flat[0], str):
        try:
            array = np.stack([np.asarray(row) for row in array])
        except ValueError as error:
            raise InvalidInputError(f"column `{column.column}`: its rows have several shapes: {error}") from None
    if array.dtype == object and (array == None).any():  # noqa: E711, for each element
        raise InvalidInputError(f"column `{column.column}` has missing values")
    if array.dtype.kind == "b":
        array = array.astype(np.uint8)
    if array.ndim == 0:
        raise InvalidInputError(f"column `{column.column}`: a scalar has no rows")
    return _shaped(_cast(array, column), list(array.shape), column)


def _nulls(array: pa.Array, column: Column, *, depth: int) -> InvalidInputError:
    import pyarrow.compute as pc

    where = ""
    if depth == 1:
        where = f", the first in row {int(pc.index(pc.is_null(array), True).as_py())} of a batch"
    kind = "nulls" if depth == 1 else "nulls in its arrays"
    error = InvalidInputError(f"column `{column.column}` has {array.null_count} {kind}{where}; input `{column.name}` takes none")
    error.hint = "filter these rows out, or fill them, before the prediction"
    return error


def _length(array: pa.Array, column: Column) -> int:
    """The length that all lists have."""
    offsets = array.offsets.to_numpy()
    lengths = np.diff(offsets)
    if len(lengths) == 0:
        return 0
    other = np.flatnonzero(lengths != lengths[0])
    if len(other):
        raise InvalidInputError(
            f"column `{column.column}`: expected arrays of one length, found lengths {lengths[0]} and {lengths[other[0]]}"
        )
    return int(lengths[0])


def _values(array: pa.Array, column: Column) -> np.ndarray:
    import pyarrow as pa

    kind = array.type
    if pa.types.is_dictionary(kind):
        array = array.dictionary_decode()
        kind = array.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return _cast(array.to_numpy(zero_copy_only=False), column)
    if pa.types.is_boolean(kind):
        return _cast(array.cast(pa.uint8()).to_numpy(), column)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return _cast(array.to_numpy(), column)
    error = InvalidInputError(f"column `{column.column}` has the type {kind}, which is not that of a tensor")
    if pa.types.is_decimal(kind):
        error.hint = "cast it to double"
    elif pa.types.is_struct(kind):
        error.hint = "convert vectors of Spark ML by pyspark.ml.functions.vector_to_array"
    raise error


def _cast(array: np.ndarray, column: Column) -> np.ndarray:
    """The array in the declared dtype, without wrapping and without rounding to integers."""
    if column.dtype == "string":
        if array.dtype.kind not in "OU" and array.size:
            raise InvalidInputError(f"column `{column.column}`: input `{column.name}` takes strings, found {array.dtype}")
        return array
    wanted = np.dtype(column.dtype)
    if array.dtype == wanted:
        return array
    fits = array.dtype.kind in "iuf" and (wanted.kind == "f" or (array.dtype.kind in "iu" and wanted.kind in "iu"))
    if not fits:
        found = "strings" if array.dtype.kind in "OU" else array.dtype
        raise InvalidInputError(f"column `{column.column}`: input `{column.name}` takes {column.dtype}, found {found}")
    if wanted.kind in "iu" and array.size:
        limits = np.iinfo(wanted)
        smallest, largest = int(array.min()), int(array.max())
        if smallest < limits.min or largest > limits.max:
            wrong = smallest if smallest < limits.min else largest
            raise InvalidInputError(f"column `{column.column}`: {wrong} does not fit into {column.dtype} of input `{column.name}`")
    return array.astype(wanted)


def _shaped(values: np.ndarray, shape: list[int], column: Column) -> np.ndarray:
    """The values in the shape that the column has, or in the declared one if the column is flat."""
    declared = column.row_shape
    if shape[0] == 0 and declared is not None:
        # Without rows the lengths of lists are unknown.
        return values.reshape(0, *(size or 0 for size in declared))
    if declared is None or len(shape) == len(declared) + 1:
        return values.reshape(shape)
    n_values = int(np.prod(shape[1:], dtype=np.int64))
    sizes = [-1 if size is None else size for size in declared]
    if sizes.count(-1) == 0 and n_values == int(np.prod(sizes, dtype=np.int64)):
        return values.reshape(shape[0], *sizes)
    found = "[" + ", ".join(map(str, shape[1:])) + "]"
    wanted = "[" + ", ".join("*" if size is None else str(size) for size in declared) + "]"
    raise InvalidInputError(f"column `{column.column}`: input `{column.name}` takes rows of shape {wanted}, found {found}")


# Outputs.

def empty(column: Column) -> np.ndarray | None:
    """The output for no rows; None if the carton does not declare its rank. Many models cannot be called without rows."""
    if column.row_shape is None:
        return None
    dtype = object if column.dtype == "string" else np.dtype(column.dtype)
    return np.empty((0, *(size or 0 for size in column.row_shape)), dtype)


#: Spark and other engines have no unsigned integers: these become the next larger signed ones.
SIGNED = {"uint8": "int16", "uint16": "int32", "uint32": "int64"}


def array(value: Any, column: Column, n_rows: int, *, signed: bool = False) -> pa.Array:
    """An output as an Arrow column: one element or nested list for each row.

    Args:
        value: The output, of shape `[rows, …]`. It is not copied.
        column: What the carton declares of it.
        n_rows: The rows of the call.
        signed: Whether unsigned integers become signed ones, and `uint64` decimals.

    Raises:
        SignatureError: The output is not one value for each row.
    """
    import pyarrow as pa

    if not isinstance(value, np.ndarray) or value.ndim == 0 or len(value) != n_rows:
        shape = list(value.shape) if isinstance(value, np.ndarray) else "a list"
        raise SignatureError(f"output `{column.name}` is {shape} for {n_rows} rows: it has no value for each row")
    if value.size > _MAX_LIST_VALUES:
        error = InvalidInputError(f"output `{column.name}` has {value.size} elements in a batch, more than a column can hold")
        error.hint = "pass a smaller batch_size"
        raise error
    if signed and column.dtype in SIGNED:
        value = value.astype(SIGNED[column.dtype])
    if value.dtype == object:
        nested = pa.array(value.ravel().tolist(), pa.string())
    else:
        nested = pa.array(np.ascontiguousarray(value).reshape(-1))
        if signed and column.dtype == "uint64":
            nested = nested.cast(pa.decimal128(20, 0))
    for dimension in range(value.ndim - 1, 0, -1):
        n_lists = int(np.prod(value.shape[:dimension], dtype=np.int64))
        offsets = np.arange(n_lists + 1, dtype=np.int32) * np.int32(value.shape[dimension])
        nested = pa.ListArray.from_arrays(pa.array(offsets), nested)
    return nested
