"""The leaves of structured values, and values of leaves (spec/structured-values.md).

A structured value is made of dicts, tuples, lists, NamedTuples and dataclasses in any nesting; its leaves are tensors, and lists of tensors.
"""

from collections.abc import Mapping

from carton_runner.arrays import type_name
from carton_runner.errors import RunnerError

_MAX_DEPTH = 64
_MAX_LEAVES = 100_000


class Nested(list):
    """A leaf that is a nested tensor: its elements, each a tensor or :data:`EMPTY`."""


#: An element of a nested tensor: a list without elements among lists of numbers or texts, whose dtype it gets.
EMPTY = object()


class DeclaredOutputs:
    """The declared outputs of a model."""

    def __init__(self, specs):
        #: The dtypes by the names of the carton.
        self.dtypes = {spec["name"]: spec["dtype"] for spec in specs}
        inside = [spec.get("internal_name") or spec["name"] for spec in specs]
        #: The names of the carton by those in the model, where they differ.
        self.renamed = {name: spec["name"] for name, spec in zip(inside, specs) if name != spec["name"]}
        #: The names in the model, in order, and those of the values that they are leaves of.
        self.names = list(dict.fromkeys(inside))
        self.roots = list(dict.fromkeys(root(name) for name in inside))
        #: The names in the model of those that are certainly no nested tensors.
        self.have_dimensions = frozenset(name for name, spec in zip(inside, specs) if isinstance(spec.get("shape"), list))
        self._known = frozenset(inside)

    def __contains__(self, name):
        return name in self._known

    def below(self, prefix):
        """The declared names that begin with a prefix."""
        return [name for name in self.names if name.startswith(prefix)]


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
            found = flattening.leaves(_top_key(name), value, 0)
        for leaf in found:
            if leaf[0] in names:
                raise RunnerError("two outputs have the name `%s`" % leaf[0], hint="give the keys of the returned dicts other names")
            names.add(leaf[0])
            if len(names) > _MAX_LEAVES:
                raise RunnerError("the outputs have more than %d tensors" % _MAX_LEAVES, hint="return fewer, larger arrays")
            yield leaf


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
    """Returns a key as a text; ``None`` if it is none, nor a number."""
    if isinstance(key, str):
        return str(key)
    return str(key) if isinstance(key, (int, float)) else None


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

    def leaves(self, name, value, depth):
        """Returns the leaves of a value with this name."""
        if depth > _MAX_DEPTH:
            raise RunnerError("output `%s…` has more than %d levels" % (name[:100], _MAX_DEPTH), hint="return the tensors by name")
        if value is None:
            return []
        if isinstance(value, list):
            return self._of_list(name, value, depth)
        entries = _entries(value)
        if entries is None:
            return [(name, value)]
        if isinstance(value, tuple) and name in self._declared:
            # Declared as one tensor, such as a shape.
            return self._declared_list(name, value)
        found = []
        for key, entry in entries:
            found += self.leaves("%s.%s" % (name, self._key(name, key)), entry, depth + 1)
        return found

    def _key(self, name, key):
        text = _text_of(key)
        if text is None:
            raise RunnerError("output `%s` has the key %r, which is no text" % (name, key))
        if not text or text == "#" or "[" in text or "]" in text:
            hint = "a key is not empty, is not `#`, and contains neither `[` nor `]`"
            raise RunnerError("output `%s` has the key %r, which is not a part of a name" % (name, text), hint=hint)
        return text

    def _is_plain(self, value):
        return isinstance(value, self._plain)

    def _is_tensor(self, value):
        return self._is_plain(value) or not (value is None or isinstance(value, list) or _entries(value) is not None)

    def _declared_list(self, name, value):
        """A list, or a tuple, of which the signature says that it is one tensor, or one nested tensor."""
        is_nested = any(not self._is_plain(element) and hasattr(element, "__array__") for element in value)
        if not value and name not in self._declared.have_dimensions:
            is_nested = True
        return [(name, Nested(value) if is_nested else value)]

    def _of_list(self, name, value, depth):
        if name in self._declared:
            return self._declared_list(name, value)
        if not value:
            return self._of_empty(name)
        bottom = _bottom(value)
        if self._is_plain(bottom[0] if bottom else None):
            # Numbers or texts, perhaps in lists of lists; or arrays among numbers.
            if any(not self._is_plain(element) and hasattr(element, "__array__") for element in value):
                return [(name, Nested(value))]
            return [(name, value)]
        if bottom and bottom[0] is None:
            hint = "NaN or an empty array can stand for one that is missing"
            raise RunnerError("output `%s` is a list that holds None" % name, hint=hint)
        if all(map(self._is_tensor, value)):
            return [(name, Nested(value))]
        return self._joined(name, [self.leaves(name + "[]", element, depth + 1) for element in value])

    def _of_empty(self, name):
        # In an element of a list the names are not those of the signature yet, and other elements tell what is missing.
        below = [] if "[]" in name else self._declared.below(name + "[]")
        return [(one, self._lengths(()) if one.endswith(".#") else Nested()) for one in below] or [(name, Nested())]

    def _lengths(self, lengths):
        return self._numpy.array(lengths, dtype=self._numpy.int64)

    def _joined(self, name, elements):
        """Joins the leaves of the elements of a list."""
        elements = self._filled([dict(element) for element in elements])
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
            parts = [element[one] for element in elements]
            are_nested = [isinstance(part, Nested) for part in parts]
            if all(are_nested) and one not in self._declared:
                found.append((one + "[]", Nested(element for part in parts for element in part)))
                found.append((one + ".#", self._lengths([len(part) for part in parts])))
                continue
            if any(part for part, is_nested in zip(parts, are_nested) if is_nested):
                problem = "output `%s` is a tensor in some elements of the list `%s`, and a list of tensors in others" % (one, name)
                raise RunnerError(problem, hint="return the same in each element")
            # An empty list among lists of numbers.
            found.append((one, Nested(EMPTY if is_nested else part for part, is_nested in zip(parts, are_nested))))
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


def _bottom(value):
    """Returns the first element of nested lists that is not a list, in a list; an empty list if there is none."""
    to_visit = [iter(value)]
    while to_visit:
        for element in to_visit[-1]:
            if not isinstance(element, list):
                return [element]
            if len(to_visit) > _MAX_DEPTH:
                return []
            to_visit.append(iter(element))
            break
        else:
            to_visit.pop()
    return []


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

    def leaf(self, value):
        """Makes what stands for a tensor, or for the list of a nested tensor."""
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
        return wanted.leaf(found[name])
    elements = {one: leaf for one, leaf in found.items() if one.startswith("[]", len(name)) or one == name + ".#"}
    if elements:
        if len(elements) < len(found):
            other = next(one for one in found if one not in elements)
            raise RunnerError("input `%s` is an element of a list, and `%s` is not" % (next(iter(elements)), other))
        return wanted.items([value_of(name + "[]", one, wanted.element(), depth + 1) for one in _elements(name, elements)])
    entries = {}
    for one, leaf in found.items():
        entries.setdefault(_next_key(one, len(name) + 1), {})[one] = leaf
    values = {key: value_of("%s.%s" % (name, key), below, wanted.entry(key), depth + 1) for key, below in entries.items()}
    return wanted.record(name, values)


def _next_key(name, start):
    """Returns the part of a name from ``start`` on that is a key."""
    ends = [end for end in (name.find(".", start), name.find("[]", start)) if end >= 0]
    return name[start : min(ends)] if ends else name[start:]


def _elements(name, found):
    """Returns the leaves of each element of a list."""
    lengths = {one[:-2]: leaf for one, leaf in found.items() if one.endswith(".#") and not isinstance(leaf, list)}
    unused = set(lengths)
    parts = {}
    for one, leaf in found.items():
        if one[:-2] in lengths and one.endswith(".#"):
            continue
        if not isinstance(leaf, list):
            raise RunnerError("input `%s` is an element of a list, and is no nested tensor" % one)
        if one.endswith("[]") and one[:-2] in lengths:
            parts[one[:-2]] = _parts(one, leaf, lengths[one[:-2]])
            unused.discard(one[:-2])
        elif one.endswith("[]"):
            raise RunnerError("input `%s` needs the lengths of its lists, `%s.#`" % (one, one[:-2]))
        else:
            parts[one] = leaf
    if unused:
        raise RunnerError("input `%s.#` has the lengths of lists, and there is no `%s[]`" % ((min(unused),) * 2))
    first = next(iter(parts))
    for one, leaf in parts.items():
        if len(leaf) != len(parts[first]):
            problem = "the leaves of the list `%s` have different lengths: `%s` has %d elements, `%s` has %d"
            raise RunnerError(problem % (name, first, len(parts[first]), one, len(leaf)))
    return [{one: leaf[index] for one, leaf in parts.items()} for index in range(len(parts[first]))]


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
