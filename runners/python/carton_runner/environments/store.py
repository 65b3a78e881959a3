"""The environments on this machine: where they are, and how they are read. ``making`` makes them.

::

    <runner data>/python/environments-v1/
      <key>/               an environment, as ``uv venv`` makes it; the key is a hash of its packages and of the
                           interpreter
        requirements.txt   the requested packages
        complete           written last: an environment without it is unfinished, and is made anew
      <key>.lock           held while the environment is made, also by uv, so that no other process starts while a uv
                           still writes whose runner was killed; and held shared by the hosts whose models use it, so
                           that ``carton runner prune`` sees which are in use, and when they were used last
    <runner data>/python/locks-v1/
      <digest>.txt         the lock that was made on this machine of a ``requirements.txt`` with this digest
"""

import hashlib
import json
import os
import platform
import sys
import sysconfig
from pathlib import Path
from typing import List, NamedTuple, Optional, Sequence

from carton_runner.errors import RunnerError

#: A change in the structure of environments gets a new folder.
FOLDER = "python/environments-v1"
#: The folder of the locks that were made on this machine.
LOCKS = "python/locks-v1"
COMPLETE = "complete"
#: The version of the procedure that makes environments. Changing it makes all of them anew. With 2, programs of packages are executable.
_FORMAT = 2


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
    #: Whether only wheels are installed, also where building packages from source is allowed.
    is_never_built: bool = False
    #: Whether the versions were chosen on this machine, because the model has no lock.
    is_locked_here: bool = False

    def key(self) -> str:
        """Returns the name of the environment. It does not depend on the source of the packages, because their hashes identify
        them."""
        described = json.dumps([_FORMAT, sorted(self.lines if self.identity is None else self.identity), interpreter()])
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


def place(wanted: Wanted) -> Path:
    """Returns the folder of the environment with these packages, which need not exist."""
    return data_folder() / FOLDER / wanted.key()


def find(wanted: Wanted) -> Path:
    """Returns the folder of packages of the environment with these packages. Raises the error ``unprepared`` if it is not complete,
    or if this process cannot read it."""
    folder = place(wanted)
    try:
        # A process that is not allowed to read a file may still see that it exists.
        (folder / COMPLETE).read_bytes()
        return packages(folder)
    except OSError as error:
        raise unprepared("the environment of this model is not there, or cannot be read", error) from error


def is_complete(folder: Path) -> bool:
    """Whether the environment is complete."""
    return (folder / COMPLETE).is_file()


def packages(folder: Path) -> Path:
    """Returns the environment's ``lib/python3.11/site-packages``."""
    found = sorted(folder.glob("lib/python*/site-packages"))
    if len(found) != 1:
        raise RunnerError(
            f"the environment `{folder}` has {len(found)} folders of packages, expected 1", hint="delete it"
        )
    return found[0]


def lock_place(inputs) -> Path:
    """Returns the path of the lock that is made on this machine of these ``requirements.Inputs``."""
    return data_folder() / LOCKS / f"{inputs.digest()[:40]}.txt"


def cached_lock(inputs) -> str:
    """Returns the text of that lock. Raises the error ``unprepared`` if it does not exist, or if this process cannot read it."""
    try:
        return lock_place(inputs).read_text()
    except OSError as error:
        raise unprepared("the packages of this model are not locked on this machine", error) from error


def unprepared(message: str, error: OSError) -> RunnerError:
    """Returns the error of a model that another process has to prepare first."""
    return RunnerError(message, [str(error)], code="unprepared")
