"""Reads ``requirements.txt``, with the files of the model that it includes, and writes what ``uv`` gets instead of them."""

import hashlib
import os
import stat
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

from carton_runner.environments import local_wheels, lock, requirement_lines, store
from carton_runner.environments.local_wheels import RequestedWheel, WheelFile
from carton_runner.environments.requirement_lines import Included, LocalWheel, Package, Repository, Setting, Source, WheelFolder
from carton_runner.errors import RunnerError

REQUIREMENTS = "requirements.txt"

#: The greatest number of bytes of all files together. More cannot be lists of requirements.
MAX_REQUIREMENTS_BYTES = 4 << 20
#: The greatest number of files, included ones among them.
MAX_FILES = 64
#: The greatest number of files that include each other.
MAX_DEPTH = 8
#: The greatest number of packages, options and included files.
MAX_LINES = 10_000
#: The version of the procedure that makes locks. Changing it makes all locks anew.
_FORMAT = "1"

#: uv reads files that begin with one of these as UTF-16.
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


class Inputs(NamedTuple):
    """The requirements that a lock is made from."""

    #: The file that describes the packages; ``None`` for a model without one.
    path: Optional[Path] = None
    #: The text of that file and of every file that it includes.
    texts: Tuple[str, ...] = ()
    packages: Tuple[Package, ...] = ()
    #: Packages that are not requested, but restricted if another package requests them.
    constraints: Tuple[Package, ...] = ()
    #: The lines that say where packages come from.
    sources: Tuple[Source, ...] = ()
    settings: Tuple[Setting, ...] = ()
    #: Wheels of the model that are requested by their paths.
    wheels: Tuple[RequestedWheel, ...] = ()
    #: Wheels of the model in folders that `--find-links` names.
    offered: Tuple[WheelFile, ...] = ()
    #: Packages that are built from their repositories.
    repositories: Tuple[Repository, ...] = ()
    #: The exact versions of a ``pylock.toml``.
    pinned: Tuple[lock.Requirement, ...] = ()
    #: A ``pyproject.toml`` and a ``uv.lock`` that say them to `uv export`.
    project: Optional[Tuple[str, str]] = None

    @classmethod
    def of(cls, folder: Path) -> "Inputs":
        """Returns the inputs of the model in this folder."""
        path = folder / REQUIREMENTS
        return Reader(folder).read(path) if path.exists() else cls.of_numpy_alone()

    @classmethod
    def of_numpy_alone(cls) -> "Inputs":
        """Returns the inputs of a model without requirements."""
        return cls()

    def digest(self) -> str:
        """Returns a hash that changes when the inputs change."""
        hasher = hashlib.sha256()
        files = sorted(f"{wheel.path.name} sha256:{wheel.sha256}" for wheel in self.local())
        for part in (_FORMAT, store.minor_version(), *self.texts, *files):
            data = part.encode()
            hasher.update(len(data).to_bytes(8, "little") + data)
        return hasher.hexdigest()

    def local(self) -> List[WheelFile]:
        """Returns the wheels of the model that the lock may choose, each once."""
        found = {wheel.path: wheel for wheel in (*(one.file for one in self.wheels), *self.offered)}
        return list(found.values())

    def values(self, option: str) -> List[str]:
        """Returns the values of an option that holds for all packages."""
        return [setting.value for setting in self.settings if setting.option == option]

    def hashes(self) -> Dict[str, Set[str]]:
        """Returns the hashes that the files of some packages must have, by the normalized names of the packages."""
        found: Dict[str, Set[str]] = {}
        for package in (*self.packages, *self.constraints):
            if package.hashes:
                found.setdefault(lock.normalized(package.specifier.name), set()).update(package.hashes)
        return found


def written(packages: Tuple[Package, ...]) -> str:
    """Returns the text of a requirements file with these packages."""
    return "".join(f"{package.specifier.text()}\n" for package in packages)


class Reader:
    """Reads the files of one model, which are all in its folder."""

    def __init__(self, folder: Path, max_bytes: int = MAX_REQUIREMENTS_BYTES):
        self.folder = Path(os.path.realpath(folder))
        self.max_bytes = max_bytes
        self.n_bytes = self.n_lines = 0
        self.texts: Dict[Path, str] = {}

    def text(self, path: Path) -> str:
        """Returns the text of a file of the model."""
        return self._text(self._inside(path, path.name))

    def of_lines(self, path: Path, lines: Sequence[Tuple[int, str]]) -> Inputs:
        """Returns the inputs of lines that another kind of file has, with their numbers there, and of the files that they include."""
        by_number: Dict[int, str] = {}
        for number, line in lines:
            by_number[number] = line
        real = self._inside(path, path.name)
        original = self._text(real)
        self.texts[real] = "\n".join(by_number.get(number, "") for number in range(1, max(by_number, default=0) + 1))
        return self.read(path)._replace(texts=(path.name, original, *(text for file, text in self.texts.items() if file != real)))

    def read(self, path: Path) -> Inputs:
        """Returns the inputs of a list of requirements, and of the files that it includes."""
        packages: List[Package] = []
        constraints: List[Package] = []
        sources: List[Source] = []
        settings: List[Setting] = []
        wheels: List[RequestedWheel] = []
        repositories: List[Repository] = []
        offered: Dict[Path, WheelFile] = {}
        # The file, whether it has constraints, and the number of files that include it.
        to_read = [(self._inside(path, path.name), False, 0)]
        for file, is_constraint, depth in to_read:
            if depth > MAX_DEPTH:
                raise RunnerError(f"{REQUIREMENTS} includes files more than {MAX_DEPTH} deep", code="setup")
            name = os.path.relpath(file, self.folder)
            for line in requirement_lines.parse(self._text(file), name):
                self.n_lines += 1
                if self.n_lines > MAX_LINES:
                    raise RunnerError(f"{REQUIREMENTS} has more than {MAX_LINES} requirements", code="setup")
                if isinstance(line, Included):
                    inner = self._inside(file.parent / line.path, line.path)
                    found = (inner, is_constraint or line.is_constraint)
                    if found not in [known[:2] for known in to_read]:
                        to_read.append((*found, depth + 1))
                elif isinstance(line, Package):
                    (constraints if is_constraint else packages).append(line)
                elif isinstance(line, LocalWheel):
                    if is_constraint:
                        raise requirement_lines.elsewhere(line.place, line.path)
                    wheels.append(self.requested(file.parent, line))
                elif isinstance(line, Repository):
                    if is_constraint:
                        raise requirement_lines.elsewhere(line.place, line.text())
                    repositories.append(line)
                elif isinstance(line, WheelFolder):
                    place = self._beside(file.parent, line.path, "the folder of wheels", line.place)
                    for path in local_wheels.in_folder(place):
                        if path not in offered:
                            offered[path] = self._wheel(self._beside(place, path.name, "the wheel", line.place))
                elif isinstance(line, Source):
                    sources.append(line)
                else:
                    settings.append(line)
        texts = tuple(self.texts.values())
        return Inputs(
            path,
            texts,
            tuple(packages),
            tuple(constraints),
            tuple(sources),
            tuple(settings),
            tuple(wheels),
            tuple(offered.values()),
            tuple(repositories),
        )

    def requested(self, folder: Path, line: LocalWheel) -> RequestedWheel:
        """Returns the wheel that a line names, which is in a file of ``folder``."""
        path = self._beside(folder, line.path, "the wheel", line.place)
        wheel = self._wheel(path)
        local_wheels.check(path, line.hashes, line.place)
        return RequestedWheel(wheel, line.extras, line.marker)

    def _wheel(self, path: Path) -> WheelFile:
        try:
            if not os.path.isfile(path):
                # A pipe would never end.
                raise OSError("it is not a regular file")
            return WheelFile.of(path)
        except OSError as error:
            raise RunnerError(f"cannot read the wheel `{path}`", [str(error)], code="setup") from error

    def _beside(self, folder: Path, name: str, what: str, place: str) -> Path:
        """Returns the path of a file or folder of the model that a line names: relative to the file with the line, or to the model.
        The last part of the path stays as it is named, although it may be a link."""
        try:
            found = [path for path in (folder / name, self.folder / name) if os.path.exists(path)]
            real = Path(os.path.realpath(found[0])) if found else None
        except ValueError as error:
            raise RunnerError(f"cannot read {what} {name!r}, {place}", [str(error)], code="setup") from error
        if real is None:
            raise RunnerError(f"{what} {name!r}, {place}, does not exist", code="setup", hint="put it into the model's folder")
        if self.folder != real and self.folder not in real.parents:
            raise RunnerError(
                f"{what} {name!r}, {place}, is not in the model's folder",
                [f"it is at {str(real)!r}"],
                code="setup",
                hint="copy it into the model's folder",
            )
        return Path(os.path.abspath(found[0]))

    def _inside(self, path: Path, name: str) -> Path:
        """Returns the path of a file of the model without links."""
        try:
            real = Path(os.path.realpath(path))
        except ValueError as error:
            raise RunnerError(f"cannot read the requirements {name!r}", [str(error)], code="setup") from error
        if self.folder not in real.parents:
            # A secret of the user, read as the name of a package, would be sent to a package index.
            raise RunnerError(
                f"the requirements {name!r} are not in the model's folder",
                [f"they are at {str(real)!r}"],
                code="setup",
                hint="copy the file into the model's folder",
            )
        return real

    def _text(self, path: Path) -> str:
        if path in self.texts:
            return self.texts[path]
        if len(self.texts) == MAX_FILES:
            raise RunnerError(f"{REQUIREMENTS} includes more than {MAX_FILES} files", code="setup")
        limit = self.max_bytes - self.n_bytes
        try:
            # A pipe would never end, and opening it would never return.
            with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    raise OSError("it is not a regular file")
                data = file.read(limit + 1)
        except OSError as error:
            raise RunnerError(f"cannot read the requirements `{path}`", [str(error)], code="setup") from error
        if len(data) > limit:
            raise RunnerError(f"`{path.name}` and its files have more than {self.max_bytes} bytes", code="setup")
        self.n_bytes += len(data)
        if data.startswith(_UTF_16):
            raise RunnerError(f"`{path}` is UTF-16, expected UTF-8", code="setup", hint="save the file as UTF-8")
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise RunnerError(f"`{path}` is not UTF-8", [str(error)], code="setup", hint="save the file as UTF-8") from error
        self.texts[path] = text
        return text
