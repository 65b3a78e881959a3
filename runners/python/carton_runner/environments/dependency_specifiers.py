"""Reads dependency specifiers (PEP 508), such as ``numpy[extra]>=1.26,<3 ; sys_platform == 'linux'``. Pure.

Only specifiers of packages by their names are read, not those with URLs, and only in characters that no tool replaces or
interprets otherwise. What is read is written anew from its parts (:meth:`Specifier.text`), so that no text of a model reaches
a tool uninterpreted.
"""

import re
from typing import List, NamedTuple, Tuple

#: Longer specifiers are refused.
MAX_LENGTH = 4096
#: The greatest depth of parentheses in a marker.
MAX_NESTING = 16

_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_HEAD = re.compile(rf"({_NAME})[ \t]*(?:\[([^\[\]]*)\])?[ \t]*(.*)", re.ASCII)
_ONE_NAME = re.compile(_NAME, re.ASCII)
#: A version (PEP 440, appendix B), also with a wildcard or a local part.
_VERSION = re.compile(
    r"v?(?:[0-9]+!)?[0-9]+(?:\.[0-9]+)*"
    r"(?:\.\*|"
    r"(?:[-_.]?(?:alpha|beta|preview|pre|rc|a|b|c)[-_.]?[0-9]*)?"
    r"(?:-[0-9]+|[-_.]?(?:post|rev|r)[-_.]?[0-9]*)?"
    r"(?:[-_.]?dev[-_.]?[0-9]*)?"
    r"(?:\+[a-z0-9]+(?:[-_.][a-z0-9]+)*)?)",
    re.ASCII | re.IGNORECASE,
)
_COMPARISON = re.compile(r"(===|==|~=|!=|<=|>=|<|>)[ \t]*(.*)")
_TOKEN = re.compile(
    r"""[ \t]*(?:(?P<bracket>[()])|(?P<operator>===|==|~=|!=|<=|>=|<|>)|(?P<word>[A-Za-z_][A-Za-z0-9_.]*)"""
    r"""|'(?P<single>[A-Za-z0-9_ .<>=!~()*+,-]*)'|"(?P<double>[A-Za-z0-9_ .<>=!~()*+,-]*)")""",
    re.ASCII,
)

#: The variables of markers.
_VARIABLES = {
    "os_name",
    "sys_platform",
    "platform_machine",
    "platform_python_implementation",
    "platform_release",
    "platform_system",
    "platform_version",
    "python_version",
    "python_full_version",
    "implementation_name",
    "implementation_version",
    "extra",
}
#: Their earlier names.
_EARLIER_NAMES = {
    "os.name": "os_name",
    "sys.platform": "sys_platform",
    "platform.version": "platform_version",
    "platform.machine": "platform_machine",
    "platform.python_implementation": "platform_python_implementation",
    "python_implementation": "platform_python_implementation",
}


class NoSpecifier(Exception):
    """The reason why a text is no dependency specifier."""


class Specifier(NamedTuple):
    """A package that is requested, by its name."""

    name: str
    extras: Tuple[str, ...]
    #: Comparisons such as ``>=1.26``, all of which must hold.
    versions: Tuple[str, ...]
    #: The condition under which it is requested; empty for none.
    marker: str

    def text(self) -> str:
        """Returns the specifier on one line."""
        extras = f"[{','.join(self.extras)}]" if self.extras else ""
        marker = f" ; {self.marker}" if self.marker else ""
        return f"{self.name}{extras}{','.join(self.versions)}{marker}"


def parse(text: str) -> Specifier:
    """Reads a specifier. Raises :class:`NoSpecifier`."""
    if len(text) > MAX_LENGTH:
        raise NoSpecifier(f"it is longer than {MAX_LENGTH} characters")
    requested, separator, condition = text.partition(";")
    match = _HEAD.fullmatch(requested.strip(" \t"))
    if not match:
        raise NoSpecifier("it does not begin with the name of a package")
    name, extras, versions = match.groups()
    marker = _Marker(condition).text() if separator else ""
    return Specifier(name, _extras(extras), _versions(versions), marker)


def _extras(text) -> Tuple[str, ...]:
    if text is None or not text.strip(" \t"):
        return ()
    names = tuple(name.strip(" \t") for name in text.split(","))
    for name in names:
        if not _ONE_NAME.fullmatch(name):
            raise NoSpecifier(f"{name!r} is not the name of an extra")
    return names


def _versions(text: str) -> Tuple[str, ...]:
    text = text.strip(" \t")
    if text.startswith("(") and text.endswith(")"):
        text = text[1:-1].strip(" \t")
    if not text:
        return ()
    # uv takes a comma at the end.
    parts = text[:-1].split(",") if text.endswith(",") else text.split(",")
    return tuple(_comparison(part.strip(" \t")) for part in parts)


def _comparison(text: str) -> str:
    match = _COMPARISON.fullmatch(text)
    if not match:
        raise NoSpecifier(f"{text!r} has no comparison operator: `==`, `>=`, `<`, `~=`, `!=`")
    operator, version = match.groups()
    if not _VERSION.fullmatch(version):
        raise NoSpecifier(f"{version!r} is no version")
    if version.endswith(".*") and operator not in ("==", "!="):
        raise NoSpecifier(f"`{operator}` compares with no wildcard")
    return operator + version


class _Marker:
    """Reads a marker."""

    def __init__(self, text: str):
        self.tokens: List[Tuple[str, str]] = []
        position, text = 0, text.rstrip(" \t")
        while position < len(text):
            match = _TOKEN.match(text, position)
            if not match:
                raise NoSpecifier(f"{text[position:].strip()!r} is no part of a marker")
            kind = match.lastgroup or ""
            self.tokens.append((kind, match.group(kind)))
            position = match.end()
        self.position = 0

    def text(self) -> str:
        """Returns the marker, written anew."""
        text = self._any(0)
        if self.position < len(self.tokens):
            raise NoSpecifier(f"its marker goes on with {self._next()[1]!r}")
        return text

    def _next(self) -> Tuple[str, str]:
        return self.tokens[self.position] if self.position < len(self.tokens) else ("", "")

    def _take(self) -> Tuple[str, str]:
        token = self._next()
        self.position += 1
        return token

    def _any(self, depth: int) -> str:
        parts = [self._all(depth)]
        while self._next() == ("word", "or"):
            self._take()
            parts.append(self._all(depth))
        return " or ".join(parts)

    def _all(self, depth: int) -> str:
        parts = [self._one(depth)]
        while self._next() == ("word", "and"):
            self._take()
            parts.append(self._one(depth))
        return " and ".join(parts)

    def _one(self, depth: int) -> str:
        if self._next() == ("bracket", "("):
            if depth == MAX_NESTING:
                raise NoSpecifier(f"its marker has parentheses that are nested more than {MAX_NESTING} times")
            self._take()
            inner = self._any(depth + 1)
            if self._take() != ("bracket", ")"):
                raise NoSpecifier("its marker has a parenthesis that is not closed")
            return f"({inner})"
        left, operator, right = self._operand(), self._operator(), self._operand()
        if left.startswith("'") and right.startswith("'"):
            raise NoSpecifier("its marker compares no variable")
        return f"{left} {operator} {right}"

    def _operand(self) -> str:
        kind, value = self._take()
        if kind in ("single", "double"):
            return f"'{value}'"
        value = _EARLIER_NAMES.get(value, value)
        if kind != "word" or value not in _VARIABLES:
            raise NoSpecifier(f"its marker has {value!r} where a variable or a quoted text belongs")
        return value

    def _operator(self) -> str:
        kind, value = self._take()
        if kind == "operator" or (kind, value) == ("word", "in"):
            return value
        if (kind, value) == ("word", "not") and self._take() == ("word", "in"):
            return "not in"
        raise NoSpecifier(f"its marker has {value!r} where an operator belongs")
