"""The columns that become inputs, and that outputs become, checked before there are rows: for Spark and Ray, which use `Model.map`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Mapping, Sequence

from ._errors import InvalidInputError, SignatureError

if TYPE_CHECKING:
    from . import _carton


@dataclass(frozen=True)
class Column:
    """An input or output of a model, and the column that it is."""

    #: The name of the input or output.
    name: str
    dtype: str
    #: The shape of one row: sizes, and None for any. None as a whole where the carton does not say the rank.
    row_shape: tuple[int | None, ...] | None
    column: str


def of_inputs(specs: Sequence[_carton.TensorSpec], columns: Mapping[str, str] | None) -> list[Column]:
    """The inputs that a mapping from inputs to columns names; without one each required input is the column of its name.

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


def mapping(columns: Sequence[Column]) -> dict[str, str]:
    """The column of each input or output, as `Model.map` takes them."""
    return {column.name: column.column for column in columns}


def _check_names(kind: str, chosen: Mapping[str, str], specs: Sequence[_carton.TensorSpec]) -> None:
    names = [spec.name for spec in specs]
    for name in chosen:
        if name not in names:
            raise SignatureError(f"the carton has no {kind} `{name}`; it has {', '.join(f'`{other}`' for other in names) or 'none'}")


def _column(kind: str, spec: _carton.TensorSpec, column: str) -> Column:
    shape = spec.shape
    if isinstance(shape, str):
        return Column(spec.name, spec.dtype, None, column)
    if not shape:
        raise SignatureError(f"{kind} `{spec.name}` is a scalar: it has no dimension for rows")
    return Column(spec.name, spec.dtype, tuple(size if isinstance(size, int) else None for size in shape[1:]), column)
