"""Reads the small part of YAML that lists of packages are written in: mappings and sequences in blocks, and scalars on one line, plain or in
quotes. Everything else is refused with its line, because a guess could request another package. Pure."""

import re
from typing import Any, List, NamedTuple, Tuple

from carton_runner.errors import RunnerError

#: Larger files, longer lines and deeper blocks are refused.
MAX_LINES = 10_000
MAX_LINE = 10_000
MAX_DEPTH = 8

_LINE_END = re.compile(r"\r\n|\r|\n")
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ufeff]")
_KEY = re.compile(r"([A-Za-z_][A-Za-z0-9_.-]*):(?: +(.*)|)")
_SINGLE = re.compile(r"'((?:[^']|'')*)'")
_DOUBLE = re.compile(r'"([^"\\]*)"')
#: How plain scalars do not begin: they would be something else.
_INDICATORS = tuple("[]{}&*!|>%@`\"'#,?:")


class Value(NamedTuple):
    """A value and the line that it begins on: a text, ``None``, a list of values, or a dict of them by their keys."""

    line: int
    content: Any


class _Line(NamedTuple):
    number: int
    indent: int
    text: str


def parse(text: str, place: str) -> Value:
    """Reads a file. ``place`` is its name for errors."""
    return _Parser(text, place).value()


class _Parser:
    def __init__(self, text: str, place: str):
        self.place = place
        self.lines: List[_Line] = []
        self.position = 0
        for number, line in enumerate(_LINE_END.split(text), 1):
            if number > MAX_LINES or len(line) > MAX_LINE:
                raise self.refused(number, "is too long, or is in a file that is")
            if _CONTROL.search(line):
                raise self.refused(number, "has a control character")
            line = self._without_comment(line)
            stripped = line.strip(" ")
            if not stripped or (stripped == "---" and not self.lines):
                continue
            if "\t" in line:
                raise self.refused(number, "has a tab")
            self.lines.append(_Line(number, len(line) - len(line.lstrip(" ")), stripped))

    def refused(self, number: int, problem: str) -> RunnerError:
        """Returns the error for a line."""
        return RunnerError(
            f"line {number} of {self.place} {problem}",
            code="setup",
            hint="write lists and texts as plain lines, or a requirements.txt",
        )

    def _without_comment(self, line: str) -> str:
        quote, skipped = "", -1
        for at, character in enumerate(line):
            if at == skipped:
                continue
            if quote == "'" and line[at : at + 2] == "''":
                skipped = at + 1
            elif quote:
                quote = "" if character == quote else quote
            elif character in "\"'" and line[:at].rstrip(" ")[-1:] in ("", "-", ":"):
                quote = character
            elif character == "#" and (at == 0 or line[at - 1] in " \t"):
                return line[:at]
        return line

    def value(self) -> Value:
        """Reads the whole file."""
        if not self.lines:
            return Value(1, None)
        found = self._block(self.lines[0].indent, 0)
        if self.position < len(self.lines):
            raise self.refused(self.lines[self.position].number, "is indented differently from the lines before it")
        return found

    def _block(self, indent: int, depth: int) -> Value:
        first = self.lines[self.position]
        if depth > MAX_DEPTH:
            raise self.refused(first.number, f"is nested more than {MAX_DEPTH} deep")
        if first.text == "-" or first.text.startswith("- "):
            return Value(first.number, self._sequence(indent, depth))
        return Value(first.number, self._mapping(indent, depth))

    def _sequence(self, indent: int, depth: int) -> List[Value]:
        found = []
        while self.position < len(self.lines):
            line = self.lines[self.position]
            if line.indent != indent or not (line.text == "-" or line.text.startswith("- ")):
                break
            rest = line.text[1:].lstrip(" ")
            inner = indent + len(line.text) - len(rest)
            if rest and (_KEY.fullmatch(rest) or rest.startswith("- ")):
                # The item is a mapping that begins on this line.
                self.lines[self.position] = _Line(line.number, inner, rest)
                found.append(self._block(inner, depth + 1))
                continue
            self.position += 1
            found.append(self._rest(rest, line.number, indent, depth, False))
        return found

    def _mapping(self, indent: int, depth: int) -> dict:
        found: dict = {}
        while self.position < len(self.lines):
            line = self.lines[self.position]
            if line.indent != indent or line.text == "-" or line.text.startswith("- "):
                break
            match = _KEY.fullmatch(line.text)
            if match is None:
                raise self.refused(line.number, "is no `key: value`")
            key, rest = match.group(1), (match.group(2) or "").strip(" ")
            if key in found:
                raise self.refused(line.number, f"has the key `{key}` for the second time")
            self.position += 1
            found[key] = self._rest(rest, line.number, indent, depth, True)
        return found

    def _rest(self, rest: str, number: int, indent: int, depth: int, is_in_mapping: bool) -> Value:
        """Reads what follows a key or a hyphen: a scalar on its line, or a block below it."""
        if rest:
            return Value(number, self._scalar(rest, number))
        if self.position < len(self.lines):
            line = self.lines[self.position]
            is_item = line.text == "-" or line.text.startswith("- ")
            # The items of a key may be indented as the key is.
            if line.indent > indent or (is_in_mapping and line.indent == indent and is_item):
                return Value(number, self._block(line.indent, depth + 1).content)
        return Value(number, None)

    def _scalar(self, text: str, number: int) -> Any:
        single, double = _SINGLE.fullmatch(text), _DOUBLE.fullmatch(text)
        if single:
            return single.group(1).replace("''", "'")
        if double:
            return double.group(1)
        if text == "[]":
            return []
        if text.startswith(_INDICATORS) or ": " in text or text.endswith(":"):
            raise self.refused(number, f"has {text[:100]!r}, which is not read")
        return None if text in ("~", "null") else text


def texts(value: Value, place: str) -> List[Tuple[int, str]]:
    """Returns the texts of a sequence, each with its line."""
    if value.content is None:
        return []
    if not isinstance(value.content, list) or not all(isinstance(one.content, str) for one in value.content):
        raise RunnerError(f"line {value.line} of {place} has something else than a list of texts", code="setup")
    return [(one.line, one.content) for one in value.content]
