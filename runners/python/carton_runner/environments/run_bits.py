"""Makes the programs of an environment executable.

In a confined process `chmod` does nothing (spec/sandbox.md, "System calls"), so that what uv unpacks there has the mode of any new
file, and so have the files in its cache. The wheels themselves, which have the modes, are not kept by uv. So this goes by what
the kernel can execute: programs in ELF, and scripts with ``#!``.
"""

import os
import shutil
import stat
import struct
from pathlib import Path
from typing import BinaryIO, Iterator, Tuple

#: The ending of a file that is being written. No other process writes to the environment.
_NEW = ".carton-new"

# Of elf(5).
_ET_EXEC, _ET_DYN = 2, 3
_PT_DYNAMIC, _PT_INTERP = 2, 3
_DT_FLAGS_1, _DF_1_PIE = 0x6FFFFFFB, 0x08000000
#: More program headers and larger tables are not read: a file may claim any number.
_MAX_HEADERS = 256
_MAX_DYNAMIC = 1 << 16


def restore(folder: Path) -> None:
    """Makes each program below ``folder`` executable that is not. Raises ``OSError``."""
    for path in _files(folder):
        with open(path, "rb") as file:
            if is_program(file):
                _make_executable(path, file)


def is_program(file: BinaryIO) -> bool:
    """Whether the kernel can execute this file: a script with ``#!``, or a program in ELF, which a library is not."""
    file.seek(0)
    start = file.read(64)
    if start.startswith(b"#!"):
        return True
    try:
        return start.startswith(b"\x7fELF") and len(start) > 5 and _is_elf_program(file, start)
    except (struct.error, OverflowError, OSError):
        # It is cut off, or names a place that is in no file.
        return False


def _files(folder: Path) -> Iterator[str]:
    """Yields the files below the folder that are not executable, without those that links lead to."""
    to_visit = [os.fspath(folder)]
    while to_visit:
        with os.scandir(to_visit.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    to_visit.append(entry.path)
                elif entry.is_file(follow_symlinks=False) and not entry.stat(follow_symlinks=False).st_mode & stat.S_IXUSR:
                    yield entry.path


def _make_executable(path: str, file: BinaryIO) -> None:
    """Writes the file anew, because a mode can be given to a new file only."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    new = path + _NEW
    with open(os.open(new, flags, 0o777), "wb") as target:
        file.seek(0)
        shutil.copyfileobj(file, target, 1 << 20)
    os.replace(new, path)


def _is_elf_program(file: BinaryIO, start: bytes) -> bool:
    is_64 = start[4] == 2
    order = "<" if start[5] == 1 else ">"
    (kind,) = struct.unpack_from(order + "H", start, 16)
    if kind != _ET_DYN:
        return kind == _ET_EXEC
    if is_64:
        (offset,), (size, count) = struct.unpack_from(order + "Q", start, 32), struct.unpack_from(order + "HH", start, 54)
    else:
        (offset,), (size, count) = struct.unpack_from(order + "I", start, 28), struct.unpack_from(order + "HH", start, 42)
    file.seek(offset)
    count = min(count, _MAX_HEADERS)
    headers = file.read(size * count)
    for header in (headers[size * index : size * (index + 1)] for index in range(count)):
        (kind,) = struct.unpack_from(order + "I", header)
        if kind == _PT_INTERP:
            return True
        if kind == _PT_DYNAMIC and _says_program(file, header, order, is_64):
            return True
    return False


def _says_program(file: BinaryIO, header: bytes, order: str, is_64: bool) -> bool:
    """Whether the dynamic section says that the file is a program, linked so that it needs no interpreter."""
    place: Tuple[int, int]
    if is_64:
        place = struct.unpack_from(order + "Q", header, 8)[0], struct.unpack_from(order + "Q", header, 32)[0]
    else:
        place = struct.unpack_from(order + "I", header, 4)[0], struct.unpack_from(order + "I", header, 16)[0]
    file.seek(place[0])
    table = file.read(min(place[1], _MAX_DYNAMIC))
    entry = struct.Struct(order + ("qQ" if is_64 else "iI"))
    entries = entry.iter_unpack(table[: len(table) // entry.size * entry.size])
    return any(tag == _DT_FLAGS_1 and value & _DF_1_PIE for tag, value in entries)
