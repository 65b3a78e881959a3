"""The leaves of structured values, and values of leaves (spec/structured-values.md).

A structured value is made of dicts, tuples, lists, NamedTuples and dataclasses in any nesting; its leaves are tensors, and lists of tensors.
"""

from collections.abc import Mapping

from carton_runner.arrays import check_list
from carton_runner.errors import RunnerError

_MAX_DEPTH = 64
_MAX_LEAVES = 100_000


class Nested(list):
    """A leaf that is a nested tensor: its elements, each a tensor or :data:`EMPTY`."""


#: An element of a nested tensor: a list without elements among lists of numbers or texts, whose dtype it gets.
EMPTY = object()


class _Declared:
    """The names of leaves that a signature declares."""

    def __init__(self, names, have_dimensions):
        #: The names in the model, in order.
        self.names = names
        #: Those that are certainly no nested tensors.
        self.have_dimensions = frozenset(have_dimensions)
        self._known = frozenset(names)

    def __contains__(self, name):
        return name in self._known

    def below(self, prefix):
        """The declared names that begin with a prefix."""
        return [name for name in self.names if name.startswith(prefix)]

    def of_elements(self, name):
        """The names that one element of a list has, of those that the list has."""
        below = self.below(name + "[]")
        lists = [one[:-2] for one in below if one.endswith("[]") and len(one) > len(name) + 2]
        lengths = {one + ".#" for one in lists}
        tensors = [one for one in below if not one.endswith("[]") and one not in lengths]
        return _Declared([*lists, *tensors], tensors)


class DeclaredOutputs(_Declared):
    """The declared outputs of a model."""

    def __init__(self, specs):
        #: The dtypes by the names of the carton.
        self.dtypes = {spec["name"]: spec["dtype"] for spec in specs}
        inside = [spec.get("internal_name") or spec["name"] for spec in specs]
        #: The names of the carton by those in the model, where they differ.
        self.renamed = {name: spec["name"] for name, spec in zip(inside, specs) if name != spec["name"]}
        have_dimensions = [name for name, spec in zip(inside, specs) if isinstance(spec.get("shape"), list)]
        super().__init__(list(dict.fromkeys(inside)), have_dimensions)
        #: The names of the values that they are leaves of.
        self.roots = list(dict.fromkeys(root(name) for name in inside))


def root(name):
    """Returns the name of the value that a name below it is a leaf of; the name itself if it is below none."""
    for index, character in enumerate(name):
        if index and (character == "." or name.startswith("[]", index)):
            return name[:index]
    return name


def by_name(result, declared):
    """Returns the values that a model returned by their names: those of a record as it names them, those of a tuple, and a single value,
    by the declared outputs in order, and as ``output_0``, ``output_1``, or ``output``, if none are declared."""
    entries = _entries(result)
    hint = "return a dict of the outputs by name"
    if result is None:
        names = declared.names
        problem = "output `%s` is None" % names[0] if len(names) == 1 else "the model returned None"
        raise RunnerError(problem, hint=hint)
    if isinstance(result, Mapping):
        return dict(entries)
    is_tuple = isinstance(result, tuple) or (isinstance(result, list) and len(declared.roots) > 1)
    if entries is not None and (not isinstance(result, tuple) or hasattr(result, "_fields")):
        fields = dict(entries)
        if not is_tuple or not declared.names or any(name in declared or name in declared.roots for name in fields):
            return fields
    values = tuple(result) if is_tuple else (result,)
    if not declared.names:
        return {"output_%d" % index: value for index, value in enumerate(values)} if is_tuple else {"output": result}
    for names in (declared.roots, declared.names):
        if len(names) == len(values):
            return dict(zip(names, values))
    if len(declared.roots) == 1 and declared.roots != declared.names:
        return {declared.roots[0]: result}
    problem = "the model returned %d outputs, the carton declares %d (%s)"
    raise RunnerError(problem % (len(values), len(declared.names), ", ".join(declared.names)), hint=hint)


# From values to leaves.


def leaves(outputs, declared, numpy):
    """Yields the leaves of all outputs as pairs of a name and a tensor, or of a name and a :class:`Nested`.

    Raises:
        RunnerError: A value has no leaves by the rules.
    """
    flattening = None
    names = set()
    for name, value in outputs.items():
        if type(value) is numpy.ndarray and type(name) is str:
            found = ((name, value),)
        else:
            flattening = flattening or _Flattening(declared, numpy)
            found = flattening.leaves(_top_key(name), value, 0, declared)
        for leaf in found:
            if leaf[0] in names:
                raise RunnerError("two outputs have the name `%s`" % leaf[0], hint="give the keys of the returned dicts other names")
            names.add(leaf[0])
            if len(names) > _MAX_LEAVES:
                raise _too_many()
            yield leaf


def _too_many():
    return RunnerError("the outputs have more than %d tensors" % _MAX_LEAVES, hint="return fewer, larger arrays")


def _entries(value):
    """Returns the entries of a record or a tuple as pairs of a key and a value; ``None`` if the value is neither."""
    if isinstance(value, tuple):
        fields = getattr(value, "_fields", None)
        return list(zip(range(len(value)) if fields is None else fields, value))
    if isinstance(value, Mapping):
        return list(value.items())
    if hasattr(type(value), "__dataclass_fields__") and not hasattr(value, "__array__"):
        import dataclasses

        return [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
    return None


def _text_of(key):
    """Returns a key as a text; ``None`` if it is none, nor a number or boolean of Python or NumPy."""
    if isinstance(key, (str, int, float)):
        return str(key)
    return str(key) if getattr(getattr(key, "dtype", None), "kind", "") in tuple("biuf") else None


def _is_key(text):
    """Whether a text is a part of a name."""
    return bool(text) and not {*"[]"} & {*text} and not any(part.startswith("#") for part in text.split("."))


def _top_key(key):
    text = _text_of(key)
    if text is None:
        raise RunnerError("the names of outputs are text, found %r" % (key,))
    return text


class _Flattening:
    """Finds the leaves of one call."""

    def __init__(self, declared, numpy):
        self._declared = declared
        self._numpy = numpy
        self._plain = (bool, int, float, complex, str, bytes, bytearray, numpy.generic)

    def leaves(self, name, value, depth, declared):
        """Returns the leaves of a value with this name. ``declared`` are those of the names that a signature declares for it."""
        if depth > _MAX_DEPTH:
            raise RunnerError("output `%s…` has more than %d levels" % (name[:100], _MAX_DEPTH), hint="return the tensors by name")
        if value is None:
            return []
        if isinstance(value, list):
            return self._of_list(name, value, depth, declared)
        entries = _entries(value)
        if entries is None:
            return [(name, value)]
        if isinstance(value, tuple) and name in declared:
            # Declared as one tensor, such as a shape.
            return self._declared_list(name, value, declared)
        found = []
        for key, entry in entries:
            found += self.leaves("%s.%s" % (name, self._key(name, key)), entry, depth + 1, declared)
            if len(found) > _MAX_LEAVES:
                raise _too_many()
        return found

    def _key(self, name, key):
        text = _text_of(key)
        if text is None:
            raise RunnerError("output `%s` has the key %r, which is no text" % (name, key))
        if not _is_key(text):
            hint = "a key is not empty, is not `#`, and contains neither `[` nor `]`"
            raise RunnerError("output `%s` has the key %r, which is not a part of a name" % (name, text), hint=hint)
        return text

    def _is_plain(self, value):
        return isinstance(value, self._plain)

    def _is_tensor(self, value):
        if isinstance(value, list):
            return self._lengths_of(value, 0) is not None
        return self._is_plain(value) or not (value is None or _entries(value) is not None)

    def _lengths_of(self, value, depth):
        """Returns the lengths of regular lists of numbers or texts, outermost first; ``None`` for other lists."""
        if not value or depth > _MAX_DEPTH:
            return None
        if all(map(self._is_plain, value)):
            return (len(value),)
        if not all(isinstance(element, list) for element in value):
            return None
        first = self._lengths_of(value[0], depth + 1)
        if first is None or any(self._lengths_of(element, depth + 1) != first for element in value[1:]):
            return None
        return (len(value), *first)

    def _rows(self, value):
        """Returns the elements of a list of tensors as a nested tensor, also those of irregular lists of numbers or texts; ``None`` for other lists."""
        has_rows = any(isinstance(element, list) and element for element in value)
        if has_rows and any(map(self._is_plain, value)):
            return None
        # An empty list beside lists of numbers is one of them.
        are_tensors = all(self._is_tensor(element) or (has_rows and isinstance(element, list) and not element) for element in value)
        return Nested(EMPTY if isinstance(element, list) and not element else element for element in value) if are_tensors else None

    def _declared_list(self, name, value, declared):
        """A list, or a tuple, of which the signature says that it is one tensor, or one nested tensor."""
        is_nested = any(not self._is_plain(element) and hasattr(element, "__array__") for element in value)
        if not value and name not in declared.have_dimensions:
            is_nested = True
        if not is_nested and name not in declared.have_dimensions and isinstance(value, list) and self._lengths_of(value, 0) is None:
            value = self._rows(value) or value
        return [(name, Nested(value) if is_nested else value)]

    def _of_list(self, name, value, depth, declared):
        # In the elements of a list, a declared list is a list like others.
        if name in declared and (declared is self._declared or name in declared.have_dimensions):
            return self._declared_list(name, value, declared)
        if not value:
            return self._of_empty(name, declared)
        if self._lengths_of(value, depth) is not None:
            return [(name, value)]
        rows = self._rows(value)
        if rows is not None:
            return [(name, rows)]
        if any(map(self._is_plain, value)) and not any(_entries(element) for element in value):
            # `Arrays` says what is wrong with it.
            if not name.endswith("[]"):
                return [(name, value)]
            check_list(_without_brackets(name), value)
        if value[0] is None:
            hint = "NaN or an empty array can stand for one that is missing"
            raise RunnerError("output `%s` is a list that holds None" % _without_brackets(name), hint=hint)
        inner = declared.of_elements(name)
        return self._joined(name, [self.leaves(name + "[]", element, depth + 1, inner) for element in value])

    def _of_empty(self, name, declared):
        # In the elements of a list it is known which lengths are nested tensors.
        tensors = None if declared is self._declared else declared.have_dimensions
        empty = [
            (one, self._lengths(()) if one.endswith(".#") and (tensors is None or one in tensors) else Nested())
            for one in declared.below(name + "[]")
        ]
        return empty or [(name, Nested())]

    def _lengths(self, lengths):
        return self._numpy.array(lengths, dtype=self._numpy.int64)

    def _joined(self, name, elements):
        """Joins the leaves of the elements of a list."""
        elements = self._filled([self._by_name(element) for element in elements])
        names = list(elements[0])
        for index, element in enumerate(elements):
            if element.keys() != elements[0].keys():
                one = next(leaf for leaf in (*names, *element) if leaf not in element or leaf not in elements[0])
                has, lacks = (index, 0) if one in element else (0, index)
                problem = "output `%s` is a list whose elements differ: element %d has `%s`, element %d lacks it" % (name, has, one, lacks)
                raise RunnerError(problem, hint="return the same in each element; an empty array can stand for none")
        if not names:
            raise RunnerError("output `%s` is a list of values without tensors" % name)
        found = []
        for one in names:
            if len(found) > _MAX_LEAVES:
                raise _too_many()
            parts = [element[one] for element in elements]
            are_nested = [isinstance(part, Nested) for part in parts]
            if all(are_nested):
                found.append((one + "[]", Nested(element for part in parts for element in part)))
                found.append((one + ".#", self._lengths([len(part) for part in parts])))
                continue
            are_rows = one != name + "[]" and all(isinstance(part, list) and not (part and isinstance(part, Nested)) for part in parts)
            if any(are_nested) and not are_rows:
                problem = "output `%s` is a tensor in some elements of the list `%s`, and a list of tensors in others" % (one, name)
                raise RunnerError(problem, hint="return the same in each element")
            # An empty list among lists of numbers.
            found.append((one, Nested(EMPTY if isinstance(part, list) and not part else part for part in parts)))
        return found

    def _by_name(self, leaves):
        found = dict(leaves)
        if len(found) < len(leaves):
            names = [name for name, _ in leaves]
            name = next(name for name in names if names.count(name) > 1)
            raise RunnerError("two outputs have the name `%s`" % name, hint="give the keys of the returned dicts other names")
        return found

    def _filled(self, elements):
        """The leaves of the elements, where empty lists have the leaves that other lists in their place have."""
        for at in {one: None for element in elements for one, leaf in element.items() if isinstance(leaf, Nested) and not leaf}:
            below = {one: leaf for element in elements for one, leaf in element.items() if one.startswith(at + "[]")}
            if not below:
                continue
            for index, element in enumerate(elements):
                if at in element and not element[at]:
                    empty = {one: Nested() if isinstance(leaf, Nested) else self._lengths(()) for one, leaf in below.items()}
                    elements[index] = {**{one: leaf for one, leaf in element.items() if one != at}, **empty}
        return elements


def _without_brackets(name):
    while name.endswith("[]"):
        name = name[:-2]
    return name


# From leaves to values.


class Natural:
    """What values are made of leaves where no annotation says it. Subclasses are in ``annotated.py``."""

    def entry(self, key):
        """What is made of the leaves below an entry."""
        return self

    def element(self):
        """What is made of the leaves of the elements of a list."""
        return self

    def record(self, name, entries):
        """Makes a tuple or a record of its entries by key. ``name`` is for messages."""
        values = in_order(entries)
        return entries if values is None else tuple(values)

    def items(self, values):
        """Makes a list."""
        return values

    def leaf(self, name, value):
        """Makes what stands for a tensor, or for the list of a nested tensor. ``name`` is for messages."""
        return value


NATURAL = Natural()


def in_order(entries):
    """Returns the values of entries whose keys are the numbers from 0 on, in order; ``None`` if the keys are others."""
    keys = [str(index) for index in range(len(entries))]
    return [entries[key] for key in keys] if all(key in entries for key in keys) else None


def value_of(name, found, wanted=NATURAL, depth=0):
    """Returns the value with this name. ``found`` are its leaves by name: arrays, and lists of arrays for nested tensors. ``wanted`` is a
    :class:`Natural`.

    Raises:
        RunnerError: They are the leaves of no value.
    """
    if depth > _MAX_DEPTH:
        raise RunnerError("input `%s…` has more than %d levels" % (name[:100], _MAX_DEPTH))
    if name in found:
        if len(found) > 1:
            other = next(one for one in found if one != name)
            raise RunnerError("input `%s` is a value of its own, and so is `%s` below it" % (name, other))
        return wanted.leaf(name, found[name])
    elements = {one: leaf for one, leaf in found.items() if one.startswith("[]", len(name))}
    if elements:
        if len(elements) < len(found):
            other = next(one for one in found if one not in elements)
            raise RunnerError("input `%s` is an element of a list, and `%s` is not" % (next(iter(elements)), other))
        return wanted.items([value_of(name + "[]", one, wanted.element(), depth + 1) for one in _elements(name, elements)])
    entries = {}
    for one, leaf in found.items():
        key = _next_key(one, len(name) + 1)
        if not _is_key(key):
            problem = "input `%s` is no part of a value: a key is not empty, is not `#`, and contains neither `[` nor `]`"
            raise RunnerError(problem % one)
        entries.setdefault(key, {})[one] = leaf
    values = {key: value_of("%s.%s" % (name, key), below, wanted.entry(key), depth + 1) for key, below in entries.items()}
    return wanted.record(name, values)


def _next_key(name, start):
    """Returns the part of a name from ``start`` on that is a key."""
    ends = [end for end in (name.find(".", start), name.find("[]", start)) if end >= 0]
    return name[start : min(ends)] if ends else name[start:]


def _elements(name, found):
    """Returns the leaves of each element of a list."""
    if name + "[]" in found:
        raise RunnerError("input `%s[]` is the name of the elements of a list, and of no tensor" % name)
    lengths = {one[:-2]: leaf for one, leaf in found.items() if one.endswith(".#") and not isinstance(leaf, list)}
    unused = set(lengths)
    parts = {}
    for one, leaf in found.items():
        is_of_lengths = one.endswith(".#")
        if is_of_lengths and not any(other.startswith(one[:-2] + "[]") for other in found):
            raise _no_lists(one[:-2])
        if is_of_lengths and one[:-2] in lengths:
            continue
        if not isinstance(leaf, list):
            if getattr(leaf, "ndim", 0) == 0:
                raise RunnerError("input `%s` is an element of a list, and is neither a nested tensor nor one with a dimension" % one)
            leaf = parts_of(leaf)
        if one.endswith("[]") and one[:-2] in lengths:
            parts[one[:-2]] = _parts(one, leaf, lengths[one[:-2]])
            unused.discard(one[:-2])
        elif one.endswith("[]"):
            raise RunnerError("input `%s` needs the lengths of its lists, `%s.#`" % (one, one[:-2]))
        else:
            parts[one] = leaf
    # In a list without elements, lengths that would be a tensor in each element are none at all.
    is_empty = bool(parts) and not any(parts.values())
    unused = {one for one in unused if not (is_empty and lengths[one].shape == (0,))}
    if unused:
        raise _no_lists(min(unused))
    first = next(iter(parts))
    for one, leaf in parts.items():
        if len(leaf) != len(parts[first]):
            problem = "the leaves of the list `%s` have different lengths: `%s` has %d elements, `%s` has %d"
            raise RunnerError(problem % (name, first, len(parts[first]), one, len(leaf)))
    return [{one: leaf[index] for one, leaf in parts.items()} for index in range(len(parts[first]))]


#: The most parts of an array without elements, whose shape could claim any number of them.
MAX_EMPTY_PARTS = 1 << 20


def parts_of(array):
    """Returns the list that an array stands for: its parts along the first dimension, as arrays."""
    if len(array) > MAX_EMPTY_PARTS and 0 in array.shape:
        problem = "an array of shape %s has no elements, and stands for a list of %d arrays, expected at most %d"
        raise RunnerError(problem % (list(array.shape), len(array), MAX_EMPTY_PARTS))
    return [array[index : index + 1].reshape(array.shape[1:]) for index in range(len(array))]


def _no_lists(name):
    return RunnerError("input `%s.#` has the lengths of lists, and there is no `%s[]`" % (name, name))


def _parts(name, leaf, lengths):
    """Cuts a nested tensor into lists of these lengths."""
    problem = "input `%s.#` is not the lengths of lists that have the %d tensors of `%s` in all" % (name[:-2], len(leaf), name)
    if lengths.ndim != 1 or lengths.dtype.kind not in "iu":
        raise RunnerError(problem)
    parts = []
    start = 0
    for length in lengths.tolist():
        if not 0 <= length <= len(leaf) - start:
            raise RunnerError(problem)
        parts.append(leaf[start : start + length])
        start += length
    if start != len(leaf):
        raise RunnerError(problem)
    return parts
