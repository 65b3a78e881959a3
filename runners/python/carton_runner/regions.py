"""Creates and seals regions of shared memory, and checks received ones (spec/runner-protocol.md, section 7).

The code that is specific to Linux is in this file. On other systems a region is an unlinked temporary file, and there are no seals.
"""

import errno
import fcntl
import mmap
import os
import sys
import tempfile

from carton_runner.errors import ProtocolError

_LINUX = sys.platform.startswith("linux")
# From linux/fcntl.h; Python's `fcntl` does not know all of them.
_F_ADD_SEALS = 1033
_F_GET_SEALS = 1034
_F_SEAL_SEAL = 1
_F_SEAL_SHRINK = 2
_F_SEAL_GROW = 4
_F_SEAL_FUTURE_WRITE = 16
_REQUIRED = _F_SEAL_SHRINK | _F_SEAL_GROW


def create(size):
    """Returns a region of ``size`` zero bytes that this process may write, and a descriptor with which the host can only read
    it."""
    descriptor = _backing()
    try:
        os.ftruncate(descriptor, size)
        region = mmap.mmap(descriptor, size)
        if _LINUX:
            _seal(descriptor)
    except BaseException:
        os.close(descriptor)
        raise
    return region, descriptor


def are_possible():
    """Whether this system can create regions."""
    return not _LINUX or hasattr(os, "memfd_create") or _system_call() is not None


def _backing():
    if not _LINUX:
        with tempfile.TemporaryFile() as file:
            return fcntl.fcntl(file.fileno(), fcntl.F_DUPFD_CLOEXEC, 3)
    if hasattr(os, "memfd_create"):
        return os.memfd_create("carton-pool", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    return _memfd_of_old_c_library()


def _memfd_of_old_c_library():
    """Calls ``memfd_create`` directly. Interpreters that are built for old C libraries have no function for it."""
    import ctypes

    descriptor = ctypes.CDLL(None, use_errno=True).syscall(_system_call(), b"carton-pool", 3)
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), "memfd_create")
    return descriptor


def _system_call():
    return {"x86_64": 319, "aarch64": 279, "riscv64": 279}.get(os.uname().machine)


def _seal(descriptor):
    """Seals a region: no other process can map it for writing, it cannot be shrunk, and no seal can be added."""
    try:
        fcntl.fcntl(descriptor, _F_ADD_SEALS, _REQUIRED | _F_SEAL_FUTURE_WRITE | _F_SEAL_SEAL)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        # Linux before 5.1 does not have the seal against writing.
        fcntl.fcntl(descriptor, _F_ADD_SEALS, _REQUIRED | _F_SEAL_SEAL)


def receive(descriptor, number, size):
    """Maps a region that the host announced, for reading. The caller closes the descriptor."""

    def unfit(problem):
        return ProtocolError("region %d of shared memory: %s" % (number, problem))

    if _LINUX:
        try:
            seals = fcntl.fcntl(descriptor, _F_GET_SEALS)
        except OSError as error:
            raise unfit("its descriptor is not a memfd") from error
        if seals & _REQUIRED != _REQUIRED:
            raise unfit("it is not sealed against shrinking and growing")
        # A memfd of huge pages can run out of them, which is a SIGBUS for the reader.
        if os.fstatvfs(descriptor).f_bsize != mmap.PAGESIZE:
            raise unfit("it does not lie on ordinary pages")
    found = os.fstat(descriptor).st_size
    if found < size:
        raise unfit("announced with %d bytes, but has %d" % (size, found))
    try:
        return mmap.mmap(descriptor, size, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)
    except (OSError, OverflowError, ValueError) as error:
        raise unfit("it cannot be mapped: %s" % error) from error
