"""Runs the programs that make environments, and ends them when nobody waits for them any more."""

import os
import select
import signal
import subprocess
import threading
import time
from typing import Callable, List, Optional, Sequence, Tuple

from carton_runner import credentials
from carton_runner.calls import Cancelled
from carton_runner.environments import variables
from carton_runner.errors import RunnerError

#: How much of what a program prints is kept.
MAX_SAID = 1 << 16
#: How long nothing happens before it is looked whether somebody still waits, in seconds.
PAUSE = 0.25


class CannotStart(RunnerError):
    """A program that is not there, or is none of this machine."""


def run(
    command: Sequence[str],
    cwd: str,
    environment: str,
    report,
    pass_fds: Sequence[int] = (),
    on_line: Callable[[str], None] = lambda line: None,
    on_pause: Callable[[], None] = lambda: None,
    patience: Optional[float] = None,
) -> Tuple[int, str]:
    """Runs a program; its status, and the end of what it printed. It gets the ``environment`` of ``uv`` or ``pip``, with the
    credentials that this process may not have. ``on_line`` is told what it prints, ``on_pause`` is called now and then.
    Raises :class:`Cancelled` when the program was ended because nobody waits for it, and ``subprocess.TimeoutExpired`` when it
    was because it took more than ``patience`` seconds."""
    end = None if patience is None else time.monotonic() + patience

    def look() -> None:
        if not report.is_wanted():
            raise Cancelled
        if end is not None and time.monotonic() > end:
            raise subprocess.TimeoutExpired(list(command), patience or 0)

    pipe, output = os.pipe()
    try:
        try:
            process = _start(list(command), cwd, environment, output, tuple(pass_fds))
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


def _start(command: List[str], cwd: str, environment: str, output: int, pass_fds: Tuple[int, ...]):
    keeper = credentials.keeper()
    if keeper is not None:
        return keeper.start(command, cwd, environment, output, pass_fds)
    return subprocess.Popen(
        command,
        cwd=cwd,
        env=variables.of(environment),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        pass_fds=pass_fds,
    )


def _listen(
    pipe: int, look: Callable[[], None], on_line: Callable[[str], None], on_pause: Callable[[], None]
) -> str:
    """Reads what a program prints until it ends, and returns the end of it. ``look`` raises what ends the program early."""
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
    """Ends a program and what it has started, compilers for example.

    They are in the group of this process, so that whoever ends that, as hosts do, ends them too. So the group is told, and
    this process does not listen.
    """
    if os.getpgrp() == os.getpid() and threading.current_thread() is threading.main_thread():
        before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
        try:
            os.killpg(0, signal.SIGTERM)
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_DFL if before is None else before)
    process.kill()
