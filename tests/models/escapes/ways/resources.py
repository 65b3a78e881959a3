"""Memory, processes, descriptors, disk and time. The test sets limits; without them each gets what it asks for."""

import mmap
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time

from ways import system
from ways.outcome import Nothing
from ways.scratch import folder, new_path

_MIB = 1 << 20


def start_many_processes(count):
    """Starts processes until the machine can start no more."""
    children, refused = [], None
    for _ in range(count):
        try:
            child = os.fork()
        except OSError as error:
            refused = error
            break
        if not child:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            time.sleep(30)
            os._exit(0)
        children.append(child)
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    if refused:
        raise refused
    return "%d processes" % len(children)


def start_many_threads(count):
    """The same with threads."""
    end, threads = threading.Event(), []
    before = threading.stack_size(1 << 18)
    try:
        for _ in range(count):
            thread = threading.Thread(target=end.wait, daemon=True)
            thread.start()
            threads.append(thread)
    except RuntimeError as error:
        raise BlockingIOError(11, str(error))
    finally:
        threading.stack_size(before)
        end.set()
        for thread in threads:
            thread.join()
    return "%d threads" % len(threads)


def take_memory(mib):
    """Uses memory until the machine has none left."""
    taken = []
    try:
        for _ in range(mib // 64):
            piece = mmap.mmap(-1, 64 * _MIB)
            taken.append(piece)
            for offset in range(0, 64 * _MIB, mmap.PAGESIZE):
                piece[offset] = 1
    finally:
        for piece in taken:
            piece.close()
    return "%d MiB" % (len(taken) * 64)


def take_memory_by_children(mib):
    """The same in many processes, each of which stays below its limit."""
    children = []
    for _ in range(mib // 128):
        child = os.fork()
        if not child:
            try:
                take = mmap.mmap(-1, 128 * _MIB)
                for offset in range(0, 128 * _MIB, mmap.PAGESIZE):
                    take[offset] = 1
                time.sleep(1)
            except (OSError, MemoryError):
                os._exit(1)
            os._exit(0)
        children.append(child)
    failed = sum(os.waitpid(child, 0)[1] != 0 for child in children)
    if failed:
        raise MemoryError("%d of %d processes failed" % (failed, len(children)))
    return "%d processes of 128 MiB" % len(children)


def take_memory_by_files(mib):
    """The same in files in memory, which belong to no process."""
    descriptor = os.memfd_create("escape")
    try:
        piece = bytes(16 * _MIB)
        for offset in range(0, mib * _MIB, len(piece)):
            if os.pwrite(descriptor, piece, offset) != len(piece):
                raise OSError(27, "a part was written")
    finally:
        os.close(descriptor)
    return "%d MiB" % mib


def take_shared_memory(mib):
    """The same in the folder of shared memory."""
    path = "/dev/shm/escape-%d" % os.getpid()
    try:
        with open(path, "wb", buffering=0) as file:
            for _ in range(mib // 16):
                file.write(bytes(16 * _MIB))
    finally:
        if os.path.exists(path):
            os.unlink(path)
    return "%d MiB" % mib


def write_large_file(mib):
    """Fills the disk with one file."""
    path = new_path()
    try:
        with open(path, "wb", buffering=0) as file:
            for _ in range(mib):
                if file.write(bytes(_MIB)) != _MIB:
                    raise OSError(27, "a part was written")
    finally:
        if os.path.exists(path):
            os.unlink(path)
    return "%d MiB in %s" % (mib, folder())


def write_many_files(mib):
    """Fills the disk with many files."""
    paths = []
    try:
        for _ in range(mib):
            paths.append(new_path())
            with open(paths[-1], "wb", buffering=0) as file:
                file.write(bytes(_MIB))
    finally:
        for path in paths:
            if os.path.exists(path):
                os.unlink(path)
    return "%d files of a MiB in %s" % (mib, folder())


def open_many_files(count):
    """Takes all descriptors of the machine."""
    kept = []
    try:
        for _ in range(count):
            kept.append(os.open("/dev/null", os.O_RDONLY))
    finally:
        for descriptor in kept:
            os.close(descriptor)
    return "%d descriptors" % len(kept)


def hide_many_files(count):
    """Takes descriptors beyond the limit, by sending them and not receiving them."""
    one, other = socket.socketpair()
    sent = 0
    with one, other:
        one.setblocking(False)
        other.setblocking(False)
        null = os.open("/dev/null", os.O_RDONLY)
        try:
            for _ in range(count // 100):
                socket.send_fds(one, [b"x"], [null] * 100)
                sent += 100
        except BlockingIOError:
            raise OSError(109, "%d descriptors were sent" % sent)
        finally:
            os.close(null)
    return "%d descriptors in messages" % sent


def use_processor(seconds):
    """Computes for a long time."""
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass
    return "%s seconds" % seconds


def use_processor_in_child(seconds):
    """The same in a process that it starts."""
    code = "import time\nwhile time.process_time() < %f: pass" % seconds
    done = subprocess.run([sys.executable, "-ISc", code], timeout=seconds * 10 + 20)
    if done.returncode:
        raise OSError(11, "ended by %d" % done.returncode)
    return "%s seconds" % seconds


def raise_limit(name):
    """Raises a limit that was set for it."""
    number = getattr(resource, name)
    _, hard = resource.getrlimit(number)
    if hard == resource.RLIM_INFINITY:
        return "there is no limit"
    try:
        resource.setrlimit(number, (hard, hard + 1))
    except ValueError as error:
        raise PermissionError(1, str(error))
    return "raised"


def dump_core(path):
    """Leaves its memory, with the inputs of calls, in a file."""
    os.chdir(path)
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
    child = os.fork()
    if not child:
        signal.signal(signal.SIGQUIT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGQUIT)
        time.sleep(10)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    found = [name for name in os.listdir(path) if name.startswith("core")]
    if not os.WCOREDUMP(status) and not found:
        raise Nothing("no core was dumped")
    return "dumped %s" % " ".join(found)


def mark_own_memory():
    """Is never ended by the kernel when memory is short, so that another process is."""
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("-900")
    return "protected"


def lock_memory(mib):
    """Keeps memory from being swapped out, so that others have less."""
    piece = mmap.mmap(-1, mib * _MIB)
    try:
        import ctypes

        address = ctypes.addressof(ctypes.c_char.from_buffer(piece))
        system.library("mlock", address, mib * _MIB)
    except OSError:
        raise
    return "locked %d MiB" % mib


def take_nothing():
    """Takes nothing: an attempt that never succeeds, by which the test checks that it notices."""
    raise Nothing("nothing was tried")
