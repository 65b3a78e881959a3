"""Progress of long work: the caller's callback, or a line on standard error."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import Callable, Iterator

Callback = Callable[..., None]

# Work that takes less time shows nothing, in seconds.
_QUIET = 0.5
_WIDTH = 24


class _Line:
    """One line that is written again and again, in terminals and notebooks."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._shown = 0

    def __call__(self, *, stage: str, done: int, total: int | None, unit: str) -> None:
        if time.monotonic() - self._started < _QUIET:
            return
        if total:
            share = min(done / total, 1.0)
            filled = round(share * _WIDTH)
            text = f"{stage} [{'#' * filled}{'.' * (_WIDTH - filled)}] {share:4.0%}"
        else:
            text = stage
        if unit == "bytes":
            text += f" {_size(done)}" + (f" of {_size(total)}" if total else "")
        elif unit == "rows":
            rate = done / (time.monotonic() - self._started)
            text += f" {done:,}" + (f" of {total:,}" if total else "") + f" rows, {rate:,.0f} rows/s"
        self._write(text)

    def _write(self, text: str) -> None:
        sys.stderr.write("\r" + text.ljust(self._shown))
        sys.stderr.flush()
        self._shown = len(text)

    def clear(self) -> None:
        if self._shown:
            self._write("")
            sys.stderr.write("\r")
            sys.stderr.flush()


def _size(n_bytes: int) -> str:
    size = float(n_bytes)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"


def _is_watched() -> bool:
    """Whether a person sees standard error at once: in a terminal, or in a notebook."""
    if sys.stderr is None:
        return False
    if sys.stderr.isatty():
        return True
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return type(shell).__name__ == "ZMQInteractiveShell"


@contextlib.contextmanager
def reporting(progress: Callback | bool | None) -> Iterator[Callback | None]:
    """The callback for some work: the caller's; a line on standard error where a person sees it; or none.

    `None` shows the line where it is seen, `True` always, and `False` never.
    """
    if callable(progress):
        yield progress
        return
    if progress is False or (progress is None and not _is_watched()):
        yield None
        return
    line = _Line()
    try:
        yield line
    finally:
        line.clear()
