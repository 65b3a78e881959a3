"""The user's terminal."""

import fcntl
import os
import termios


def type_into_terminal(text):
    """Types a command into the terminal of the user, whose shell runs it later."""
    descriptor = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
    try:
        for letter in text.encode():
            fcntl.ioctl(descriptor, termios.TIOCSTI, bytes([letter]))
    finally:
        os.close(descriptor)
    return "typed"


def print_to_terminal(text):
    """Shows the user something that looks like a question of another program."""
    descriptor = os.open("/dev/tty", os.O_WRONLY | os.O_NOCTTY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
    return "printed"


def print_to_terminal_by_name(path, text):
    """The same by the name of the terminal."""
    descriptor = os.open(path, os.O_WRONLY | os.O_NOCTTY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
    return "printed"


def open_new_terminal():
    """Makes a terminal of its own, which can become that of a session."""
    descriptor = os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY)
    os.close(descriptor)
    return "made"
