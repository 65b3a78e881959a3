"""Collects the contents of a Python model's carton: its files, the lock of its packages, and their wheels if requested."""

import os
from pathlib import Path
from typing import Any, Dict, FrozenSet, Iterable, List, NamedTuple, Optional, Tuple

from carton_runner.environments import compiling, descriptions, local_wheels, lock, original_lock, sources, store, tree, wheels
from carton_runner.environments import repositories, writing_original, writing_pylock
from carton_runner.environments.exact_locks import PYLOCK
from carton_runner.environments.local_wheels import RequestedWheel, WheelFile
from carton_runner.environments.requirements import REQUIREMENTS, Inputs
from carton_runner.environments.sources import Sources
from carton_runner.errors import RunnerError

#: The only option of packing.
BUNDLE_WHEELS = "bundle_wheels"

#: The reason why a folder has no lock of the original, if none was requested.
_NOT_WANTED = "none was asked for"


class Gathered(NamedTuple):
    """The collected folder of a model."""

    model: Path
    required_framework_version: str
    #: The reason why the folder has no lock of the original Carton; ``None`` if it has one.
    obstacle: Optional[str]


class _Packages(NamedTuple):
    """What the packages of a model are chosen by."""

    inputs: Inputs
    sources: Sources


def check_kind(path: Path) -> None:
    """Refuses a model that is neither a folder nor a Python file."""
    if not path.is_dir() and not (path.suffix == ".py" and path.is_file()):
        raise RunnerError(
            f"`{path}` is neither a folder nor a Python file", hint="name the folder of the model, or its only file"
        )


def gather(
    path: Path, scratch: Path, pack_options: Dict[str, Any], report, for_original: bool = False, leave_out: Iterable[str] = ()
) -> Gathered:
    """Makes the folder that is packed. With ``for_original`` it gets the lock of the original Carton too, if that can be
    made. ``leave_out`` are the paths in the user's folder that are not part of the model."""
    path, scratch = Path(os.path.abspath(path)), Path(os.path.abspath(scratch))
    bundles = _bundles(pack_options, report)
    model = scratch / "model"
    check_kind(path)
    if path.is_dir():
        obstacle = _pack_folder(path, model, bundles, for_original, report, frozenset(leave_out))
    else:
        obstacle = _pack_file(path, model, bundles, for_original, report)
    # Only this minor version, because the lock is for it, and so are compiled packages.
    return Gathered(model, f"={store.minor_version()}", obstacle)


def _bundles(pack_options: Dict[str, Any], report) -> bool:
    for name in pack_options:
        if name != BUNDLE_WHEELS:
            report.warn(f"the option `{name}` for packing is not known")
    bundles = pack_options.get(BUNDLE_WHEELS, False)
    if not isinstance(bundles, bool):
        raise RunnerError(f"the option `{BUNDLE_WHEELS}` for packing must be true or false, found {bundles!r}")
    return bundles


def _pack_file(path: Path, model: Path, bundles: bool, for_original: bool, report) -> Optional[str]:
    """Returns the reason why the model has no lock of the original, as `_pack_folder` does."""
    try:
        model.mkdir()
        os.symlink(path.resolve(), model / path.name)
    except OSError as error:
        raise RunnerError("cannot gather the model's files", [str(error)], code="setup") from error
    packages = _Packages(Inputs.of_numpy_alone(), Sources())
    locked, local = _add(path.parent, model, packages, None, bundles, report)
    return _add_original(locked, model, model, (), local, packages, report) if for_original else _NOT_WANTED


def _pack_folder(
    path: Path, model: Path, bundles: bool, for_original: bool, report, leave_out: FrozenSet[str]
) -> Optional[str]:
    if not any((path / name).exists() for name in (PYLOCK, REQUIREMENTS)):
        if (path / original_lock.CARTON_LOCK).exists() and not (path / lock.REQUIREMENTS_LOCK).exists():
            # The original's lock is the only description of the packages that the model needs.
            tree.build(path, model, lambda name: name in leave_out or name == writing_pylock.PYLOCK, report)
            if bundles:
                report.warn("the wheels are left as they are: the model has no requirements.txt")
            return None
    inputs = descriptions.read(path, report)
    packages = _Packages(inputs, sources.chosen(inputs.sources, True, report, bundles))
    kept = _kept_lock(path, inputs, report)
    if kept is not None and not _are_there(path, inputs, kept):
        report.warn("the lock is made anew: a wheel that was built of a repository is missing")
        kept = None
    if kept is None:
        repositories.check(inputs.repositories, report)
    keeps_wheels = kept is not None and wheels.belong_to(kept, path)
    ours = [lock.REQUIREMENTS_LOCK, *(() if keeps_wheels else (lock.WHEELS_LOCK, lock.WHEELS))]
    is_relocked = kept is None and (path / lock.REQUIREMENTS_LOCK).exists()
    if kept is None or not writing_pylock.is_of(path / writing_pylock.PYLOCK, kept):
        ours.append(writing_pylock.PYLOCK)
    there = writing_original.existing(path, is_relocked, ours, report)
    if not there.is_kept:
        ours.append(original_lock.CARTON_LOCK)
    tree.build(path, model, lambda name: name in leave_out or name in ours, report, [wheel.path for wheel in inputs.local()])
    locked, local = _add(path, model, packages, kept, bundles and not keeps_wheels, report)
    if there.is_kept:
        return None
    return _add_original(locked, path, model, there.others, local, packages, report) if for_original else _NOT_WANTED


def _kept_lock(path: Path, inputs: Inputs, report) -> Optional[lock.Lock]:
    """Returns the existing lock, if it was made from these inputs."""
    place = path / lock.REQUIREMENTS_LOCK
    if not place.exists():
        return None
    try:
        found = lock.read(place)
    except RunnerError as error:
        report.warn(f"the lock is made anew: {error.message}")
        return None
    if found.fields.get("inputs") == f"sha256:{inputs.digest()}":
        # Comments of other writers are not kept.
        return found._replace(fields={name: found.fields[name] for name in compiling.FIELDS if name in found.fields})
    if "inputs" not in found.fields:
        report.warn(f"the lock is made anew: {lock.REQUIREMENTS_LOCK} was not made by `carton pack`")
    return None


def _add(
    path: Path, model: Path, packages: _Packages, kept: Optional[lock.Lock], bundles: bool, report
) -> Tuple[lock.Lock, List[WheelFile]]:
    """Adds the lock, the wheels of the model that it has chosen, and all others if they are to be bundled. Returns the lock and the first
    of these wheels."""
    comment = "The packages of this model, as `carton pack` has locked them."
    built: List[RequestedWheel] = []
    if kept is None:
        built = repositories.build(packages.inputs.repositories, model.parent / "built", packages.sources, report)
        text = compiling.compile_lock(packages.inputs, report, packages.sources, built)
    else:
        text = kept.text(comment)
    locked = lock.parse(text)
    _write(model, lock.REQUIREMENTS_LOCK, text)
    local = _local_wheels(path, packages, locked, kept is not None, [one.file for one in built])
    if bundles:
        # It may be a link to the user's file, if the folder is itself a link; that file must not be written to.
        (model / lock.WHEELS_LOCK).unlink(missing_ok=True)
    if local and not (model / lock.WHEELS_LOCK).exists():
        wheels.add(local, path, model)
    if bundles:
        wheels.bundle(locked, model, local, packages.sources, report)
    if kept is None:
        # It is made and kept together with the lock.
        _add_pylock(locked, model, local, packages, report)
    if local and not bundles:
        report.info(f"bundled {len(local)} wheels that no index has: {', '.join(wheel.path.name for wheel in local)}")
    return locked, local


def _add_pylock(locked: lock.Lock, model: Path, local: List[WheelFile], packages: _Packages, report) -> None:
    try:
        _write(model, writing_pylock.PYLOCK, writing_pylock.text(locked, local, packages.sources, report))
    except writing_original.CannotLock as error:
        report.info(f"the carton has no {writing_pylock.PYLOCK}: {error}")


def _are_there(path: Path, inputs: Inputs, kept: lock.Lock) -> bool:
    try:
        return repositories.are_there(inputs.repositories, kept, path / lock.WHEELS)
    except OSError as error:
        raise RunnerError("cannot read the model's wheels", [str(error)], code="setup") from error


def _local_wheels(path: Path, packages: _Packages, locked: lock.Lock, is_kept: bool, built: List[WheelFile]) -> List[WheelFile]:
    """Returns the wheels on this machine that the lock has chosen and that no index may have, each once."""
    found = [*packages.inputs.local(), *built]
    try:
        if is_kept and (path / lock.WHEELS).is_dir():
            # Of a carton that was packed before: its other wheels need not exist any more.
            found += [WheelFile.of(wheel) for wheel in local_wheels.in_folder(path / lock.WHEELS)]
        found += local_wheels.of_the_user(locked)
    except OSError as error:
        raise RunnerError("cannot read the model's wheels", [str(error)], code="setup") from error
    return list({wheel.sha256: wheel for wheel in reversed(found) if wheel.is_locked_by(locked)}.values())[::-1]


def _write(model: Path, name: str, text: str) -> None:
    try:
        (model / ".carton").mkdir(exist_ok=True)
        (model / name).unlink(missing_ok=True)
        (model / name).write_text(text)
    except OSError as error:
        raise RunnerError("cannot write the lock of the model", [str(error)], code="setup") from error


def _add_original(
    locked: lock.Lock, path: Path, model: Path, others, local: List[WheelFile], packages: _Packages, report
) -> Optional[str]:
    """Adds the original's lock, or returns the reason why it cannot be made."""
    try:
        text = writing_original.text(locked, path, model, others, local, packages.sources, report)
    except writing_original.CannotLock as error:
        return str(error)
    _write(model, original_lock.CARTON_LOCK, text)
    return None
