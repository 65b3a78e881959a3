"""Makes locks: ``uv pip compile`` turns the requirements of a model into exact versions with hashes."""

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
#: The fields in the comments of a lock.
FIELDS = ("inputs", "python", "platforms")

#: Larger files are refused, because they cannot be lists of requirements.
MAX_REQUIREMENTS_BYTES = 4 << 20
#: The greatest number of files, included ones among them.
MAX_FILES = 64
#: The version of the procedure that makes locks. Changing it makes all locks anew.
_FORMAT = "1"

_INCLUDED = re.compile(r"(?:-r|-c|--requirement|--constraint)(?:[ \t=]+|(?=[^ \t=-]))(\S.*)")
_ELSEWHERE = re.compile(r"-e\b|--editable|\.{0,2}/|(?:[a-z0-9]+\+)?[a-z0-9]+:/|file:|[^ ]+ *(?:\[[^]]*\])? @ ", re.IGNORECASE)
_INDEX = re.compile(r"(?:-i|-f|--index-url|--extra-index-url|--find-links)(?:[ \t=]|$)")


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
    """Returns the text of a lock for the interpreter's minor version: NumPy and the packages that the inputs request, for every
    platform if there are such versions, otherwise for this one."""
    for text in inputs.texts:
        # Checked before uv fetches a package, or runs its build.
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
                # The fault is not the model's: the requested packages are not available.
                error.code, error.hint = "setup", f"check the names and versions in {REQUIREMENTS}"
            raise
    locked = _checked(compiled)
    fields = dict(zip(FIELDS, (f"sha256:{inputs.digest()}", minor, platforms)))
    return lock.Lock(fields, locked.requirements).text("The packages of this model, as `carton pack` has locked them.")


def _compile_anywhere(tool: uv.Uv, folder: Path, sources: List[str], report) -> Tuple[str, str]:
    """Returns uv's lock of the sources, and the platforms that it is for."""
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
    """Refuses packages that do not come from an index, because other machines may not get the same files."""
    for line in text.splitlines():
        line = line.strip()
        if not line.startswith("#") and _ELSEWHERE.match(line):
            shown = line.split(" --hash")[0].split("://")[0]
            raise RunnerError(
                f"`{shown[:200].strip()}…` is not from a package index, and cannot be locked",
                code="setup",
                hint="put its code into the model's folder, or its package into an index",
            )
