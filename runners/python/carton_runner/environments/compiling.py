"""Makes locks: what a model asks for, turned into exact versions with hashes by ``uv pip compile``."""

import hashlib
import re
import shlex
import sys
import tempfile
from pathlib import Path
from typing import List, NamedTuple, Optional, Tuple

from carton_runner.environments import lock, store, uv
from carton_runner.errors import RunnerError

REQUIREMENTS = "requirements.txt"
#: What a lock says of itself.
FIELDS = ("inputs", "python", "platforms")

#: Larger files are no lists of requirements.
MAX_REQUIREMENTS_BYTES = 4 << 20
#: How many files may be included, one by the other.
MAX_FILES = 64
#: A change of how locks are made makes them anew.
_FORMAT = "1"

_INCLUDED = re.compile(r"(?:-r|-c|--requirement|--constraint)(?:[ \t=]+|(?=[^ \t=-]))(\S.*)")
_ELSEWHERE = re.compile(r"-e\b|--editable|\.{0,2}/|(?:[a-z0-9]+\+)?[a-z0-9]+:/|file:|[^ ]+ *(?:\[[^]]*\])? @ ", re.IGNORECASE)
_INDEX = re.compile(r"(?:-i|-f|--index-url|--extra-index-url|--find-links)(?:[ \t=]|$)")


class Inputs(NamedTuple):
    """What a lock is made from."""

    #: The ``requirements.txt``; ``None`` for a model without one.
    path: Optional[Path]
    #: The text of it and of every file that it includes.
    texts: Tuple[str, ...]

    @classmethod
    def of(cls, folder: Path) -> "Inputs":
        """The inputs of the model in this folder."""
        path = folder / REQUIREMENTS
        return cls(path, tuple(_texts(path))) if path.exists() else cls.of_numpy_alone()

    @classmethod
    def of_numpy_alone(cls) -> "Inputs":
        """Those of a model that asks for nothing."""
        return cls(None, ())

    def digest(self) -> str:
        """A hash by which it is seen that they have changed."""
        hasher = hashlib.sha256()
        for part in (_FORMAT, store.minor_version(), *self.texts):
            data = part.encode()
            hasher.update(len(data).to_bytes(8, "little") + data)
        return hasher.hexdigest()

    def names_an_index(self) -> bool:
        """Whether they say where packages come from, which a lock does not."""
        return any(_INDEX.match(line.strip()) for text in self.texts for line in text.splitlines())


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
        text = data.decode("utf-8-sig", errors="replace")
        texts.append(text)
        for line in text.splitlines():
            included = _INCLUDED.fullmatch(line.split(" #")[0].strip())
            if included and "://" not in included.group(1):
                to_read.append(path.parent / included.group(1).strip("\"'"))
    return texts


def compile_lock(inputs: Inputs, report) -> str:
    """The text of a lock for the interpreter's minor version: NumPy and what the inputs ask for, on every platform if
    there are such versions, else on this one."""
    for text in inputs.texts:
        # Before uv fetches it, or runs its build.
        _refuse_elsewhere(text)
    tool = uv.find(report)
    report.info(f"locking the packages of the model with {shlex.join(tool.command)}")
    if inputs.names_an_index():
        report.warn(
            f"{REQUIREMENTS} names a package index, and a lock does not: set `UV_INDEX` where the model is loaded, or pack it with "
            "`--bundle-wheels`"
        )
    with tempfile.TemporaryDirectory(prefix="carton-lock-") as scratch:
        folder = Path(scratch)
        minor = store.minor_version()
        following = "3.%d" % (int(minor.split(".")[1]) + 1)
        here = f"python_full_version >= '{minor}' and python_full_version < '{following}' and sys_platform != 'win32'"
        (folder / "pyproject.toml").write_text(f'[tool.uv]\nenvironments = ["{here}"]\n')
        (folder / "numpy.txt").write_text("numpy\n")
        sources = [str(inputs.path.resolve())] if inputs.path else []
        try:
            compiled, platforms = _compile_anywhere(tool, folder, [*sources, "numpy.txt"], report)
        except RunnerError as error:
            if error.code == "failed" and inputs.path:
                # It is not the model that is refused, but what is asked for that cannot be had.
                error.code, error.hint = "setup", f"check the names and versions in {REQUIREMENTS}"
            raise
    locked = _checked(compiled)
    fields = dict(zip(FIELDS, (f"sha256:{inputs.digest()}", minor, platforms)))
    return lock.Lock(fields, locked.requirements).text("The packages of this model, as `carton pack` has locked them.")


def _compile_anywhere(tool: uv.Uv, folder: Path, sources: List[str], report) -> Tuple[str, str]:
    """What uv makes of the sources, and for which platforms."""
    try:
        return _compile(tool, folder, sources, ["--universal"], report), "all"
    except RunnerError as error:
        if error.code != "failed":
            raise
    compiled = _compile(tool, folder, sources, [], report)
    report.warn("the packages of the model could be locked for this platform only")
    return compiled, "this one"


def _compile(tool: uv.Uv, folder: Path, sources: List[str], options: List[str], report) -> str:
    command = ["pip", "compile", "--generate-hashes", "--no-header", "--no-annotate", "--no-emit-index-url"]
    command += ["--no-emit-find-links", "--python", sys.executable, "--python-version", store.minor_version()]
    command += ["--offline"] if uv.is_offline() else []
    arguments = [*command, *options, "--output-file", "lock.txt", *sources]
    try:
        tool.run(arguments, str(folder), "lock the model's packages", report)
    except RunnerError as error:
        if error.code == "network":
            error.hint = "try again when the package index can be reached"
        raise
    try:
        return (folder / "lock.txt").read_text()
    except OSError as error:
        raise RunnerError("uv made no lock", [str(error)]) from error


def _checked(text: str) -> lock.Lock:
    _refuse_elsewhere(text)
    return lock.parse(text, "the lock that uv made")


def _refuse_elsewhere(text: str) -> None:
    """Refuses packages that do not come from an index: nobody else could get the same."""
    for line in text.splitlines():
        line = line.strip()
        if not line.startswith("#") and _ELSEWHERE.match(line):
            shown = line.split(" --hash")[0].split("://")[0]
            raise RunnerError(
                f"`{shown[:200].strip()}…` is not from a package index, and cannot be locked",
                code="setup",
                hint="put its code into the model's folder, or its package into an index",
            )
