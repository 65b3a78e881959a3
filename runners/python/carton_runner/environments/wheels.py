"""Puts the wheels of a lock into a carton, for the platform that it is packed on: `uv` says which, from the same indexes as the lock, and
`pip` downloads them, because ``uv`` cannot. Wheels of the model itself, which no index has, are put there in any case."""

import os
import re
import shutil
import sys
from pathlib import Path
from typing import List, NamedTuple, Sequence, Tuple

from carton_runner.environments import listing, local_wheels, lock, programs, store, uv, variables
from carton_runner.environments.local_wheels import WheelFile
from carton_runner.environments.sources import Sources
from carton_runner.errors import RunnerError

#: The URLs that pip gets: it would replace variables in others.
_URL = re.compile(r"https?://[A-Za-z0-9.\[\]:-]+/[A-Za-z0-9._~:/?&=%@+,()!*-]+", re.ASCII)


class _Chosen(NamedTuple):
    """The files for this platform."""

    #: Lines of a requirements file, each with a URL and a hash.
    fetched: Tuple[str, ...]
    #: Wheels of the model.
    local: Tuple[WheelFile, ...]


def bundle(locked: lock.Lock, model: Path, local: Sequence[WheelFile], sources: Sources, report) -> None:
    """Writes ``.carton/wheels/`` and ``wheels.lock`` into ``model``. ``local`` are the wheels of the model that are locked. Packages
    without a wheel for this platform are built, if that is allowed."""
    if uv.is_offline():
        raise RunnerError(
            "the wheels of the model cannot be fetched: the network must not be used",
            code="network",
            hint="pack the model without `--offline`",
        )
    folder = model / lock.WHEELS
    try:
        folder.mkdir(exist_ok=True)
        report.info(f"fetching the wheels of {len(locked.requirements)} requirements")
        chosen = _choose(locked, local, sources, report)
        # Not in the carton's folder: its files may be links to those of the user's folder.
        with uv.working_folder() as cwd:
            fetched = cwd / "wheels"
            fetched.mkdir()
            if chosen.fetched:
                requirements = cwd / "requirements.txt"
                requirements.write_text("".join(f"{line}\n" for line in chosen.fetched))
                _fetch(requirements, fetched, cwd, sources, report)
            found = [WheelFile.of(path) for path in sorted(fetched.iterdir()) if path.suffix == ".whl"]
            if len(found) != len(chosen.fetched):
                raise RunnerError(f"pip fetched {len(found)} wheels, expected {len(chosen.fetched)}")
            for wheel in found:
                shutil.move(str(wheel.path), str(folder / wheel.path.name))
        of_this_platform = sorted([*found, *chosen.local], key=lambda wheel: wheel.path.name)
        fields = {"platform": store.platform_tag(), "lock": f"sha256:{locked.digest()}"}
        wheels = lock.Lock(fields, tuple(wheel.requirement() for wheel in of_this_platform))
        text = wheels.text("The wheels that are in this carton, and the platform that they are for.")
        (model / lock.WHEELS_LOCK).write_text(text)
    except OSError as error:
        raise RunnerError("cannot gather the model's wheels", [str(error)], code="setup") from error
    report.info(f"bundled {len(of_this_platform)} wheels")


def add(local: Sequence[WheelFile], path: Path, model: Path) -> None:
    """Adds wheels of the folder ``path`` to the wheels of the carton: as links, where ``model`` has them too."""
    root = Path(os.path.realpath(path))
    try:
        (model / lock.WHEELS).mkdir(parents=True, exist_ok=True)
        for wheel in local:
            place, real = model / lock.WHEELS / wheel.path.name, Path(os.path.realpath(wheel.path))
            if place.is_symlink() or place.exists():
                continue
            inside = model / real.relative_to(root) if root in real.parents else None
            if inside is not None and inside.is_file() and not inside.is_symlink():
                os.symlink(os.path.relpath(inside, place.parent), place)
            else:
                os.symlink(real, place)
    except OSError as error:
        raise RunnerError("cannot gather the model's wheels", [str(error)], code="setup") from error


def _choose(locked: lock.Lock, local: Sequence[WheelFile], sources: Sources, report) -> _Chosen:
    """Chooses the file of each package for this platform."""
    if not locked.requirements:
        return _Chosen((), ())
    (pylock,) = listing.compiled(uv.find(report, sources), locked, local, [("--format", "pylock.toml")], report)
    known, by_hash = listing.hashes(locked), {wheel.sha256: wheel for wheel in local}
    fetched, kept = [], []
    for package in (*listing.parse(pylock), *listing.own(locked, local)):
        file = package.best() or (package.sdist if uv.may_build() else None)
        if file is None:
            text = f"cannot fetch the wheels of the model: `{package.name}` has no wheel for this platform and this Python"
            raise RunnerError(text, hint=uv.ALLOW_BUILD)
        if file.sha256 in by_hash:
            kept.append(by_hash[file.sha256])
            continue
        if file.sha256 is None or f"--hash=sha256:{file.sha256}" not in known.get(package.name, set()):
            raise RunnerError(f"the wheel of `{package.name}` is not among the files that are locked")
        if not _URL.fullmatch(file.url):
            raise RunnerError(f"the wheel of `{package.name}` is at no plain URL of a server")
        fetched.append(f"{package.name} @ {file.url} --hash=sha256:{file.sha256}")
    return _Chosen(tuple(fetched), tuple(kept))


def _fetch(requirements: Path, folder: Path, cwd: Path, sources: Sources, report) -> None:
    command = [*pip_wheel(report, folder), "--require-hashes", "--requirement", str(requirements)]
    command += [] if uv.may_build() else ["--only-binary", ":all:"]
    status, said = programs.run(command, str(cwd), "pip", report, sources=sources)
    said = variables.without_passwords(said, sources)
    if status != 0:
        raise RunnerError("cannot fetch the wheels of the model", uv.last_lines(said) or ["pip failed"])


def pip_wheel(report, folder: Path) -> List[str]:
    """Returns the command by which pip puts wheels into a folder, without what they depend on."""
    options = ["--quiet", "--no-deps", "--no-input", "--disable-pip-version-check", "--progress-bar", "off"]
    return [*_pip(report), "wheel", *options, "--wheel-dir", str(folder)]


def _pip(report) -> List[str]:
    """Returns the command of the interpreter's own pip, otherwise of one that uv provides."""
    own = [sys.executable, "-I", "-m", "pip"]
    if programs.run([*own, "--version"], os.curdir, "pip", report)[0] == 0:
        return own
    return [*uv.find(report).command, "tool", "run", "--python", sys.executable, "pip"]


def belong_to(locked: lock.Lock, model_folder: Path) -> bool:
    """Whether the model already has the wheels of this lock for this platform."""
    path = model_folder / lock.WHEELS_LOCK
    if not path.exists():
        return False
    try:
        wheels = lock.read(path, lock.WHEELS_LOCK)
    except RunnerError:
        return False
    if (
        wheels.fields.get("platform") != store.platform_tag()
        or wheels.fields.get("lock") != f"sha256:{locked.digest()}"
    ):
        return False
    files = {
        f"--hash=sha256:{local_wheels.digest(path)}" for path in (model_folder / lock.WHEELS).glob("*.whl") if os.path.isfile(path)
    }
    return all(set(requirement.hashes) & files for requirement in wheels.requirements)
