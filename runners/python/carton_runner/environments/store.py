"""The environments on this machine, each made once.

::

    <runner data>/python/environments-v1/
      <key>/               an environment, as ``uv venv`` makes it; the key is a hash of its packages and of the
                           interpreter
        requirements.txt   the requested packages
        complete           written last: an environment without it is unfinished, and is made anew
      <key>.lock           held while the environment is made, also by uv, so that no other process starts while a uv
                           still writes whose runner was killed; and held shared by all processes that use it, so that
                           ``carton runner prune`` sees which are in use, and when they were used last
"""

import fcntl
import hashlib
import json
import os
import platform
import shlex
import shutil
import sys
import sysconfig
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator, List, NamedTuple, Optional, Sequence

from carton_runner import descriptors
from carton_runner.calls import Cancelled
from carton_runner.environments import uv
from carton_runner.errors import RunnerError

#: A change in the structure of environments gets a new folder.
FOLDER = "python/environments-v1"
#: The hint for a folder in which environments cannot be written.
ANOTHER_PLACE = "make room, or name a folder that can be written to with CARTON_RUNNER_DATA_DIR"
COMPLETE = "complete"
#: Seconds between two attempts to get a lock that another process holds.
_PAUSE = 0.05
#: Seconds to wait for the lock of a complete environment.
_PATIENCE = 5.0


class Wanted(NamedTuple):
    """The packages that an environment has to contain."""

    #: Lines of a requirements file, each with its hashes.
    lines: Sequence[str]
    #: Further options of uv: the location of the wheels.
    options: Sequence[str] = ()
    #: Identifies the environment if the lines cannot: some lines name paths, and a model may be in several places.
    identity: Optional[Sequence[str]] = None
    #: Whether all packages are in the model, and the network is not needed.
    is_complete: bool = False

    def key(self) -> str:
        """Returns the name of the environment. It does not depend on the source of the packages, because their hashes identify
        them."""
        described = json.dumps([sorted(self.lines if self.identity is None else self.identity), interpreter()])
        return hashlib.sha256(described.encode()).hexdigest()[:40]


def interpreter() -> List[str]:
    """Returns the properties of this interpreter. Interpreters with different properties cannot share packages."""
    return [
        os.path.realpath(sys.executable),
        sys.version,
        sysconfig.get_platform(),
        sysconfig.get_config_var("SOABI") or "",
        "-".join(platform.libc_ver()),
    ]


def minor_version() -> str:
    """Returns the interpreter's minor version, such as ``3.11``."""
    return "%d.%d" % sys.version_info[:2]


def platform_tag() -> str:
    """Returns the properties that compiled wheels depend on: Python's minor version and the platform."""
    libc = platform.libc_ver()[0] or "none"
    return f"{sysconfig.get_config_var('SOABI') or minor_version()} {sysconfig.get_platform()} {libc}"


def data_folder() -> Path:
    """Returns the folder for the data of runners."""
    named = os.environ.get("CARTON_RUNNER_DATA_DIR")
    return Path(os.path.abspath(named)) if named else Path.home() / ".carton/runner_data"


def environment(wanted: Wanted, report) -> Path:
    """Returns the folder of packages of the environment with these packages, which is made if it does not exist."""
    key = wanted.key()
    environments = data_folder() / FOLDER
    folder = environments / key
    place = environments / f"{key}.lock"
    while not (_is_complete(folder) and _keep(place, folder)):
        try:
            environments.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _unwritable(f"cannot make the folder `{environments}`", error) from error
        with locked(place, "makes the environment of this model", report) as lock:
            # The process that had the lock may have made the environment.
            if not _is_complete(folder):
                _make(folder, wanted, lock, report)
    return _packages(folder)


#: Descriptors that keep environments from being deleted for as long as this process lives.
_kept: List[int] = []


def _keep(place: Path, folder: Path) -> bool:
    """Keeps the environment from being deleted while this process lives. Returns whether it still exists."""
    try:
        descriptor = descriptors.move_up(os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666))
    except OSError:
        # In a folder that cannot be written to, nothing can be deleted either.
        return True
    end = time.monotonic() + _PATIENCE
    while not _try_lock(descriptor, place, fcntl.LOCK_SH):
        if time.monotonic() >= end:
            # A process that uv left behind holds the lock. The environment is complete nevertheless.
            break
        time.sleep(_PAUSE)
    if _is_at(descriptor, place) and _is_complete(folder):
        try:
            os.utime(descriptor)
        except OSError:
            # The file belongs to another user, who allows others to write to it.
            pass
        _kept.append(descriptor)
        return True
    os.close(descriptor)
    return False


def _is_complete(folder: Path) -> bool:
    return (folder / COMPLETE).is_file()


def _packages(folder: Path) -> Path:
    """Returns the environment's ``lib/python3.11/site-packages``."""
    found = sorted(folder.glob("lib/python*/site-packages"))
    if len(found) != 1:
        raise RunnerError(
            f"the environment `{folder}` has {len(found)} folders of packages, expected 1", hint="delete it"
        )
    return found[0]


def _make(folder: Path, wanted: Wanted, lock: int, report) -> None:
    tool = uv.find(report)
    _delete(folder)
    report.info(
        f"making the Python environment of the model: {len(wanted.lines)} packages, with {shlex.join(tool.command)}"
    )
    parent = str(folder.parent)
    try:
        tool.run(
            ["venv", "--no-project", "--no-config", "--python", sys.executable, str(folder)],
            parent,
            "make a virtual environment",
            report,
            [lock],
        )
        requirements = folder / "requirements.txt"
        requirements.write_text("".join(f"{line}\n" for line in wanted.lines))
        _install(tool, folder, wanted, requirements, lock, report)
        marker = folder / f"{COMPLETE}.new"
        marker.write_text(json.dumps({"interpreter": interpreter(), "made": int(time.time())}) + "\n")
        marker.rename(folder / COMPLETE)
    except OSError as error:
        _delete(folder)
        raise _unwritable(f"cannot make the environment `{folder}`", error) from error
    except BaseException:
        # An unfinished environment is useless and takes space.
        _delete(folder)
        raise


def _install(tool: uv.Uv, folder: Path, wanted: Wanted, requirements: Path, lock: int, report) -> None:
    count, last = len(wanted.lines), -1

    def progress() -> None:
        nonlocal last
        installed = min(count, sum(1 for _ in folder.glob("lib/python*/site-packages/*.dist-info")))
        if installed != last:
            last = installed
            report.progress("installing packages", installed, count)

    def on_line(line: str) -> None:
        if line.lstrip().startswith(("Downloading", "Building", "Built", "warning")):
            report.info(f"uv: {line.strip()}")

    command = ["pip", "sync", "--python", str(folder / "bin/python"), "--require-hashes", "--compile-bytecode"]
    command += ["--offline"] if uv.is_offline() or wanted.is_complete else []
    progress()
    arguments = [*command, *wanted.options, str(requirements)]
    tool.run(arguments, str(folder.parent), "install the model's packages", report, [lock], on_line, progress)
    progress()


def _delete(folder: Path) -> None:
    # The marker is deleted first: if the process is killed in the middle, the rest must not look complete.
    for name in (COMPLETE, f"{COMPLETE}.new"):
        try:
            (folder / name).unlink()
        except FileNotFoundError:
            pass
        except OSError as error:
            raise _unwritable(f"cannot delete `{folder / name}`", error) from error
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        raise RunnerError(f"cannot delete the unfinished environment `{folder}`", hint="delete it")


@contextmanager
def locked(path: Path, doing: str, report) -> Iterator[int]:
    """Holds the lock of this file, which the system releases when the process dies."""
    waited = False
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise _unwritable(f"cannot open the lock `{path}`", error) from error
        try:
            while not _try_lock(descriptor, path, fcntl.LOCK_EX):
                if not waited:
                    report.info(f"waiting for another process that {doing}")
                waited = True
                if not report.is_wanted():
                    raise Cancelled
                time.sleep(_PAUSE)
            # The previous holder of the lock may have deleted its file.
            if _is_at(descriptor, path):
                yield descriptor
                return
        finally:
            os.close(descriptor)


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether the path still names the open file."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except OSError:
        return False


def _try_lock(descriptor: int, path: Path, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise RunnerError(f"cannot lock `{path}`", [str(error)]) from error
    return True


def cached_text(name: str, make, report, doing: Optional[str] = None) -> str:
    """Returns a small text that ``make`` makes once for this machine."""
    folder = data_folder() / "python/locks-v1"
    path = folder / name
    try:
        return path.read_text()
    except FileNotFoundError:
        pass
    except OSError as error:
        raise RunnerError(f"cannot read `{path}`", [str(error)]) from error
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(f"cannot make the folder `{folder}`", error) from error
    with locked(folder / f"{name}.lock", doing or "locks the packages of this model", report):
        if path.exists():
            return path.read_text()
        text = make()
        new = folder / f"{name}.new"
        try:
            new.write_text(text)
            new.rename(path)
        except OSError as error:
            raise _unwritable(f"cannot write `{path}`", error) from error
        return text


def _unwritable(message: str, error: OSError) -> RunnerError:
    return RunnerError(message, [str(error)], code="setup", hint=ANOTHER_PLACE)
