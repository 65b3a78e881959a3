"""Gives inputs to a function as its parameters and their annotations say (spec/structured-values.md, "From leaves to values")."""

import collections.abc
import inspect
import types
import typing

from carton_runner.errors import RunnerError
from carton_runner.structure import NATURAL, Natural, in_order, parts_of, root, value_of

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_UNIONS = (typing.Union, getattr(types, "UnionType", typing.Union))
_KINDS = {bool: "a boolean", int: "an integer", float: "a float", complex: "a complex number", str: "a text", bytes: "bytes"}


class Parameters:
    """The parameters of a function, as far as they can be known."""

    def __init__(self, function):
        self._function = function
        self._wanted = {}
        self._hints = None
        try:
            parameters = inspect.signature(function).parameters.values()
        except (TypeError, ValueError):
            parameters = ()
        self._names = frozenset(parameter.name for parameter in parameters if parameter.kind in _NAMED)

    def arguments(self, inputs):
        """Returns inputs with the leaves of a parameter's value in one value."""
        if not self._names or inputs.keys() <= self._names:
            return inputs
        arguments = {}
        leaves = {}
        for name, value in inputs.items():
            parameter = name if name in self._names else root(name)
            if parameter == name or parameter not in self._names:
                arguments[name] = value
            else:
                leaves.setdefault(parameter, {})[name] = value
        for name, found in leaves.items():
            if name in arguments:
                raise RunnerError("input `%s` is a value of its own, and so is `%s` below it" % (name, next(iter(found))))
            arguments[name] = value_of(name, found, self._of(name))
        return arguments

    def _of(self, name):
        wanted = self._wanted.get(name)
        if wanted is None:
            if self._hints is None:
                self._hints = _hints_of(self._function)
            wanted = self._wanted[name] = _wanted(self._hints.get(name))
        return wanted


def _hints_of(annotated):
    """Returns the annotations of a function or a class, without those that name what does not exist."""
    target = annotated
    if not inspect.isroutine(target) and not isinstance(target, type):
        # A partial function, or an object that can be called.
        target = getattr(target, "func", None) or getattr(type(target), "__call__", target)
    try:
        return typing.get_type_hints(target)
    except Exception:  # noqa: BLE001, evaluating an annotation is running code of the model
        found = getattr(target, "__annotations__", None) or {}
        return {name: hint for name, hint in found.items() if not isinstance(hint, str)}


def _wanted(annotation):
    """Returns what values are to be made for an annotation."""
    origin = typing.get_origin(annotation)
    arguments = typing.get_args(annotation)
    if origin in _UNIONS:
        found = [_wanted(one) for one in arguments if one is not type(None)]
        if len(found) > 1 and any(isinstance(one, _Scalar) for one in found) and all(isinstance(one, _Scalar) or one is NATURAL for one in found):
            return _Scalar(*(kind for one in found if one is not NATURAL for kind in one.kinds), is_strict=NATURAL not in found)
        return next((one for one in found if one is not NATURAL), NATURAL)
    if hasattr(annotation, "__metadata__"):
        return _wanted(arguments[0])
    kind = origin or annotation
    if not isinstance(kind, type):
        return NATURAL
    if kind in _KINDS:
        return _Scalar(kind)
    if issubclass(kind, tuple):
        if hasattr(kind, "_fields"):
            return _Record(kind, list(kind._fields), set(getattr(kind, "_field_defaults", ())))
        return _Tuple(arguments)
    if hasattr(kind, "__dataclass_fields__"):
        return _of_dataclass(kind)
    if hasattr(kind, "__total__") and issubclass(kind, dict):
        return _TypedDict(kind)
    if issubclass(kind, collections.abc.Mapping):
        return _Dict(arguments)
    if kind is list or kind is collections.abc.Sequence:
        return _List(arguments)
    return NATURAL


def _of_dataclass(kind):
    import dataclasses

    fields = [field for field in dataclasses.fields(kind) if field.init]
    absent = dataclasses.MISSING
    defaults = {one.name for one in fields if one.default is not absent or one.default_factory is not absent}
    return _Record(kind, [field.name for field in fields], defaults)


def _allows_none(annotation):
    """Whether a value may be None, which has no leaves."""
    return typing.get_origin(annotation) in _UNIONS and type(None) in typing.get_args(annotation)


class _Scalar(Natural):
    """One of these types, without loss. ``is_strict`` says that no array may stand for it."""

    def __init__(self, *kinds, is_strict=True):
        self.kinds = kinds
        self._is_strict = is_strict

    def leaf(self, name, value):
        if isinstance(value, list) or getattr(value, "shape", None) != () or not hasattr(value, "item"):
            return value
        return self.converted(name, value.item(), value)

    def converted(self, name, found, otherwise):
        """Returns a number or text as the first of the types that holds it; ``otherwise`` if none does, and an array may stand for it."""
        for kind in sorted(self.kinds, key=lambda kind: kind is not type(found)):
            if kind in (str, bytes):
                if isinstance(found, kind):
                    return found
                continue
            if isinstance(found, (str, bytes)):
                continue
            try:
                converted = kind(found)
            except (TypeError, ValueError, OverflowError):
                continue
            # NaN is no number, and differs from itself.
            if converted == found or (found != found and converted != converted):
                return converted
        if not self._is_strict:
            return otherwise
        expected = " or ".join(_KINDS[kind] for kind in self.kinds)
        raise RunnerError("input `%s`: expected %s, found %s" % (name, expected, repr(found)[:100]))


class _Tuple(Natural):
    def __init__(self, arguments):
        has_any_length = bool(arguments) and arguments[-1] is Ellipsis
        self._rest = _wanted(arguments[0]) if has_any_length else NATURAL
        self._wanted = [] if has_any_length else [_wanted(one) for one in arguments]
        self._optional = [] if has_any_length else [_allows_none(one) for one in arguments]

    def entry(self, key):
        number = int(key) if key.isdecimal() else -1
        return self._wanted[number] if 0 <= number < len(self._wanted) else self._rest

    def element(self):
        return self._rest

    def record(self, name, entries):
        for number, is_optional in enumerate(self._optional):
            if is_optional:
                entries.setdefault(str(number), None)
        values = in_order(entries)
        if values is None:
            expected = ", ".join("`%s.%d`" % (name, number) for number in range(max(len(entries), len(self._wanted))))
            found = ", ".join("`%s.%s`" % (name, key) for key in entries)
            raise RunnerError("input `%s` is a tuple of %s, found %s" % (name, expected, found))
        if self._wanted and len(values) != len(self._wanted):
            problem = "input `%s` is a tuple of %d elements, found %d: `%s.%d` is one of the difference"
            at = min(len(values), len(self._wanted))
            raise RunnerError(problem % (name, len(self._wanted), len(values), name, at))
        return tuple(values)

    def items(self, values):
        return tuple(values)

    def leaf(self, name, value):
        return tuple(value) if isinstance(value, list) else value


class _List(Natural):
    def __init__(self, arguments):
        self._element = _wanted(arguments[0]) if arguments else NATURAL

    def entry(self, key):
        return self._element

    def element(self):
        return self._element

    def record(self, name, entries):
        values = in_order(entries)
        return entries if values is None else values

    def leaf(self, name, value):
        if isinstance(value, list) or getattr(value, "ndim", 0) == 0:
            return value
        if isinstance(self._element, _Scalar):
            return [self._element.converted(name, one, one) for one in value.tolist()] if value.ndim == 1 else value
        return [self._element.leaf(name, part) for part in parts_of(value)]


class _Dict(Natural):
    def __init__(self, arguments):
        self._key = arguments[0] if arguments and arguments[0] in (int, float) else str
        self._value = _wanted(arguments[1]) if len(arguments) == 2 else NATURAL

    def entry(self, key):
        return self._value

    def record(self, name, entries):
        try:
            found = {self._key(key): value for key, value in entries.items()}
        except ValueError:
            raise RunnerError("input `%s` has keys that are no %s: %s" % (name, self._key.__name__, ", ".join(entries))) from None
        if len(found) < len(entries):
            raise RunnerError("input `%s` has several keys that are one %s: %s" % (name, self._key.__name__, ", ".join(entries)))
        return found


class _TypedDict(Natural):
    def __init__(self, kind):
        self._kind = kind

    def entry(self, key):
        # Not before, because a class may name itself.
        return _wanted(_hints_of(self._kind).get(key))

    def record(self, name, entries):
        return entries


class _Record(Natural):
    """A NamedTuple or a dataclass."""

    def __init__(self, kind, fields, defaults):
        self._kind = kind
        self._fields = fields
        self._defaults = defaults
        self._hints = None

    def entry(self, key):
        if key not in self._fields and key.isdecimal() and int(key) < len(self._fields):
            key = self._fields[int(key)]
        return _wanted(self._hint(key))

    def _hint(self, field):
        if self._hints is None:
            # Not before, because a class may name itself.
            self._hints = _hints_of(self._kind)
        return self._hints.get(field)

    def record(self, name, entries):
        values = in_order(entries)
        if values is not None and len(values) <= len(self._fields) and "0" not in self._fields:
            # A caller that passes a tuple names its elements by numbers.
            entries = dict(zip(self._fields, values))
        for key in entries:
            if key not in self._fields:
                has = ", ".join("`%s`" % field for field in self._fields)
                raise RunnerError("input `%s.%s`: %s has no such field; it has %s" % (name, key, self._kind.__name__, has))
        for field in self._fields:
            if field not in entries and field not in self._defaults:
                if not _allows_none(self._hint(field)):
                    raise RunnerError("input `%s.%s` is missing, and %s needs it" % (name, field, self._kind.__name__))
                entries[field] = None
        return self._kind(**entries)
