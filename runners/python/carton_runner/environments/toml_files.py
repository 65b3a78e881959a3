"""Reads TOML, which CPython can do itself since 3.11. Before that the reader is the same one (`tomli`), as the interpreter's pip has it."""

import sys
from typing import Any, Callable, Dict

from carton_runner.errors import RunnerError


def parse(text: str, place: str) -> Dict[str, Any]:
    """Reads a text of TOML. ``place`` is its name for errors."""
    loads = _reader(place)
    try:
        return loads(text)
    except RecursionError:
        raise RunnerError(f"{place} is nested too deeply", code="setup") from None
    except ValueError as error:
        raise RunnerError(f"{place} is not TOML", [str(error)], code="setup") from error


def _reader(place: str) -> Callable[[str], Dict[str, Any]]:
    if sys.version_info >= (3, 11):
        import tomllib  # novm: the version was checked

        return tomllib.loads
    try:
        from pip._vendor import tomli
    except ImportError as error:
        raise RunnerError(
            f"{place} cannot be read by Python {sys.version_info[0]}.{sys.version_info[1]} without pip",
            [str(error)],
            code="setup",
            hint=f"install pip for it, `{sys.executable} -m ensurepip`, or write a requirements.txt",
        ) from error
    return tomli.loads
