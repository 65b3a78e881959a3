"""Makes locks: ``uv pip compile`` turns the requirements of a model into exact versions with hashes."""

import re
import shlex
import sys
import tempfile
from pathlib import Path
from typing import List, Tuple

from carton_runner.environments import lock, requirements, store, uv
from carton_runner.environments.requirements import REQUIREMENTS, Inputs
from carton_runner.errors import RunnerError

#: The fields in the comments of a lock.
FIELDS = ("inputs", "python", "platforms")

_ELSEWHERE = re.compile(r"-e\b|--editable|\.{0,2}/|(?:[a-z0-9]+\+)?[a-z0-9]+:/|file:|[^ ]+ *(?:\[[^]]*\])? @ ", re.IGNORECASE)


def compile_lock(inputs: Inputs, report) -> str:
    """Returns the text of a lock for the interpreter's minor version: NumPy and the packages that the inputs request, for every
    platform if there are such versions, otherwise for this one."""
    for text in inputs.texts:
        # Checked before uv fetches a package, or runs its build.
        _refuse_elsewhere(text)
    if not uv.may_build():
        _refuse_builds(inputs)
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
                error.code, error.hint = "setup", error.hint or f"check the names and versions in {REQUIREMENTS}"
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
    command += uv.limits()
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
    for line in requirements.lines(text):
        if not line.startswith("#") and _ELSEWHERE.match(line):
            shown = line.split(" --hash")[0].split("://")[0]
            raise RunnerError(
                f"`{shown[:200].strip()}…` is not from a package index, and cannot be locked",
                code="setup",
                hint="put its code into the model's folder, or its package into an index",
            )


def _refuse_builds(inputs: Inputs) -> None:
    """Refuses lines that make uv build packages although it is told to build none."""
    for line in inputs.lines_that_build():
        raise RunnerError(
            f"`{line[:200]}` in {REQUIREMENTS} may have a package built from source, which is not allowed",
            code="setup",
            hint="remove the line (what it includes from a server can be put beside the file), or allow building packages from source",
        )
