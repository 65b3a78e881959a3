"""Finds the packages that a model requests: by its lock, by a lock of the original Carton, or by requirements without a lock."""

import re
from pathlib import Path
from typing import Optional

from carton_runner.environments import compiling, lock, original_lock, store
from carton_runner.errors import RunnerError


def prepare(model_folder: Path, report) -> Optional[Path]:
    """Returns the folder of packages of the model in ``model_folder``, which is made if it does not exist; ``None`` for a model
    that requests none."""
    model_folder = Path(model_folder)
    wanted = _wanted(model_folder, report)
    return None if wanted is None else store.environment(wanted, report)


def _wanted(model_folder: Path, report) -> Optional[store.Wanted]:
    if (model_folder / lock.REQUIREMENTS_LOCK).exists():
        return _locked(model_folder)
    if (model_folder / original_lock.CARTON_LOCK).exists():
        return _locked_by_the_original(model_folder, report)
    if (model_folder / "requirements.txt").exists():
        report.warn(
            "the model has a requirements.txt and no lock: its packages are chosen on this machine; `carton pack` locks them"
        )
        inputs = compiling.Inputs.of(model_folder)
        text = store.cached_text(f"{inputs.digest()[:40]}.txt", lambda: compiling.compile_lock(inputs, report), report)
        return store.Wanted(lock.parse(text).lines())
    return None


def _locked(model_folder: Path) -> store.Wanted:
    wheels_lock = model_folder / lock.WHEELS_LOCK
    if wheels_lock.exists():
        wheels = lock.read(wheels_lock, lock.WHEELS_LOCK)
        # Wheels for another platform cannot be used here, so the packages are fetched.
        if wheels.fields.get("platform") == store.platform_tag():
            folder = (model_folder / lock.WHEELS).resolve()
            options = ["--no-index", "--no-build", "--find-links", str(folder)]
            return store.Wanted(wheels.lines(), options, is_complete=True)
    locked = lock.read(model_folder / lock.REQUIREMENTS_LOCK)
    python, here = locked.fields.get("python", ""), store.minor_version()
    if re.fullmatch(r"3\.[0-9]{1,2}", python) and python != here:
        # The markers of the packages would exclude all of them.
        raise RunnerError(
            f"the packages of this model are locked for Python {python}, and this is Python {here}",
            hint=f"install the runner for it: `carton runner install python --python {python}`, or pack the model again",
        )
    return store.Wanted(locked.lines())


def _locked_by_the_original(model_folder: Path, report) -> store.Wanted:
    locked = original_lock.choose(original_lock.read(model_folder / original_lock.CARTON_LOCK), original_lock.markers())
    lines = original_lock.lines(locked, model_folder)
    identity = [wheel.sha256 for wheel in locked.wheels]
    if "numpy" not in original_lock.names(locked):
        # The original's runner provided NumPy.
        numpy = compiling.Inputs.of_numpy_alone()
        text = store.cached_text(f"{numpy.digest()[:40]}.txt", lambda: compiling.compile_lock(numpy, report), report)
        added = lock.parse(text).lines()
        lines, identity = lines + added, identity + added
    # Only wheels: packages that the original locked are never built here.
    return store.Wanted(lines, ["--no-build"], identity)
