"""Lists the files that an installer would take here for the packages of a lock: `uv` names those that fit, in a ``pylock.toml`` (PEP 751),
and the best one is chosen."""

import os
import re
import sys
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple
from urllib.parse import unquote, urlsplit

from carton_runner.calls import Cancelled
from carton_runner.environments import lock, uv
from carton_runner.environments.local_wheels import WheelFile
from carton_runner.errors import RunnerError

_NAME = re.compile(r'^name = "([A-Za-z0-9._-]+)"$', re.MULTILINE)
_VERSION = re.compile(r'^version = "([A-Za-z0-9.!+_-]+)"$', re.MULTILINE)
_WHEELS = re.compile(r"^wheels = \[", re.MULTILINE)
_SDIST = re.compile(r"^sdist = (\{[^\n]*\})$", re.MULTILINE)
_FILE = re.compile(r'\{[^{}]*?url = "([^"\\]*)"[^{}]*hashes = \{([^{}]*)\}[^{}]*\}')
_SHA256 = re.compile(r'sha256 = "([0-9a-f]{64})"')
#: The folder of local wheels in uv's working folder.
_LOCAL = "local"


class File(NamedTuple):
    """A file of a package, where uv has found it."""

    url: str
    #: ``None`` if uv names no SHA-256.
    sha256: Optional[str]

    def name(self) -> str:
        """Returns the name of the file."""
        return unquote(urlsplit(self.url).path).rsplit("/", 1)[-1]


class Listed(NamedTuple):
    """The files of a package that fit here."""

    #: Normalized.
    name: str
    version: str
    wheels: Tuple[File, ...]
    sdist: Optional[File]

    def best(self) -> Optional[File]:
        """Returns the wheel that an installer would choose; ``None`` if none fits."""
        return max(self.wheels, key=lambda one: preference(one.name()), default=None)


def own(locked: lock.Lock, local: Sequence[WheelFile]) -> List[Listed]:
    """Returns the packages of a lock that have one file, a wheel of this machine for all platforms. No index needs to know their names."""
    by_hash = {wheel.hash(): wheel for wheel in local if wheel.path.name.endswith("-none-any.whl")}
    following = "3.%d" % (sys.version_info[1] + 1)
    # What uv writes for a package without a condition, where `compiling` makes the lock.
    always = ("", f"python_full_version < '{following}' and sys_platform != 'win32'")
    found = []
    for one in locked.requirements:
        wheel = by_hash.get(one.hashes[0]) if len(one.hashes) == 1 and one.marker in always else None
        if wheel is not None:
            found.append(Listed(wheel.name, wheel.version, (File(wheel.path.as_uri(), wheel.sha256),), None))
    return found


def compiled(tool: uv.Uv, locked: lock.Lock, local: Sequence[WheelFile], options: Sequence[Sequence[str]], report) -> List[str]:
    """Returns what uv writes of the packages of a lock, but for :func:`own` ones, once with each of the ``options``. ``local`` are wheels of
    this machine."""
    known = {package.name for package in own(locked, local)}
    asked = [one for one in locked.requirements if lock.normalized(one.name) not in known]
    if not asked:
        return ["" for _ in options]
    with uv.working_folder() as folder:
        (folder / "requirements.txt").write_text("".join(f"{one.line()}\n" for one in asked))
        (folder / _LOCAL).mkdir()
        for wheel in local:
            place = folder / _LOCAL / wheel.path.name
            if not place.is_symlink():
                os.symlink(os.path.realpath(wheel.path), place)
        common = [*tool.sources.options(), *(("--find-links", _LOCAL) if local else ())]
        return [_compile(tool, folder, [*common, *given], report) for given in options]


def _compile(tool: uv.Uv, folder: Path, options: Sequence[str], report) -> str:
    # uv takes the name of a `pylock.toml` from no other file.
    place = folder / ("pylock.toml" if "pylock.toml" in options else "listed.txt")

    def run(limits: Sequence[str]) -> None:
        place.unlink() if place.exists() else None
        command = ["pip", "compile", "--no-deps", "--no-header", "--no-annotate", "--python", sys.executable, *limits, *options]
        command += ["--output-file", place.name, "requirements.txt"]
        tool.run(command, str(folder), "find the wheels of the model's packages", report)

    try:
        # Where the lock was just made, uv has kept what it read of these packages. Asking the index again takes longer than all else.
        run(uv.limits(needs_network=False))
    except Cancelled:
        raise
    except RunnerError:
        if uv.is_offline():
            raise
        run(uv.limits())
    try:
        return place.read_text()
    except OSError as error:
        raise RunnerError("uv made no list of wheels", [str(error)]) from error


def parse(pylock: str) -> List[Listed]:
    """Reads the packages that uv lists in a ``pylock.toml`` of its own."""
    found = []
    for block in pylock.split("[[packages]]")[1:]:
        named, listed, sdist = _NAME.search(block), _WHEELS.search(block), _SDIST.search(block)
        version = _VERSION.search(block)
        name = lock.normalized(named.group(1)) if named else "?"
        wheels = tuple(_file(*one) for one in _FILE.findall(block[listed.end() :])) if listed else ()
        source = _FILE.fullmatch(sdist.group(1)) if sdist else None
        found.append(Listed(name, version.group(1) if version else "?", wheels, _file(*source.groups()) if source else None))
    return found


def _file(url: str, described: str) -> File:
    sha256 = _SHA256.search(described)
    return File(url, sha256.group(1) if sha256 else None)


def hashes(locked: lock.Lock) -> Dict[str, set]:
    """Returns the hashes of the files of each package of a lock, by the package's normalized name."""
    found: Dict[str, set] = {}
    for requirement in locked.requirements:
        found.setdefault(lock.normalized(requirement.name), set()).update(requirement.hashes)
    return found


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
