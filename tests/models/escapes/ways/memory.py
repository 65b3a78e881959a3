"""Regions of memory that the host lends for reading, and that this process must not change.

Each way takes ``region``: `host` is one of the host, which a tensor of the call lies in; `unsealed` is a file in memory that another
process made without seals, and that shows that the way works. What it wrote is seen by whoever maps the region.
"""

import ctypes
import fcntl
import mmap
import os

from ways import system
from ways.outcome import Nothing

_F_ADD_SEALS = 1033
_F_GET_SEALS = 1034
_MADV_REMOVE = 9
_PUNCH_HOLE_KEEP_SIZE = 3
_MARK = b"escaped"


_lent = None


def lend(array):
    """Tells which array of the call lies in memory of the host; ``None`` for no array."""
    global _lent
    _lent = array


class _Region:
    """A page of a region: its address, and where it is in the file of a descriptor."""

    def __init__(self, descriptor, address, offset):
        self.descriptor = descriptor
        self.address = address
        self.offset = offset

    def bytes(self):
        return ctypes.string_at(self.address, len(_MARK))

    def check(self, before):
        if self.bytes() == before:
            raise Nothing("the memory has not changed")
        return "the memory changed"


def _find(region):
    if region == "unsealed":
        descriptor = os.memfd_create("escape", os.MFD_ALLOW_SEALING)
        os.ftruncate(descriptor, mmap.PAGESIZE)
        os.pwrite(descriptor, b"before!", 0)
        library = ctypes.CDLL(None, use_errno=True)
        library.mmap.restype = ctypes.c_void_p
        kinds = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
        library.mmap.argtypes = kinds
        address = library.mmap(None, mmap.PAGESIZE, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, 0)
        return _Region(descriptor, address, 0)
    start = _lent.__array_interface__["data"][0]
    address = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE
    page = ctypes.string_at(address, mmap.PAGESIZE)
    # Python keeps a descriptor of each mapping. The page tells which one it is of.
    for number in range(1 << 16):
        try:
            fcntl.fcntl(number, _F_GET_SEALS)
        except OSError:
            continue
        size = os.fstat(number).st_size
        for offset in range(0, size, mmap.PAGESIZE):
            if os.pread(number, mmap.PAGESIZE, offset) == page:
                return _Region(number, address, offset)
    raise LookupError("no descriptor of the host's region is open")


def write_to_region(region):
    """Writes by the descriptor that it received."""
    found = _find(region)
    before = found.bytes()
    os.pwrite(found.descriptor, _MARK, found.offset)
    return found.check(before)


def write_to_reopened_region(region):
    """Opens the descriptor again for writing."""
    found = _find(region)
    before = found.bytes()
    again = os.open("/proc/self/fd/%d" % found.descriptor, os.O_RDWR)
    try:
        os.pwrite(again, _MARK, found.offset)
    finally:
        os.close(again)
    return found.check(before)


def map_region_for_writing(region):
    """Maps the region once more, for writing."""
    found = _find(region)
    before = found.bytes()
    with mmap.mmap(found.descriptor, mmap.PAGESIZE, offset=found.offset) as view:
        view[: len(_MARK)] = _MARK
    return found.check(before)


def map_reopened_region_for_writing(region):
    """The same by a descriptor that was opened again."""
    found = _find(region)
    before = found.bytes()
    again = os.open("/proc/self/fd/%d" % found.descriptor, os.O_RDWR)
    try:
        with mmap.mmap(again, mmap.PAGESIZE, offset=found.offset) as view:
            view[: len(_MARK)] = _MARK
    finally:
        os.close(again)
    return found.check(before)


def unprotect_region(region):
    """Makes the mapping that it has writable."""
    found = _find(region)
    before = found.bytes()
    system.library("mprotect", found.address, mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_WRITE)
    ctypes.memmove(found.address, _MARK, len(_MARK))
    return found.check(before)


def write_region_by_own_memory(region):
    """Writes to its own memory through the file of it, which ignores the protection of pages."""
    found = _find(region)
    before = found.bytes()
    descriptor = os.open("/proc/self/mem", os.O_RDWR)
    try:
        os.pwrite(descriptor, _MARK, found.address)
    finally:
        os.close(descriptor)
    return found.check(before)


def write_region_as_own_process(region):
    """Writes to its own memory as to that of another process."""
    found = _find(region)
    before = found.bytes()
    buffer = ctypes.create_string_buffer(_MARK, len(_MARK))
    here = system.Vector(ctypes.addressof(buffer), len(_MARK))
    there = system.Vector(found.address, len(_MARK))
    system.call("process_vm_writev", os.getpid(), here, 1, there, 1, 0)
    return found.check(before)


def shrink_region(region):
    """Cuts the region off, so that the host gets a signal when it reads on."""
    found = _find(region)
    os.ftruncate(found.descriptor, 0)
    if os.fstat(found.descriptor).st_size:
        raise Nothing("it was not cut off")
    return "cut off"


def grow_region(region):
    """Makes the region larger, and the memory of the host smaller."""
    found = _find(region)
    before = os.fstat(found.descriptor).st_size
    os.ftruncate(found.descriptor, before + mmap.PAGESIZE)
    return "grown"


def punch_region(region):
    """Frees pages in the middle of the region."""
    found = _find(region)
    before = found.bytes()
    system.library("fallocate", found.descriptor, _PUNCH_HOLE_KEEP_SIZE, found.offset, mmap.PAGESIZE)
    return found.check(before)


def remove_pages_of_region(region):
    """The same by the advice that its mapping is no longer needed."""
    found = _find(region)
    before = found.bytes()
    if region == "unsealed":
        # The advice needs a mapping for writing.
        with mmap.mmap(found.descriptor, mmap.PAGESIZE, offset=found.offset) as view:
            address = ctypes.addressof(ctypes.c_char.from_buffer(view))
            system.library("madvise", address, mmap.PAGESIZE, _MADV_REMOVE)
            return found.check(before)
    system.library("madvise", found.address, mmap.PAGESIZE, _MADV_REMOVE)
    return found.check(before)


def seal_region(region):
    """Adds a seal, so that the host cannot use its own region any more."""
    found = _find(region)
    f_seal_write = 8
    fcntl.fcntl(found.descriptor, _F_ADD_SEALS, f_seal_write if region == "host" else 1)
    return "sealed"
