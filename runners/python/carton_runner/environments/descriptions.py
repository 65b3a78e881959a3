"""Finds the file of a folder that says which packages the model needs, and reads it. Only packing does this: where a model is loaded that was
not packed, a ``requirements.txt`` counts alone."""

from pathlib import Path
from typing import Callable, Optional, Tuple

from carton_runner.environments import conda, exact_locks, lock, projects
from carton_runner.environments.exact_locks import PYLOCK, UV_LOCK, ExactLock
from carton_runner.environments.projects import PYPROJECT
from carton_runner.environments.requirements import REQUIREMENTS, Inputs, Reader

#: Whoever has written exact versions means them. A `requirements.txt` is before the files of a project, because those often describe how the
#: model is trained.
ORDER = (PYLOCK, REQUIREMENTS, UV_LOCK, PYPROJECT, *conda.FILES)


def read(folder: Path, report) -> Inputs:
    """Returns the inputs of the first of the files in :data:`ORDER` that says something, and says which it is."""
    there = [name for name in ORDER if (folder / name).exists()]
    for name in there:
        inputs = _READERS[name](folder, name, report)
        if inputs is None:
            continue
        ignored = [other for other in there if other != name and not (name == UV_LOCK and other == PYPROJECT)]
        if ignored or name != REQUIREMENTS:
            others = f"; not from {', '.join(ignored)}" if ignored else ""
            report.info(f"the packages of the model are those of {name}{others}")
        return inputs
    return Inputs.of_numpy_alone()


def _of_requirements(folder: Path, name: str, report) -> Inputs:
    return Inputs.of(folder)


def _of_pylock(folder: Path, name: str, report) -> Inputs:
    reader = Reader(folder, lock.MAX_LOCK_BYTES)
    text = reader.text(folder / name)
    return _exact(reader, folder / name, exact_locks.read_pylock(text, name), (name, text), report)


def _of_uv_lock(folder: Path, name: str, report) -> Optional[Inputs]:
    if not (folder / PYPROJECT).exists():
        report.warn(f"{name} is not used: there is no {PYPROJECT} beside it")
        return None
    reader = Reader(folder, lock.MAX_LOCK_BYTES)
    text, of_project = reader.text(folder / name), reader.text(folder / PYPROJECT)
    project = projects.parse(of_project, is_locked=True)
    if project is None:
        report.warn(f"{name} is not used: {PYPROJECT} has no `[project]`")
        return None
    requested = None if project.wheels or project.repositories else project.specifiers()
    return _exact(reader, folder / name, exact_locks.read_uv_lock(text, requested), (name, text, of_project), report)


def _exact(reader: Reader, path: Path, found: ExactLock, texts: Tuple[str, ...], report) -> Inputs:
    wheels = tuple(reader.requested(path.parent, wheel).file for wheel in found.wheels)
    sources = tuple({source.value: source for source in found.sources}.values())
    return Inputs(path, texts, sources=sources, offered=wheels, pinned=found.requirements, project=found.project)


def _of_pyproject(folder: Path, name: str, report) -> Optional[Inputs]:
    reader = Reader(folder)
    text = reader.text(folder / name)
    project = projects.parse(text)
    if project is None:
        return None
    if project.unused:
        report.warn(f"settings of `[tool.uv]` in {name} are not used: {', '.join(project.unused)[:500]}")
    wheels = tuple(reader.requested(folder, wheel) for wheel in project.wheels)
    return Inputs(
        folder / name,
        (name, text),
        project.packages,
        project.constraints,
        project.sources,
        wheels=wheels,
        repositories=project.repositories,
    )


def _of_conda(folder: Path, name: str, report) -> Inputs:
    reader = Reader(folder)
    found = conda.parse(reader.text(folder / name), name)
    if found.others:
        report.warn(
            f"conda's packages in {name} are not in the carton: {', '.join(found.others)[:1000]}; what the model imports of them belongs "
            "into its `pip:` part, by its name on the package index"
        )
    if found.has_variables:
        report.warn(f"the variables of {name} are not in the carton: give them with `--opt env.NAME=VALUE`")
    return reader.of_lines(folder / name, found.lines)


_READERS: "dict[str, Callable[[Path, str, object], Optional[Inputs]]]" = {
    PYLOCK: _of_pylock,
    REQUIREMENTS: _of_requirements,
    UV_LOCK: _of_uv_lock,
    PYPROJECT: _of_pyproject,
    **{name: _of_conda for name in conda.FILES},
}
