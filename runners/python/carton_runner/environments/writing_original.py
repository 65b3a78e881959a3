"""Writes ``.carton/carton.lock``, so that the original Carton can run the packed model too.

Its runner needs one exact wheel for each package: a URL, or a file of the model. ``uv`` lists the wheels of a locked version for
this interpreter, with their URLs, in a ``pylock.toml`` (PEP 751). Bundled wheels are named by their paths, because the original
accepts any path in the model.
"""

import hashlib
import re
from pathlib import Path
from typing import List, NamedTuple, Sequence, Set, Tuple
from urllib.parse import urlsplit

from carton_runner.calls import Cancelled
from carton_runner.environments import listing, local_wheels, lock, original_lock, uv
from carton_runner.environments.local_wheels import WheelFile
from carton_runner.environments.original_lock import Environment, LockedWheel, OriginalLock
from carton_runner.environments.sources import Sources
from carton_runner.errors import RunnerError

#: The markers that the original writes.
_MARKERS = ("os_name", "sys_platform", "platform_machine", "platform_python_implementation", "python_version")
_HEADER = "# The packages of this model for the runner of the original Carton, as `carton pack` has locked them.\n"

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


def text(
    locked: lock.Lock, folder: Path, model: Path, others: Tuple[Environment, ...], local: Sequence[WheelFile], sources: Sources, report
) -> str:
    """Returns the original's lock for the packages of our own lock. ``folder`` is the user's folder, ``model`` the packed one, and
    ``local`` are the wheels that the latter has where not all wheels are bundled.

    Raises :class:`CannotLock`."""
    if (model / lock.WHEELS_LOCK).exists():
        found = _bundled(model)
    else:
        try:
            found = _from_the_index(locked, local, sources, report)
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
    # Wheels of the model for other platforms may be beside them.
    listed = {one for requirement in lock.read(model / lock.WHEELS_LOCK, lock.WHEELS_LOCK).requirements for one in requirement.hashes}
    found = [(path, local_wheels.digest(path)) for path in sorted((model / lock.WHEELS).glob("*.whl"))]
    return [LockedWheel(sha256, None, f"{lock.WHEELS}/{path.name}") for path, sha256 in found if f"--hash=sha256:{sha256}" in listed]


def _from_the_index(locked: lock.Lock, local: Sequence[WheelFile], sources: Sources, report) -> List[LockedWheel]:
    if not locked.requirements:
        return []
    tool = uv.find(report, sources)
    # Not `--universal`, because only wheels for this interpreter and this platform are needed.
    options = (("--format", "pylock.toml"), ("--emit-index-annotation",))
    pylock, annotated = listing.compiled(tool, locked, local, options, report)
    return choose(pylock, locked, index_hosts(annotated), local)


def choose(pylock: str, locked: lock.Lock, indexes: Set[str], local: Sequence[WheelFile] = ()) -> List[LockedWheel]:
    """Returns the wheel of each package that an installer would choose here, among those that uv lists, which all fit. ``indexes``
    are the hosts of the package indexes, ``local`` the wheels that are in the model."""
    hashes = listing.hashes(locked)
    bundled = {wheel.sha256: f"{lock.WHEELS}/{wheel.path.name}" for wheel in local}
    found = []
    for package in (*listing.parse(pylock), *listing.own(locked, local)):
        name, best = package.name, package.best()
        if best is None:
            raise CannotLock(f"`{name}` has no wheel for this platform")
        if best.sha256 is None or f"--hash=sha256:{best.sha256}" not in hashes.get(name, set()):
            raise CannotLock(f"the wheel of `{name}` is not among the files that are locked")
        if best.sha256 in bundled:
            found.append(LockedWheel(best.sha256, None, bundled[best.sha256]))
            continue
        check_url(name, best.url, indexes)
        found.append(LockedWheel(best.sha256, best.url, None))
    if not found:
        raise CannotLock("uv lists no wheels")
    return found


def index_hosts(annotated: str) -> Set[str]:
    """Returns the hosts of the package indexes that uv names in a lock with annotations."""
    return {urlsplit(index).hostname or "" for index in _INDEX.findall(annotated)}


def check_url(name: str, url: str, indexes: Set[str]) -> None:
    """Refuses URLs that other machines cannot use, or that must not be published."""
    parts = urlsplit(url)
    if not original_lock.is_file_on_a_server(url) or parts.query or "@" in parts.netloc:
        raise CannotLock(f"the wheel of `{name}` is not at a plain https URL")
    if parts.hostname in indexes:
        # A lock names no index, and this one may be known only to this machine.
        raise CannotLock(f"the wheel of `{name}` is on the server of its package index, and a lock names none")
