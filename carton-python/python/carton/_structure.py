"""Structured values: tuples, records and lists of tensors as tensors with names, and back (spec/structured-values.md).

Nothing here knows what a tensor is: whatever is no tuple, record, list or None is a leaf, and stays as it is.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any, Iterable, Mapping, Sequence

import numpy as np

from ._errors import InvalidInputError

MAX_LEVELS = 64
MAX_LEAVES = 100_000

_SCALARS = (str, bytes, bytearray, bool, int, float, complex, np.generic)


class Nested(list):  # type: ignore[type-arg]
    """The elements of a nested tensor. Other lists may become one tensor."""


def structured(outputs: Mapping[str, Any]) -> dict[str, Any]:
    """Makes the values that a model returned of its outputs: tuples, dicts and lists, where names such as `state.0` say that there were.

    Elements that are all of `.0`, `.1` and so on are a tuple, others a dict; names with `[]` are a list. A NamedTuple or dataclass of the model
    comes back as a dict, and an element that was None is not there. Outputs with other names stay as they are, also those whose names continue that of
    another, such as `output` and `output.1`.

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
        top = top_of(name)
        tops.setdefault(name if top in outputs else top, {})[name] = leaf
    return {top: _value(top, leaves, 0) for top, leaves in tops.items()}


def leaves(value: Any, name: str) -> dict[str, Any]:
    """The leaves of a value by name, which `structured` makes the value of again. Nested tensors are lists, also of arrays of one shape.

    Tuples, mappings, NamedTuples, dataclasses and lists may be nested. None has no leaf. Calls of a model do the same to their inputs.

    Args:
        value: The value.
        name: Its name, which the names of leaves begin with.

    Raises:
        InvalidInputError: A list has elements of different structure, two leaves have one name, or a key is empty, `#`, or has brackets.

        >>> carton.leaves((1, {"h": 2, "c": None}), "state")
        {'state.0': 1, 'state.1.h': 2}
    """
    return _leaves(value, name, NOTHING_DECLARED, 0)


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
        record = _by_position(positional, list(declared or ()), below)
    else:
        return tuple(positional), {}
    found: dict[str, Any] = {}
    declared_leaves = Declared(declared or ())
    for name, value in record.items():
        is_leaf = name in declared_leaves
        parts = _leaves(value, name, declared_leaves, 0) if not is_leaf and (name in below or is_structured(value)) else {name: value}
        _add(found, parts)
    return (), found


def _by_position(positional: Sequence[Any], declared: list[str], below: set[str]) -> dict[str, Any]:
    """Inputs by name: a structured value has the name of the value that the next declared leaf is part of, another that of the leaf."""
    record: dict[str, Any] = {}
    left = list(declared)
    for value in positional:
        if not left:
            raise InvalidInputError(f"{len(positional)} inputs, and the carton declares {len(record)}: pass structured inputs by name")
        name = left.pop(0)
        top = top_of(name)
        is_list = isinstance(value, list) and name.startswith(f"{top}[]")
        if top not in declared and top in below and (is_structured(value) or is_list or isinstance(value, tuple)):
            name = top
            left = [other for other in left if top_of(other) != top]
        if name in record:
            raise InvalidInputError(f"the inputs by position give `{name}` twice: pass structured inputs by name")
        record[name] = value
    return record


def top_of(name: str) -> str:
    """The name of the value that a leaf is part of."""
    return name[: min((end for end in (name.find(".", 1), name.find("[]", 1)) if end > 0), default=len(name))]


def is_record(value: Any) -> bool:
    """Whether a value is a mapping, a NamedTuple or a dataclass."""
    if isinstance(value, type) or hasattr(value, "__array__") or hasattr(value, "__dlpack__"):
        return False
    return isinstance(value, Mapping) or isinstance(value, tuple) and hasattr(value, "_fields") or dataclasses.is_dataclass(value)


def record_of(value: Any) -> dict[str, Any] | None:
    """The entries of a mapping, NamedTuple or dataclass by name. None for other values.

    Raises:
        InvalidInputError: A key is no text, number or boolean, or two keys have one text.
    """
    if not is_record(value):
        return None
    if isinstance(value, Mapping):
        entries = {_text_of(key): entry for key, entry in value.items()}
        if len(entries) < len(value):
            raise InvalidInputError(f"a dict has two entries with one name, of {', '.join(entries)[:100]}")
        return entries
    if isinstance(value, tuple):
        return dict(zip(value._fields, value))  # type: ignore[attr-defined]
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def _text_of(key: Any) -> str:
    if isinstance(key, (str, int, float, np.integer, np.floating, np.bool_)):
        return str(key)
    raise InvalidInputError(f"a dict has the key {key!r}, which is no text, number or boolean")


def _is_key(text: str) -> bool:
    """Whether a text is a part of a name."""
    return text != "" and "[" not in text and "]" not in text and not any(part.startswith("#") for part in text.split("."))


def is_structured(value: Any, level: int = 0) -> bool:
    """Whether a value is more than one tensor, or a list of tensors, whatever the carton declares. Tuples and lists of numbers are a tensor."""
    if is_record(value) or level > MAX_LEVELS:
        return True
    if isinstance(value, tuple):
        return any(element is None or _is_array(element) or is_structured(element, level + 1) for element in value)
    return isinstance(value, list) and not isinstance(value, Nested) and any(
        is_record(element)
        or isinstance(element, list) and any(map(_is_array, element))
        or isinstance(element, (tuple, list)) and is_structured(element, level + 1)
        for element in value
    )


def _is_array(value: Any) -> bool:
    return not isinstance(value, np.generic) and (hasattr(value, "__array__") or hasattr(value, "__dlpack__"))


class Declared:
    """The names of leaves that a carton declares, or those of them that an element of a list has."""

    def __init__(self, names: Iterable[str], tensors: Iterable[str] | None = None) -> None:
        self.names = tuple(names)
        self.are_at_top = tensors is None
        #: Those that are one tensor, or a list of tensors at the top.
        self._tensors = frozenset(self.names if tensors is None else tensors)

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def below(self, name: str) -> list[str]:
        """Those of the elements of a list."""
        return [leaf for leaf in self.names if leaf.startswith(f"{name}[]")]

    def empty(self, name: str) -> dict[str, Any]:
        """The leaves of an empty list whose elements would have these."""
        return {
            leaf: np.zeros(0, np.int64) if leaf.endswith(".#") and leaf in self._tensors else Nested() for leaf in self.below(name)
        }

    def of_elements(self, name: str) -> Declared:
        """The names of the leaves that one element of a list has, of those that the list has."""
        below = self.below(name)
        lists = [leaf[:-2] for leaf in below if leaf.endswith("[]") and len(leaf) > len(name) + 2]
        lengths = {f"{inner}.#" for inner in lists}
        tensors = [leaf for leaf in below if not leaf.endswith("[]") and leaf not in lengths]
        return Declared([*lists, *tensors], tensors)


NOTHING_DECLARED = Declared(())


class _Empty:
    """An element of a nested tensor: an empty list beside lists of numbers, whose dtype it gets."""


_EMPTY = _Empty()


def _leaves(value: Any, name: str, declared: Declared, level: int) -> dict[str, Any]:
    if level > MAX_LEVELS:
        raise InvalidInputError(f"`{name[:100]}` has more than {MAX_LEVELS} levels")
    found: dict[str, Any] = {}
    if value is None:
        return found
    try:
        entries = record_of(value)
    except InvalidInputError as error:
        raise InvalidInputError(f"`{name}`: {error}") from None
    if entries is None and isinstance(value, tuple):
        if name in declared:
            # Declared as one tensor, such as a shape.
            return {name: Nested(value) if any(map(_is_array, value)) else value}
        entries = {str(number): element for number, element in enumerate(value)}
    if entries is not None:
        for key, entry in entries.items():
            if not _is_key(key):
                raise InvalidInputError(f"`{name}` has an entry `{key}`, and no leaf has such a name")
            _add(found, _leaves(entry, f"{name}.{key}", declared, level + 1))
        return found
    if not isinstance(value, list):
        return {name: value}
    if name in declared and (value or not declared.are_at_top):
        return {name: value if not value or _lengths_of(value, 0) is not None else rows_of(value) or value}
    if not value:
        return declared.empty(name) or {name: Nested()}
    if _lengths_of(value, level) is not None:
        return {name: value}
    rows = rows_of(value)
    if rows is not None:
        return {name: rows}
    if any(isinstance(element, _SCALARS) for element in value):
        raise InvalidInputError(f"the list `{name}` holds numbers or texts, and what is neither")
    inner = declared.of_elements(name)
    elements = [_leaves(element, f"{name}[]", inner, level + 1) for element in value]
    return _joined(name, elements)


def _lengths_of(value: list[Any], level: int) -> tuple[int, ...] | None:
    """The lengths of regular lists of numbers or texts, outermost first; None for other lists."""
    if not value or level > MAX_LEVELS or isinstance(value, Nested):
        return None
    if all(isinstance(element, _SCALARS) for element in value):
        return (len(value),)
    if not all(isinstance(element, list) for element in value):
        return None
    first = _lengths_of(value[0], level + 1)
    if first is None or any(_lengths_of(element, level + 1) != first for element in value[1:]):
        return None
    return (len(value), *first)


def rows_of(value: list[Any]) -> Nested | None:
    """The elements of a list of tensors as a nested tensor, also those of irregular lists of numbers or texts. None for other lists."""
    has_rows = any(isinstance(element, list) and element for element in value)
    if has_rows and any(isinstance(element, _SCALARS) for element in value):
        return None
    # An empty list beside lists of numbers is one of them.
    if not all(_is_tensor(element) or has_rows and isinstance(element, list) and not element for element in value):
        return None
    return _filled_rows([_EMPTY if isinstance(element, list) and not element else element for element in value])


def _filled_rows(parts: list[Any]) -> Nested:
    """A nested tensor whose empty elements have the dtype of the others."""
    if not any(part is _EMPTY for part in parts):
        return Nested(parts)
    other = next((part for part in parts if part is not _EMPTY), [0.0])
    empty = np.zeros(0, np.asarray(other).dtype)
    return Nested(empty if part is _EMPTY else part for part in parts)


def _is_tensor(value: Any) -> bool:
    if isinstance(value, list):
        return _lengths_of(value, 0) is not None
    return value is not None and not isinstance(value, tuple) and not is_record(value)


def _joined(name: str, elements: list[dict[str, Any]]) -> dict[str, Any]:
    """The leaves of a list, of those of its elements."""
    names = list(dict.fromkeys(leaf for element in elements for leaf in element))
    empty = dict.fromkeys(leaf for element in elements for leaf, found in element.items() if isinstance(found, Nested) and not found)
    for leaf in empty:
        # An empty list has the leaves that the lists in its place have in other elements.
        others = {other: found for element in elements for other, found in element.items() if other.startswith(f"{leaf}[]")}
        for element in elements if others else ():
            if leaf in element and not element[leaf]:
                del element[leaf]
                element.update({other: Nested() if isinstance(found, Nested) else np.zeros(0, np.int64) for other, found in others.items()})
    names = list(elements[0])
    for number, element in enumerate(elements):
        if element.keys() != elements[0].keys():
            other = sorted(element.keys() ^ elements[0].keys())[0]
            raise InvalidInputError(f"the elements of the list `{name}` have different leaves: 0 and {number} differ in `{other}`")
    if not names:
        raise InvalidInputError(f"the list `{name}` has {len(elements)} elements, and no tensor in any of them")
    found: dict[str, Any] = {}
    for leaf in names:
        parts = [element[leaf] for element in elements]
        are_nested = [isinstance(part, Nested) for part in parts]
        if all(are_nested):
            _add(found, {f"{leaf}[]": Nested(item for part in parts for item in part)})
            _add(found, {f"{leaf}.#": np.array([len(part) for part in parts], np.int64)})
            continue
        are_rows = leaf != f"{name}[]" and all(isinstance(part, list) and not (part and isinstance(part, Nested)) for part in parts)
        if any(are_nested) and not are_rows:
            raise InvalidInputError(f"the elements of the list `{name}` have both tensors and lists of them as `{leaf}`")
        # An empty list among lists of numbers.
        _add(found, {leaf: _filled_rows([_EMPTY if isinstance(part, list) and not part else part for part in parts])})
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
        key = _next_key(leaf[len(name) + 1 :])
        if not _is_key(key):
            raise InvalidInputError(f"`{leaf}` is no part of a value: a key is not empty, is not `#`, and contains neither `[` nor `]`")
        keys.setdefault(key, {})[leaf] = found
    values = {key: _value(f"{name}.{key}", below, level + 1) for key, below in keys.items()}
    numbers = [str(number) for number in range(len(values))]
    return tuple(values[number] for number in numbers) if values.keys() == {*numbers} else values


def _next_key(rest: str) -> str:
    return rest[: min((end for end in (rest.find("."), rest.find("[]")) if end >= 0), default=len(rest))]


def _list(name: str, leaves: Mapping[str, Any], level: int) -> list[Any]:
    if f"{name}[]" in leaves:
        raise InvalidInputError(f"`{name}[]` is the name of the elements of a list, and of no tensor")
    lengths = {leaf[:-2]: counts for leaf, found in leaves.items() if leaf.endswith(".#") and (counts := _counts(found)) is not None}
    for leaf, found in leaves.items():
        if not isinstance(found, list) and not (leaf.endswith(".#") and leaf[:-2] in lengths):
            expected = "int64 of one dimension" if leaf.endswith(".#") else "a nested tensor, which is a list"
            raise InvalidInputError(f"`{leaf}` is of the elements of a list, and is not {expected}")
    of_elements: dict[str, Sequence[Any]] = {}
    used: set[str] = set()
    for leaf, found in leaves.items():
        if leaf.endswith(".#"):
            if not any(other.startswith(f"{leaf[:-2]}[]") for other in leaves):
                raise _no_lists(leaf[:-2])
            if leaf[:-2] in lengths:
                continue
        if not leaf.endswith("[]"):
            of_elements[leaf] = found
            continue
        inner = leaf[:-2]
        if inner not in lengths:
            raise InvalidInputError(f"`{leaf}` needs `{inner}.#`, the lengths of the lists")
        counts = lengths[inner]
        used.add(inner)
        ends = list(itertools.accumulate(counts))
        if min(counts, default=0) < 0 or sum(counts) != len(found):
            raise InvalidInputError(f"`{leaf}` has {len(found)} elements, which are not those of the lengths `{inner}.#`")
        of_elements[inner] = [list(found[start:end]) for start, end in zip([0, *ends], ends)]
    # In a list without elements, lengths that would be a tensor in each element are none at all.
    is_empty = bool(of_elements) and not any(of_elements.values())
    for inner, counts in lengths.items():
        if inner not in used and (counts or not is_empty):
            raise _no_lists(inner)
    counts_found = {len(found) for found in of_elements.values()}
    if len(counts_found) != 1:
        raise InvalidInputError(f"the leaves of the list `{name}` have different numbers of elements: {sorted(counts_found)}")
    return [
        _value(f"{name}[]", {leaf: found[number] for leaf, found in of_elements.items()}, level + 1)
        for number in range(counts_found.pop())
    ]


def _counts(found: Any) -> list[int] | None:
    """The lengths of lists. None for what is none, such as lengths of lists inside each element."""
    if isinstance(found, list) and not (found and all(isinstance(count, int) for count in found)) or isinstance(found, Nested):
        return None
    array = np.asarray(found)
    return array.tolist() if array.ndim == 1 and array.dtype.kind in "iu" else None


def _no_lists(name: str) -> InvalidInputError:
    return InvalidInputError(f"`{name}.#` has the lengths of lists, and there is no `{name}[]`")
