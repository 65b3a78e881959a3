"""Reads the `pyproject.toml` of a project (PEP 621): what it depends on, its Python, and where `uv` would get its packages from. Pure."""

import re
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from carton_runner.environments import lock, python_versions, requirement_lines, toml_files
from carton_runner.environments.dependency_specifiers import Specifier
from carton_runner.environments.requirement_lines import LocalWheel, Package, Repository, Source
from carton_runner.errors import RunnerError

PYPROJECT = "pyproject.toml"
#: Settings of uv that do not change which packages the project itself gets, or that are read.
_WITHOUT_EFFECT = {
    "add-bounds", "build-backend", "cache-dir", "cache-keys", "compile-bytecode", "concurrent-builds", "concurrent-downloads",
    "concurrent-installs", "constraint-dependencies", "default-groups", "dependency-groups", "dev-dependencies", "environments", "index",
    "link-mode", "managed", "package", "preview", "publish-url", "python-downloads", "python-preference", "required-environments",
    "required-version", "sources", "trusted-publishing",
}  # fmt: skip


class Project(NamedTuple):
    """What a project depends on."""

    packages: Tuple[Package, ...]
    constraints: Tuple[Package, ...]
    wheels: Tuple[LocalWheel, ...]
    repositories: Tuple[Repository, ...]
    sources: Tuple[Source, ...]
    #: Settings of uv that are not used.
    unused: Tuple[str, ...]

    def specifiers(self) -> List[Specifier]:
        """Returns its dependencies that have names of their own."""
        return [one.specifier for one in self.packages]


def parse(text: str, file: str = PYPROJECT, is_locked: bool = False) -> Optional[Project]:
    """Reads the text of a file; ``None`` for a file without a project, which only configures tools. With ``is_locked`` a lock says where
    the packages are from. Refuses a project for another Python than this one."""
    top = toml_files.parse(text, file)
    project = top.get("project")
    if project is None:
        if isinstance(top.get("tool"), dict) and "poetry" in top["tool"]:
            hint = "write `poetry export` into a requirements.txt, or the dependencies into `[project]`"
            raise RunnerError(
                f"{file} has the dependencies of the model in `[tool.poetry]`, which is not read", code="setup", hint=hint
            )
        return None
    if not isinstance(project, dict):
        raise _refused(file, "has no table `[project]`")
    dynamic = project.get("dynamic")
    if isinstance(dynamic, list) and "dependencies" in dynamic:
        raise _refused(file, "has dependencies that a build backend makes (`dynamic`), which is not run")
    python = project.get("requires-python")
    if python is not None:
        python_versions.check([one for one in str(python).split(",") if one.strip(" ")], file)
    packages: List[Package] = []
    wheels: List[LocalWheel] = []
    repositories: List[Repository] = []
    for text in _texts(project.get("dependencies"), file, "`dependencies` of `[project]`"):
        line = _line(text, f"`dependencies` of {file}")
        if isinstance(line, Package):
            packages.append(line)
        elif isinstance(line, Repository):
            repositories.append(line)
        else:
            wheels.append(line)
    settings = top.get("tool", {}).get("uv") if isinstance(top.get("tool"), dict) else None
    if not isinstance(settings, dict):
        return Project(tuple(packages), (), tuple(wheels), tuple(repositories), (), ())
    sources: List[Source] = []
    if not is_locked:
        sources = _indexes(settings.get("index"), file)
        packages, of_uv = _by_their_sources(packages, settings.get("sources"), file)
        wheels += of_uv
        if settings.get("override-dependencies"):
            raise _refused(file, "has `override-dependencies`, which only a lock can follow", "run `uv lock` in the folder")
    limits = _texts(settings.get("constraint-dependencies"), file, "`constraint-dependencies` of `[tool.uv]`")
    constraints = [_line(one, f"`constraint-dependencies` of {file}") for one in limits]
    unused = sorted(name for name in settings if name not in _WITHOUT_EFFECT)
    return Project(
        tuple(packages),
        tuple(one for one in constraints if isinstance(one, Package)),
        tuple(wheels),
        tuple(repositories),
        tuple(sources),
        tuple(unused),
    )


def _refused(file: str, problem: str, hint: str = "write a requirements.txt") -> RunnerError:
    return RunnerError(f"{file} {problem}", code="setup", hint=hint)


def _texts(value: Any, file: str, what: str) -> List[str]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise _refused(file, f"has no list of texts as {what}")
    return value


def _line(text: str, place: str):
    """Reads a dependency as a line of a list of requirements, which has no options and includes nothing."""
    lines = (
        list(requirement_lines.parse(text, place))
        if not text.lstrip().startswith("-") and not re.search(r"(^|[ \t])#", text)
        else []
    )
    if len(lines) != 1 or not isinstance(lines[0], (Package, LocalWheel, Repository)):
        raise RunnerError(f"{place} has {text[:100]!r}, which is no dependency", code="setup", hint="write it as `numpy>=1.26`")
    return lines[0]


def _indexes(value: Any, file: str) -> List[Source]:
    found = []
    for index in value if isinstance(value, list) else ():
        if not isinstance(index, dict) or not isinstance(index.get("url"), str):
            raise _refused(file, "has an index without a URL in `[tool.uv]`")
        if index.get("explicit") is True:
            raise _refused(file, "has an `explicit` index, which only a lock can follow", "run `uv lock` in the folder")
        option = "--index-url" if index.get("default") is True else "--extra-index-url"
        option = "--find-links" if index.get("format") == "flat" else option
        found.append(Source(f"`[tool.uv]` of {file}", option, index["url"]))
    return found


def _by_their_sources(packages: List[Package], value: Any, file: str) -> Tuple[List[Package], List[LocalWheel]]:
    """Returns the packages from indexes, and those that `[tool.uv.sources]` has as wheels."""
    sources: Dict[str, Any] = value if isinstance(value, dict) else {}
    named = {lock.normalized(name): source for name, source in sources.items()}
    of_indexes, wheels = [], []
    for package in packages:
        source = named.get(lock.normalized(package.specifier.name))
        kinds = [one for one in (source if isinstance(source, list) else [source]) if one is not None]
        paths = [one.get("path") for one in kinds if isinstance(one, dict)]
        if len(kinds) == 1 and isinstance(paths[0] if paths else None, str) and str(paths[0]).endswith(".whl"):
            wheels.append(
                LocalWheel(
                    f"`[tool.uv.sources]` of {file}", str(paths[0]), package.specifier.extras, package.specifier.marker, ()
                )
            )
        elif all(isinstance(one, dict) and isinstance(one.get("index"), str) for one in kinds):
            # The indexes are asked for all packages, in their order.
            of_indexes.append(package)
        else:
            place = f"`{package.specifier.name}`, which `[tool.uv.sources]` of {file} names,"
            raise requirement_lines.elsewhere_named(place)
    return of_indexes, wheels
