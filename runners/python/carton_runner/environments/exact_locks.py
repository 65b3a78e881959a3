"""Reads the locks of other tools: ``pylock.toml`` (PEP 751), and the ``uv.lock`` of a project, which is written anew for ``uv export``. Pure."""

import json
import re
from typing import Any, Dict, List, NamedTuple, Optional, Tuple
from urllib.parse import unquote, urlsplit

from carton_runner.environments import dependency_specifiers, lock, python_versions, toml_files
from carton_runner.environments.dependency_specifiers import NoSpecifier
from carton_runner.environments.requirement_lines import LocalWheel, Source
from carton_runner.errors import RunnerError

PYLOCK, UV_LOCK = "pylock.toml", "uv.lock"
#: More packages and files are refused.
MAX_PACKAGES = 5000
MAX_FILES = 100_000

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?", re.ASCII)
_VERSION = re.compile(r"[A-Za-z0-9.!+_-]+", re.ASCII)
_FILE_NAME = re.compile(r"[A-Za-z0-9_.!+~-]+", re.ASCII)
_HASH = re.compile(r"(sha256:[0-9a-f]{64}|sha384:[0-9a-f]{96}|sha512:[0-9a-f]{128})", re.ASCII)
_OF_ALL = "https://pypi.org/simple"


class ExactLock(NamedTuple):
    """The packages of a lock."""

    #: Those of a ``pylock.toml``.
    requirements: Tuple[lock.Requirement, ...]
    #: The indexes that it names.
    sources: Tuple[Source, ...]
    #: The wheels that it names by their paths.
    wheels: Tuple[LocalWheel, ...]
    #: A ``pyproject.toml`` and a ``uv.lock`` for `uv export`.
    project: Optional[Tuple[str, str]] = None


def _refused(place: str, problem: str, hint: Optional[str] = None) -> RunnerError:
    return RunnerError(f"{place} {problem}", code="setup", hint=hint or "make it anew, or write a requirements.txt")


def _matching(pattern, value: Any, place: str, what: str) -> str:
    if not isinstance(value, str) or len(value) > dependency_specifiers.MAX_LENGTH or not pattern.fullmatch(value):
        raise _refused(place, f"has {str(value)[:100]!r} where {what} belongs")
    return value


def _list(value: Any, kind, place: str, what: str, limit: int = MAX_PACKAGES) -> List[Any]:
    found = [] if value is None else value
    if not isinstance(found, list) or len(found) > limit or not all(isinstance(one, kind) for one in found):
        raise _refused(place, f"has no list where its {what} belong")
    return found


def _marker(value: Any, place: str) -> str:
    """Returns a marker, written anew."""
    if value is None or value == "":
        return ""
    try:
        return dependency_specifiers.parse(f"x ; {value if isinstance(value, str) else None}").marker
    except NoSpecifier as error:
        hint = "export it without extras and dependency groups" if re.search("extras|dependency_groups", str(value)) else None
        raise _refused(place, f"has a condition that is not read: {error}", hint) from None


def _check_python(value: Any, place: str) -> None:
    if value is not None:
        comparisons = value.split(",") if isinstance(value, str) else ["?"]
        python_versions.check([one for one in comparisons if one.strip(" ")], place)


def _index(url: Any, place: str) -> List[Source]:
    if not isinstance(url, str) or url.rstrip("/") == _OF_ALL:
        return []
    return [Source(place, "--extra-index-url", url)]


def read_pylock(text: str, file: str = PYLOCK) -> ExactLock:
    """Reads a ``pylock.toml``."""
    top = toml_files.parse(text, file)
    version = top.get("lock-version")
    if not isinstance(version, str) or not re.fullmatch(r"1\.[0-9]+", version):
        raise _refused(
            file, f"has the lock-version {str(version)[:20]!r}, expected 1.0", "export it with a tool that writes version 1.0"
        )
    _check_python(top.get("requires-python"), file)
    requirements, sources, wheels, n_files = [], [], [], 0
    for package in _list(top.get("packages"), dict, file, "packages"):
        name = _matching(_NAME, package.get("name"), file, "the name of a package")
        place = f"the package `{name}` of {file}"
        for kind in ("vcs", "directory", "archive"):
            if kind in package:
                raise _refused(place, f"is not from a package index (`{kind}`), and cannot be locked", _ELSEWHERE)
        marker = _marker(package.get("marker"), place)
        if not marker:
            _check_python(package.get("requires-python"), place)
        version = _matching(_VERSION, package.get("version"), place, "a version")
        hashes: List[str] = []
        listed = _list(package.get("wheels"), dict, place, "wheels")
        for one in [*listed, *([package["sdist"]] if isinstance(package.get("sdist"), dict) else [])]:
            found = _hashes(one.get("hashes"), place)
            hashes += found
            path = one.get("path")
            if isinstance(path, str) and "url" not in one and path.endswith(".whl"):
                wheels.append(LocalWheel(place, path, (), "", tuple(found)))
        n_files += len(hashes)
        if not hashes or n_files > MAX_FILES:
            raise _refused(place, "has no files" if not hashes else f"has more than {MAX_FILES} files with those before it")
        sources += _index(package.get("index"), place)
        requirements.append(lock.Requirement(name, "", version, marker, tuple(f"--hash={one}" for one in dict.fromkeys(hashes))))
    return ExactLock(tuple(requirements), tuple(sources), tuple(wheels))


_ELSEWHERE = "put its code into the model's folder, its package into an index, or its wheel into the model's folder"


def _hashes(value: Any, place: str) -> List[str]:
    found = [f"{kind}:{digest}".lower() for kind, digest in value.items()] if isinstance(value, dict) else []
    known = [one for one in found if _HASH.fullmatch(one)]
    if not known:
        raise _refused(place, "has a file without a SHA-256")
    # One is enough, and the same one everywhere.
    return [min(known)]


def read_uv_lock(text: str, requested: Optional[List[dependency_specifiers.Specifier]], file: str = UV_LOCK) -> ExactLock:
    """Reads a ``uv.lock``. ``requested`` are the dependencies of the project, if they are known."""
    top = toml_files.parse(text, file)
    if top.get("version") != 1:
        raise _refused(
            file, f"has the version {str(top.get('version'))[:20]!r}, expected 1", "make it with an uv that writes version 1"
        )
    _check_python(top.get("requires-python"), file)
    if top.get("conflicts"):
        raise _refused(file, "has conflicts of extras, which are not read", "write `uv export` into a requirements.txt")
    packages = _list(top.get("package"), dict, file, "packages")
    registries: Dict[str, str] = {}
    sources: List[Source] = []
    wheels: List[LocalWheel] = []
    roots = []
    parts = ["version = 1\n"]
    if isinstance(top.get("revision"), int):
        parts.append(f"revision = {top['revision']}\n")
    python = top.get("requires-python")
    parts.append(f"requires-python = {_quoted(python)}\n" if isinstance(python, str) else "")
    markers = [_marker(one, file) for one in _list(top.get("resolution-markers"), str, file, "markers")]
    parts.append(f"resolution-markers = [{', '.join(map(_quoted, markers))}]\n" if markers else "")

    def source_of(value: Any, place: str, package: Optional[Dict[str, Any]] = None) -> str:
        kinds = value if isinstance(value, dict) and len(value) == 1 else {}
        kind, where = next(iter(kinds.items()), ("", None))
        if kind in ("virtual", "editable") and where == ".":
            return '{ virtual = "." }'
        if kind == "registry" and isinstance(where, str) and re.match("https?://", where):
            if where not in registries:
                registries[where] = _OF_ALL if where.rstrip("/") == _OF_ALL else f"https://index-{len(registries)}.invalid/simple"
                sources.extend(_index(where, file))
            return f'{{ registry = "{registries[where]}" }}'
        if kind == "path" and isinstance(where, str) and where.endswith(".whl"):
            if package is not None:
                found = [
                    _matching(_HASH, one.get("hash"), place, "a hash")
                    for one in _list(package.get("wheels"), dict, place, "wheels")
                ]
                wheels.append(LocalWheel(place, where, (), "", tuple(found)))
            return '{ registry = "https://wheels.invalid/simple" }'
        raise _refused(place, f"is not from a package index ({kind or 'no source'}), and cannot be locked", _ELSEWHERE)

    def dependencies(value: Any, place: str) -> str:
        lines = []
        for one in _list(value, dict, place, "dependencies"):
            fields = [f"name = {_quoted(_matching(_NAME, one.get('name'), place, 'a name'))}"]
            if "version" in one:
                fields.append(f"version = {_quoted(_matching(_VERSION, one['version'], place, 'a version'))}")
            if "source" in one:
                fields.append(f"source = {source_of(one['source'], place)}")
            extras = [
                _quoted(_matching(_NAME, extra, place, "an extra")) for extra in _list(one.get("extra"), str, place, "extras")
            ]
            fields += [f"extra = [{', '.join(extras)}]"] if extras else []
            marker = _marker(one.get("marker"), place)
            fields += [f"marker = {_quoted(marker)}"] if marker else []
            lines.append(f"    {{ {', '.join(fields)} }},\n")
        return f"[\n{''.join(lines)}]\n"

    n_files = 0
    for package in packages:
        name = _matching(_NAME, package.get("name"), file, "the name of a package")
        place = f"the package `{name}` of {file}"
        source = source_of(package.get("source"), place, package)
        parts.append(f"\n[[package]]\nname = {_quoted(name)}\n")
        if "version" in package:
            parts.append(f"version = {_quoted(_matching(_VERSION, package['version'], place, 'a version'))}\n")
        parts.append(f"source = {source}\n")
        of_package = [_marker(one, place) for one in _list(package.get("resolution-markers"), str, place, "markers")]
        parts.append(f"resolution-markers = [{', '.join(map(_quoted, of_package))}]\n" if of_package else "")
        if "dependencies" in package:
            parts.append(f"dependencies = {dependencies(package['dependencies'], place)}")
        if source == '{ virtual = "." }':
            roots.append(package)
            continue
        files = _list(package.get("wheels"), dict, place, "wheels")
        n_files += len(files)
        if n_files > MAX_FILES:
            raise _refused(file, f"has more than {MAX_FILES} files")
        if isinstance(package.get("sdist"), dict):
            parts.append(f"sdist = {_file(package['sdist'], place)}\n")
        if files:
            parts.append("wheels = [\n" + "".join(f"    {_file(one, place)},\n" for one in files) + "]\n")
        optional = package.get("optional-dependencies")
        if isinstance(optional, dict) and optional:
            parts.append("\n[package.optional-dependencies]\n")
            for extra, listed in optional.items():
                parts.append(f"{_matching(_NAME, extra, place, 'an extra')} = {dependencies(listed, place)}")
    if len(roots) != 1:
        raise _refused(file, f"has {len(roots)} packages of the project, expected 1", "write `uv export` into a requirements.txt")
    _check_age(roots[0], requested, file)
    project = f'[project]\nname = {_quoted(roots[0]["name"])}\nversion = "0"\n'
    project += f"requires-python = {_quoted(python)}\n" if isinstance(python, str) else ""
    return ExactLock((), tuple(sources), tuple(wheels), (f"{project}[tool.uv]\n", "".join(parts)))


def _file(one: Dict[str, Any], place: str) -> str:
    named = one.get("filename") or one.get("url") or one.get("path")
    name = unquote(urlsplit(named).path).rsplit("/", 1)[-1] if isinstance(named, str) else None
    name = _matching(_FILE_NAME, name, place, "the name of a file")
    # uv fetches nothing of this; only the hash is used.
    return f'{{ url = "https://files.invalid/{name.replace("+", "%2B")}", hash = "{_matching(_HASH, one.get("hash"), place, "a hash")}" }}'


def _check_age(root: Dict[str, Any], requested: Optional[List[dependency_specifiers.Specifier]], file: str) -> None:
    """Refuses a lock that was made from other dependencies than those of the project."""
    metadata = root.get("metadata")
    if requested is None or not isinstance(metadata, dict):
        return
    locked = {
        (lock.normalized(str(one.get("name"))), _versions(str(one.get("specifier", ""))))
        for one in _list(metadata.get("requires-dist"), dict, file, "dependencies")
        if "extra ==" not in str(one.get("marker", ""))
    }
    wanted = {(lock.normalized(one.name), _versions(",".join(one.versions))) for one in requested}
    different = sorted({name for name, _ in locked ^ wanted})
    if different:
        raise _refused(
            file,
            f"was made from other dependencies than pyproject.toml has: {', '.join(different)[:500]}",
            "run `uv lock` in the folder",
        )


def _versions(text: str) -> Tuple[str, ...]:
    return tuple(sorted(part for part in re.sub(r"\s", "", text).split(",") if part))


def _quoted(text: str) -> str:
    if not text.isprintable() or not text.isascii():
        raise RunnerError(f"{text[:100]!r} is no text of a lock", code="setup")
    return json.dumps(text)
