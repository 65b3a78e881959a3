"""Where packages come from while a model is packed: what the user has configured, and then what the files of the model name.

A file of the model gives ``uv`` nothing but the scheme, host, port and path of a server, written anew, and the user and password that
the file itself has for it. What the user has configured stays before it: `uv` takes a package from the first index that has it, so
that a server that a file names cannot replace packages of the user's own index. Passwords of the user go where they went before: `uv`
and `pip` send them to the scheme, host and port of the index that they are for, or to the host of an entry in ``~/.netrc``; this is why a
server without TLS is not taken from a file. Environments of models that were not packed here use none of this.
"""

import os
import re
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Tuple
from urllib.parse import unquote

from carton_runner.environments import requirement_lines, toml_files
from carton_runner.environments.requirement_lines import SOURCES, Source
from carton_runner.errors import RunnerError

#: The index of everybody, which a line may name although the user has not configured it.
PYPI = "https://pypi.org/simple"
#: The variables in which the user names indexes.
INDEXES = ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX", "UV_EXTRA_INDEX_URL")
#: The variables of uv for indexes, and those of pip that stand for them where uv has no indexes.
OF_PIP = (("UV_DEFAULT_INDEX", "PIP_INDEX_URL"), ("UV_EXTRA_INDEX_URL", "PIP_EXTRA_INDEX_URL"))
#: The variables in which the user names what lines of a model can ask for, by the variable that their error names.
_CONFIGURED = {
    "UV_DEFAULT_INDEX": INDEXES,
    "UV_INDEX": INDEXES,
    "UV_FIND_LINKS": ("UV_FIND_LINKS",),
    "UV_INSECURE_HOST": ("UV_INSECURE_HOST",),
}
_DEFAULT = ("UV_DEFAULT_INDEX", "UV_INDEX_URL")

#: A server, and a path in it. No comma, because some lists of URLs have commas between them.
_URL = re.compile(
    r"(?P<scheme>https?)://(?:(?P<user>[A-Za-z0-9._~!&*+=%-]+)(?::(?P<password>[A-Za-z0-9._~!&*+=:%-]*))?@)?"
    r"(?P<server>(?P<host>[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:]+\])(?::[0-9]{1,5})?)"
    r"(?P<path>(?:/[A-Za-z0-9._~!&*+=:@%-]*)*)",
    re.ASCII,
)
_LOOPBACK = re.compile(r"localhost|127\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}|\[::1\]", re.ASCII)
#: Shorter secrets are not searched for in texts, because they are in every text.
MIN_SECRET = 3


class Sources(NamedTuple):
    """What the files of a model add to the user's configuration."""

    #: URLs of package indexes, asked in this order after the user's own.
    indexes: Tuple[str, ...] = ()
    #: The URL of the index that is asked last; ``None`` for the user's, or PyPI.
    default: Optional[str] = None
    #: URLs of pages with links.
    links: Tuple[str, ...] = ()
    #: Whether no index is asked.
    is_closed: bool = False
    #: Indexes that a configuration file of the user names, which otherwise would be asked later than those of the model.
    of_the_user: Tuple[str, ...] = ()

    def variables(self, given: Dict[str, str]) -> Dict[str, str]:
        """Returns the variables of uv that add these to those that are ``given``."""
        added: Dict[str, List[str]] = {"UV_INDEX": list(self.of_the_user), "UV_EXTRA_INDEX_URL": list(self.indexes)}
        found = {name: " ".join([*given.get(name, "").split(), *urls]) for name, urls in added.items() if urls}
        if self.links:
            before = [word for word in given.get("UV_FIND_LINKS", "").split(",") if word.strip()]
            found["UV_FIND_LINKS"] = ",".join([*before, *self.links])
        if self.default is not None:
            found["UV_DEFAULT_INDEX"] = self.default
        return found

    def options(self) -> List[str]:
        """Returns the options of uv that no variable stands for."""
        return ["--no-index"] if self.is_closed else []

    def secrets(self) -> Iterator[str]:
        """Yields the passwords of the files, and users without a password, which may be tokens."""
        for url in (*self.indexes, self.default or "", *self.links, *self.of_the_user):
            match = re.match(r"[^/]*://([^/@]*)@", url)
            if match:
                user, _, password = match.group(1).partition(":")
                yield from (unquote(password or user), password or user)


def chosen(lines: Iterable[Source], is_packing: bool, report, bundles: bool = False) -> Sources:
    """Returns what lines of a model add to the user's configuration. A line that says what the user has configured adds nothing. All
    others are refused unless the user packs the model, and then they are used and said. Starts no program."""
    lines = list(lines)
    indexes: List[str] = []
    links: List[str] = []
    default: Optional[str] = None
    is_closed = False
    #: Servers and whether they have pages of links, with the first line that names each.
    servers: Dict[Tuple[str, bool], str] = {}
    for line in lines:
        variable = SOURCES[line.option]
        if is_configured(line):
            continue
        if not is_packing:
            raise requirement_lines.refused_source(line)
        if variable == "UV_NO_INDEX" and not line.value:
            is_closed = True
            continue
        if variable == "UV_INSECURE_HOST":
            if not _LOOPBACK.fullmatch(line.value.split(":")[0] if not line.value.startswith("[") else line.value):
                raise _refused(line, "turns off the check of a server's certificate")
            continue
        url, server = _written(line)
        servers.setdefault((server, variable == "UV_FIND_LINKS"), line.place)
        if variable == "UV_FIND_LINKS":
            links.append(url)
        elif variable == "UV_DEFAULT_INDEX" and default is None and not _has_default():
            default = url
        else:
            indexes.append(url)
    for (server, is_page), place in servers.items():
        what, variable = ("packages of a page", "UV_FIND_LINKS") if is_page else ("a package index", "UV_INDEX")
        said = f"{place} names {what} on `{server}`, which is used while packing, after those that you have configured"
        if not bundles:
            said += f"; a lock does not name it: set `{variable}` where the model is loaded, or pack it with `--bundle-wheels`"
        report.warn(said)
    if is_packing and not servers and not bundles and any(_is_elsewhere(line) for line in lines):
        report.warn(
            "the model names a package index, and a lock does not: set `UV_INDEX` where the model is loaded, or pack it with "
            "`--bundle-wheels`"
        )
    of_the_user = tuple(_in_configuration_files()) if indexes or default else ()
    return Sources(tuple(dict.fromkeys(indexes)), default, tuple(dict.fromkeys(links)), is_closed, of_the_user)


def is_configured(source: Source) -> bool:
    """Whether the user's own configuration has what a line asks for, so that the line can be left out."""
    variable = SOURCES[source.option]
    value = plain(source.value)
    if variable == "UV_DEFAULT_INDEX" and value == PYPI:
        return True
    given = " ".join(_given(name) for name in _CONFIGURED.get(variable, ()))
    return value in [plain(re.sub(r"^[A-Za-z0-9_-]+=(?=[a-z]+:)", "", word)) for word in given.replace(",", " ").split()]


def _is_elsewhere(line: Source) -> bool:
    return SOURCES[line.option] in ("UV_DEFAULT_INDEX", "UV_INDEX", "UV_FIND_LINKS") and plain(line.value) != PYPI


def _given(name: str) -> str:
    """Returns the value that a variable of uv has for uv."""
    of_pip = dict(OF_PIP).get(name)
    if of_pip and not any(os.environ.get(one) for one in INDEXES) and not has_configuration():
        return os.environ.get(of_pip, "")
    return os.environ.get(name, "")


def has_configuration() -> bool:
    """Whether uv has a configuration file of the user."""
    # Not `Path.is_file`, which raises for a folder that cannot be searched.
    return any(os.path.isfile(path) for path in _configuration_files())


def plain(url: str) -> str:
    """Returns a URL in the form in which it is compared: without a user, a password and a slash at its end."""
    return re.sub(r"://[^/@]*@", "://", url).rstrip("/")


def _written(line: Source) -> Tuple[str, str]:
    """Returns the URL of a line, written anew from its parts, and the server for the user."""
    match = _URL.fullmatch(line.value)
    if match is None:
        raise _refused(line, "names a source of packages by something else than `https://SERVER/PATH`")
    scheme, server, path = match.group("scheme"), match.group("server").lower(), match.group("path")
    if scheme == "http" and not _LOOPBACK.fullmatch(match.group("host").lower()):
        raise _refused(line, f"names a source of packages without TLS, `http://{server}`")
    user, password = match.group("user"), match.group("password")
    login = "" if user is None else f"{user}@" if password is None else f"{user}:{password}@"
    return f"{scheme}://{login}{server}{path}", f"{scheme}://{server}"


def _refused(line: Source, problem: str) -> RunnerError:
    refused = requirement_lines.refused_source(line)
    refused.message = f"{line.place} {problem}, which only the user's configuration may do"
    return refused


def _has_default() -> bool:
    """Whether the user has named an index instead of PyPI."""
    if any(_given(name) for name in _DEFAULT):
        return True
    return any(
        settings.get("index-url") or any(index.get("default") is True for index in _listed(settings))
        for settings in _configurations()
    )


def _in_configuration_files() -> Iterator[str]:
    """Yields the further indexes of the user's configuration files, as words of ``UV_INDEX``."""
    for settings in _configurations():
        for index in _listed(settings):
            url, name = index.get("url"), index.get("name")
            flags = [index.get(flag) for flag in ("default", "explicit")]
            if isinstance(url, str) and not re.search(r"\s", url) and True not in flags and index.get("format") != "flat":
                yield f"{name}={url}" if isinstance(name, str) and re.fullmatch(r"[A-Za-z0-9_.-]+", name) else url
        extra = settings.get("extra-index-url")
        for url in extra if isinstance(extra, list) else ():
            if isinstance(url, str) and not re.search(r"\s", url):
                yield url


def _listed(settings: Dict[str, Any]) -> List[Dict[str, Any]]:
    found = settings.get("index")
    return [index for index in found if isinstance(index, dict)] if isinstance(found, list) else []


def _configuration_files() -> Tuple[Path, ...]:
    """Returns the paths of the user's configuration files for uv, which need not exist."""
    if os.environ.get("UV_NO_CONFIG", "").lower() in ("1", "true", "yes", "on", "t", "y"):
        return ()
    named = os.environ.get("UV_CONFIG_FILE")
    home = Path(os.environ.get("HOME") or os.path.expanduser("~"))
    own = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "uv/uv.toml"
    return (Path(named),) if named else (own, Path("/etc/xdg/uv/uv.toml"), Path("/etc/uv/uv.toml"))


def _configurations() -> Iterator[Dict[str, Any]]:
    """Yields the settings of the user's configuration files for uv, and of their part for `uv pip`."""
    for path in _configuration_files():
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            # uv says what is wrong with it.
            continue
        settings = toml_files.parse(text, f"`{path}`")
        yield settings
        pip = settings.get("pip")
        if isinstance(pip, dict):
            yield pip
