"""The environment variables for uv, pip and Python. Each gets the variables that are named here and no others: none that would change
which packages are installed, where, or whether they are checked, and none that names a cache or another folder of the user that
would be written to."""

import fnmatch
import os
import re
from pathlib import Path
from typing import Dict, Iterable, Iterator, Tuple
from urllib.parse import quote

from carton_runner import environments
from carton_runner.environments import sources, store
from carton_runner.environments.sources import Sources

#: The folder for uv's cache in the runners' data folder. No other program uses it: a confined process can write to it, and the user's
#: own projects must not get files that one has written.
UV_CACHE = "python/uv-cache"

#: Variables of the system (patterns of ``fnmatch``, as all below).
_SYSTEM = (
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TZ",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
)
#: Only where building packages is allowed. With the first two, uv builds packages although it is told to build none.
_UV_BUILDS = (
    "UV_NO_BINARY",
    "UV_NO_BINARY_PACKAGE",
    "UV_BUILD_CONSTRAINT",
    "UV_CONCURRENT_BUILDS",
    "UV_NO_BUILD_ISOLATION",
)
#: The same for pip, which starts git for a package of a repository.
_GIT = tuple(name for name in environments.VARIABLES if name.startswith("GIT_"))
_PIP_BUILDS = ("PIP_NO_BINARY", "PIP_BUILD_CONSTRAINT", "PIP_NO_BUILD_ISOLATION", *_GIT)
#: The user's indexes and the way to them, and preferences among versions.
_UV = tuple(name for name in environments.VARIABLES if name.startswith("UV_") and name not in _UV_BUILDS)
_PIP = tuple(name for name in environments.VARIABLES if name.startswith("PIP_") and name not in _PIP_BUILDS)
#: How to reach servers, and where uv's configuration and its stored credentials are.
_NETWORK = tuple(name for name in environments.VARIABLES if not name.startswith(("UV", "PIP_", "GIT_")))
#: The host's own variables, which no program gets: some hold tokens.
_OF_THE_HOST = ("CARTON_*",)

#: Settings of pip, and the equivalent ones of uv.
_SAME_SETTINGS = (
    ("PIP_INDEX_URL", ("UV_DEFAULT_INDEX", "UV_INDEX_URL")),
    ("PIP_EXTRA_INDEX_URL", ("UV_INDEX", "UV_EXTRA_INDEX_URL")),
    ("PIP_FIND_LINKS", ("UV_FIND_LINKS",)),
)

#: Passwords in the values of variables.
_PASSWORD = re.compile(r"://[^/@\s:]*:([^/@\s]{3,})@")
#: The scheme, login, host and port of an index.
_SERVER_WITH_LOGIN = re.compile(r"[a-z]+://[^/@\s]+@[^/\s]+/")
#: A word of ``UV_INDEX``.
_NAMED = re.compile(r"([A-Za-z0-9_.-]+)=(?=[a-z]+:)")


def of(program: str, added: Sources = Sources()) -> Dict[str, str]:
    """Returns the variables for ``uv``, ``pip``, ``git`` or ``python``. The first two get the ``added`` sources of packages too."""
    if program == "python":
        return of_python()
    if program == "git":
        return {name: value for name, value in of_pip().items() if not name.startswith(("UV", "PIP_"))}
    return {"uv": of_uv, "pip": of_pip}[program](added)


def of_python() -> Dict[str, str]:
    """Returns the variables for an interpreter that installs nothing: those of this process without credentials."""
    return {name: value for name, value in os.environ.items() if not _matches(name, environments.WITHHELD)}


def of_uv(added: Sources = Sources()) -> Dict[str, str]:
    """Returns the variables for uv."""
    kept = _passed((*_SYSTEM, *_NETWORK, *_UV), _UV_BUILDS)
    if not any(kept.get(name) for name in sources.INDEXES) and not sources.has_configuration():
        # A user who has configured pip alone means the same servers.
        kept.update({name: os.environ[of_pip] for name, of_pip in sources.OF_PIP if os.environ.get(of_pip)})
    kept.update(added.variables(kept))
    # From its own cache, which is beside the environments, uv links files instead of copying them. Links to files of the cache by
    # their paths would lead where the process that loads the model cannot read.
    kept.update(UV_CACHE_DIR=str(store.data_folder() / UV_CACHE), UV_LINK_MODE="hardlink")
    kept.update(UV_PYTHON_DOWNLOADS="never", UV_NO_PROGRESS="1", NO_COLOR="1")
    return kept


def of_pip(added: Sources = Sources()) -> Dict[str, str]:
    """Returns the variables for pip, and for an uv that provides pip. Where uv has indexes, pip gets the same ones and no others: a lock
    and the wheels that are bundled for it come from the same servers."""
    of_the_lock = of_uv(added)
    passed = _passed(_PIP, _PIP_BUILDS)
    variables = {**_of_git(), **passed, **of_the_lock, "PIP_NO_CACHE_DIR": "1", "GIT_TERMINAL_PROMPT": "0"}
    for name, of_the_same in _SAME_SETTINGS:
        given = [variables[other] for other in of_the_same if variables.get(other)]
        if given:
            # uv allows `name=URL`, and commas between folders.
            words = " ".join(given).replace(",", " ").split() if name == "PIP_FIND_LINKS" else " ".join(given).split()
            variables[name] = " ".join(_with_login(word, of_the_lock) for word in words)
    # Versions of pip until 23.3 send a login only to what is below the URL of its index.
    indexes = " ".join(variables.get(name, "") for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"))
    servers = [match.group() for match in map(_SERVER_WITH_LOGIN.match, indexes.split()) if match]
    if servers:
        variables["PIP_EXTRA_INDEX_URL"] = " ".join([*variables.get("PIP_EXTRA_INDEX_URL", "").split(), *dict.fromkeys(servers)])
    return variables


def _of_git() -> Dict[str, str]:
    """Returns variables of git that the user's own replace: only servers with TLS, also for submodules, and none of the user's files where
    this process cannot read them, because git would end then."""
    found = {"GIT_ALLOW_PROTOCOL": "https"}
    home = Path(os.environ.get("HOME") or os.path.expanduser("~"))
    for path in (home / ".gitconfig", Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "git/config"):
        try:
            path.open("rb").close()
        except FileNotFoundError:
            pass
        except OSError:
            found["GIT_CONFIG_GLOBAL"] = os.devnull
    return found


def _with_login(word: str, variables: Dict[str, str]) -> str:
    """Returns the URL of a word of ``UV_INDEX``, with the user and password that uv has for its name in variables of their own."""
    match = _NAMED.match(word)
    if match is None:
        return word
    url, prefix = word[match.end() :], "UV_INDEX_" + re.sub(r"[^A-Za-z0-9]", "_", match.group(1)).upper()
    user, password = variables.get(f"{prefix}_USERNAME", ""), variables.get(f"{prefix}_PASSWORD", "")
    scheme, separator, rest = url.partition("://")
    if not user + password or "@" in rest.split("/")[0] or not separator:
        return url
    return f"{scheme}://{quote(user, safe='')}:{quote(password, safe='')}@{rest}"


def without_passwords(text: str, added: Sources = Sources()) -> str:
    """Returns the output of a program without the passwords in its variables. uv replaces ``${VARIABLE}`` in the metadata of packages,
    fetches nothing from such URLs, and shows them."""
    for password in sorted({*_passwords(), *_spellings(added.secrets())}, key=len, reverse=True):
        text = text.replace(password, "***")
    return text


def _passwords() -> Iterator[str]:
    for name, value in os.environ.items():
        yield from _spellings([value] if fnmatch.fnmatchcase(name, "UV_INDEX_*_PASSWORD") else _PASSWORD.findall(value))


def _spellings(passwords: Iterable[str]) -> Iterator[str]:
    for password in passwords:
        if len(password) >= sources.MIN_SECRET:
            yield from (password, quote(password), quote(password, safe=""))


def _passed(names: Tuple[str, ...], for_builds: Tuple[str, ...]) -> Dict[str, str]:
    if os.environ.get("CARTON_ALLOW_BUILD") != "1":
        return {name: value for name, value in os.environ.items() if _matches(name, names)}
    # Any variable can be for a compiler.
    others = (*environments.WITHHELD, *_OF_THE_HOST)
    return {
        name: value
        for name, value in os.environ.items()
        if _matches(name, (*names, *for_builds)) or not _matches(name, others)
    }


def _matches(name: str, patterns: Tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
