"""Wheels that are files of a model: named by their paths, or in a folder that `--find-links` names."""

import hashlib
import os
from pathlib import Path
from typing import Dict, Iterable, List, NamedTuple, Tuple

from carton_runner.environments import lock, requirement_lines
from carton_runner.errors import RunnerError

#: The greatest number of wheels in the folders of one model.
MAX_WHEELS = 1000
_BLOCK = 1 << 20


class WheelFile(NamedTuple):
    """A wheel on this machine."""

    path: Path
    #: Normalized.
    name: str
    version: str
    sha256: str

    @classmethod
    def of(cls, path: Path) -> "WheelFile":
        """Reads a wheel, whose file name has to be that of one. Raises ``OSError``."""
        found = requirement_lines.wheel_name(path.name)
        if found is None:
            raise RunnerError(f"`{path.name}` is not the name of a wheel", code="setup")
        return cls(path, lock.normalized(found[0]), found[1], digest(path))

    def hash(self) -> str:
        """Returns its hash as a lock has it."""
        return f"--hash=sha256:{self.sha256}"

    def requirement(self, extras: str = "", marker: str = "") -> lock.Requirement:
        """Returns the line of a lock that only this file satisfies."""
        return lock.Requirement(self.name, extras, self.version, marker, (self.hash(),))

    def is_locked_by(self, locked: lock.Lock) -> bool:
        """Whether it is one of the files of a lock."""
        return any(lock.normalized(one.name) == self.name and self.hash() in one.hashes for one in locked.requirements)


class RequestedWheel(NamedTuple):
    """A wheel that a line requests by its path."""

    file: WheelFile
    extras: Tuple[str, ...]
    marker: str

    def line(self, folder: Path) -> str:
        """Returns the line for uv. ``folder`` has the wheel under its name; its path and the name need no quoting."""
        extras = f"[{','.join(self.extras)}]" if self.extras else ""
        marker = f" ; {self.marker}" if self.marker else ""
        return f"{self.file.name}{extras} @ {(folder / self.file.path.name).as_uri()}{marker}"


def digest(path: Path, kind: str = "sha256") -> str:
    """Returns the SHA-256 of a file, or another digest."""
    hasher = hashlib.new(kind)
    with open(path, "rb") as file:
        while True:
            block = file.read(_BLOCK)
            if not block:
                return hasher.hexdigest()
            hasher.update(block)


def check(path: Path, hashes: Iterable[str], place: str) -> None:
    """Refuses a wheel with none of the hashes that its line names, if it names some."""
    wanted = list(hashes)
    found = [f"{kind}:{digest(path, kind)}" for kind in sorted({one.split(":")[0] for one in wanted})]
    if wanted and not set(wanted) & set(found):
        raise RunnerError(
            f"`{path.name}`, {place}, is not the file whose hash the line has",
            [f"expected {wanted[0]}, found {', '.join(found)}"],
            code="setup",
            hint="correct the hash, or put the file that was meant in its place",
        )


def in_folder(folder: Path) -> List[Path]:
    """Returns the wheels directly in a folder, by their names."""
    try:
        names = sorted(name for name in os.listdir(folder) if requirement_lines.wheel_name(name) is not None)
    except OSError as error:
        raise RunnerError(f"cannot read the folder of wheels `{folder}`", [str(error)], code="setup") from error
    if len(names) > MAX_WHEELS:
        raise RunnerError(f"the folder `{folder}` has more than {MAX_WHEELS} wheels", code="setup")
    return [folder / name for name in names if os.path.isfile(folder / name)]


def of_the_user(locked: lock.Lock) -> List[WheelFile]:
    """Returns the wheels in folders of the user's ``UV_FIND_LINKS`` that a lock has chosen and that no index has: all files of their
    version are there. Raises ``OSError``."""
    versions = {(lock.normalized(one.name), one.version): set(one.hashes) for one in locked.requirements}
    found: Dict[Tuple[str, str], List[WheelFile]] = {}
    for word in os.environ.get("UV_FIND_LINKS", "").split(","):
        folder = Path(word.strip())
        if not word.strip() or "://" in word or not os.path.isdir(folder):
            continue
        for path in in_folder(folder):
            name, version = requirement_lines.wheel_name(path.name) or ("", "")
            if (lock.normalized(name), version) in versions:
                wheel = WheelFile.of(path)
                found.setdefault((wheel.name, wheel.version), []).append(wheel)
    return [one for key, wheels in found.items() if versions[key] <= {one.hash() for one in wheels} for one in wheels]
