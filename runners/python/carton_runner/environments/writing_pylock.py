"""Writes ``.carton/pylock.toml`` (PEP 751) beside our lock, so that other installers can make the environment of a model. Carton does not
read it.

That format needs a URL or a path for each file. A URL is only written if every machine can use it: plain ``https``, and not on the server
of a package index that may be known to this machine alone. If a package has others, there is no ``pylock.toml``.
"""

import json
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Set, Tuple

from carton_runner.calls import Cancelled
from carton_runner.environments import listing, lock, store, toml_files, uv, writing_original
from carton_runner.environments.local_wheels import WheelFile
from carton_runner.environments.sources import Sources
from carton_runner.environments.writing_original import CannotLock
from carton_runner.errors import RunnerError

#: Its path in a model.
PYLOCK = ".carton/pylock.toml"
_HEADER = "# The packages of this model for installers that read PEP 751, as `carton pack` has locked them.\n"


def is_of(path: Path, locked: lock.Lock) -> bool:
    """Whether the file at ``path`` has the packages of a lock, as this module writes them."""
    try:
        parsed = toml_files.parse(path.read_text(encoding="utf-8"), PYLOCK)
        blocks = parsed["packages"]
        files = [file for block in blocks for file in _files(block)]
        known = listing.hashes(locked)
        return (
            parsed.get("created-by") == "carton"
            and not _missing(locked, {(lock.normalized(block["name"]), block["version"]) for block in blocks})
            and all(
                f"--hash=sha256:{file['hashes']['sha256']}" in known[lock.normalized(block["name"])]
                for block in blocks
                for file in _files(block)
            )
            and not any("@" in file.get("url", "") or "?" in file.get("url", "") for file in files)
        )
    except (OSError, UnicodeDecodeError, RunnerError, KeyError, TypeError, AttributeError):
        return False


def text(locked: lock.Lock, local: Sequence[WheelFile], sources: Sources, report) -> str:
    """Returns the text of the file. ``local`` are the wheels that the carton has. Raises :class:`CannotLock`."""
    if not locked.requirements:
        raise CannotLock("there are no packages")
    try:
        options = (("--universal", "--format", "pylock.toml"), ("--universal", "--emit-index-annotation"))
        listed, annotated = listing.compiled(uv.find(report, sources), locked, local, options, report)
        blocks = toml_files.parse(listed, "the list of files that uv made").get("packages", [])
    except Cancelled:
        raise
    except RunnerError as error:
        raise CannotLock("; ".join([error.message, *error.causes[-1:]])) from error
    if isinstance(blocks, list):
        for package in listing.own(locked, local):
            wheels = [{"url": file.url, "hashes": {"sha256": file.sha256}} for file in package.wheels]
            blocks.append({"name": package.name, "version": package.version, "wheels": wheels})
    return written(blocks, locked, writing_original.index_hosts(annotated), local)


def written(blocks: Any, locked: lock.Lock, indexes: Set[str], local: Sequence[WheelFile] = ()) -> str:
    """Returns the text of the file for the packages that uv lists. ``indexes`` are the hosts of the package indexes."""
    known = listing.hashes(locked)
    bundled = {wheel.sha256: wheel.path.name for wheel in local}
    conditions: Dict[Tuple[str, str], List[str]] = {}
    for one in locked.requirements:
        conditions.setdefault((lock.normalized(one.name), one.version), []).append(one.marker)
    minor = store.minor_version()
    parts = [_HEADER, f'\nlock-version = "1.0"\nrequires-python = "=={minor}.*"\ncreated-by = "carton"\n']
    if not isinstance(blocks, list):
        raise CannotLock("uv lists no packages")
    for block in blocks:
        name, version = lock.normalized(str(block.get("name"))), str(block.get("version"))
        markers = conditions.pop((name, version), None)
        if markers is None:
            raise CannotLock(f"uv lists `{name}=={version}`, which is not locked")
        files = [_file(file, name, known.get(name, set()), indexes, bundled) for file in _files(block)]
        wheels = [file for file in files if file is not None and file[0].endswith(".whl")]
        sdists = [file for file in files if file is not None and not file[0].endswith(".whl")]
        if not wheels and not sdists:
            raise CannotLock(f"`{name}` has no file")
        parts.append(f"\n[[packages]]\nname = {_quoted(name)}\nversion = {_quoted(version)}\n")
        if all(markers):
            marker = markers[0] if len(markers) == 1 else " or ".join(f"({one})" for one in markers)
            parts.append(f"marker = {_quoted(marker)}\n")
        if sdists:
            parts.append(f"sdist = {sdists[0][1]}\n")
        if wheels:
            parts.append("wheels = [\n" + "".join(f"    {described},\n" for _, described in wheels) + "]\n")
    missing = _missing(locked, {(lock.normalized(str(block.get("name"))), str(block.get("version"))) for block in blocks})
    if missing:
        raise CannotLock(f"uv does not list {', '.join(missing)}")
    return "".join(parts)


def _missing(locked: lock.Lock, listed: Set[Tuple[str, str]]) -> List[str]:
    """Returns the packages of a lock that are not listed, but for those that may be for other versions of Python."""
    unlisted = [one for one in locked.requirements if (lock.normalized(one.name), one.version) not in listed]
    return sorted(f"`{one.name}=={one.version}`" for one in unlisted if "python" not in one.marker)


def _files(block: Dict[str, Any]) -> List[Dict[str, Any]]:
    return [*block.get("wheels", ()), *((block["sdist"],) if "sdist" in block else ())]


def _file(
    file: Dict[str, Any], package: str, known: Set[str], indexes: Set[str], bundled: Dict[str, str]
) -> Optional[Tuple[str, str]]:
    """Returns the name of a file, and its inline table; ``None`` for one that is not locked."""
    sha256, url = str(file.get("hashes", {}).get("sha256")), str(file.get("url", ""))
    if f"--hash=sha256:{sha256}" not in known:
        return None
    hashes = f'hashes = {{ sha256 = "{sha256}" }}'
    if sha256 in bundled:
        # Paths count from the folder of the file.
        path = f"{lock.WHEELS.rsplit('/', 1)[-1]}/{bundled[sha256]}"
        return bundled[sha256], f"{{ name = {_quoted(bundled[sha256])}, path = {_quoted(path)}, {hashes} }}"
    writing_original.check_url(package, url, indexes)
    name = listing.File(url, sha256).name()
    size = f"size = {file['size']}, " if isinstance(file.get("size"), int) else ""
    return name, f"{{ name = {_quoted(name)}, url = {_quoted(url)}, {size}{hashes} }}"


def _quoted(value: str) -> str:
    if not value.isascii() or not value.isprintable():
        raise CannotLock(f"it would hold {value[:200]!r}")
    return json.dumps(value)
