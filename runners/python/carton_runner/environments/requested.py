"""Finds the packages that a model requests: by its lock, by a lock of the original Carton, or by requirements without a lock."""

import os
import re
from pathlib import Path
from typing import Callable, Dict, List, Optional, Tuple

from carton_runner.environments import lock, original_lock, python_versions, requirement_lines, store
from carton_runner.environments.requirements import REQUIREMENTS, Inputs
from carton_runner.errors import RunnerError


def packages(model_folder: Path, lock_of: Callable[[Inputs], str]) -> Optional[store.Wanted]:
    """Returns the packages that the model in ``model_folder`` requests; ``None`` for a model that requests none. ``lock_of`` returns
    the lock that this machine has of requirements without one."""
    model_folder = Path(model_folder)
    if (model_folder / lock.REQUIREMENTS_LOCK).exists():
        return _locked(model_folder)
    if (model_folder / original_lock.CARTON_LOCK).exists():
        return _locked_by_the_original(model_folder, lock_of)
    if (model_folder / REQUIREMENTS).exists():
        inputs = Inputs.of(model_folder)
        locked = lock.parse(lock_of(inputs))
        folders = sorted({str(wheel.path.parent) for wheel in inputs.local() if wheel.is_locked_by(locked)})
        options = [word for folder in folders for word in ("--find-links", folder)]
        return store.Wanted(locked.lines(), options, is_locked_here=True)
    return None


def _locked(model_folder: Path) -> store.Wanted:
    folder = str((model_folder / lock.WHEELS).resolve())
    wheels_lock = model_folder / lock.WHEELS_LOCK
    if wheels_lock.exists():
        wheels = lock.read(wheels_lock, lock.WHEELS_LOCK)
        # Wheels for another platform cannot be used here, so the packages are fetched.
        if wheels.fields.get("platform") == store.platform_tag():
            options = ["--no-index", "--find-links", folder]
            return store.Wanted(wheels.lines(), options, is_complete=True, is_never_built=True)
    locked = lock.read(model_folder / lock.REQUIREMENTS_LOCK)
    python, here = locked.fields.get("python", ""), store.minor_version()
    if re.fullmatch(r"3\.[0-9]{1,2}", python) and python != here:
        # The markers of the packages would exclude all of them.
        raise RunnerError(
            f"the packages of this model are locked for Python {python}, and this is Python {here}",
            hint=f"install the runner for it: {python_versions.hint(python)}; or pack the model again",
        )
    # Wheels that the carton has are used where they fit; those that no index has are only there.
    bundled = _bundled(folder)
    options = ["--find-links", folder] if bundled else []
    return store.Wanted([_line(one, bundled, folder) for one in locked.requirements], options, identity=locked.lines())


def _bundled(folder: str) -> Dict[Tuple[str, str], List[str]]:
    """Returns the names of the wheels in a folder, by the names and versions of their packages."""
    try:
        names = os.listdir(folder)
    except OSError:
        return {}
    found: Dict[Tuple[str, str], List[str]] = {}
    for name in names:
        package = requirement_lines.wheel_name(name)
        if package is not None:
            found.setdefault((lock.normalized(package[0]), package[1]), []).append(name)
    return found


def _line(one: lock.Requirement, bundled: Dict[Tuple[str, str], List[str]], folder: str) -> str:
    """Returns the line of a package for uv. One that is locked to a single file, which the carton has, is named by its path, so that no index
    is asked for it: the name may be known to nobody else, and should not be."""
    files = bundled.get((lock.normalized(one.name), one.version), [])
    if len(files) != 1 or len(one.hashes) != 1:
        return one.line()
    marker = f" ; {one.marker}" if one.marker else ""
    return f"{one.name} @ {(Path(folder) / files[0]).as_uri()}{marker} {one.hashes[0]}"


def _locked_by_the_original(model_folder: Path, lock_of: Callable[[Inputs], str]) -> store.Wanted:
    locked = original_lock.choose(original_lock.read(model_folder / original_lock.CARTON_LOCK), original_lock.markers())
    lines = original_lock.lines(locked, model_folder)
    identity = [wheel.sha256 for wheel in locked.wheels]
    if "numpy" not in original_lock.names(locked):
        # The original's runner provided NumPy.
        added = lock.parse(lock_of(Inputs.of_numpy_alone())).lines()
        lines, identity = lines + added, identity + added
    # The original locked wheels only.
    return store.Wanted(lines, identity=identity, is_never_built=True)
