"""Writes ``.carton/carton.lock``, so that the original Carton can run the packed model too.

Its runner needs one exact wheel for each package: a URL, or a file of the model. ``uv`` lists the wheels of a locked version for
this interpreter, with their URLs, in a ``pylock.toml`` (PEP 751). Bundled wheels are named by their paths, because the original
accepts any path in the model.
"""

import hashlib
import re
import sys
from pathlib import Path
from typing import Dict, List, NamedTuple, Sequence, Set, Tuple
from urllib.parse import unquote, urlsplit

from carton_runner.calls import Cancelled
from carton_runner.environments import lock, original_lock, uv, wheels
from carton_runner.environments.original_lock import Environment, LockedWheel, OriginalLock
from carton_runner.errors import RunnerError

#: The markers that the original writes.
_MARKERS = ("os_name", "sys_platform", "platform_machine", "platform_python_implementation", "python_version")
_HEADER = "# The packages of this model for the runner of the original Carton, as `carton pack` has locked them.\n"

_NAME = re.compile(r'^name = "([A-Za-z0-9._-]+)"$', re.MULTILINE)
_WHEELS = re.compile(r"^wheels = \[", re.MULTILINE)
_FILE = re.compile(r'\{[^{}]*?url = "([^"\\]*)"[^{}]*hashes = \{([^{}]*)\}[^{}]*\}')
_SHA256 = re.compile(r'sha256 = "([0-9a-f]{64})"')
_INDEX = re.compile(r"^ +# from (\S+)$", re.MULTILINE)


class CannotLock(Exception):
    """The reason why the original's lock cannot be written faithfully."""


class Existing(NamedTuple):
    """The state of the original's lock in a model's folder."""

    #: Whether the lock can stay as it is.
    is_kept: bool
    #: The lock's other environments, if it was made from the same requirements.
    others: Tuple[Environment, ...]


def existing(folder: Path, is_relocked: bool, left_out: Sequence[str], report) -> Existing:
    """Examines the lock in a model's folder. Like the original, this keeps it until requirements.txt changes. It is not kept either
    if bundled wheels of it are missing or ``left_out``, or if our own lock ``is_relocked``."""
    path = folder / original_lock.CARTON_LOCK
    if not path.exists():
        return Existing(False, ())
    try:
        found = original_lock.read(path)
    except RunnerError as error:
        report.warn(f"the lock of the original Carton is left out: {error.message}")
        return Existing(False, ())
    if found.deps_hash != _deps_hash(folder):
        return Existing(False, ())
    here = original_lock.markers()
    matching = found.match(here)
    whole = tuple(one for one in found.environments if _is_whole(one, folder, left_out))
    others = tuple(one for one in whole if any(here.get(name) != value for name, value in one.markers.items()))
    is_kept = not is_relocked and matching is not None and len(whole) == len(found.environments)
    return Existing(is_kept, others)


def _is_whole(environment: Environment, folder: Path, left_out: Sequence[str]) -> bool:
    bundled = [wheel.bundled_path for wheel in environment.wheels if wheel.bundled_path is not None]
    stays = all(not path.startswith(tuple(f"{name}/" for name in left_out)) for path in bundled)
    return stays and all((folder / path).is_file() for path in bundled)


def _deps_hash(folder: Path) -> str:
    path = folder / "requirements.txt"
    return hashlib.sha256(path.read_bytes() if path.exists() else b"").hexdigest()


def text(locked: lock.Lock, folder: Path, model: Path, others: Tuple[Environment, ...], report) -> str:
    """Returns the original's lock for the packages of our own lock. ``folder`` is the user's folder, ``model`` the packed one.

    Raises :class:`CannotLock`."""
    if (model / lock.WHEELS_LOCK).exists():
        found = _bundled(model)
    else:
        try:
            found = _from_the_index(locked, report)
        except Cancelled:
            raise
        except RunnerError as error:
            raise CannotLock("; ".join([error.message, *error.causes[-1:]])) from error
    here = original_lock.markers()
    environment = Environment({name: here[name] for name in _MARKERS}, tuple(found))
    return written(OriginalLock(_deps_hash(folder), (environment, *others)))


def written(locked: OriginalLock) -> str:
    """Returns the text of the file. Refuses values that would need escapes."""
    parts = [_HEADER, f"\norig_deps_hash = '{locked.deps_hash}'\n"]
    for environment in locked.environments:
        parts.append("\n[[lockfile]]\n")
        parts += [f"{name} = {_quoted(value)}\n" for name, value in environment.markers.items()]
        if not environment.wheels:
            parts.append("locked_deps = []\n")
        for wheel in environment.wheels:
            parts.append(f"\n[[lockfile.locked_deps]]\nsha256 = '{wheel.sha256}'\n")
            for name, value in (("url", wheel.url), ("bundled_whl_path", wheel.bundled_path)):
                if value is not None:
                    parts.append(f"{name} = {_quoted(value)}\n")
    return "".join(parts)


def _quoted(value: str) -> str:
    if "'" in value or not value.isprintable():
        raise CannotLock(f"it would hold {value[:200]!r}")
    return f"'{value}'"


def _bundled(model: Path) -> List[LockedWheel]:
    files = sorted((model / lock.WHEELS).glob("*.whl"))
    return [LockedWheel(wheels.sha256(path), None, f"{lock.WHEELS}/{path.name}") for path in files]


def _from_the_index(locked: lock.Lock, report) -> List[LockedWheel]:
    if not locked.requirements:
        return []
    tool = uv.find(report)
    with uv.working_folder() as folder:
        (folder / "requirements.txt").write_text("".join(f"{line}\n" for line in locked.lines()))
        # Not `--universal`, because only wheels for this interpreter and this platform are needed.
        command = ["pip", "compile", "--no-deps", "--no-header", "--no-annotate", "--python", sys.executable]
        command += uv.limits()

        def compiled(name: str, *options: str) -> str:
            arguments = [*command, *options, "--output-file", name, "requirements.txt"]
            tool.run(arguments, str(folder), "find the wheels of the model's packages", report)
            try:
                return (folder / name).read_text()
            except OSError as error:
                raise RunnerError("uv made no list of wheels", [str(error)]) from error

        pylock = compiled("pylock.toml", "--format", "pylock.toml")
        annotated = compiled("annotated.txt", "--emit-index-annotation")
    indexes = {urlsplit(index).hostname or "" for index in _INDEX.findall(annotated)}
    return choose(pylock, locked, indexes)


def choose(pylock: str, locked: lock.Lock, indexes: Set[str]) -> List[LockedWheel]:
    """Returns the wheel of each package that an installer would choose here, among those that uv lists, which all fit. ``indexes``
    are the hosts of the package indexes."""
    hashes: Dict[str, Set[str]] = {}
    for requirement in locked.requirements:
        hashes.setdefault(lock.normalized(requirement.name), set()).update(requirement.hashes)
    found = []
    for block in pylock.split("[[packages]]")[1:]:
        named, listed = _NAME.search(block), _WHEELS.search(block)
        name = lock.normalized(named.group(1)) if named else "?"
        candidates = _FILE.findall(block[listed.end() :]) if listed else []
        if not candidates:
            raise CannotLock(f"`{name}` has no wheel for this platform")
        url, described = max(candidates, key=lambda one: preference(_file_name(one[0])))
        sha256 = _SHA256.search(described)
        if not sha256 or f"--hash=sha256:{sha256.group(1)}" not in hashes.get(name, set()):
            raise CannotLock(f"the wheel of `{name}` is not among the files that are locked")
        _check(name, url, indexes)
        found.append(LockedWheel(sha256.group(1), url, None))
    if not found:
        raise CannotLock("uv lists no wheels")
    return found


def _check(name: str, url: str, indexes: Set[str]) -> None:
    """Refuses URLs that other machines cannot use, or that must not be published."""
    parts = urlsplit(url)
    if not original_lock.is_file_on_a_server(url) or parts.query or "@" in parts.netloc:
        raise CannotLock(f"the wheel of `{name}` is not at a plain https URL")
    if parts.hostname in indexes:
        # A lock names no index, and this one may be known only to this machine.
        raise CannotLock(f"the wheel of `{name}` is on the server of its package index, and a lock names none")


def _file_name(url: str) -> str:
    return unquote(urlsplit(url).path).rsplit("/", 1)[-1]


def preference(file_name: str) -> Tuple:
    """Returns the sort key by which an installer chooses among fitting wheels: first the closeness to this interpreter, then to the
    platform, then the build number (see the specifications of platform compatibility tags and of wheels)."""
    parts = file_name[: -len(".whl")].split("-")
    if len(parts) < 5:
        return ()
    pythons, abis, platforms = (part.split(".") for part in parts[-3:])
    build = re.match(r"\d+", parts[2]) if len(parts) > 5 else None
    own = "cp%d%d" % sys.version_info[:2]
    versions = [int(digits.group()) for digits in (re.search(r"\d+", python) for python in pythons) if digits]
    if own in abis:
        closeness = 4
    elif "abi3" in abis:
        closeness = 3
    elif own in pythons:
        closeness = 2
    else:
        closeness = 1
    # Tags such as `manylinux_2_28_x86_64`, and the older names.
    glibc = [int(minor) for one in platforms for minor in re.findall(r"_2_(\d+)_", one)]
    newest = max(glibc, default=0 if platforms == ["any"] else 1)
    return (closeness, max(versions, default=0), newest, int(build.group()) if build else -1)
