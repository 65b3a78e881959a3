"""Reads the lines of a ``requirements.txt``: packages, included files and options. Pure.

The text is of unknown origin, and the programs that would read it replace ``${VARIABLE}`` by secrets of the user, open any
file and fetch from any server. So it is parsed here, and only its parts are used.
"""

import re
from typing import Iterator, List, NamedTuple, Optional, Tuple, Union
from urllib.parse import unquote

from carton_runner.environments import dependency_specifiers, lock
from carton_runner.environments.dependency_specifiers import NoSpecifier, Specifier
from carton_runner.errors import RunnerError

#: Longer lines are refused, the lines that continue them included. A requirement with the hashes of a thousand files has 75 kB.
MAX_LINE = 1 << 20

_LINE_END = re.compile(r"\r\n|\r|\n")
#: Characters that some readers take for the end of a line, or that a terminal interprets.
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029]")
_COMMENT = re.compile(r"(?:^|[ \t])#")
_OPTION = re.compile(r"(--[a-z][a-z-]*|-[a-z])(?:[ \t]*=[ \t]*|[ \t]+|(?<=^-[a-z])|$)(.*)")
_HASH = re.compile(r"(?:sha256:[0-9a-f]{64}|sha384:[0-9a-f]{96}|sha512:[0-9a-f]{128})")
_NAMES = re.compile(r":all:|:none:|[A-Za-z0-9._-]+(?:,[A-Za-z0-9._-]+)*")
#: What ends with one of these is a file, although it could be a name.
_ARCHIVES = (".whl", ".tar.gz", ".zip", ".tar.bz2", ".tar.xz", ".tgz")
_PASSWORD = re.compile(r"://[^/@\s]*@")
#: What follows the path of a URL: it may be a password too.
_QUERY = re.compile(r"(://[^\s?#]*)[?#]\S*")
#: `name[extra] @ place`, and `./file.whl[extra]`.
_AT = re.compile(r"([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)[ \t]*(?:\[([^\[\]]*)\])?[ \t]*@[ \t]*(\S+)", re.ASCII)
_FILE = re.compile(r"(\S[^\[\]]*?\.whl)(?:\[([^\[\]]*)\])?", re.ASCII | re.IGNORECASE)
#: A repository, in characters that neither git nor a shell interprets.
_GIT = re.compile(
    r"git\+(https://[A-Za-z0-9.-]+(?::[0-9]{1,5})?(?:/[A-Za-z0-9_~+][A-Za-z0-9._~+-]*)+/?)(?:@([A-Za-z0-9][A-Za-z0-9._/+-]*))?"
    r"(?:#([A-Za-z0-9._=&/\[\]-]*))?",
    re.ASCII,
)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
#: A wheel (the specification of the binary distribution format).
_WHEEL = re.compile(
    r"([A-Za-z0-9](?:[A-Za-z0-9_.]*[A-Za-z0-9])?)-([A-Za-z0-9_.!+]+)(?:-[0-9][A-Za-z0-9_.]*)?(?:-[A-Za-z0-9_.]+){3}\.whl", re.ASCII
)

#: The options that choose where packages come from, and the variable of uv for the same.
SOURCES = {
    "-i": "UV_DEFAULT_INDEX",
    "--index-url": "UV_DEFAULT_INDEX",
    "--pypi-url": "UV_DEFAULT_INDEX",
    "--extra-index-url": "UV_INDEX",
    "-f": "UV_FIND_LINKS",
    "--find-links": "UV_FIND_LINKS",
    "--trusted-host": "UV_INSECURE_HOST",
    "--no-index": "UV_NO_INDEX",
}
#: Options that change nothing here: only wheels are used unless the user allows others, and every lock has hashes.
_WITHOUT_EFFECT = ("--prefer-binary", "--require-hashes")
_WRITE_A_NAME = "write it as a name, and where they matter versions: `numpy>=1.26`"


class Package(NamedTuple):
    """A requested package."""

    specifier: Specifier
    #: ``sha256:…``. If there are any, only files with one of them are locked.
    hashes: Tuple[str, ...]


class LocalWheel(NamedTuple):
    """A wheel that is requested by its path."""

    #: ``line 3 of requirements.txt``
    place: str
    #: Relative to the folder of the file with the line, or absolute.
    path: str
    extras: Tuple[str, ...]
    marker: str
    #: As those of a package.
    hashes: Tuple[str, ...]


class Repository(NamedTuple):
    """A package that is requested by its git repository."""

    place: str
    name: str
    extras: Tuple[str, ...]
    marker: str
    #: ``https://SERVER/PATH``
    url: str
    #: A commit, or the name of a branch or tag; empty for none.
    revision: str
    #: The folder of the package in the repository; empty for the repository itself.
    subdirectory: str

    def is_commit(self) -> bool:
        """Whether the revision is a commit and cannot change."""
        return bool(re.fullmatch(r"[0-9a-f]{40}", self.revision))

    def text(self) -> str:
        """Returns the package as pip takes it, without its extras and its condition."""
        folder = f"#subdirectory={self.subdirectory}" if self.subdirectory else ""
        return f"{self.name} @ git+{self.url}@{self.revision}{folder}"


class WheelFolder(NamedTuple):
    """A folder with wheels, from which packages may be taken (`--find-links`)."""

    place: str
    #: As that of a wheel.
    path: str


class Included(NamedTuple):
    """A file that is included."""

    #: Relative to the folder of the file that includes it.
    path: str
    is_constraint: bool


class Source(NamedTuple):
    """A line that says where packages come from, which only the user decides."""

    #: ``line 3 of requirements.txt``
    place: str
    option: str
    value: str


class Setting(NamedTuple):
    """An option that holds for all packages."""

    option: str
    #: The value of ``--no-binary`` and ``--only-binary``; empty for ``--pre``.
    value: str


Line = Union[Package, LocalWheel, Repository, WheelFolder, Included, Source, Setting]


def parse(text: str, file: str) -> Iterator[Line]:
    """Reads the text of a file. ``file`` is its name for errors."""
    found = _CONTROL.search(text)
    if found:
        number = len(_LINE_END.split(text[: found.start()]))
        raise _refused(f"line {number} of {file}", f"has the character {found.group()!r}", None, "delete the character")
    for number, line in _logical_lines(text, file):
        parsed = _line(line, f"line {number} of {file}")
        if parsed is not None:
            yield parsed


def is_elsewhere(line: str) -> bool:
    """Whether a line names a package by a URL or a path."""
    if line.startswith("-"):
        return bool(re.match(r"(?:-e|--editable)(?![a-z])", line))
    requested = re.split(r";|[ \t]--", line)[0].strip(" \t")
    return any(character in requested for character in "@/\\:") or requested.lower().endswith(_ARCHIVES)


def elsewhere(place: str, line: str) -> RunnerError:
    """Returns the error for a package that does not come from an index: other machines may not get the same files."""
    shown = line.split(" --hash")[0].split("://")[0]
    return RunnerError(
        f"`{shown[:200].strip()}…`, {place}, is not from a package index, and cannot be locked",
        code="setup",
        hint="put its code into the model's folder, its package into an index, or its wheel into the model's folder: `./wheels/FILE.whl`",
    )


def elsewhere_named(what: str) -> RunnerError:
    """Returns the same error for something that is named in another way."""
    error = elsewhere("", "")
    error.message = f"{what} is not from a package index, and cannot be locked"
    return error


def wheel_name(file: str) -> Optional[Tuple[str, str]]:
    """Returns the name and the version of the package in a wheel, by the wheel's own name; ``None`` if that is no name of a wheel."""
    match = _WHEEL.fullmatch(file)
    return (match.group(1), match.group(2)) if match else None


def refused_source(source: Source) -> RunnerError:
    """Returns the error for a line that says where packages come from."""
    line = f"{source.option} {source.value}".strip()
    return _refused(
        source.place,
        "says where packages come from, which only the user's configuration does",
        line,
        _source_hint(SOURCES[source.option], source.value),
    )


def _logical_lines(text: str, file: str) -> Iterator[Tuple[int, str]]:
    """Yields the lines without their comments, each with the number of its first line. A line that ends with a back slash is joined
    with the next."""
    begun: List[str] = []
    first = length = 0
    for number, line in enumerate(_LINE_END.split(text), 1):
        if not begun:
            first, length = number, 0
        length += len(line) + 1
        if length > MAX_LINE:
            raise _refused(f"line {first} of {file}", f"is longer than {MAX_LINE} characters", None, _WRITE_A_NAME)
        is_continued = line.endswith("\\")
        comment = _COMMENT.search(line)
        if comment and is_continued and line[: comment.start()].strip(" \t"):
            # pip continues the comment, uv does not.
            hint = "write the comment on a line of its own"
            raise _refused(f"line {number} of {file}", "has a back slash at the end of a comment", line, hint)
        begun.append(line[: comment.start()] if comment else line[:-1] if is_continued else line)
        if comment or not is_continued:
            yield first, " ".join(begun).strip(" \t")
            begun = []
    yield first, " ".join(begun).strip(" \t")


def _line(line: str, place: str) -> Optional[Line]:
    if not line:
        return None
    match = _OPTION.fullmatch(line)
    option, value = (match.group(1), _unquoted(match.group(2))) if match else ("", "")
    if "$" in line or "{" in line or "}" in line:
        hint = "write the value itself"
        if option in SOURCES:
            hint = f"set `{SOURCES[option]}` where the model is packed and loaded, and delete the line"
        raise _refused(place, "has a variable, and variables are not replaced", line, hint)
    if option in ("-r", "--requirement", "-c", "--constraint"):
        return _included(option, value, line, place)
    if option in SOURCES:
        folder = _path(value) if SOURCES[option] == "UV_FIND_LINKS" else None
        return WheelFolder(place, folder) if folder else Source(place, option, value)
    if option in _WITHOUT_EFFECT and not value:
        return None
    if option == "--pre" and not value:
        return Setting(option, "")
    if option in ("--no-binary", "--only-binary") and _NAMES.fullmatch(value):
        return Setting(option, value)
    if is_elsewhere(line):
        return _elsewhere(line, place)
    if line.startswith("-"):
        raise _refused(place, "has an option that a model cannot use", line, "delete the line, or configure `uv` by `UV_…` variables")
    return _package(line, place)


def _included(option: str, value: str, line: str, place: str) -> Included:
    if "://" in value or value.lower().startswith("file:"):
        raise _refused(place, "includes a file from a server", line, "put the file into the model's folder")
    if not value:
        raise _refused(place, "includes no file", line, "name a file of the model's folder")
    return Included(value, option in ("-c", "--constraint"))


def _package(line: str, place: str) -> Package:
    requested, hashes = _with_hashes(line, place)
    try:
        return Package(dependency_specifiers.parse(requested), hashes)
    except NoSpecifier as error:
        raise _refused(place, f"is no requirement: {error}", line, _WRITE_A_NAME) from None


def _elsewhere(line: str, place: str) -> Line:
    """Reads a line that names a package by a place: a wheel of the model. All others are refused."""
    if line.startswith("-"):
        raise elsewhere(place, line)
    requested, hashes = _with_hashes(line, place)
    location, separator, marker = requested.partition(" ;")
    if not separator and ";" in requested and "://" not in requested:
        location, separator, marker = requested.partition(";")
    location = location.strip(" \t")
    named = _AT.fullmatch(location)
    name, extras = (named.group(1), named.group(2)) if named else ("", "")
    if (named.group(3) if named else location).lower().startswith("git+"):
        return _repository(named, location, marker if separator else "", hashes, line, place)
    file = _FILE.fullmatch(named.group(3) if named else location)
    path = _path(file.group(1)) if file else None
    if file is None or not path:
        raise elsewhere(place, line)
    found = wheel_name(path.rsplit("/", 1)[-1])
    if found is None:
        raise _refused(place, "names a file that is no wheel by its name", line, "leave the file as it was called when it was built")
    if name and lock.normalized(name) != lock.normalized(found[0]):
        raise _refused(place, f"names `{name}`, and its wheel is of `{found[0]}`", line, f"write `{found[0]} @ …`")
    try:
        # With the specifier's own reader: the name and the version of the wheel stand for it.
        condition = f" ;{marker}" if separator else ""
        specifier = dependency_specifiers.parse(f"{found[0]}[{extras or file.group(2) or ''}]{condition}")
    except NoSpecifier as error:
        raise _refused(place, f"is no requirement: {error}", line, _WRITE_A_NAME) from None
    return LocalWheel(place, path, specifier.extras, specifier.marker, hashes)


def _repository(named, location: str, condition: str, hashes: Tuple[str, ...], line: str, place: str) -> Repository:
    hint = "write it as `NAME @ git+https://SERVER/PATH@COMMIT`; a login is for git's own configuration"
    match = _GIT.fullmatch(named.group(3) if named else location)
    if match is None or hashes:
        raise _refused(place, "names a repository in a way that is not read", line, hint)
    fragment = dict(part.partition("=")[::2] for part in (match.group(3) or "").split("&") if part)
    egg = re.fullmatch(r"([A-Za-z0-9._-]+)(?:\[([^\[\]]*)\])?", fragment.pop("egg", ""))
    folder = fragment.pop("subdirectory", "")
    if fragment or folder.startswith(("/", "-")) or ".." in folder.split("/") or re.search(r"[^A-Za-z0-9._/-]", folder):
        raise _refused(place, "names a repository in a way that is not read", line, hint)
    name, extras = (named.group(1), named.group(2)) if named else (egg.group(1), egg.group(2)) if egg else ("", "")
    try:
        specifier = dependency_specifiers.parse(f"{name}[{extras or ''}]" + (f" ;{condition}" if condition else ""))
    except NoSpecifier as error:
        problem = f"is no requirement: {error}" if name else "names a repository and no package"
        raise _refused(place, problem, line, hint) from None
    return Repository(place, specifier.name, specifier.extras, specifier.marker, match.group(1), match.group(2) or "", folder)


def _path(value: str) -> Optional[str]:
    """Returns the path that a value names, also by ``file:``; ``None`` if it is a URL of a server or nothing."""
    if not _SCHEME.match(value):
        return value or None
    if value[:5].lower() != "file:":
        return None
    path = value[5:]
    if path.startswith("//"):
        host, slash, path = path[2:].partition("/")
        if host not in ("", "localhost"):
            return None
        path = slash + path
    return unquote(path) or None


def _with_hashes(line: str, place: str) -> Tuple[str, Tuple[str, ...]]:
    """Returns what a line requests, and the hashes behind it."""
    requested, *options = (part.strip(" \t") for part in re.split(r"[ \t](?=--)", line))
    hashes = []
    for option in options:
        match = _OPTION.fullmatch(option)
        if not match or match.group(1) != "--hash":
            raise _refused(place, "has an option that a model cannot use", line, "delete the option; `--hash` may stay")
        value = _unquoted(match.group(2)).lower()
        if not _HASH.fullmatch(value):
            raise _refused(place, "has something that is no hash", line, "write it as `--hash=sha256:…`")
        hashes.append(value)
    return requested, tuple(hashes)


def _source_hint(variable: str, value: str) -> str:
    if variable == "UV_NO_INDEX":
        return "delete the line; with `--bundle-wheels` the model brings its packages"
    value = _QUERY.sub(r"\1?…", _PASSWORD.sub("://", value))
    # Other characters could mean something to a shell.
    given = f"={value}" if re.fullmatch(r"[A-Za-z0-9._~:/?&=%@+-]+", value) and "&" not in value else ""
    return f"if you trust it, set `{variable}{given}` where the model is packed and loaded, or delete the line"


def _refused(place: str, problem: str, line: Optional[str], hint: str) -> RunnerError:
    causes = []
    if line is not None:
        shown = _QUERY.sub(r"\1?…", _PASSWORD.sub("://…@", line))
        shown = shown if len(shown) <= 200 else shown[:200] + "…"
        causes.append(f"found {shown!r}")
    return RunnerError(f"{place} {problem}", causes, code="setup", hint=hint)


def _unquoted(value: str) -> str:
    value = value.strip(" \t")
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value
