"""Reads `environment.yml` of conda: the packages of its `pip` part, its Python, and NumPy, whose name is the same for both. All other packages
of conda are only named, because nothing says which package of an index they are."""

import re
from typing import List, NamedTuple, Tuple

from carton_runner.environments import plain_yaml, python_versions
from carton_runner.errors import RunnerError

FILES = ("environment.yml", "environment.yaml")

_SPEC = re.compile(r"(?:[A-Za-z0-9_./-]+::)?([A-Za-z0-9_][A-Za-z0-9_.-]*)[ ]*(.*)")
_FUZZY = re.compile(r"=[ ]*([0-9]+(?:\.[0-9]+)*)(?:\.?\*)?(?:=[A-Za-z0-9_*.]+)?")
_COMPARISON = re.compile(r"(==|!=|<=|>=|<|>)[ ]*([0-9]+(?:\.[0-9]+)*(?:\.\*)?)")
#: What installs packages, and is no package of a model.
_INSTALLERS = ("pip", "setuptools", "wheel", "uv")
_KEYS = ("name", "channels", "dependencies", "prefix", "variables")


class CondaEnvironment(NamedTuple):
    """The packages of an environment."""

    #: Lines of a list of requirements, with the numbers of the lines that they are on.
    lines: Tuple[Tuple[int, str], ...]
    #: The packages that only conda can install, as they are written.
    others: Tuple[str, ...]
    has_variables: bool


def parse(text: str, file: str) -> CondaEnvironment:
    """Reads the text of a file, whose name is for errors. Refuses an environment for another Python than this one."""
    top = plain_yaml.parse(text, file)
    if top.content is None:
        return CondaEnvironment((), (), False)
    if not isinstance(top.content, dict):
        raise RunnerError(f"{file} has no `dependencies:`", code="setup")
    for key, value in top.content.items():
        if key not in _KEYS:
            raise RunnerError(f"line {value.line} of {file} has the key `{key}`, which no environment has", code="setup")
    listed = top.content.get("dependencies")
    lines: List[Tuple[int, str]] = []
    others: List[str] = []
    if listed is not None and listed.content is not None:
        if not isinstance(listed.content, list):
            raise RunnerError(f"line {listed.line} of {file} has something else than a list", code="setup")
        for one in listed.content:
            place = f"line {one.line} of {file}"
            if isinstance(one.content, dict) and list(one.content) == ["pip"]:
                lines += plain_yaml.texts(one.content["pip"], file)
            elif isinstance(one.content, str):
                _add(one.content, one.line, place, lines, others)
            else:
                raise RunnerError(f"{place} has something else than a package or `pip:`", code="setup")
    return CondaEnvironment(tuple(lines), tuple(others), "variables" in top.content)


def _add(spec: str, number: int, place: str, lines: List[Tuple[int, str]], others: List[str]) -> None:
    match = _SPEC.fullmatch(spec)
    name, version = (match.group(1).lower(), match.group(2)) if match else ("", "")
    if name == "python":
        _check_python(version, place)
    elif name == "numpy":
        lines.append((number, f"numpy{','.join(_comparisons(version, place))}"))
    elif name not in _INSTALLERS:
        others.append(spec)


def _check_python(version: str, place: str) -> None:
    minor = re.fullmatch(r"==?[ ]*(3\.[0-9]+)(?:\.[0-9*]+)?(?:=[A-Za-z0-9_*.]+)?", version)
    # The patch version is not part of what a carton requires.
    python_versions.check([f"=={minor.group(1)}.*"] if minor else _comparisons(version, place), place)


def _comparisons(version: str, place: str) -> List[str]:
    """Returns the comparisons of PEP 440 for those of conda."""
    if not version:
        return []
    fuzzy = _FUZZY.fullmatch(version) if not version.startswith("==") else None
    if fuzzy:
        is_exact = version.count("=") > 1 and "*" not in version.split("=")[1]
        return [f"=={fuzzy.group(1)}" if is_exact else f"=={fuzzy.group(1)}.*"]
    found = [_COMPARISON.fullmatch(part.strip(" ")) for part in version.split(",")]
    if None in found:
        raise RunnerError(
            f"{place} has the version {version[:100]!r}, which is not read",
            code="setup",
            hint="write it as `=3.11` or `>=3.10,<3.13`",
        )
    return [match.group(1) + match.group(2) for match in found if match]
