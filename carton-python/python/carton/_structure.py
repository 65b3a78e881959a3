"""Structured values: tuples, records and lists of tensors as tensors with names, and back (spec/structured-values.md).

Nothing here knows what a tensor is: whatever is no tuple, record, list or None is a leaf, and stays as it is.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Iterable, Mapping, Sequence

import numpy as np

from ._errors import InvalidInputError

MAX_LEVELS = 64
MAX_LEAVES = 100_000

_SCALARS = (str, bytes, bool, int, float, complex, np.generic)


class Nested(list):  # type: ignore[type-arg]
    """The elements of a nested tensor. Other lists may become one tensor."""


def structured(outputs: Mapping[str, Any]) -> dict[str, Any]:
    """Makes the values that a model returned of its outputs: tuples, dicts and lists, where names such as `state.0` say that there were.

    Elements that are all of `.0`, `.1` and so on are a tuple, others a dict; names with `[]` are a list. A NamedTuple or dataclass of the model
    comes back as a dict, and an element that was None is not there. Outputs with other names stay as they are.

    Args:
        outputs: What a call returned, or any dict of leaves.

    Raises:
        InvalidInputError: The names or lengths contradict each other.

        >>> carton.structured({"y": 1, "state.0": 2, "state.1.c": 3})
        {'y': 1, 'state': (2, {'c': 3})}
        >>> carton.structured({"found[].box": ["first", "second"], "found[].score": [0.5, 0.25]})
        {'found': [{'box': 'first', 'score': 0.5}, {'box': 'second', 'score': 0.25}]}
    """
    tops: dict[str, dict[str, Any]] = {}
    for name, leaf in outputs.items():
        tops.setdefault(top_of(name), {})[name] = leaf
    return {top: _value(top, leaves, 0) for top, leaves in tops.items()}


def leaves(value: Any, name: str) -> dict[str, Any]:
    """The leaves of a value by name, which `structured` makes the value of again.

    Tuples, mappings, NamedTuples, dataclasses and lists may be nested. None has no leaf. Calls of a model do the same to their inputs.

    Args:
        value: The value.
        name: Its name, which the names of leaves begin with.

    Raises:
        InvalidInputError: A list has elements of different structure, two leaves have one name, or a key is empty, `#`, or has brackets.

        >>> carton.leaves((1, {"h": 2, "c": None}), "state")
        {'state.0': 1, 'state.1.h': 2}
    """
    return {leaf: list(found) if isinstance(found, Nested) else found for leaf, found in _leaves(value, name, (), 0).items()}


def of_inputs(
    positional: Sequence[Any], named: Mapping[str, Any] | None, declared: Sequence[str] | None
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The inputs of a call, by position or by name, without structure. `declared` are the names of the carton's inputs, in order."""
    names = list(dict.fromkeys(map(top_of, declared or ())))
    below = {top_of(name) for name in declared or () if name != top_of(name)}
    if named:
        record = dict(named)
    elif len(positional) == 1 and (only := record_of(positional[0])) is not None:
        record = dict(positional[0]) if isinstance(positional[0], Mapping) else only
        if len(names) == 1 and below and not {*record} & {*names, *(declared or ())}:
            record = {names[0]: positional[0]}
    elif any(map(is_structured, positional)) or any(name in below and isinstance(value, tuple) for name, value in zip(names, positional)):
        if len(positional) > len(names):
            raise InvalidInputError(f"{len(positional)} inputs, and the carton declares {len(names)}: pass structured inputs by name")
        record = dict(zip(names, positional))
    else:
        return tuple(positional), {}
    found: dict[str, Any] = {}
    for name, value in record.items():
        is_leaf = name in (declared or ())
        parts = _leaves(value, name, declared or (), 0) if not is_leaf and (name in below or is_structured(value)) else {name: value}
        _add(found, parts)
    return (), found


def top_of(name: str) -> str:
    """The name of the value that a leaf is part of."""
    return name[: min((end for end in (name.find(".", 1), name.find("[", 1)) if end > 0), default=len(name))]


def record_of(value: Any) -> dict[str, Any] | None:
    """The entries of a mapping, NamedTuple or dataclass by name. None for other values."""
    if isinstance(value, type) or hasattr(value, "__array__") or hasattr(value, "__dlpack__"):
        return None
    if isinstance(value, Mapping):
        return {str(key): entry for key, entry in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return dict(zip(value._fields, value))
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return None


def is_structured(value: Any) -> bool:
    """Whether a value is more than one tensor whatever the carton declares. Tuples and lists of numbers are a tensor."""
    if record_of(value) is not None:
        return True
    if isinstance(value, tuple):
        return any(_is_array(element) or is_structured(element) for element in value)
    return isinstance(value, list) and not isinstance(value, Nested) and any(
        isinstance(element, (dict, tuple, list)) and is_structured(element) or record_of(element) is not None for element in value
    )


def _is_array(value: Any) -> bool:
    return not isinstance(value, np.generic) and (hasattr(value, "__array__") or hasattr(value, "__dlpack__"))


def _leaves(value: Any, name: str, declared: Sequence[str], level: int) -> dict[str, Any]:
    if level > MAX_LEVELS:
        raise InvalidInputError(f"`{name[:100]}` has more than {MAX_LEVELS} levels")
    found: dict[str, Any] = {}
    if value is None:
        return found
    entries = record_of(value)
    if entries is None and isinstance(value, tuple):
        entries = {str(number): element for number, element in enumerate(value)}
    if entries is not None:
        if len(entries) < (len(value) if isinstance(value, Mapping) else 0):
            raise InvalidInputError(f"`{name}` has two entries with one name")
        for key, entry in entries.items():
            if key in ("", "#") or "[" in key or "]" in key:
                raise InvalidInputError(f"`{name}` has an entry `{key}`, and no leaf has such a name")
            _add(found, _leaves(entry, f"{name}.{key}", declared, level + 1))
        return found
    if not isinstance(value, list) or value and all(isinstance(element, _SCALARS) for element in value):
        return {name: value}
    if not value:
        names = [leaf for leaf in declared if leaf.startswith(f"{name}[]")]
        return _empty(names) if names else {name: Nested()}
    if all(_is_tensor(element) for element in value):
        return {name: Nested(value)}
    inner = _of_elements(name, declared)
    elements = [_leaves(element, f"{name}[]", inner, level + 1) for element in value]
    return _joined(name, elements)


def _is_tensor(value: Any) -> bool:
    if isinstance(value, list):
        return bool(value) and all(isinstance(element, _SCALARS) for element in value)
    return value is not None and not isinstance(value, tuple) and record_of(value) is None


def _empty(names: Iterable[str]) -> dict[str, Any]:
    """The leaves of an empty list whose elements would have these."""
    return {name: np.zeros(0, np.int64) if name.endswith(".#") else Nested() for name in names}


def _of_elements(name: str, declared: Sequence[str]) -> list[str]:
    """The names of the leaves that one element of a list has, of those that the list has."""
    below = [leaf for leaf in declared if leaf.startswith(f"{name}[]")]
    lists = [leaf[:-2] for leaf in below if leaf.endswith("[]") and len(leaf) > len(name) + 2]
    lengths = {f"{inner}.#" for inner in lists}
    return [*lists, *(leaf for leaf in below if not leaf.endswith("[]") and leaf not in lengths)]


def _joined(name: str, elements: list[dict[str, Any]]) -> dict[str, Any]:
    """The leaves of a list, of those of its elements."""
    names = list(dict.fromkeys(leaf for element in elements for leaf in element))
    for element in elements:
        # An empty list has the leaves that the lists in its place have in other elements.
        for leaf in [leaf for leaf, found in element.items() if isinstance(found, Nested) and not found]:
            others = [other for other in names if other.startswith((f"{leaf}[", f"{leaf}.#"))]
            if others:
                del element[leaf]
                element.update(_empty(others))
    names = list(elements[0])
    for number, element in enumerate(elements):
        if element.keys() != elements[0].keys():
            other = sorted(element.keys() ^ elements[0].keys())[0]
            raise InvalidInputError(f"the elements of the list `{name}` have different leaves: 0 and {number} differ in `{other}`")
    found: dict[str, Any] = {}
    for leaf in names:
        parts = [element[leaf] for element in elements]
        are_nested = {isinstance(part, Nested) for part in parts}
        if len(are_nested) > 1:
            raise InvalidInputError(f"the elements of the list `{name}` have both tensors and lists of them as `{leaf}`")
        if are_nested == {True}:
            _add(found, {f"{leaf}[]": Nested(item for part in parts for item in part)})
            _add(found, {f"{leaf}.#": np.array([len(part) for part in parts], np.int64)})
        else:
            _add(found, {leaf: Nested(parts)})
    return found


def _add(found: dict[str, Any], more: Mapping[str, Any]) -> None:
    for name, leaf in more.items():
        if name in found:
            raise InvalidInputError(f"two leaves have the name `{name}`")
        found[name] = leaf
    if len(found) > MAX_LEAVES:
        raise InvalidInputError(f"a value has more than {MAX_LEAVES} leaves")


def _value(name: str, leaves: Mapping[str, Any], level: int) -> Any:
    """The value with this name, of the leaves whose names begin with it."""
    if level > MAX_LEVELS:
        raise InvalidInputError(f"`{name[:100]}` has more than {MAX_LEVELS} levels")
    if leaves.keys() == {name}:
        return leaves[name]
    if name in leaves:
        raise InvalidInputError(f"`{name}` is a tensor, and there are leaves below it")
    if all(leaf.startswith(f"{name}[]") for leaf in leaves):
        return _list(name, leaves, level)
    keys: dict[str, dict[str, Any]] = {}
    for leaf, found in leaves.items():
        if not leaf.startswith(f"{name}."):
            raise InvalidInputError(f"`{name}` is both a list and a record: see `{leaf}`")
        key = top_of(leaf[len(name) + 1 :])
        keys.setdefault(key, {})[leaf] = found
    values = {key: _value(f"{name}.{key}", below, level + 1) for key, below in keys.items()}
    numbers = [str(number) for number in range(len(values))]
    return tuple(values[number] for number in numbers) if values.keys() == {*numbers} else values


def _list(name: str, leaves: Mapping[str, Any], level: int) -> list[Any]:
    of_elements: dict[str, Sequence[Any]] = {}
    lengths: set[str] = set()
    for leaf, found in leaves.items():
        # The name of a list of tensors that each element has.
        inner = leaf[:-2] if leaf.endswith("[]") else None
        if inner is None or len(inner) < len(name) + 2:
            continue
        counts = leaves.get(f"{inner}.#")
        if counts is None:
            raise InvalidInputError(f"`{leaf}` needs `{inner}.#`, the lengths of the lists")
        lengths.add(f"{inner}.#")
        ends = np.cumsum(np.asarray(counts, np.int64)).tolist()
        if min(np.asarray(counts).tolist(), default=0) < 0 or (ends[-1] if ends else 0) != len(found):
            raise InvalidInputError(f"`{leaf}` has {len(found)} elements, which are not those of the lengths `{inner}.#`")
        of_elements[inner] = [list(found[start:end]) for start, end in zip([0, *ends], ends)]
    for leaf, found in leaves.items():
        if leaf not in lengths and not leaf.endswith("[]"):
            of_elements[leaf] = found
    counts_found = {len(found) for found in of_elements.values()}
    if len(counts_found) != 1:
        raise InvalidInputError(f"the leaves of the list `{name}` have different numbers of elements: {sorted(counts_found)}")
    return [
        _value(f"{name}[]", {leaf: found[number] for leaf, found in of_elements.items()}, level + 1)
        for number in range(counts_found.pop())
    ]
