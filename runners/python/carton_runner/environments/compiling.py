"""Makes locks: ``uv pip compile`` turns the requirements of a model into exact versions with hashes.

uv gets files that are written here from the parsed requirements, never a file of the model.
"""

import os
import re
import shlex
import sys
from pathlib import Path
from typing import List, Tuple

from carton_runner.environments import lock, requirement_lines, requirements, store, uv
from carton_runner.environments.requirement_lines import Source
from carton_runner.environments.requirements import REQUIREMENTS, Inputs
from carton_runner.errors import RunnerError

#: The fields in the comments of a lock.
FIELDS = ("inputs", "python", "platforms")

#: The index of everybody, which a line may name although the user has not configured it.
_PYPI = "https://pypi.org/simple"
#: The variables in which the user names what lines of a model can ask for, by the variable that their error names.
_CONFIGURED = {
    "UV_DEFAULT_INDEX": ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX", "UV_EXTRA_INDEX_URL"),
    "UV_INDEX": ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX", "UV_EXTRA_INDEX_URL"),
    "UV_FIND_LINKS": ("UV_FIND_LINKS",),
    "UV_INSECURE_HOST": ("UV_INSECURE_HOST",),
}


def compile_lock(inputs: Inputs, report) -> str:
    """Returns the text of a lock for the interpreter's minor version: NumPy and the packages that the inputs request, for every
    platform if there are such versions, otherwise for this one."""
    # Checked before any program is started.
    for source in inputs.sources:
        if not _is_configured(source):
            raise requirement_lines.refused_source(source)
    if not uv.may_build():
        _refuse_builds(inputs)
    tool = uv.find(report)
    report.info(f"locking the packages of the model with {shlex.join(tool.command)}")
    if any(source.option != "--trusted-host" and _plain(source.value) != _PYPI for source in inputs.sources):
        report.warn(
            f"{REQUIREMENTS} names a package index, and a lock does not: set `UV_INDEX` where the model is loaded, or pack it with "
            "`--bundle-wheels`"
        )
    minor = store.minor_version()
    following = "3.%d" % (int(minor.split(".")[1]) + 1)
    here = f"python_full_version >= '{minor}' and python_full_version < '{following}' and sys_platform != 'win32'"
    with uv.working_folder(f'environments = ["{here}"]\n') as folder:
        (folder / "requirements.txt").write_text(requirements.written(inputs.packages) + "numpy\n")
        (folder / "constraints.txt").write_text(requirements.written(inputs.constraints))
        try:
            compiled, platforms = _compile_anywhere(tool, folder, _settings(inputs), report)
        except RunnerError as error:
            if error.code == "failed" and inputs.path:
                # The fault is not the model's: the requested packages are not available.
                error.code, error.hint = "setup", error.hint or f"check the names and versions in {REQUIREMENTS}"
            raise
    locked = _with_hashes(_checked(compiled), inputs)
    fields = dict(zip(FIELDS, (f"sha256:{inputs.digest()}", minor, platforms)))
    return lock.Lock(fields, locked.requirements).text("The packages of this model, as `carton pack` has locked them.")


def _is_configured(source: Source) -> bool:
    """Whether the user's own configuration has what a line asks for, so that the line can be left out."""
    variable = requirement_lines.SOURCES[source.option]
    value = _plain(source.value)
    if variable == "UV_DEFAULT_INDEX" and value == _PYPI:
        return True
    given = " ".join(os.environ.get(name, "") for name in _CONFIGURED.get(variable, ()))
    return value in [_plain(re.sub(r"^[A-Za-z0-9_-]+=(?=[a-z]+:)", "", word)) for word in given.replace(",", " ").split()]


def _plain(url: str) -> str:
    """Returns a URL in the form in which it is compared: without a user, a password and a slash at its end."""
    return re.sub(r"://[^/@]*@", "://", url).rstrip("/")


def _settings(inputs: Inputs) -> List[str]:
    """Returns the options of uv for the options in the inputs."""
    options = ["--prerelease", "allow"] if inputs.values("--pre") else []
    if uv.may_build():
        # Otherwise no package is built, and these are not allowed to change that.
        for option in ("--no-binary", "--only-binary"):
            for value in inputs.values(option):
                options += [word for name in value.split(",") for word in (option, name)]
    return options


def _compile_anywhere(tool: uv.Uv, folder: Path, settings: List[str], report) -> Tuple[str, str]:
    """Returns uv's lock of the requirements in the folder, and the platforms that it is for."""
    try:
        return _compile(tool, folder, [*settings, "--universal"], report), "all"
    except RunnerError as error:
        if error.code != "failed":
            raise
    compiled = _compile(tool, folder, settings, report)
    report.warn("the packages of the model could be locked for this platform only")
    return compiled, "this one"


def _compile(tool: uv.Uv, folder: Path, options: List[str], report) -> str:
    command = ["pip", "compile", "--generate-hashes", "--no-header", "--no-annotate", "--no-emit-index-url"]
    command += ["--no-emit-find-links", "--python", sys.executable, "--python-version", store.minor_version()]
    command += uv.limits()
    arguments = [*command, *options, "-c", "constraints.txt", "--output-file", "lock.txt", "requirements.txt"]
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
    for line in text.split("\n"):
        if not line.startswith(("#", " ")) and requirement_lines.is_elsewhere(line.rstrip("\\")):
            raise requirement_lines.elsewhere("in the lock that uv made", line)
    return lock.parse(text, "the lock that uv made")


def _with_hashes(locked: lock.Lock, inputs: Inputs) -> lock.Lock:
    """Returns the lock without files whose hashes are not those that the inputs name. uv locks all files of a version."""
    named = inputs.hashes()
    kept = []
    for requirement in locked.requirements:
        wanted = named.get(lock.normalized(requirement.name))
        if wanted is not None:
            hashes = tuple(one for one in requirement.hashes if one[len("--hash=") :] in wanted)
            if not hashes:
                raise RunnerError(
                    f"no file of `{requirement.name}=={requirement.version}` in the package index has a hash that {REQUIREMENTS} names",
                    code="setup",
                    hint="name the exact version that the hashes are of; they have to be of the kind that the index has, SHA-256",
                )
            requirement = requirement._replace(hashes=hashes)
        kept.append(requirement)
    return locked._replace(requirements=tuple(kept))


def _refuse_builds(inputs: Inputs) -> None:
    """Refuses options that make uv build packages although it is told to build none."""
    for value in inputs.values("--no-binary"):
        if value != ":none:":
            raise RunnerError(
                f"`--no-binary {value[:200]}` in {REQUIREMENTS} has a package built from source, which is not allowed",
                code="setup",
                hint="remove the line, or allow building packages from source",
            )
