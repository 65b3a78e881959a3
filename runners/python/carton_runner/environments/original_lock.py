"""Reads ``.carton/carton.lock``, the lock of the original Carton; ``writing_original`` writes it.

The file is TOML written by a program: one hash, then for each locked environment a ``[[lockfile]]`` with the
environment's markers and the wheels, each with its SHA-256 and its location. CPython can read TOML only since 3.11, and the lock
uses only a small part of it: strings, tables in arrays, empty arrays.
"""

import json
import os
import platform
import re
import sys
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Tuple
from urllib.parse import unquote, urlsplit

from carton_runner.errors import RunnerError

#: The path of the lock in a model.
CARTON_LOCK = ".carton/carton.lock"
MAX_LOCK_BYTES = 4 << 20
MAX_LINE = 1 << 14

_TABLE = re.compile(r"\[\[\s*([a-z_]+(?:\.[a-z_]+)?)\s*\]\]")
_PAIR = re.compile(r"([A-Za-z0-9_]+)\s*=\s*(.*)")
_LITERAL = re.compile(r"'([^'\x00-\x08\x0a-\x1f\x7f]*)'")
_BASIC = re.compile(r'"(?:[^"\\\x00-\x1f\x7f]|\\.)*"')
_URL = re.compile(r"https://[A-Za-z0-9.-]+(?::[0-9]+)?/[A-Za-z0-9._~:/?&=%@+,()-]+")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_WHEEL = re.compile(
    r"([A-Za-z0-9_.]+)-([A-Za-z0-9_.!+]+)(?:-[0-9][A-Za-z0-9_.]*)?-[A-Za-z0-9_.]+-[A-Za-z0-9_.]+-[A-Za-z0-9_.]+\.whl"
)

#: The markers that identify an environment.
_MARKERS = (
    "os_name",
    "sys_platform",
    "platform_machine",
    "platform_python_implementation",
    "platform_release",
    "platform_system",
    "python_version",
    "python_full_version",
    "implementation_name",
    "implementation_version",
)


class LockedWheel(NamedTuple):
    """A wheel of the lock."""

    sha256: str
    url: Optional[str]
    bundled_path: Optional[str]


class Environment(NamedTuple):
    """The wheels that are locked for one environment."""

    markers: Dict[str, str]
    wheels: Tuple[LockedWheel, ...]


class OriginalLock(NamedTuple):
    """The whole lock."""

    #: The SHA-256 of the requirements.txt that it was made from.
    deps_hash: str
    environments: Tuple[Environment, ...]

    def match(self, here: Dict[str, str]) -> Optional[Environment]:
        """Returns the first locked environment whose markers are all equal to those of this environment."""
        for environment in self.environments:
            if all(here.get(name) == value for name, value in environment.markers.items()):
                return environment
        return None


def read(path: Path) -> OriginalLock:
    """Reads the lock at ``path``."""
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_LOCK_BYTES + 1)
        if len(data) > MAX_LOCK_BYTES:
            raise RunnerError(f"{CARTON_LOCK} has more than {MAX_LOCK_BYTES} bytes")
        return parse(data.decode())
    except OSError as error:
        raise RunnerError(f"cannot read {CARTON_LOCK}", [str(error)]) from error
    except UnicodeDecodeError as error:
        raise RunnerError(f"{CARTON_LOCK} is not UTF-8", [str(error)]) from error


def parse(text: str) -> OriginalLock:
    """Reads a lock. Any line that the original does not write is refused; the error has its number."""
    top: Dict[str, str] = {}
    locked: List[Tuple[Dict[str, str], List[Dict[str, str]]]] = []
    table = top
    for number, line in enumerate(text.split("\n"), 1):
        line = line.strip()

        def refused(problem: str) -> RunnerError:
            return RunnerError(f"line {number} of {CARTON_LOCK} {problem}", [f"found {line[:200]!r}"])

        if not line or line.startswith("#"):
            continue
        if len(line) > MAX_LINE:
            raise refused("is too long")
        header = _TABLE.fullmatch(line)
        if header:
            name = header.group(1)
            if name == "lockfile":
                table = {}
                locked.append((table, []))
            elif name == "lockfile.locked_deps" and locked:
                table = {}
                locked[-1][1].append(table)
            else:
                raise refused("begins an unknown table")
            continue
        pair = _PAIR.fullmatch(line)
        if not pair:
            raise refused("is not as the original Carton writes it")
        key, value = pair.groups()
        if key in table:
            raise refused("is there twice")
        if value == "[]" and key in ("lockfile", "locked_deps"):
            continue
        parsed = _string(value)
        if parsed is None:
            raise refused("has a value that is no string on one line")
        table[key] = parsed
    environments = tuple(
        Environment({key: value for key, value in markers.items() if key in _MARKERS}, tuple(map(_wheel, wheels)))
        for markers, wheels in locked
    )
    return OriginalLock(top.get("orig_deps_hash", ""), environments)


def _string(value: str) -> Optional[str]:
    literal = _LITERAL.fullmatch(value)
    if literal:
        return literal.group(1)
    if _BASIC.fullmatch(value):
        try:
            # The escapes that a URL or a file name needs are the same in JSON.
            parsed = json.loads(value)
            return parsed if isinstance(parsed, str) else None
        except ValueError:
            return None
    return None


def _wheel(table: Dict[str, str]) -> LockedWheel:
    sha256 = table.get("sha256", "").lower()
    if not _SHA256.fullmatch(sha256):
        raise RunnerError(f"{CARTON_LOCK} has a package without its SHA-256", [f"found {table}"])
    return LockedWheel(sha256, table.get("url"), table.get("bundled_whl_path"))


def markers() -> Dict[str, str]:
    """Returns the markers of this environment (see the specification of dependency specifiers)."""
    return {
        "os_name": os.name,
        "sys_platform": sys.platform,
        "platform_machine": platform.machine(),
        "platform_python_implementation": platform.python_implementation(),
        "platform_release": platform.release(),
        "platform_system": platform.system(),
        "python_version": ".".join(platform.python_version_tuple()[:2]),
        "python_full_version": platform.python_version(),
        "implementation_name": sys.implementation.name,
        "implementation_version": platform.python_version(),
    }


def choose(locked: OriginalLock, here: Dict[str, str]) -> Environment:
    """Returns the locked environment that fits this one."""
    found = locked.match(here)
    if found is not None:
        return found
    differences = [
        ", ".join(f"{name} {value}" for name, value in environment.markers.items() if here.get(name) != value)
        for environment in locked.environments
    ]
    raise RunnerError(
        f"{CARTON_LOCK} has no packages for this environment",
        [f"locked for {difference}" for difference in differences[:10]],
        hint="pack the model again, here",
    )


def is_file_on_a_server(url: str) -> bool:
    """Whether a lock may have this URL. uv would replace variables in other URLs, and split them at white space."""
    return bool(_URL.fullmatch(url))


def lines(environment: Environment, model_folder: Path) -> List[str]:
    """Returns the wheels as lines of a requirements file, each with its hash: files of the model, or URLs."""
    found = []
    for wheel in environment.wheels:
        place, name = _place(wheel, model_folder)
        match = _WHEEL.fullmatch(name)
        if not match:
            raise RunnerError(f"{CARTON_LOCK} names a package that is no wheel: {name[:200]!r}")
        found.append(f"{match.group(1)} @ {place} --hash=sha256:{wheel.sha256}")
    return sorted(found)


def names(environment: Environment) -> List[str]:
    """Returns the names of the packages, as in the names of the wheels."""
    paths = [wheel.bundled_path or (wheel.url or "").split("?")[0] for wheel in environment.wheels]
    return [unquote(path).rsplit("/", 1)[-1].split("-", 1)[0].lower() for path in paths]


def _place(wheel: LockedWheel, model_folder: Path) -> Tuple[str, str]:
    if wheel.bundled_path is not None:
        parts = wheel.bundled_path.split("/")
        if any(part in ("", ".", "..") for part in parts) or "\\" in wheel.bundled_path or "\0" in wheel.bundled_path:
            raise RunnerError(f"{CARTON_LOCK} names a wheel outside of the model: {wheel.bundled_path[:200]!r}")
        path = model_folder.joinpath(*parts)
        if path.is_file():
            # Links are not resolved, because their targets may have other names.
            return Path(os.path.abspath(path)).as_uri(), parts[-1]
        if wheel.url is None:
            raise RunnerError(f"`{wheel.bundled_path}`, which {CARTON_LOCK} names, is not in the model")
    if wheel.url is None:
        raise RunnerError(f"{CARTON_LOCK} does not say where the package with the SHA-256 {wheel.sha256} is")
    if not is_file_on_a_server(wheel.url):
        raise RunnerError(f"{CARTON_LOCK} names a URL that is not of a file on an https server: {wheel.url[:200]!r}")
    return wheel.url, unquote(urlsplit(wheel.url).path).rsplit("/", 1)[-1]
