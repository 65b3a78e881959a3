"""Makes environments and locks, each once (``store`` knows where they are). Only processes that prepare or pack do this."""

import fcntl
import json
import os
import shlex
import shutil
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator, List, Optional, Tuple

from carton_runner import descriptors
from carton_runner.calls import Cancelled
from carton_runner.environments import bytecode, compiling, programs, run_bits, uv
from carton_runner.environments.requirements import Inputs
from carton_runner.environments.store import COMPLETE, Wanted, interpreter, is_complete, lock_place, packages, place
from carton_runner.errors import RunnerError

#: The hint for a folder in which environments cannot be written.
ANOTHER_PLACE = "make room, or name a folder that can be written to with CARTON_RUNNER_DATA_DIR"
#: Seconds between two attempts to get a lock that another process holds.
_PAUSE = 0.05
#: Seconds to wait for the lock of a complete environment.
_PATIENCE = 5.0


def environment(wanted: Wanted, report) -> Tuple[Path, Optional[Path]]:
    """Makes the environment with these packages unless it exists. Returns its folder, and its lock file; ``None`` if there is none
    and nobody can delete the environment. This process holds the lock until it ends, so that the host can take it."""
    folder = place(wanted)
    lock_file = folder.with_name(f"{folder.name}.lock")
    while not (is_complete(folder) and _keep(lock_file, folder)):
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _unwritable(f"cannot make the folder `{folder.parent}`", error) from error
        with locked(lock_file, "makes the environment of this model", report) as lock:
            # The process that had the lock may have made the environment.
            if not is_complete(folder):
                _make(folder, wanted, lock, report)
    return folder, lock_file if lock_file.exists() else None


#: Descriptors that keep environments from being deleted for as long as this process lives.
_kept: List[int] = []


def _keep(lock_file: Path, folder: Path) -> bool:
    """Keeps the environment from being deleted while this process lives. Returns whether it still exists."""
    try:
        descriptor = descriptors.move_up(os.open(lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666))
    except OSError:
        # In a folder that cannot be written to, nothing can be deleted either.
        return True
    end = time.monotonic() + _PATIENCE
    while not _try_lock(descriptor, lock_file, fcntl.LOCK_SH):
        if time.monotonic() >= end:
            # A process that uv left behind holds the lock. The environment is complete nevertheless.
            break
        time.sleep(_PAUSE)
    if _is_at(descriptor, lock_file) and is_complete(folder):
        try:
            os.utime(descriptor)
        except OSError:
            # The file belongs to another user, who allows others to write to it.
            pass
        _kept.append(descriptor)
        return True
    os.close(descriptor)
    return False


def _make(folder: Path, wanted: Wanted, lock: int, report) -> None:
    tool = uv.find(report)
    _delete(folder)
    report.info(
        f"making the Python environment of the model: {len(wanted.lines)} packages, with {shlex.join(tool.command)}"
    )
    try:
        with uv.working_folder() as cwd:
            tool.run(
                ["venv", "--no-project", "--no-config", "--python", sys.executable, str(folder)],
                str(cwd),
                "make a virtual environment",
                report,
                [lock],
            )
            requirements = folder / "requirements.txt"
            requirements.write_text("".join(f"{line}\n" for line in wanted.lines))
            _install(tool, folder, wanted, requirements, cwd, lock, report)
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


def _install(
    tool: uv.Uv, folder: Path, wanted: Wanted, requirements: Path, cwd: Path, lock: int, report
) -> None:
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

    # Compiling starts the environment's interpreter, which runs code of its packages (`.pth` files).
    command = ["pip", "sync", "--python", str(folder / "bin/python"), "--require-hashes", "--no-compile-bytecode"]
    command += uv.limits(needs_network=not wanted.is_complete, is_never_built=wanted.is_never_built)
    progress()
    arguments = [*command, *wanted.options, str(requirements)]
    tool.run(arguments, str(cwd), "install the model's packages", report, [lock], on_line, progress)
    progress()
    run_bits.restore(folder)
    programs.run(bytecode.command(packages(folder)), str(cwd), "python", report, [lock])


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


def cached_lock(inputs: Inputs, report) -> Tuple[str, Path]:
    """Returns the text and the path of the lock of these inputs, which is made once for this machine."""
    path = lock_place(inputs)
    folder = path.parent
    try:
        return path.read_text(), path
    except FileNotFoundError:
        pass
    except OSError as error:
        raise RunnerError(f"cannot read `{path}`", [str(error)]) from error
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(f"cannot make the folder `{folder}`", error) from error
    with locked(folder / f"{path.name}.lock", "locks the packages of this model", report):
        if path.exists():
            return path.read_text(), path
        text = compiling.compile_lock(inputs, report)
        new = folder / f"{path.name}.new"
        try:
            new.write_text(text)
            new.rename(path)
        except OSError as error:
            raise _unwritable(f"cannot write `{path}`", error) from error
        return text, path


def _unwritable(message: str, error: OSError) -> RunnerError:
    return RunnerError(message, [str(error)], code="setup", hint=ANOTHER_PLACE)
