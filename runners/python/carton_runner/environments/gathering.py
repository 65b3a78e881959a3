"""What goes into the carton of a Python model: its files, the lock of its packages, and if it is asked for their
wheels."""

import os
from pathlib import Path
from typing import Any, Dict, Optional

from carton_runner.environments import compiling, lock, original_lock, store, tree, wheels, writing_original
from carton_runner.errors import RunnerError

#: The options of packing that are known.
BUNDLE_WHEELS = "bundle_wheels"


def check_kind(path: Path) -> None:
    """Refuses a model that is neither a folder nor a file of Python."""
    if not path.is_dir() and not (path.suffix == ".py" and path.is_file()):
        raise RunnerError(
            f"`{path}` is neither a folder nor a Python file", hint="name the folder of the model, or its only file"
        )


def gather(
    path: Path, scratch: Path, pack_options: Dict[str, Any], report, original: Optional[Dict[str, str]] = None
) -> Dict[str, Any]:
    """Makes the folder that is packed. With ``original``, the options that the original Carton needs, it gets the original's
    lock too."""
    path, scratch = Path(os.path.abspath(path)), Path(os.path.abspath(scratch))
    bundles = _bundles(pack_options, report)
    model = scratch / "model"
    check_kind(path)
    if path.is_dir():
        is_for_both = _pack_folder(path, model, bundles, original is not None, report)
    else:
        is_for_both = _pack_file(path, model, bundles, original is not None, report)
    # The lock is for a minor version of Python, and so are compiled packages.
    packed: Dict[str, Any] = {"path": str(model), "required_framework_version": f"={store.minor_version()}"}
    if original is not None and is_for_both:
        packed["options"] = original
    return packed


def _bundles(pack_options: Dict[str, Any], report) -> bool:
    for name in pack_options:
        if name != BUNDLE_WHEELS:
            report.warn(f"the option `{name}` for packing is not known")
    bundles = pack_options.get(BUNDLE_WHEELS, False)
    if not isinstance(bundles, bool):
        raise RunnerError(f"the option `{BUNDLE_WHEELS}` for packing must be true or false, found {bundles!r}")
    return bundles


def _pack_file(path: Path, model: Path, bundles: bool, for_original: bool, report) -> bool:
    try:
        model.mkdir()
        os.symlink(path.resolve(), model / path.name)
    except OSError as error:
        raise RunnerError("cannot gather the model's files", [str(error)], code="setup") from error
    locked = _add(model, compiling.Inputs.of_numpy_alone(), None, bundles, report)
    return for_original and _add_original(locked, model, model, (), report)


def _pack_folder(path: Path, model: Path, bundles: bool, for_original: bool, report) -> bool:
    """Says whether the model has the original's lock."""
    if not (path / compiling.REQUIREMENTS).exists():
        if (path / original_lock.CARTON_LOCK).exists() and not (path / lock.REQUIREMENTS_LOCK).exists():
            # The original's lock is all that is known of what the model needs.
            tree.build(path, model, lambda name: False, report)
            if bundles:
                report.warn("the wheels are left as they are: the model has no requirements.txt")
            return True
        if (path / "pyproject.toml").exists():
            report.warn(
                "what a model needs is read from its requirements.txt, and there is none: pyproject.toml is not used"
            )
    inputs = compiling.Inputs.of(path)
    kept = _kept_lock(path, inputs, report)
    keeps_wheels = kept is not None and wheels.belong_to(kept, path)
    ours = [lock.REQUIREMENTS_LOCK, *(() if keeps_wheels else (lock.WHEELS_LOCK, lock.WHEELS))]
    is_relocked = kept is None and (path / lock.REQUIREMENTS_LOCK).exists()
    there = writing_original.existing(path, is_relocked, ours, report)
    if not there.is_kept:
        ours.append(original_lock.CARTON_LOCK)
    tree.build(path, model, lambda name: name in ours, report)
    locked = _add(model, inputs, kept, bundles and not keeps_wheels, report)
    return there.is_kept or (for_original and _add_original(locked, path, model, there.others, report))


def _kept_lock(path: Path, inputs: compiling.Inputs, report) -> Optional[lock.Lock]:
    """The lock that is there, if it was made from these inputs."""
    place = path / lock.REQUIREMENTS_LOCK
    if not place.exists():
        return None
    try:
        found = lock.read(place)
    except RunnerError as error:
        report.warn(f"the lock is made anew: {error.message}")
        return None
    if found.fields.get("inputs") == f"sha256:{inputs.digest()}":
        # Comments that others wrote are not kept.
        return found._replace(fields={name: found.fields[name] for name in compiling.FIELDS if name in found.fields})
    if "inputs" not in found.fields:
        report.warn(f"the lock is made anew: {lock.REQUIREMENTS_LOCK} was not made by `carton pack`")
    return None


def _add(model: Path, inputs: compiling.Inputs, kept: Optional[lock.Lock], bundles: bool, report) -> lock.Lock:
    """Adds the lock, and the wheels."""
    comment = "The packages of this model, as `carton pack` has locked them."
    text = compiling.compile_lock(inputs, report) if kept is None else kept.text(comment)
    locked = lock.parse(text)
    _write(model, lock.REQUIREMENTS_LOCK, text)
    if bundles:
        # A link to the user's file, if the folder is itself a link: it must not be written through.
        (model / lock.WHEELS_LOCK).unlink(missing_ok=True)
        wheels.bundle(locked, model / ".carton", report)
    return locked


def _write(model: Path, name: str, text: str) -> None:
    try:
        (model / ".carton").mkdir(exist_ok=True)
        (model / name).unlink(missing_ok=True)
        (model / name).write_text(text)
    except OSError as error:
        raise RunnerError("cannot write the lock of the model", [str(error)], code="setup") from error


def _add_original(locked: lock.Lock, path: Path, model: Path, others, report) -> bool:
    """Adds the original's lock where it can be made."""
    try:
        text = writing_original.text(locked, path, model, others, report)
    except writing_original.CannotLock as error:
        report.info(f"the carton gets no lock of the original Carton, which cannot run it then: {error}")
        return False
    _write(model, original_lock.CARTON_LOCK, text)
    return True
