"""What goes into the carton of a Python model: its files, the lock of its packages, and if it is asked for their
wheels."""

import os
from pathlib import Path
from typing import Any, Dict, Optional

from carton_runner.environments import compiling, lock, original_lock, store, tree, wheels
from carton_runner.errors import RunnerError

#: The options of packing that are known.
BUNDLE_WHEELS = "bundle_wheels"


def pack(path: Path, scratch: Path, options: Dict[str, Any], pack_options: Dict[str, Any], report) -> Dict[str, Any]:
    """Returns the fields of ``packed`` (spec/runner-protocol.md section 5) for the model at ``path``, a folder or a
    Python file.

    The folder that is packed is made in ``scratch``; the user's is never changed.
    """
    path, scratch = Path(os.path.abspath(path)), Path(os.path.abspath(scratch))
    bundles = _bundles(pack_options, report)
    model = scratch / "model"
    if path.is_dir():
        _pack_folder(path, model, bundles, report)
    elif path.suffix == ".py" and path.is_file():
        _pack_file(path, model, bundles, report)
    else:
        raise RunnerError(
            f"`{path}` is neither a folder nor a Python file", hint="name the folder of the model, or its only file"
        )
    # The lock is for a minor version of Python, and so are compiled packages.
    return {"path": str(model), "required_framework_version": f"={store.minor_version()}"}


def _bundles(pack_options: Dict[str, Any], report) -> bool:
    for name in pack_options:
        if name != BUNDLE_WHEELS:
            report.warn(f"the option `{name}` for packing is not known")
    bundles = pack_options.get(BUNDLE_WHEELS, False)
    if not isinstance(bundles, bool):
        raise RunnerError(f"the option `{BUNDLE_WHEELS}` for packing must be true or false, found {bundles!r}")
    return bundles


def _pack_file(path: Path, model: Path, bundles: bool, report) -> None:
    try:
        model.mkdir()
        os.symlink(path.resolve(), model / path.name)
    except OSError as error:
        raise RunnerError("cannot gather the model's files", [str(error)], code="setup") from error
    _add(model, compiling.Inputs.of_numpy_alone(), None, bundles, report)


def _pack_folder(path: Path, model: Path, bundles: bool, report) -> None:
    if not (path / compiling.REQUIREMENTS).exists():
        if (path / original_lock.CARTON_LOCK).exists():
            # The original's lock is all that is known of what the model needs.
            tree.build(path, model, lambda name: False, report)
            if bundles:
                report.warn("the wheels are left as they are: the model has no requirements.txt")
            return
        if (path / "pyproject.toml").exists():
            report.warn(
                "what a model needs is read from its requirements.txt, and there is none: pyproject.toml is not used"
            )
    inputs = compiling.Inputs.of(path)
    kept = _kept_lock(path, inputs, report)
    keeps_wheels = kept is not None and wheels.belong_to(kept, path)
    ours = (lock.REQUIREMENTS_LOCK,) if keeps_wheels else (lock.REQUIREMENTS_LOCK, lock.WHEELS_LOCK, lock.WHEELS)
    tree.build(path, model, lambda name: name in ours, report)
    _add(model, inputs, kept, bundles and not keeps_wheels, report)


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


def _add(model: Path, inputs: compiling.Inputs, kept: Optional[lock.Lock], bundles: bool, report) -> None:
    """Adds the lock, and the wheels."""
    carton_folder = model / ".carton"
    comment = "The packages of this model, as `carton pack` has locked them."
    text = compiling.compile_lock(inputs, report) if kept is None else kept.text(comment)
    try:
        carton_folder.mkdir(exist_ok=True)
        for name in (lock.REQUIREMENTS_LOCK, *((lock.WHEELS_LOCK,) if bundles else ())):
            # A link to the user's file, if the folder is itself a link: it must not be written through.
            (model / name).unlink(missing_ok=True)
        (model / lock.REQUIREMENTS_LOCK).write_text(text)
    except OSError as error:
        raise RunnerError("cannot write the lock of the model", [str(error)], code="setup") from error
    if bundles:
        wheels.bundle(lock.parse(text), carton_folder, report)
