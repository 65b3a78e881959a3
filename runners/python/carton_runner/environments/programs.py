"""Runs the programs that make environments, and ends them when the call is cancelled."""

import os
import select
import signal
import subprocess
import threading
import time
from typing import Callable, Optional, Sequence, Tuple

from carton_runner.calls import Cancelled
from carton_runner.environments import variables
from carton_runner.environments.sources import Sources
from carton_runner.errors import RunnerError

#: The number of bytes of a program's output that are kept.
MAX_SAID = 1 << 16
#: The interval in seconds at which cancellation is checked while a program prints nothing.
PAUSE = 0.25


#: Raised by :func:`run` for a program that takes too long.
TimeoutExpired = subprocess.TimeoutExpired


class CannotStart(RunnerError):
    """A program that is missing, or that this machine cannot execute."""


def run(
    command: Sequence[str],
    cwd: str,
    environment: str,
    report,
    pass_fds: Sequence[int] = (),
    on_line: Callable[[str], None] = lambda line: None,
    on_pause: Callable[[], None] = lambda: None,
    patience: Optional[float] = None,
    sources: Sources = Sources(),
) -> Tuple[int, str]:
    """Runs a program. Returns its status, and the end of its output. The program gets the ``environment`` of ``uv``, ``pip``, ``git``
    or ``python``, with these ``sources`` of packages. ``on_line`` gets each line of output, ``on_pause`` is called while there is none.
    Raises :class:`Cancelled` if the program was ended because the call was cancelled, and ``subprocess.TimeoutExpired`` if it was
    ended because it took more than ``patience`` seconds."""
    end = None if patience is None else time.monotonic() + patience

    def look() -> None:
        if not report.is_wanted():
            raise Cancelled
        if end is not None and time.monotonic() > end:
            raise subprocess.TimeoutExpired(list(command), patience or 0)

    pipe, output = os.pipe()
    try:
        try:
            process = subprocess.Popen(
                list(command),
                cwd=cwd,
                env=variables.of(environment, sources),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=tuple(pass_fds),
            )
        except OSError as error:
            raise CannotStart(f"cannot start `{command[0]}`", [str(error)]) from error
        finally:
            os.close(output)
        try:
            said = _listen(pipe, look, on_line, on_pause)
        except BaseException:
            _end(process)
            process.wait()
            raise
    finally:
        os.close(pipe)
    return process.wait(), said


def _listen(
    pipe: int, look: Callable[[], None], on_line: Callable[[str], None], on_pause: Callable[[], None]
) -> str:
    """Reads a program's output until it ends, and returns the last part. ``look`` raises the exception that ends the program early."""
    said, line = b"", b""
    while True:
        look()
        if not select.select([pipe], [], [], PAUSE)[0]:
            on_pause()
            continue
        read = os.read(pipe, 1 << 16)
        if not read:
            return said.decode(errors="replace")
        said = (said + read)[-MAX_SAID:]
        *lines, line = (line + read)[-MAX_SAID:].split(b"\n")
        for whole in lines:
            on_line(whole.decode(errors="replace").rstrip())


def _end(process) -> None:
    """Ends a program and its children, compilers for example.

    They are in the group of this process, so that they end too when a host ends the group. So the signal is sent to the whole
    group, and this process ignores it.
    """
    if os.getpgrp() == os.getpid() and threading.current_thread() is threading.main_thread():
        before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
        try:
            os.killpg(0, signal.SIGTERM)
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_DFL if before is None else before)
    process.kill()
