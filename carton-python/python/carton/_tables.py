"""Columns of pandas as arrays: nullable columns and categories, whose missing values NumPy has no place for."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ._errors import InvalidInputError


def is_of_pandas(value: Any) -> bool:
    """Whether it is a column, an index, an array or a table of pandas. Only a program that has imported pandas has one."""
    pandas = sys.modules.get("pandas")
    kinds = ("Series", "Index", "DataFrame")
    if pandas is None:
        return False
    return isinstance(value, (*(getattr(pandas, kind) for kind in kinds), pandas.api.extensions.ExtensionArray))


def array(value: Any) -> np.ndarray | None:
    """The array of a column or table with values of pandas' own dtypes. None where NumPy makes the right one.

    Raises:
        InvalidInputError: A value is missing, and the numbers are no floats.
    """
    if hasattr(value, "columns"):
        columns = [value.iloc[:, position] for position in range(value.shape[1])]
        arrays = [_column(column) for column in columns]
        if all(found is None for found in arrays):
            return None
        parts = [np.asarray(column) if found is None else found for column, found in zip(columns, arrays)]
        return np.stack(parts, axis=1)
    return _column(value)


def _column(column: Any) -> np.ndarray | None:
    dtype = column.dtype
    if isinstance(dtype, np.dtype):
        return None
    if hasattr(dtype, "categories"):
        return _category_values(column)
    numpy = getattr(dtype, "numpy_dtype", None)
    if isinstance(numpy, np.dtype) and numpy.kind in "iufb":
        is_missing = np.asarray(column.isna())
        _refuse_missing(column, is_missing & (numpy.kind != "f"))
        # Without missing values there is nothing to fill.
        filled: np.ndarray = column.to_numpy(dtype=numpy, na_value=np.nan) if is_missing.any() else column.to_numpy(dtype=numpy)
        return filled
    if getattr(dtype, "type", None) in (str, bytes):
        _refuse_missing(column, np.asarray(column.isna()))
        texts: np.ndarray = column.to_numpy(dtype=object)
        return texts
    return None


def _category_values(column: Any) -> np.ndarray:
    """The value of the category of each row."""
    array = getattr(column, "array", column)
    categories = array.categories
    found = _column(categories)
    values: np.ndarray = np.asarray(categories) if found is None else found
    codes = np.asarray(array.codes)
    is_missing = codes < 0
    _refuse_missing(column, is_missing & (values.dtype.kind != "f"))
    if not len(values):
        return np.full(len(codes), np.nan, values.dtype)
    of_rows: np.ndarray = values[np.maximum(codes, 0)]
    if is_missing.any():
        of_rows[is_missing] = np.nan
    return of_rows


def _refuse_missing(column: Any, is_missing: np.ndarray) -> None:
    if not is_missing.any():
        return
    row, count = int(np.flatnonzero(is_missing)[0]), int(is_missing.sum())
    name = getattr(column, "name", None)
    title = "it" if name is None else f"column `{name}`"
    error = InvalidInputError(f"{title} has {count} missing value{'s' if count > 1 else ''}, the first in row {row}")
    error.hint = "fill them, as by column.fillna(value), or drop their rows"
    raise error
