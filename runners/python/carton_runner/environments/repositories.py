"""Builds packages of git repositories into wheels, where building is allowed: it runs code of the packages. Only packing does this, and
the carton gets the wheels, because nobody else can make the same ones.

A commit is named by its hash, so that the lock does not depend on where a branch or tag leads today.
"""

import re
import shutil
from pathlib import Path
from typing import List, Optional, Sequence

from carton_runner.environments import local_wheels, lock, programs, uv, variables, wheels
from carton_runner.environments.local_wheels import RequestedWheel, WheelFile
from carton_runner.environments.requirement_lines import Repository
from carton_runner.environments.sources import Sources
from carton_runner.errors import RunnerError

#: Seconds that a server may take to say which commit a name leads to.
_PATIENCE = 60
_LISTED = re.compile(r"([0-9a-f]{40})\trefs/(heads|tags)/(\S+)")


def check(repositories: Sequence[Repository], report) -> None:
    """Refuses repositories that cannot be built: without the permission, or by a name that may lead elsewhere tomorrow."""
    for one in repositories:
        if not uv.may_build():
            raise RunnerError(
                f"`{one.name}`, {one.place}, is built from its repository, which runs code of the package and is not allowed",
                code="setup",
                hint="allow it, if you trust that code: `carton pack --allow build`; or put its wheel into the model's folder",
            )
        if shutil.which("git") is None:
            raise RunnerError(
                f"`git`, which fetches `{one.name}`, is not on this machine", code="unavailable", hint="install git"
            )
        if not one.is_commit():
            commit = None if uv.is_offline() else _commit(one, report)
            named = f"the revision `{one.revision}`" if one.revision else "no revision"
            raise RunnerError(
                f"`{one.name}`, {one.place}, has {named}, expected a commit: other packs could get other code",
                code="setup",
                hint=f"write `@{commit}`, which is that commit now" if commit else "write `@` and the 40 digits of a commit",
            )


def are_there(repositories: Sequence[Repository], locked: lock.Lock, folder: Path) -> bool:
    """Whether the wheels that a lock was made with are in the wheels of a model that was packed before."""
    if not repositories:
        return True
    there = [WheelFile.of(path) for path in local_wheels.in_folder(folder)] if folder.is_dir() else []
    names = {wheel.name for wheel in there if wheel.is_locked_by(locked)}
    return all(lock.normalized(one.name) in names for one in repositories)


def build(repositories: Sequence[Repository], folder: Path, sources: Sources, report) -> List[RequestedWheel]:
    """Builds the wheels in ``folder``, which is made."""
    found: List[RequestedWheel] = []
    for at, one in enumerate(repositories):
        if uv.is_offline():
            raise RunnerError(
                f"`{one.name}` cannot be fetched: the network must not be used",
                code="network",
                hint="pack the model without `--offline`",
            )
        place = folder / str(at)
        place.mkdir(parents=True)
        report.info(f"building `{one.name}` of commit {one.revision}")
        with uv.working_folder() as cwd:
            status, said = programs.run([*wheels.pip_wheel(report, place), one.text()], str(cwd), "pip", report, sources=sources)
        if status != 0:
            causes = uv.last_lines(variables.without_passwords(said, sources))
            raise RunnerError(f"`{one.name}`, {one.place}, cannot be built", causes or ["pip failed"], code="setup")
        built = local_wheels.in_folder(place)
        wheel = WheelFile.of(built[0]) if len(built) == 1 else None
        if wheel is None or wheel.name != lock.normalized(one.name):
            made = ", ".join(path.name for path in built) or "no wheel"
            raise RunnerError(
                f"`{one.name}`, {one.place}, was built into {made}", code="setup", hint="correct the name before the `@`"
            )
        if not wheel.path.name.endswith("-any.whl"):
            report.warn(f"`{wheel.path.name}`, which was built of {one.place}, is for this platform only")
        found.append(RequestedWheel(wheel, one.extras, one.marker))
    return found


def _commit(one: Repository, report) -> Optional[str]:
    """Returns the commit that a name leads to now, if the server says it."""
    wanted = one.revision or "HEAD"
    try:
        command = ["git", "ls-remote", "--", one.url, wanted, f"{wanted}^{{}}"]
        status, said = programs.run(command, "/", "git", report, patience=_PATIENCE)
    except (RunnerError, programs.TimeoutExpired):
        return None
    if status != 0:
        return None
    if not one.revision:
        head = re.search(r"^([0-9a-f]{40})\tHEAD$", said, re.MULTILINE)
        return head.group(1) if head else None
    found = {f"{kind}/{name}": commit for commit, kind, name in _LISTED.findall(said)}
    # An annotated tag is an object of its own, and leads to a commit.
    return found.get(f"tags/{wanted}^{{}}") or found.get(f"tags/{wanted}") or found.get(f"heads/{wanted}")
