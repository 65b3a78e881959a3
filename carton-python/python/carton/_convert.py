"""Makes plain arrays of the values that callers pass: arrays of other libraries and layouts, lists, numbers and strings."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import numpy as np

from . import _carton, _tables
from ._errors import InvalidInputError
from ._small_floats import BITS, SmallFloats
from ._structure import Nested, rows_of

#: What libraries raise for values that have no array.
_REFUSALS = (TypeError, ValueError, BufferError, RuntimeError, NotImplementedError)


def plain(value: Any, name: str) -> tuple[str, Any, tuple[int, ...]]:
    """Returns what the extension module reads without help.

    `("array", array, shape)` with a contiguous array of numbers or booleans in this machine's byte order; `("strings", list, shape)` and
    `("bytes", list, shape)` with a flat list; `("nested", list, ())` with a list of values that have several shapes; or `("bfloat16", array,
    shape)`, and so on, with the bits of floats that NumPy lacks.
    """
    if isinstance(value, SmallFloats):
        return value.dtype, _contiguous(value._bits), value.shape
    if isinstance(value, Nested):
        return "nested", [_element(item, number, name) for number, item in enumerate(value)], ()
    if isinstance(value, bytes):
        # An array of NumPy would drop zeros at the end.
        return "bytes", [bytes(value)], ()
    try:
        array = _array(value)
    except _REFUSALS as error:
        if isinstance(value, (list, tuple)):
            value = (rows_of(value) if isinstance(value, list) else None) or value
            return "nested", [_element(item, number, name) for number, item in enumerate(value)], ()
        bits = _bits(value)
        if bits is not None:
            return bits
        unfit = InvalidInputError(f"input `{name}`: a {type(value).__name__} cannot be made an array: {error.args[0] if error.args else error}")
        unfit.hint = getattr(error, "hint", None)
        raise unfit from error
    dtype = array.dtype
    if dtype.kind in "UTOS":
        kind, elements = _texts(array, name)
        return kind, elements, array.shape
    if dtype.kind in "iub" or (dtype.kind == "f" and dtype.itemsize in (2, 4, 8)) or (dtype.kind == "c" and dtype.itemsize in (8, 16)):
        return "array", np.asarray(array, dtype=dtype.newbyteorder("="), order="C"), array.shape
    if dtype.name in BITS:
        return "array", _contiguous(array), array.shape
    refused = InvalidInputError(f"input `{name}`: cartons have no tensors of dtype {dtype}")
    refused.hint = _hint(dtype)
    raise refused


def _contiguous(array: np.ndarray) -> np.ndarray:
    # `np.ascontiguousarray` would give a scalar a dimension.
    return np.asarray(array, order="C")


def _bits(value: Any) -> tuple[str, np.ndarray, tuple[int, ...]] | None:
    """The floats that NumPy lacks, of a value whose array it therefore does not make; None for other values."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        name = str(value.dtype).partition(".")[2]
        if name not in BITS or value.requires_grad or value.layout is not torch.strided:
            return None
        try:
            array = value.view(getattr(torch, BITS[name].name, torch.int16)).numpy().view(BITS[name])
        except _REFUSALS:
            return None
        return name, _contiguous(array), array.shape
    if not hasattr(value, "__dlpack__") or hasattr(value, "__array__") or hasattr(value, "__arrow_c_array__"):
        return None
    try:
        try:
            capsule = value.__dlpack__(max_version=(1, 1))
        except TypeError:
            capsule = value.__dlpack__()
        name, array = _carton.from_dlpack(capsule)
    except _REFUSALS:
        return None
    return (name, array, array.shape) if name in BITS else None


def _hint(dtype: np.dtype[Any]) -> str | None:
    """How an array of a dtype that cartons lack is passed. No cast that changes what the values mean."""
    if dtype.name in ("int2", "int4", "uint2", "uint4"):
        return f"pass integers of a byte: array.astype(numpy.{dtype.name.rstrip('24')}8)"
    if dtype.name.startswith(("float4", "float6", "float8")):
        return "convert it, which is exact: array.astype(numpy.float32)"
    if dtype.kind == "f":
        return "round it: array.astype(numpy.float64)"
    if dtype.names is not None:
        return "pass each of its fields as an input"
    hints = {
        "c": "round it: array.astype(numpy.complex128)",
        "M": f"pass the integers that the model takes for dates: array.astype(numpy.int64) counts in the unit of {dtype}",
        "m": f"pass the integers that the model takes for durations: array.astype(numpy.int64) counts in the unit of {dtype}",
    }
    return hints.get(dtype.kind)


def _array(value: Any) -> np.ndarray:
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise ValueError("it has masked elements: use array.filled(value)")
    if isinstance(value, np.ndarray):
        return np.asarray(value)
    if _tables.is_of_pandas(value):
        found = _tables.array(value)
        if found is not None:
            return found
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
    if is_arrow and array.dtype == object and not (array.size and isinstance(array.flat[0], (str, bytes))):
        # Lists of Arrow, whose `__array__` has no dimensions for them. Columns of pandas need pyarrow for theirs.
        with contextlib.suppress(ImportError):
            return _carton.from_arrow(value)
    if array.dtype.kind in "US" and isinstance(value, (list, tuple)):
        # NumPy makes strings of the numbers beside them, and drops zeros at the end of bytes.
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


def _texts(array: np.ndarray, name: str) -> tuple[str, list[Any]]:
    """The strings of an array, or its bytes, in a flat list."""
    elements = array.ravel().tolist()
    kind: type = bytes if elements and isinstance(elements[0], bytes) or array.dtype.kind == "S" else str
    others = [item for item in elements if not isinstance(item, kind)]
    if others:
        # Numbers are objects only if they are too large, or among other objects.
        other = next((item for item in others if not isinstance(item, (int, float))), others[0])
        is_large = isinstance(other, int) and other.bit_length() > 63
        found = "an int of more than 64 bits" if is_large else f"a {type(other).__name__}"
        among = " among bytes" if kind is bytes else ""
        raise InvalidInputError(f"input `{name}`: expected numbers, strings or bytes alone, found {found}{among}")
    return ("bytes", [bytes(item) for item in elements]) if kind is bytes else ("strings", elements)


def strings(elements: list[Any], shape: tuple[int, ...]) -> np.ndarray:
    """Makes an array of `str` or `bytes` objects."""
    array = np.empty(len(elements), dtype=object)
    array[:] = elements
    array = array.reshape(shape)
    array.flags.writeable = False
    return array
