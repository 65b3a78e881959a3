"""Builds the folder that becomes ``model/``, without changing the user's folder and without copying its files.

Every file is a symbolic link to the user's file: for a link that leaves the model, the packer stores the file it leads to. A
link to another file of the model stays a link; for that, its target has to be a file in the folder: a hard link, or a copy if
the file system has no hard links.
"""

import os
import shutil
from pathlib import Path
from typing import Callable, Iterable, List, Optional, Set, Tuple

from carton_runner.errors import RunnerError

#: The file that marks a folder as a virtual environment.
_ENVIRONMENT = "pyvenv.cfg"


def build(source: Path, destination: Path, leave_out: Callable[[str], bool], report, targets: Iterable[Path] = ()) -> None:
    """Creates ``destination`` with the contents of ``source``. ``leave_out`` is called with each path in the model, and returns
    whether to leave it out. ``targets`` are files that the caller will add links to."""
    try:
        builder = _Builder(source, destination, leave_out, report)
        inside = [builder._name_inside(os.path.realpath(target)) for target in targets]
        builder.targets.update(name for name in inside if name is not None)
        builder.run()
    except OSError as error:
        raise RunnerError("cannot gather the model's files", [str(error)], code="setup") from error


class _Builder:
    def __init__(self, source: Path, destination: Path, leave_out: Callable[[str], bool], report):
        self.root = os.path.realpath(source)
        self.destination = str(destination)
        self.leave_out = leave_out
        self.report = report
        #: Paths in the model that links lead to.
        self.targets: Set[str] = set()
        #: Files in the model, and their paths on disk.
        self.files: List[Tuple[str, str]] = []

    def run(self) -> None:
        self._folder(self.root, "", ())
        for name, path in self.files:
            place = os.path.join(self.destination, name)
            if self._is_target(name):
                _link_or_copy(path, place)
            else:
                os.symlink(path, place)

    def _is_target(self, name: str) -> bool:
        while name:
            if name in self.targets:
                return True
            name = os.path.dirname(name)
        return False

    def _folder(self, path: str, name: str, above: Tuple[Tuple[int, int], ...]) -> None:
        status = os.stat(path)
        identity = (status.st_dev, status.st_ino)
        if identity in above:
            raise RunnerError(f"`{name}` is a link that leads to a folder it is in")
        os.mkdir(os.path.join(self.destination, name))
        with os.scandir(path) as entries:
            listed = sorted(entries, key=lambda entry: entry.name)
        for entry in listed:
            inner = os.path.join(name, entry.name)
            if self._is_left_out(inner, entry.path):
                continue
            if entry.is_symlink():
                self._link(entry.path, inner, (*above, identity))
            elif entry.is_dir(follow_symlinks=False):
                self._folder(entry.path, inner, (*above, identity))
            else:
                self.files.append((inner, entry.path))

    def _is_left_out(self, name: str, path: str) -> bool:
        if self.leave_out(name) or os.path.realpath(path) == os.path.realpath(self.destination):
            return True
        if os.path.isfile(os.path.join(path, _ENVIRONMENT)):
            self.report.warn(
                f"`{name}` is a virtual environment and is left out; requirements.txt says what a model needs"
            )
            return True
        return False

    def _link(self, path: str, name: str, above: Tuple[Tuple[int, int], ...]) -> None:
        real = os.path.realpath(path)
        if not os.path.exists(real):
            raise RunnerError(f"`{name}` is a link, and nothing is where it leads to")
        inside = self._name_inside(real)
        if inside is not None:
            self.targets.add(inside)
            place = os.path.join(self.destination, name)
            os.symlink(os.path.relpath(os.path.join(self.destination, inside), os.path.dirname(place)), place)
        elif os.path.isdir(real):
            self._folder(real, name, above)
        else:
            self.files.append((name, real))

    def _name_inside(self, real: str) -> Optional[str]:
        """Returns the path in the model of a file or folder; ``None`` if it is outside of the model or left out."""
        relative = os.path.relpath(real, self.root)
        if relative == os.curdir or relative.split(os.sep)[0] == os.pardir:
            return None
        parts = relative.split(os.sep)
        for count in range(1, len(parts) + 1):
            name = os.sep.join(parts[:count])
            path = os.path.join(self.root, name)
            if self.leave_out(name) or os.path.isfile(os.path.join(path, _ENVIRONMENT)):
                return None
        return relative


def _link_or_copy(path: str, place: str) -> None:
    try:
        os.link(path, place)
    except OSError:
        shutil.copyfile(path, place)
