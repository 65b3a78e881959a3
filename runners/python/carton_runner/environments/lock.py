"""Reads and writes ``.carton/requirements.lock``: exact versions of packages with the hashes of their files.

The format is only the part of pip's requirements format that a lock needs: no options, no URLs, no paths and no
``${VARIABLES}``, so that a lock of unknown origin can choose neither the source of packages nor the files that are read.
"""

import hashlib
import re
from typing import Dict, Iterator, List, NamedTuple, Tuple

from carton_runner.errors import RunnerError

#: The path of the lock in a model.
REQUIREMENTS_LOCK = ".carton/requirements.lock"
#: The lock of the bundled wheels, if there are some, and their folder.
WHEELS_LOCK = ".carton/wheels.lock"
WHEELS = ".carton/wheels"

#: Larger locks are refused: a thousand packages with fifty files each are 5 MB.
MAX_LOCK_BYTES = 32 << 20
#: Longer lines are refused. A requirement with the hashes of a thousand files has 75 kB.
MAX_LINE = 1 << 20

_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_EXTRAS = rf"\[{_NAME}(?:,{_NAME})*\]"
_REQUIREMENT = re.compile(rf"({_NAME})({_EXTRAS})?==([A-Za-z0-9.!+_-]+)")
_MARKER = re.compile(r"""[A-Za-z0-9_ .'"<>=!~()*+,-]+""")
_HASH = re.compile(r"--hash=(?:sha256:[0-9a-f]{64}|sha384:[0-9a-f]{96}|sha512:[0-9a-f]{128})")
_FIELD = re.compile(r"# ([a-z-]+): (.*)")


class Requirement(NamedTuple):
    """One line of a lock."""

    name: str
    extras: str
    version: str
    marker: str
    #: ``--hash=…``, at least one.
    hashes: Tuple[str, ...]

    def line(self) -> str:
        """Returns the requirement on one line."""
        marker = f" ; {self.marker}" if self.marker else ""
        return f"{self.name}{self.extras}=={self.version}{marker} " + " ".join(self.hashes)


class Lock(NamedTuple):
    """A parsed lock."""

    #: The fields in its comments, such as ``# inputs: …``.
    fields: Dict[str, str]
    requirements: Tuple[Requirement, ...]

    def names(self) -> List[str]:
        """Returns the normalized names of its packages, sorted."""
        return sorted({normalized(requirement.name) for requirement in self.requirements})

    def lines(self) -> List[str]:
        """Returns its requirements without comments, one per line: two locks with the same lines are equal."""
        return [requirement.line() for requirement in self.requirements]

    def digest(self) -> str:
        """Returns a hash of its requirements."""
        return hashlib.sha256("\n".join(self.lines()).encode()).hexdigest()

    def text(self, comment: str) -> str:
        """Returns the text of the file."""
        parts = [f"# {comment}\n", *(f"# {name}: {value}\n" for name, value in self.fields.items())]
        for requirement in self.requirements:
            head, *hashes = requirement.line().split(" --hash=")
            parts.append(" \\\n    --hash=".join([head, *hashes]) + "\n")
        return "".join(parts)


def normalized(name: str) -> str:
    """Returns a package's name in the form in which indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def parse(text: str, place: str = REQUIREMENTS_LOCK) -> Lock:
    """Reads a lock. Any line that is neither a comment nor a pinned and hashed requirement is refused; the error has its number."""
    fields: Dict[str, str] = {}
    requirements = []
    for number, line in _logical_lines(text, place):
        if line.startswith("#"):
            field = _FIELD.fullmatch(line)
            if field:
                fields.setdefault(field.group(1), field.group(2))
        elif line:
            requirements.append(_requirement(line, f"line {number} of {place}"))
    return Lock(fields, tuple(requirements))


def read(path, place: str = REQUIREMENTS_LOCK) -> Lock:
    """Reads the lock at ``path``."""
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_LOCK_BYTES + 1)
        if len(data) > MAX_LOCK_BYTES:
            raise RunnerError(f"{place} has more than {MAX_LOCK_BYTES} bytes")
        return parse(data.decode(), place)
    except OSError as error:
        raise RunnerError(f"cannot read {place}", [str(error)]) from error
    except UnicodeDecodeError as error:
        raise RunnerError(f"{place} is not UTF-8", [str(error)]) from error


def _logical_lines(text: str, place: str) -> Iterator[Tuple[int, str]]:
    """Yields logical lines with the number of their first line. A line that ends with a back slash is joined with the next."""
    begun: List[str] = []
    first = length = 0
    for number, line in enumerate(text.split("\n"), 1):
        line = line.rstrip("\r")
        if not begun:
            first, length = number, 0
        length += len(line) + 1
        if length > MAX_LINE:
            raise RunnerError(f"line {first} of {place} is longer than {MAX_LINE} characters")
        begun.append(line[:-1] if line.endswith("\\") else line)
        if not line.endswith("\\"):
            yield first, " ".join(begun).strip(" \t")
            begun = []
    if begun:
        yield first, " ".join(begun).strip(" \t")


def _requirement(line: str, place: str) -> Requirement:
    def refused(problem: str) -> RunnerError:
        shown = line if len(line) <= 200 else line[:200] + "…"
        return RunnerError(
            f"{place} {problem}",
            [f"expected NAME==VERSION --hash=sha256:…, found {shown!r}"],
            hint="the lock is made by `carton pack`; pack the model again",
        )

    words = [word for word in line.replace("\t", " ").split(" ") if word]
    count = next((index for index, word in enumerate(words) if word.startswith("--")), len(words))
    specifier, hashes = " ".join(words[:count]), words[count:]
    for given in hashes:
        if not _HASH.fullmatch(given):
            raise refused("has something that is no hash")
    pinned, _, marker = (part.strip() for part in specifier.partition(";"))
    match = _REQUIREMENT.fullmatch(pinned)
    if not match:
        raise refused("is no exact version of a package")
    if ";" in specifier and not _MARKER.fullmatch(marker):
        raise refused("has a marker that is none")
    if not hashes:
        raise refused("has no hash")
    return Requirement(match.group(1), match.group(2) or "", match.group(3), marker, tuple(hashes))
