"""Makes locks: ``uv pip compile`` turns the requirements of a model into exact versions with hashes.

uv gets files that are written here from the parsed requirements, never a file of the model.
"""

import os
import re
import shlex
import sys
from pathlib import Path
from typing import Dict, List, Optional, Sequence, Tuple

from carton_runner.environments import listing, lock, python_versions, requirement_lines, requirements, store, uv
from carton_runner.environments.local_wheels import RequestedWheel
from carton_runner.environments.requirements import REQUIREMENTS, Inputs
from carton_runner.environments.sources import Sources, chosen
from carton_runner.errors import RunnerError

#: The fields in the comments of a lock.
FIELDS = ("inputs", "python", "platforms")
#: The folder of the model's wheels in uv's working folder, and that of those of `--find-links` in it.
WHEELS, OFFERED = "wheels", "offered"


def compile_lock(inputs: Inputs, report, sources: Optional[Sources] = None, built: Sequence[RequestedWheel] = ()) -> str:
    """Returns the text of a lock for the interpreter's minor version: NumPy and the packages that the inputs request, for every
    platform if there are such versions, otherwise for this one. ``sources`` are those that the inputs name, if the user packs the model;
    otherwise such lines are refused. ``built`` are the wheels of its repositories."""
    # Checked before any program is started.
    if sources is None:
        sources = chosen(inputs.sources, False, report)
    if not uv.may_build():
        _refuse_builds(inputs)
    if inputs.pinned or inputs.project:
        return _written(inputs, _exact(inputs, sources, report), "all")
    if len(built) != len(inputs.repositories):
        # Only whoever packs a model says that its packages may be built.
        raise requirement_lines.elsewhere(inputs.repositories[0].place, inputs.repositories[0].text())
    return _written(inputs, *_resolve(inputs._replace(wheels=(*inputs.wheels, *built)), sources, report))


def _written(inputs: Inputs, locked: lock.Lock, platforms: str) -> str:
    fields = dict(zip(FIELDS, (f"sha256:{inputs.digest()}", store.minor_version(), platforms)))
    return lock.Lock(fields, locked.requirements).text("The packages of this model, as `carton pack` has locked them.")


def _exact(inputs: Inputs, sources: Sources, report) -> lock.Lock:
    """Returns the packages of a lock of another tool, and NumPy, which the runner needs."""
    found = lock.Lock({}, inputs.pinned)
    if inputs.project is not None:
        tool = uv.find(report, sources)
        with uv.working_folder() as folder:
            for name, text in zip(("pyproject.toml", "uv.lock"), inputs.project):
                (folder / name).write_text(text)
            command = ["export", "--frozen", "--offline", "--no-default-groups", "--no-emit-project", "--no-header", "--no-annotate"]
            command += ["--format", "requirements-txt", "--python", sys.executable, "--output-file", "lock.txt"]
            tool.run(command, str(folder), "read the lock of the model's project", report)
            try:
                found = lock.parse((folder / "lock.txt").read_text(), "the lock that uv made")
            except OSError as error:
                raise RunnerError("uv made no lock", [str(error)]) from error
    if "numpy" in found.names():
        return found
    added, _ = _resolve(Inputs.of_numpy_alone(), sources, report)
    return lock.Lock({}, (*found.requirements, *added.requirements))


def _resolve(inputs: Inputs, sources: Sources, report) -> Tuple[lock.Lock, str]:
    """Returns the packages that `uv` chooses, and the platforms that they are for."""
    tool = uv.find(report, sources)
    report.info(f"locking the packages of the model with {shlex.join(tool.command)}")
    minor = store.minor_version()
    following = "3.%d" % (int(minor.split(".")[1]) + 1)
    here = f"python_full_version >= '{minor}' and python_full_version < '{following}' and sys_platform != 'win32'"
    with uv.working_folder(f'environments = ["{here}"]\n') as folder:
        links = _links(folder / WHEELS, inputs)
        requested = "".join(f"{wheel.line(folder / WHEELS)}\n" for wheel in inputs.wheels)
        (folder / "requirements.txt").write_text(requirements.written(inputs.packages) + requested + "numpy\n")
        (folder / "constraints.txt").write_text(requirements.written(inputs.constraints))
        try:
            compiled, platforms = _compile_anywhere(tool, folder, [*_settings(inputs), *links], report)
        except RunnerError as error:
            if error.code == "failed" and inputs.path:
                # The fault is not the model's: the requested packages are not available.
                newer = python_versions.advice_on_unsatisfiable(" ".join([error.message, *error.causes]))
                error.code, error.hint = "setup", error.hint or newer or f"check the names and versions in {inputs.path.name}"
            raise
        compiled = _by_their_versions(compiled, folder / WHEELS, inputs)
    return _with_hashes(_with_offered(_checked(compiled), inputs), inputs), platforms


def _links(folder: Path, inputs: Inputs) -> List[str]:
    """Makes the folder of the wheels of the model, and returns the options of uv that offer those of folders."""
    offered = folder / OFFERED
    offered.mkdir(parents=True)
    for place, wheels in ((folder, [one.file for one in inputs.wheels]), (offered, inputs.offered)):
        for wheel in wheels:
            link = place / wheel.path.name
            if link.is_symlink() and os.readlink(link) != os.path.realpath(wheel.path):
                raise RunnerError(
                    f"two wheels of the model are called `{wheel.path.name}`", code="setup", hint="delete one of them"
                )
            if not link.is_symlink():
                os.symlink(os.path.realpath(wheel.path), link)
    return ["--find-links", f"{WHEELS}/{OFFERED}"] if inputs.offered else []


def _by_their_versions(compiled: str, folder: Path, inputs: Inputs) -> str:
    """Returns uv's lock with names and versions in place of the paths of wheels, which a lock does not name."""
    for wheel in inputs.wheels:
        place = re.escape((folder / wheel.file.path.name).as_uri())
        name = re.escape(wheel.file.name)
        found = re.compile(rf"^{name}(\[[^\]\n]*\])? @ {place}(?=[ \n])", re.MULTILINE)
        compiled = found.sub(rf"{wheel.file.name}\g<1>=={wheel.file.version}", compiled)
    return compiled


def _settings(inputs: Inputs) -> List[str]:
    """Returns the options of uv for the options in the inputs."""
    options = ["--prerelease", "allow"] if inputs.values("--pre") else []
    if uv.may_build():
        # Otherwise no package is built, and these are not allowed to change that.
        for option in ("--no-binary", "--only-binary"):
            for value in inputs.values(option):
                options += [word for name in value.split(",") for word in (option, name)]
    return options


#: A line of uv's lock without hashes.
_WITHOUT_HASH = re.compile(r"^([A-Za-z0-9._-]+)==([A-Za-z0-9.!+_-]+)((?: ;[^\n\\]*)?)$", re.MULTILINE)


def _complete(compiled: str, tool: uv.Uv, folder: Path, options: List[str], report) -> str:
    """Returns uv's lock with the hashes of files from pages of links, which uv writes into a ``pylock.toml`` alone."""
    if not _WITHOUT_HASH.search(compiled):
        return compiled
    listed = listing.parse(_compile(tool, folder, [*options, "--format", "pylock.toml"], report, "pylock.toml"))
    hashes = {}
    for package in listed:
        files = (*package.wheels, *((package.sdist,) if package.sdist else ()))
        hashes[package.name] = [f" \\\n    --hash=sha256:{file.sha256}" for file in files if file.sha256]

    def with_hashes(line) -> str:
        found = hashes.get(lock.normalized(line.group(1)))
        if not found:
            raise RunnerError(
                f"no hash is known of `{line.group(1)}=={line.group(2)}`, and the page that has it names none",
                code="setup",
                hint="put the wheel into the model's folder, and write `./wheels/FILE.whl` in place of the name",
            )
        return line.group(0) + "".join(dict.fromkeys(found))

    return _WITHOUT_HASH.sub(with_hashes, compiled)


def _compile_anywhere(tool: uv.Uv, folder: Path, settings: List[str], report) -> Tuple[str, str]:
    """Returns uv's lock of the requirements in the folder, and the platforms that it is for."""
    try:
        options = [*settings, "--universal"]
        return _complete(_compile(tool, folder, options, report), tool, folder, options, report), "all"
    except RunnerError as error:
        if error.code != "failed":
            raise
    compiled = _complete(_compile(tool, folder, settings, report), tool, folder, settings, report)
    report.warn("the packages of the model could be locked for this platform only")
    return compiled, "this one"


def _compile(tool: uv.Uv, folder: Path, options: List[str], report, output: str = "lock.txt") -> str:
    command = ["pip", "compile", "--generate-hashes", "--no-header", "--no-annotate", "--no-emit-index-url"]
    command += ["--no-emit-find-links", "--python", sys.executable, "--python-version", store.minor_version()]
    command += [*uv.limits(), *tool.sources.options()]
    # uv warns of an empty file.
    constraints = ["-c", "constraints.txt"] if (folder / "constraints.txt").stat().st_size else []
    arguments = [*command, *options, *constraints, "--output-file", output, "requirements.txt"]
    try:
        tool.run(arguments, str(folder), "lock the model's packages", report)
    except RunnerError as error:
        if error.code == "network":
            offline = "allow the network: what was locked before is not asked for again"
            error.hint = offline if uv.is_offline() else "try again when the package index can be reached"
        raise
    try:
        return (folder / output).read_text()
    except OSError as error:
        raise RunnerError("uv made no lock", [str(error)]) from error


def _checked(text: str) -> lock.Lock:
    for line in text.split("\n"):
        if not line.startswith(("#", " ")) and requirement_lines.is_elsewhere(line.rstrip("\\")):
            raise requirement_lines.elsewhere("in the lock that uv made", line)
    return lock.parse(text, "the lock that uv made")


def _with_offered(locked: lock.Lock, inputs: Inputs) -> lock.Lock:
    """Returns the lock with the hashes of all wheels that the model offers of its versions. uv locks only the one that it has chosen, and the
    others may be for other platforms."""
    offered: Dict[Tuple[str, str], List[str]] = {}
    for wheel in inputs.offered:
        offered.setdefault((wheel.name, wheel.version), []).append(wheel.hash())
    requested = {wheel.file.name for wheel in inputs.wheels}

    def with_others(one: lock.Requirement) -> lock.Requirement:
        name = lock.normalized(one.name)
        others = () if name in requested else offered.get((name, one.version), ())
        return one._replace(hashes=tuple(dict.fromkeys((*one.hashes, *others))))

    return locked._replace(requirements=tuple(map(with_others, locked.requirements)))


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
