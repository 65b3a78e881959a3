"""Puts the wheels of a lock into a carton, for the platform that it is packed on. ``pip`` downloads them, because ``uv`` cannot."""

import hashlib
import os
import re
import sys
from pathlib import Path
from typing import List

from carton_runner.environments import lock, programs, store, uv, variables
from carton_runner.errors import RunnerError

_WHEEL = re.compile(r"([A-Za-z0-9_.]+)-([A-Za-z0-9_.!+]+)(?:-[0-9][A-Za-z0-9_.]*)?(?:-[A-Za-z0-9_.]+){3}\.whl")
_BLOCK = 1 << 20


def bundle(locked: lock.Lock, carton_folder: Path, report) -> None:
    """Writes ``wheels/`` and ``wheels.lock`` into ``carton_folder``. Packages without a wheel for this platform are
    built, if that is allowed."""
    if uv.is_offline():
        raise RunnerError(
            "the wheels of the model cannot be fetched: the network must not be used",
            code="network",
            hint="pack the model without `--offline`",
        )
    folder = carton_folder / "wheels"
    try:
        folder.mkdir()
        report.info(f"fetching the wheels of {len(locked.requirements)} requirements")
        # Not in the carton's folder: its files may be links to those of the user's folder.
        with uv.working_folder() as cwd:
            requirements = cwd / "requirements.txt"
            requirements.write_text("".join(f"{line}\n" for line in locked.lines()))
            _fetch(requirements, folder, cwd, report)
        found = sorted(path for path in folder.iterdir() if path.suffix == ".whl")
        fields = {"platform": store.platform_tag(), "lock": f"sha256:{locked.digest()}"}
        wheels = lock.Lock(fields, tuple(_requirement(path) for path in found))
        text = wheels.text("The wheels that are in this carton, and the platform that they are for.")
        (carton_folder / "wheels.lock").write_text(text)
    except OSError as error:
        raise RunnerError("cannot gather the model's wheels", [str(error)], code="setup") from error
    report.info(f"bundled {len(found)} wheels")


def _fetch(requirements: Path, folder: Path, cwd: Path, report) -> None:
    command = _pip(report)
    command += ["wheel", "--quiet", "--no-deps", "--require-hashes", "--no-input", "--disable-pip-version-check"]
    command += ["--progress-bar", "off", "--wheel-dir", str(folder), "--requirement", str(requirements)]
    command += [] if uv.may_build() else ["--only-binary", ":all:"]
    status, said = programs.run(command, str(cwd), "pip", report)
    said = variables.without_passwords(said)
    if status != 0:
        if not uv.may_build() and "no matching distribution" in said.lower():
            text = "cannot fetch the wheels of the model: a package has no wheel for this platform and this Python"
            raise RunnerError(text, uv.last_lines(said), hint=uv.ALLOW_BUILD)
        raise RunnerError("cannot fetch the wheels of the model", uv.last_lines(said) or ["pip failed"])


def _pip(report) -> List[str]:
    """Returns the command of the interpreter's own pip, otherwise of one that uv provides."""
    own = [sys.executable, "-I", "-m", "pip"]
    if programs.run([*own, "--version"], os.curdir, "pip", report)[0] == 0:
        return own
    return [*uv.find(report).command, "tool", "run", "--python", sys.executable, "pip"]


def _requirement(path: Path) -> lock.Requirement:
    match = _WHEEL.fullmatch(path.name)
    if not match:
        raise RunnerError(f"pip made `{path.name}`, which is not the name of a wheel")
    name = lock.normalized(match.group(1))
    return lock.Requirement(name, "", match.group(2), "", (f"--hash=sha256:{sha256(path)}",))


def sha256(path: Path) -> str:
    """Returns the SHA-256 of a file."""
    hasher = hashlib.sha256()
    with open(path, "rb") as file:
        while True:
            block = file.read(_BLOCK)
            if not block:
                return hasher.hexdigest()
            hasher.update(block)


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
        f"--hash=sha256:{sha256(path)}" for path in (model_folder / lock.WHEELS).glob("*.whl") if os.path.isfile(path)
    }
    return all(set(requirement.hashes) & files for requirement in wheels.requirements)
