"""Finds and runs ``uv``, and turns its failures into errors for the user."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import Callable, Iterator, List, NamedTuple, Sequence, Tuple

from carton_runner.environments import programs, variables
from carton_runner.environments.sources import Sources
from carton_runner.errors import RunnerError

#: The number of last lines of output in an error, and the characters of each.
MAX_LINES = 20
MAX_LINE = 500
#: The time limit for ``uv --version``, in seconds.
_PATIENCE = 60

_OFFLINE = ("network connectivity is disabled", "but offline", "because the network was disabled")
_ABSENT = (
    "no solution found",
    "was not found in the package registry",
    "was not found in the cache",
    "there is no version of",
    "there are no versions of",
)

_FULL = ("no space left on device", "os error 28", "disk quota exceeded")
_NO_REQUIREMENT = ("couldn't parse requirement", "the start of a requirement", "unsupported requirement")
_NO_WHEEL = (
    "no usable wheels",
    "building from source is disabled",
    "marked as `--no-build`",
    "no wheels with a matching",
    "compatible with the current platform",
    "wheel for the current platform",
    "for the current platform",
)
#: The hint for packages that have no wheel.
ALLOW_BUILD = "choose versions with wheels, or allow building packages from source, which runs code of the packages"
#: Texts in uv's output, their meaning, and the code of the error. The first match counts.
_REASONS: Tuple[Tuple[Tuple[str, ...], str, str], ...] = (
    (_FULL, "the disk is full", "setup"),
    (_NO_REQUIREMENT, "a line of the requirements is none", "setup"),
    (("hash mismatch",), "a package is not the one that was locked: its hash differs", "failed"),
    (
        _OFFLINE,
        "packages are not on this machine, and the network must not be used",
        "network",
    ),
    (
        (
            "failed to fetch",
            "error sending request",
            "dns error",
            "failed to lookup address",
            "connection refused",
            "connection reset",
            "timed out",
            "tcp connect error",
            "client error",
        ),
        "packages cannot be fetched",
        "network",
    ),
    (
        _NO_WHEEL,
        "a package has no wheel for this platform and this Python",
        "failed",
    ),
    (
        ("failed to build", "build backend", "build failed", "failed to prepare distributions"),
        "a package cannot be built",
        "failed",
    ),
    (("was not found in the package registry",), "a package is not in the package index", "failed"),
    (_ABSENT, "there are no such versions in the package index, or they exclude each other", "failed"),
)


class Uv(NamedTuple):
    """A working ``uv``."""

    command: Tuple[str, ...]
    #: The sources of packages beyond those of the user.
    sources: Sources = Sources()

    def run(
        self,
        arguments: Sequence[str],
        cwd: str,
        doing: str,
        report,
        pass_fds: Sequence[int] = (),
        on_line: Callable[[str], None] = lambda line: None,
        on_pause: Callable[[], None] = lambda: None,
    ) -> None:
        """Runs it as :func:`programs.run` does. ``doing`` is the task for error messages."""
        command = [*self.command, *arguments]

        def clean(text: str) -> str:
            return variables.without_passwords(text, self.sources)

        status, said = programs.run(
            command, cwd, "uv", report, pass_fds, lambda line: on_line(clean(line)), on_pause, sources=self.sources
        )
        if status != 0:
            raise failure(doing, clean(said), status)


def find(report, sources: Sources = Sources()) -> Uv:
    """Returns the first working ``uv``: that of the variable ``UV``, in ``PATH``, where its installer and cargo put it, beside the
    interpreter, where `carton runner install python` puts it, or the module of this interpreter."""
    for command in _candidates():
        try:
            status, said = programs.run([*command, "--version"], os.curdir, "uv", report, patience=_PATIENCE)
        except (programs.CannotStart, subprocess.TimeoutExpired):
            continue
        if status == 0 and any(line.startswith("uv ") for line in said.splitlines()):
            return Uv(command, sources)
    raise RunnerError(
        "`uv`, which makes the environments of Python models, is not on this machine",
        code="unavailable",
        hint=f"install it: `carton runner install python`, `{shlex.quote(sys.executable)} -m pip install uv`, or "
        "`curl -LsSf https://astral.sh/uv/install.sh | sh`",
    )


@contextmanager
def working_folder(settings: str = "") -> Iterator[Path]:
    """Makes an empty folder to run uv in, and deletes it. uv takes its configuration from the first folder that has some, of the working
    folder and those above it. That is this one, with the ``settings`` of a project: above it may be folders that other users write to.
    uv reads the user's own configuration as well."""
    try:
        folder = tempfile.TemporaryDirectory(prefix="carton-uv-")
    except OSError as error:
        raise RunnerError("cannot make a temporary folder", [str(error)], code="setup") from error
    with folder:
        place = Path(os.path.realpath(folder.name))
        (place / "pyproject.toml").write_text(f"[tool.uv]\n{settings}")
        yield place


def is_offline() -> bool:
    """Whether the network must not be used."""
    return os.environ.get("CARTON_OFFLINE", "0") not in ("", "0")


def may_build() -> bool:
    """Whether packages may be built from source, which runs their code."""
    return os.environ.get("CARTON_ALLOW_BUILD") == "1"


def limits(needs_network: bool = True, is_never_built: bool = False) -> List[str]:
    """Returns the options of uv that forbid it to use the network, and to build packages."""
    options = [] if needs_network and not is_offline() else ["--offline"]
    return options + (["--no-build"] if is_never_built or not may_build() else [])


def _candidates() -> Iterator[Tuple[str, ...]]:
    named = os.environ.get("UV")
    if named:
        yield (named,)
    in_path = shutil.which("uv")
    if in_path:
        yield (in_path,)
    home = Path(os.environ.get("HOME") or os.path.expanduser("~"))
    folders = [home / ".local/bin", home / ".cargo/bin", Path(sys.executable).parent]
    folders.append(Path(os.path.realpath(sys.executable)).parent)
    for folder in folders:
        if os.access(folder / "uv", os.X_OK):
            yield (str(folder / "uv"),)
    yield from _installed_by_carton()
    yield (sys.executable, "-I", "-m", "uv")


def _installed_by_carton() -> Iterator[Tuple[str, ...]]:
    """Yields what `carton runner install python` has installed: ``uv/VERSION/uv`` in the runners' data folder, the newest first."""
    data = os.environ.get("CARTON_RUNNER_DATA_DIR")
    if not data:
        return
    complete = [path for path in Path(data).glob("uv/*/uv") if not path.parent.name.startswith(".")]
    for path in sorted(complete, key=lambda path: [int(part) for part in re.findall("[0-9]+", path.parent.name)], reverse=True):
        if os.access(path, os.X_OK):
            yield (str(path),)


def failure(doing: str, said: str, status: int) -> RunnerError:
    """Returns the error for a failed run, by uv's output."""
    causes = last_lines(said) or [f"uv ended with status {status}"]
    lower = said.lower()
    if is_offline() and any(word in lower for word in _ABSENT) and not any(word in lower for word in _NO_WHEEL):
        # Without the network uv knows only the packages in its cache.
        lower = _OFFLINE[0]
    for words, reason, code in _REASONS:
        if any(word in lower for word in words):
            hint = _network_hint() if code == "network" else None
            if words is _FULL:
                hint = "make room, or name a folder with more of it with CARTON_RUNNER_DATA_DIR"
            if words is _NO_WHEEL and not may_build():
                hint = ALLOW_BUILD
            if words is _NO_REQUIREMENT:
                hint = "write it as a name, and where they matter versions: `numpy>=1.26`"
            return RunnerError(f"cannot {doing}: {reason}", causes, code=code, hint=hint)
    return RunnerError(f"cannot {doing}: uv failed", causes)


def _network_hint() -> str:
    if is_offline():
        return "load the model once with the network, or pack it with `--bundle-wheels`"
    return "try again when the package index can be reached, or pack the model with `--bundle-wheels`"


def last_lines(said: str) -> List[str]:
    """Returns the last lines of a program's output."""
    lines = [line.rstrip() for line in said.splitlines() if line.strip()]
    return [line if len(line) <= MAX_LINE else line[:MAX_LINE] + "…" for line in lines[-MAX_LINES:]]
