"""Processes that try to live longer than the model, and than the host. Each takes a name of at most 15 letters, by which the test finds it."""

import os
import signal
import time

from ways import system
from ways.outcome import Nothing

#: After this time they end by themselves, so that a failed test leaves nothing behind.
_SECONDS = 60
_CLONE_PARENT = 0x8000


def _live(name, stopped=False):
    """Becomes a process of this name, with nothing of its parents open."""
    _hide(name)
    if stopped:
        os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(_SECONDS)
    os._exit(0)


def _hide(name):
    """Takes a name, ignores what can be ignored, and closes all that parents had open."""
    _be_named(name)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGALRM):
        signal.signal(number, signal.SIG_IGN)
    signal.setitimer(signal.ITIMER_REAL, 0)
    os.closerange(0, 4096)


def _be_named(name):
    pr_set_name = 15
    system.library("prctl", pr_set_name, name.encode()[:15] + b"\0")


def _started(name, leave, stopped=False):
    """Starts a process in a process that then ends, so that its parent is gone. Before it is started, ``leave`` runs."""
    read, write = os.pipe()
    first = os.fork()
    if not first:
        try:
            os.close(read)
            leave()
            if os.fork():
                os._exit(0)
            _be_named(name)
            os.write(write, b"+")
            _live(name, stopped)
        except OSError as error:
            os.write(write, b"%d" % error.errno)
        finally:
            os._exit(0)
    os.close(write)
    os.waitpid(first, 0)
    said = os.read(read, 10)
    os.close(read)
    if said != b"+":
        raise OSError(int(said or b"1"), os.strerror(int(said or b"1")))
    return "started"


def leave_orphan(name):
    """Lives on as an orphan in the same group."""
    return _started(name, lambda: None)


def leave_daemon(name):
    """Leaves the session and the group, so that a signal to the group misses it."""
    return _started(name, os.setsid)


def leave_other_group(name):
    """Leaves the group alone."""
    return _started(name, lambda: os.setpgid(0, 0))


def leave_stopped(name):
    """Lives on as an orphan that is stopped, and so does not react to what is sent to it."""
    return _started(name, lambda: None, stopped=True)


def leave_brother(name):
    """Makes a process whose parent is not this one, but the one that started this one."""
    child = system.call("clone", _CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0)
    if child == 0:
        try:
            _live(name)
        finally:
            os._exit(0)
    return "started"


def leave_reaper(name):
    """Collects all orphans below itself, so that no other process becomes their parent, and dies last."""

    def collect():
        set_child_subreaper = 36
        system.library("prctl", set_child_subreaper, 1, 0, 0, 0)

    read, write = os.pipe()
    first = os.fork()
    if not first:
        try:
            collect()
            _started(name + "2", lambda: None)
            os.write(write, b"+")
            _live(name)
        finally:
            os._exit(0)
    os.close(write)
    said = os.read(read, 1)
    os.close(read)
    if said != b"+":
        raise Nothing("it did not start")
    return "started"


def leave_hopping(name):
    """Lives on as a chain of processes, each of which starts the next one and ends: whoever kills them one by one is too late."""

    def hop():
        _hide(name)
        end = time.monotonic() + _SECONDS / 4
        while time.monotonic() < end:
            if os.fork():
                os._exit(0)
            time.sleep(0.002)
        os._exit(0)

    first = os.fork()
    if not first:
        try:
            if os.fork():
                os._exit(0)
            hop()
        finally:
            os._exit(0)
    os.waitpid(first, 0)
    return "started"


def leave_many(name, count):
    """Lives on as a tree of processes that each start new ones when one is gone, up to a number."""

    def grow():
        _hide(name)
        end = time.monotonic() + _SECONDS / 2
        children = 0
        while time.monotonic() < end:
            while children < count:
                if not os.fork():
                    time.sleep(_SECONDS / 2)
                    os._exit(0)
                children += 1
            os.wait()
            children -= 1

    first = os.fork()
    if not first:
        try:
            if not os.fork():
                grow()
        finally:
            os._exit(0)
    os.waitpid(first, 0)
    return "started"
