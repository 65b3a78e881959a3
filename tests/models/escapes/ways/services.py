"""What programs of one user share without files: System V memory, semaphores and queues, POSIX queues, keyrings."""

import ctypes
import os

from ways import system
from ways.outcome import printable

_KEYCTL_SEARCH = 10
_KEYCTL_READ = 11
_USER_KEYRING = -4
_SESSION_KEYRING = -3


def read_system_v_memory(key):
    """Reads memory that other programs share."""
    number = system.call("shmget", key, 0, 0)
    read_only = 0o10000
    address = system.call("shmat", number, None, read_only)
    return printable(ctypes.string_at(address, 64).rstrip(b"\0"))


def read_system_v_semaphore(key):
    """Reads, and could change, a semaphore of other programs."""
    number = system.call("semget", key, 0, 0)
    getval = 12
    return "the value %d" % system.call("semctl", number, 0, getval, 0)


def take_system_v_message(key):
    """Takes a message that was meant for another program."""
    number = system.call("msgget", key, 0)
    message = ctypes.create_string_buffer(8 + 200)
    no_wait = 0o4000
    n_bytes = system.call("msgrcv", number, message, 200, 0, no_wait)
    return printable(message.raw[8 : 8 + n_bytes])


def make_system_v_memory():
    """Leaves memory that lives longer than this process."""
    create, private, remove = 0o1600, 0, 0
    number = system.call("shmget", private, 4096, create)
    numbers = {"x86_64": 31, "aarch64": 195}
    system.call_number(numbers[os.uname().machine], number, remove, None)
    return "made"


def take_posix_message(name):
    """Takes a message that was meant for another program."""
    queue = system.call("mq_open", name.encode(), os.O_RDONLY | os.O_NONBLOCK, 0, None)
    try:
        message = ctypes.create_string_buffer(8192)
        n_bytes = system.call("mq_timedreceive", queue, message, 8192, None, None)
        return printable(message.raw[:n_bytes])
    finally:
        os.close(queue)


def read_key(description):
    """Reads a key of the user: of a file system, a network drive, a ticket."""
    number = system.call("keyctl", _KEYCTL_SEARCH, _USER_KEYRING, b"user", description.encode(), 0)
    return _key(number)


def request_key(description):
    """The same by a search of all keyrings."""
    return _key(system.call("request_key", b"user", description.encode(), None, 0))


def add_key(description):
    """Leaves a key in the keyring of the user's session."""
    return "number %d" % system.call("add_key", b"user", description.encode(), b"escaped", 7, _USER_KEYRING)


def _key(number):
    buffer = ctypes.create_string_buffer(200)
    n_bytes = system.call("keyctl", _KEYCTL_READ, number, buffer, 200)
    return printable(buffer.raw[:n_bytes])
