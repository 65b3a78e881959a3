"""Signals to processes outside. The test gives the number of a process that notes what it receives."""

import fcntl
import os
import signal
import struct
import time

from ways import system
from ways.outcome import Nothing
from ways.peer import peer

_QUEUE = -1


def send_signal(pid, number):
    """Stops or ends a process of the user."""
    os.kill(pid, number)
    return "sent"


def send_signal_to_thread(pid, number):
    """The same to a thread."""
    system.call("tgkill", pid, pid, number)
    return "sent"


def send_signal_to_any_thread(pid, number):
    """The same by an older system call."""
    system.call("tkill", pid, number)
    return "sent"


def send_signal_with_data(pid, number):
    """The same with a value for the handler."""
    information = struct.pack("=iiiiiiQ", number, 0, _QUEUE, 0, os.getpid(), os.getuid(), 0)
    system.call("rt_sigqueueinfo", pid, number, information.ljust(128, b"\0"))
    return "sent"


def send_signal_with_data_to_thread(pid, number):
    """The same to a thread."""
    information = struct.pack("=iiiiiiQ", number, 0, _QUEUE, 0, os.getpid(), os.getuid(), 0)
    system.call("rt_tgsigqueueinfo", pid, pid, number, information.ljust(128, b"\0"))
    return "sent"


def send_signal_by_descriptor(pid, number):
    """The same by a descriptor of the process."""
    process = system.call("pidfd_open", pid, 0)
    try:
        system.call("pidfd_send_signal", process, number, None, 0)
    finally:
        os.close(process)
    return "sent"


def send_signal_to_peer(number):
    """The same to the process that made the socket of the protocol, without its number and `pidfd_open`."""
    process = peer()
    try:
        system.call("pidfd_send_signal", process, number, None, 0)
    finally:
        os.close(process)
    return "sent"


def send_signal_to_group(pid, number):
    """The same to all processes of a group."""
    os.killpg(os.getpgid(pid), number)
    return "sent"


def send_signal_to_all(number):
    """The same to every process of the user."""
    os.kill(-1, number)
    return "sent"


def send_signal_to_own_group(number):
    """Ends whatever watches this process, if it is in the same group."""
    before = signal.signal(number, signal.SIG_IGN)
    try:
        os.kill(0, number)
    finally:
        signal.signal(number, before)
    return "sent"


def send_signal_by_pipe(pid, number):
    """Lets the kernel send the signal, when there is something to read for the other process."""
    setsig = 10
    read, write = os.pipe()
    try:
        fcntl.fcntl(read, fcntl.F_SETOWN, pid)
        fcntl.fcntl(read, setsig, number)
        fcntl.fcntl(read, fcntl.F_SETFL, fcntl.fcntl(read, fcntl.F_GETFL) | os.O_ASYNC)
        os.write(write, b"x")
        time.sleep(0.05)
    finally:
        os.close(read)
        os.close(write)
    return "sent"


def ask_whether_process_can_be_signalled(pid):
    """Learns whether a process belongs to the user."""
    os.kill(pid, 0)
    return "it can"


def hold_other_end_of_output():
    """Keeps the host's end of the standard output open, by which the launcher sees that the host is there."""
    os.close(os.open("/proc/self/fd/1", os.O_RDONLY | os.O_NONBLOCK))
    return "opened"


def stop_waiting_parent(number):
    """Ends the process that started this one: the host, or the launcher that watches."""
    parent = os.getppid()
    if parent <= 1:
        raise Nothing("the parent is not visible")
    os.kill(parent, number)
    return "sent to %d" % parent
