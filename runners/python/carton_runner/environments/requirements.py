"""Reads ``requirements.txt``, with the files that it includes."""

import hashlib
import re
from pathlib import Path
from typing import List, NamedTuple, Optional, Tuple

from carton_runner.environments import store
from carton_runner.errors import RunnerError

REQUIREMENTS = "requirements.txt"

#: Larger files are refused, because they cannot be lists of requirements.
MAX_REQUIREMENTS_BYTES = 4 << 20
#: The greatest number of files, included ones among them.
MAX_FILES = 64
#: The version of the procedure that makes locks. Changing it makes all locks anew.
_FORMAT = "1"

_INCLUDED = re.compile(r"(?:--requirement|--constraint|-r|-c)[ \t=]*(\S.*)")
_INDEX = re.compile(r"(?:-i|-f|--index-url|--extra-index-url|--find-links)(?:[ \t=]|$)")
_LINE_END = re.compile(r"\r\n|\r|\n")
#: uv reads files that begin with one of these as UTF-16, and would see another text than this module.
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


class Inputs(NamedTuple):
    """The requirements that a lock is made from."""

    #: The ``requirements.txt``; ``None`` for a model without one.
    path: Optional[Path]
    #: The text of that file and of every file that it includes.
    texts: Tuple[str, ...]

    @classmethod
    def of(cls, folder: Path) -> "Inputs":
        """Returns the inputs of the model in this folder."""
        path = folder / REQUIREMENTS
        return cls(path, tuple(_texts(path))) if path.exists() else cls.of_numpy_alone()

    @classmethod
    def of_numpy_alone(cls) -> "Inputs":
        """Returns the inputs of a model without requirements."""
        return cls(None, ())

    def digest(self) -> str:
        """Returns a hash that changes when the inputs change."""
        hasher = hashlib.sha256()
        for part in (_FORMAT, store.minor_version(), *self.texts):
            data = part.encode()
            hasher.update(len(data).to_bytes(8, "little") + data)
        return hasher.hexdigest()

    def names_an_index(self) -> bool:
        """Whether the inputs name a package index, which a lock does not."""
        return any(_INDEX.match(line) for text in self.texts for line in lines(text))

    def lines_that_build(self) -> List[str]:
        """Returns the lines with which uv may build a package although it is told to build none, or that may include such
        lines from a server."""
        found = []
        for text in self.texts:
            for line in lines(text):
                included = _included(line)
                is_remote = included is not None and "://" in included
                if is_remote or ("--no-binary" in line and not line.startswith("#")):
                    found.append(line)
        return found


def lines(text: str) -> List[str]:
    """Returns the lines of a list of requirements as uv reads them, without white space around them: a line that ends with a
    back slash is joined with the next."""
    return [line.strip() for line in _LINE_END.split(re.sub(r"\\(?:\r\n|\r|\n)", " ", text))]


def _included(line: str) -> Optional[str]:
    """Returns the name of the file that a line includes."""
    included = _INCLUDED.fullmatch(line.split(" #")[0].strip())
    return included.group(1).strip("\"'") if included else None


def _texts(path: Path) -> List[str]:
    texts: List[str] = []
    to_read, seen = [path], set()
    while to_read:
        path = to_read.pop(0)
        if path.resolve() in seen:
            continue
        seen.add(path.resolve())
        if len(seen) > MAX_FILES:
            raise RunnerError(f"{REQUIREMENTS} includes more than {MAX_FILES} files")
        try:
            with open(path, "rb") as file:
                data = file.read(MAX_REQUIREMENTS_BYTES + 1)
        except OSError as error:
            raise RunnerError(f"cannot read the requirements `{path}`", [str(error)], code="setup") from error
        if len(data) > MAX_REQUIREMENTS_BYTES:
            raise RunnerError(f"`{path}` has more than {MAX_REQUIREMENTS_BYTES} bytes")
        if data.startswith(_UTF_16):
            raise RunnerError(f"`{path}` is UTF-16, expected UTF-8", code="setup", hint="save the file as UTF-8")
        text = data.decode("utf-8-sig", errors="replace")
        texts.append(text)
        for line in lines(text):
            included = _included(line)
            if included is not None and "://" not in included:
                to_read.append(path.parent / included)
    return texts
