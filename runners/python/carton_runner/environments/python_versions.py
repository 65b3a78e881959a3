"""Compares this interpreter with the versions of Python that a model's files allow, and says how to get another one."""

import re
import sys
from typing import Optional, Sequence, Tuple

from carton_runner.environments import store
from carton_runner.errors import RunnerError

_COMPARISON = re.compile(r"(===|==|~=|!=|<=|>=|<|>)[ \t]*([0-9]+(?:\.[0-9]+)*)(\.\*)?")
#: The minor versions that a hint may name, the newest first.
_MINORS = range(14, 8, -1)


def hint(version: str) -> str:
    """Returns the hint for somebody who needs the runner of a version such as ``3.12``."""
    return (
        f"`carton runner install python --python {version}`; if there is no Python {version} on this machine, first `uv python install "
        f"{version}`, `pyenv install {version}`, or `apt-get install python{version} python{version}-venv` where the system has that package"
    )


def check(comparisons: Sequence[str], place: str) -> None:
    """Refuses comparisons such as ``>=3.10`` that this interpreter does not meet, or that are none. ``place`` is what has them."""
    parsed = [_parsed(one) for one in comparisons]
    if None in parsed:
        raise RunnerError(
            f"{place} has {comparisons[parsed.index(None)][:100]!r} where a comparison of Python's version belongs",
            code="setup",
            hint="write it as `>=3.10,<3.13`",
        )
    if all(_holds(one, sys.version_info[:3]) for one in parsed if one):
        return
    raise RunnerError(
        f"{place} requires Python `{','.join(comparisons)}`, and this is Python {store.minor_version()}",
        code="setup",
        hint=_advice([one for one in parsed if one]),
    )


def advice_on_unsatisfiable(text: str) -> Optional[str]:
    """Returns the hint if the text of an error of uv says that this interpreter is not one that a package is for."""
    found = re.search(r"does\s+not\s+satisfy\s+Python\s*([<>=!~][0-9.,*<>=!~]*)", text)
    parsed = [_parsed(one) for one in found.group(1).rstrip(",.").split(",")] if found else []
    known = [one for one in parsed if one]
    return _advice(known) if known and len(known) == len(parsed) else None


def _advice(parsed: Sequence["_Comparison"]) -> Optional[str]:
    """Returns the hint that names the newest version of Python that meets the comparisons, if there is one."""
    for minor in _MINORS:
        if all(_may_hold(one, minor) for one in parsed):
            version = f"3.{minor}"
            return f"pack with `--framework-version ={version}`, after {hint(version)}"
    return None


_Comparison = Tuple[str, Tuple[int, ...], bool]


def _parsed(text: str) -> Optional[_Comparison]:
    match = _COMPARISON.fullmatch(text.strip(" \t"))
    if match is None or (match.group(3) and match.group(1) not in ("==", "!=")):
        return None
    if len(match.group(2)) > 50 or (match.group(1) == "~=" and "." not in match.group(2)):
        return None
    return match.group(1), tuple(map(int, match.group(2).split("."))), bool(match.group(3))


def _holds(comparison: _Comparison, here: Tuple[int, ...]) -> bool:
    operator, wanted, is_prefix = comparison
    if is_prefix:
        return (here[: len(wanted)] == wanted) == (operator == "==")
    width = max(len(wanted), len(here))
    ours, theirs = ((*one, *(0,) * width)[:width] for one in (here, wanted))
    if operator == "~=":
        return ours >= theirs and here[: len(wanted) - 1] == wanted[:-1]
    if operator in ("==", "==="):
        return ours == theirs
    return {"!=": ours != theirs, "<=": ours <= theirs, ">=": ours >= theirs, "<": ours < theirs, ">": ours > theirs}[operator]


def _may_hold(comparison: _Comparison, minor: int) -> bool:
    """Whether some patch of a minor version meets a comparison."""
    return any(_holds(comparison, (3, minor, patch)) for patch in range(40))
