"""Makes plain arrays of the values that callers pass: arrays of other libraries and layouts, lists, numbers and strings."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from . import _carton
from ._errors import InvalidInputError

#: What libraries raise for values that have no array.
_REFUSALS = (TypeError, ValueError, BufferError, RuntimeError, NotImplementedError)


def plain(value: Any, name: str) -> tuple[str, Any, tuple[int, ...]]:
    """Returns what the extension module reads without help.

    `("array", array, shape)` with a contiguous array of numbers or booleans in this machine's byte order; `("strings", list, shape)` with a flat list;
    or `("nested", list, ())` with a list of values that have several shapes.
    """
    try:
        array = _array(value)
    except _REFUSALS as error:
        if isinstance(value, (list, tuple)):
            return "nested", [_element(item, number, name) for number, item in enumerate(value)], ()
        unfit = InvalidInputError(f"input `{name}`: a {type(value).__name__} cannot be made an array: {error}")
        # The dtypes of PyTorch that NumPy lacks.
        if str(getattr(value, "dtype", "")).startswith(("torch.bfloat", "torch.float8")):
            unfit.hint = "convert it: tensor.float()"
        raise unfit from error
    kind = array.dtype.kind
    if kind in "UTO":
        return "strings", _strings(array, name), array.shape
    if kind in "iub" or (kind == "f" and array.dtype.itemsize in (4, 8)):
        # `np.ascontiguousarray` would give a scalar a dimension.
        return "array", np.asarray(array, dtype=array.dtype.newbyteorder("="), order="C"), array.shape
    refused = InvalidInputError(f"input `{name}`: cartons have no tensors of dtype {array.dtype}")
    refused.hint = _hint(array.dtype)
    raise refused


def _hint(dtype: np.dtype[Any]) -> str | None:
    """How an array of a dtype that cartons lack is passed. No cast that changes what the values mean."""
    if dtype.name in ("float16", "bfloat16"):
        return "convert it, which is exact: array.astype(numpy.float32)"
    if dtype.kind == "f":
        return "round it: array.astype(numpy.float64)"
    if dtype.names is not None:
        return "pass each of its fields as an input"
    hints = {
        "S": "decode it: numpy.char.decode(array)",
        "c": "pass its real and imaginary parts as two inputs",
        "M": f"pass the integers that the model takes for dates: array.astype(numpy.int64) counts in the unit of {dtype}",
        "m": f"pass the integers that the model takes for durations: array.astype(numpy.int64) counts in the unit of {dtype}",
    }
    return hints.get(dtype.kind)


def _array(value: Any) -> np.ndarray:
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise ValueError("it has masked elements: use array.filled(value)")
    if isinstance(value, np.ndarray):
        return np.asarray(value)
    _refuse_missing(value)
    is_arrow = hasattr(value, "__arrow_c_array__") or hasattr(value, "__arrow_c_stream__")
    if is_arrow and hasattr(getattr(value, "type", None), "extension_name"):
        # NumPy gets the values as they are stored, which is not what they mean.
        return _carton.from_arrow(value)
    # The errors of `__array__` say more than those of DLPack.
    if not hasattr(value, "__array__"):
        if hasattr(value, "__dlpack__"):
            return np.from_dlpack(value)
        if is_arrow:
            return _carton.from_arrow(value)
    array = np.asarray(value)
    if is_arrow and array.dtype == object and not (array.size and isinstance(array.flat[0], str)):
        # Lists of Arrow, whose `__array__` has no dimensions for them. Columns of pandas need pyarrow for theirs.
        with contextlib.suppress(ImportError):
            return _carton.from_arrow(value)
    if array.dtype.kind == "U" and isinstance(value, (list, tuple)):
        # NumPy makes strings of the numbers beside them.
        return np.asarray(value, dtype=object)
    return array


def _refuse_missing(value: Any) -> None:
    """Arrow arrays and columns of pandas with missing values would become floats with NaN, or objects."""
    null_count = getattr(value, "null_count", 0)
    if callable(null_count):
        null_count = null_count()
    if isinstance(null_count, int) and null_count:
        raise ValueError(f"it has {null_count} missing value{'s' if null_count > 1 else ''}")
    # NaN in a column of NumPy's own floats is a number like the others.
    dtype = getattr(value, "dtype", None)
    if dtype is not None and not isinstance(dtype, np.dtype) and getattr(value, "hasnans", False) is True:
        raise ValueError("it has missing values")


def _element(value: Any, number: int, name: str) -> Any:
    """An element of a nested tensor. A list becomes an array, because no element is itself nested."""
    if not isinstance(value, (list, tuple)):
        return value
    try:
        return _array(value)
    except _REFUSALS as error:
        raise InvalidInputError(f"input `{name}`: element {number} of a nested tensor cannot be made an array: {error}") from error


def _strings(array: np.ndarray, name: str) -> list[str]:
    strings = array.ravel().tolist()
    others = [item for item in strings if not isinstance(item, str)]
    if others:
        # Numbers are objects only if they are too large, or among other objects.
        other = next((item for item in others if not isinstance(item, (int, float))), others[0])
        is_large = isinstance(other, int) and other.bit_length() > 63
        found = "an int of more than 64 bits" if is_large else f"a {type(other).__name__}"
        raise InvalidInputError(f"input `{name}`: expected numbers or strings alone, found {found}")
    return strings


def strings(elements: list[str], shape: tuple[int, ...]) -> np.ndarray:
    """Makes an array of `str` objects."""
    array = np.empty(len(elements), dtype=object)
    array[:] = elements
    array = array.reshape(shape)
    array.flags.writeable = False
    return array
