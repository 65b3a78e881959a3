"""Arrays as Arrow arrays, for libraries that know the Arrow PyCapsule interface."""

from __future__ import annotations

from typing import Any, Mapping

import numpy as np

from . import _carton, _convert
from ._errors import InvalidInputError


def arrow(value: Any) -> _carton.ArrowArray:
    """Makes an Arrow array of an output, without pyarrow: for `pyarrow.array`, `polars.Series` and others with the PyCapsule interface.

    A tensor of shape `[n, …]` becomes an array of `n` elements; further dimensions become nested fixed-size lists. A scalar becomes one
    element. Numbers in C order are not copied, and stay valid when the model is closed. Strings become `utf8`, bytes `binary`, booleans
    `bool`, and `float16` becomes `halffloat`. `bfloat16` and the floats of 8 bits become `float`, which is exact.

    Args:
        value: An array, or anything that is an input; or a dict of them with one number of rows, such as all outputs of a call. A dict
            becomes a struct array, of which `pyarrow.record_batch` and `polars.DataFrame` make a table.

    Raises:
        InvalidInputError: The value is complex or a nested tensor, or a dict whose arrays have different lengths.

        >>> import pyarrow
        >>> output = np.zeros((3, 10), np.float32)
        >>> pyarrow.array(carton.arrow(output)).type
        FixedSizeListType(fixed_size_list<item: float>[10])
        >>> pyarrow.record_batch(carton.arrow({"probabilities": output})).num_rows
        3
    """
    if isinstance(value, Mapping):
        return _carton.arrow_struct([str(name) for name in value], [array(one, str(name)) for name, one in value.items()])
    return array(value, "value")


def array(value: Any, name: str) -> _carton.ArrowArray:
    """Makes an Arrow array of one value, which errors call `name`."""
    kind, plain, shape = _convert.plain(value, name)
    if kind == "strings":
        return _carton.arrow_strings(plain, shape)
    if kind == "nested":
        error = InvalidInputError(f"`{name}` is a nested tensor, whose parts have several shapes")
        error.hint = "make an Arrow array of each part"
        raise error
    if kind == "bytes":
        return _carton.arrow_bytes(plain, shape)
    if kind != "array":
        return _carton.arrow_numbers(plain, kind)
    return _carton.arrow_numbers(np.require(plain, requirements=["C", "A"]))
