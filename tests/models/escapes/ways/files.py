"""The user's files: reading, changing, watching them."""

import ctypes
import fcntl
import mmap
import os
import select
import signal
import struct
import subprocess
import threading
import time

from ways import system
from ways.outcome import Nothing, printable
from ways.scratch import new_path

_AT_FDCWD = -100
_AT_SYMLINK_FOLLOW = 0x400
_RENAME_EXCHANGE = 2


def _read(descriptor):
    try:
        return printable(os.read(descriptor, 200))
    finally:
        os.close(descriptor)


def read_file(path):
    """Reads keys, tokens and documents of the user."""
    return _read(os.open(path, os.O_RDONLY))


def read_file_of_folder(path):
    """Opens the folder without a right to it, and the file relative to that."""
    folder = os.open(os.path.dirname(path), os.O_PATH)
    try:
        return _read(os.open(os.path.basename(path), os.O_RDONLY, dir_fd=folder))
    finally:
        os.close(folder)


def read_file_from_working_folder(path):
    """Moves into the folder, and opens the file by its name alone."""
    os.chdir(os.path.dirname(path))
    return read_file(os.path.basename(path))


def read_file_by_own_root(path):
    """Names the file by a link to the root that the kernel keeps for this process."""
    return read_file("/proc/self/root" + path)


def read_file_by_openat2(path):
    """Opens by a newer system call, which an older filter does not know."""
    how = struct.pack("=QQQ", os.O_RDONLY, 0, 0)
    return _read(system.call("openat2", _AT_FDCWD, os.fsencode(path), how, len(how)))


def read_file_by_link(path):
    """Names the file by a symbolic link in the own scratch folder."""
    link = new_path()
    os.symlink(path, link)
    return read_file(link)


def read_file_by_reopening(path):
    """Opens the file without a right to read it, and then its descriptor again."""
    descriptor = os.open(path, os.O_PATH)
    try:
        return read_file("/proc/self/fd/%d" % descriptor)
    finally:
        os.close(descriptor)


def read_file_by_program(path):
    """Lets a program of the system read the file."""
    done = subprocess.run(["cat", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=10)
    if done.returncode:
        raise PermissionError(1, printable(done.stderr))
    return printable(done.stdout)


def read_file_as_map(path):
    """Maps the file instead of reading it."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with mmap.mmap(descriptor, 0, prot=mmap.PROT_READ) as view:
            return printable(view[:200])
    finally:
        os.close(descriptor)


def read_file_in_race(path, seconds=1.0):
    """Exchanges a file and a link to the user's file while another thread opens it: a check by the path sees the one, the opening the
    other."""
    own, link = new_path(), new_path()
    with open(own, "wb") as file:
        file.write(b"harmless")
    os.symlink(path, link)
    end = time.monotonic() + seconds
    refused = []

    def exchange():
        try:
            while time.monotonic() < end:
                system.call(
                    "renameat2", _AT_FDCWD, os.fsencode(own), _AT_FDCWD, os.fsencode(link), _RENAME_EXCHANGE
                )
        except OSError as error:
            refused.append(error)

    thread = threading.Thread(target=exchange)
    thread.start()
    try:
        last = Nothing("the harmless file was opened every time")
        while time.monotonic() < end:
            try:
                found = read_file(own)
            except OSError as error:
                last = error
                continue
            if found != "harmless":
                return found
        raise refused[0] if refused else last
    finally:
        thread.join()


def look_at_file(path):
    """Learns whether a file is there, and how large and how old it is."""
    found = os.stat(path)
    return "%d bytes, changed at %d" % (found.st_size, found.st_mtime)


def overwrite_file(path):
    """Replaces the contents of a file: configuration, a program, a model that others trust."""
    try:
        file = open(path, "wb")
    except PermissionError:
        # The files of a cache are read-only, which their owner can change.
        os.chmod(path, 0o644)
        file = open(path, "wb")
    with file:
        file.write(b"escaped")
    return "wrote"


def append_to_file(path):
    """Adds a line to a file that a shell or a server reads at its start."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(descriptor, b"escaped\n")
    finally:
        os.close(descriptor)
    return "wrote"


def truncate_file(path):
    """Empties a file without opening it."""
    os.truncate(path, 0)
    return "truncated"


def reopen_for_writing(path):
    """Opens a file that may be read, and its descriptor again for writing."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        again = os.open("/proc/self/fd/%d" % descriptor, os.O_RDWR)
    finally:
        os.close(descriptor)
    try:
        os.pwrite(again, b"escaped", 0)
    finally:
        os.close(again)
    return "wrote"


def map_for_writing(path):
    """Opens a file that may be read, and maps it for writing."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        with mmap.mmap(descriptor, 0) as view:
            view[:7] = b"escaped"
    finally:
        os.close(descriptor)
    return "wrote"


def remove_file(path):
    """Deletes a file of the user."""
    os.unlink(path)
    return "deleted"


def rename_file(path):
    """Gives a file of the user another name."""
    os.rename(path, path + ".escaped")
    return "renamed"


def exchange_with_file(path):
    """Puts a file of its own in the place of the user's, and takes the user's."""
    own = new_path()
    with open(own, "wb") as file:
        file.write(b"escaped")
    system.call("renameat2", _AT_FDCWD, os.fsencode(own), _AT_FDCWD, os.fsencode(path), _RENAME_EXCHANGE)
    return read_file(own)


def move_into_scratch(path):
    """Moves a file of the user to where it may be read."""
    own = new_path()
    os.rename(path, own)
    return read_file(own)


def link_into_scratch(path):
    """Gives a file of the user a second name where it may be written to."""
    own = new_path()
    os.link(path, own)
    with open(own, "r+b") as file:
        file.write(b"escaped")
    return "wrote"


def change_mode(path):
    """Opens a file of the user to everybody."""
    os.chmod(path, 0o646)
    return _changed(os.stat(path).st_mode & 0o777 == 0o646)


def change_mode_by_descriptor(path):
    """The same by a descriptor for reading."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fchmod(descriptor, 0o646)
        return _changed(os.fstat(descriptor).st_mode & 0o777 == 0o646)
    finally:
        os.close(descriptor)


def change_mode_by_newer_call(path):
    """The same by a newer system call, which an older filter does not know."""
    system.call("fchmodat2", _AT_FDCWD, os.fsencode(path), 0o646, 0)
    return _changed(os.stat(path).st_mode & 0o777 == 0o646)


def make_setuid(path):
    """Lets everybody run a file as this user."""
    os.chmod(path, 0o4755)
    return _changed(os.stat(path).st_mode & 0o7777 == 0o4755)


def change_owner(path, user):
    """Gives a file away."""
    os.chown(path, user, -1)
    return _changed(os.stat(path).st_uid == user)


def change_times(path):
    """Hides a change of a file from programs that compare times."""
    os.utime(path, (1, 1))
    return _changed(os.stat(path).st_mtime == 1)


def change_times_by_descriptor(path):
    """The same by a descriptor for reading."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.utime(descriptor, (1, 1))
        return _changed(os.fstat(descriptor).st_mtime == 1)
    finally:
        os.close(descriptor)


def set_attribute(path):
    """Leaves data in an extended attribute of a file that it must not write."""
    os.setxattr(path, "user.escaped", b"escaped")
    return _changed(os.getxattr(path, "user.escaped") == b"escaped")


def set_attribute_by_descriptor(path):
    """The same by a descriptor for reading."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.setxattr(descriptor, "user.escaped", b"escaped")
        return _changed(os.getxattr(descriptor, "user.escaped") == b"escaped")
    finally:
        os.close(descriptor)


def set_attribute_by_newer_call(path):
    """The same by a newer system call, which an older filter does not know."""
    value = ctypes.create_string_buffer(b"escaped")
    arguments = struct.pack("=QII", ctypes.addressof(value), 7, 0)
    system.call("setxattrat", _AT_FDCWD, os.fsencode(path), 0, b"user.escaped", arguments, len(arguments))
    return _changed(os.getxattr(path, "user.escaped") == b"escaped")


def change_flags(path):
    """Changes the flags of a file, such as that it is not backed up, by a descriptor for reading."""
    get, put, no_dump = 0x80086601, 0x40086602, 0x40
    descriptor = os.open(path, os.O_RDONLY)
    try:
        (flags,) = struct.unpack("=q", fcntl.ioctl(descriptor, get, bytes(8)))
        fcntl.ioctl(descriptor, put, struct.pack("=q", flags | no_dump))
        (flags,) = struct.unpack("=q", fcntl.ioctl(descriptor, get, bytes(8)))
        return _changed(flags & no_dump)
    finally:
        os.close(descriptor)


def change_flags_by_newer_call(path):
    """The same by a newer system call, which an older filter does not know."""
    no_dump = 0x80
    attributes = struct.pack("=QIIII", no_dump, 0, 0, 0, 0)
    system.call("file_setattr", _AT_FDCWD, os.fsencode(path), attributes, len(attributes), 0)
    return "changed"


def lock_file(path):
    """Locks a file for ever, so that other programs wait for it."""
    descriptor = os.open(path, os.O_RDONLY)
    # The descriptor stays open.
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return "locked"


def lease_file(path):
    """Makes all others who open a file wait."""
    descriptor = os.open(path, os.O_RDONLY)
    # The descriptor stays open. Whoever waits is announced by a signal.
    signal.signal(signal.SIGIO, signal.SIG_IGN)
    fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    return "leased"


def watch_folder(path, seconds=2.0):
    """Learns the names of the files that the user works on. The test writes one all the time."""
    watch = system.call("inotify_init1", 0)
    try:
        in_all = 0xFFF
        system.call("inotify_add_watch", watch, os.fsencode(path), in_all)
        return _event(watch, seconds)[16:].rstrip("\0 ")
    finally:
        os.close(watch)


def watch_everything(path, seconds=2.0):
    """Learns which files all programs open."""
    fan_class_notify, fan_open, fan_modify, fan_mark_mount = 0, 0x20, 0x2, 0x10
    watch = system.call("fanotify_init", fan_class_notify, os.O_RDONLY)
    try:
        system.call("fanotify_mark", watch, 1 | fan_mark_mount, fan_open | fan_modify, _AT_FDCWD, os.fsencode(path))
        return "an event of %d bytes" % len(_event(watch, seconds))
    finally:
        os.close(watch)


def _event(watch, seconds):
    if not select.select([watch], [], [], seconds)[0]:
        raise Nothing("no event")
    return "".join(chr(byte) if 32 <= byte < 127 else "\0" for byte in os.read(watch, 4096))


def open_by_handle(path):
    """Opens a file by its number in the file system, which passes all folders."""
    handle = ctypes.create_string_buffer(struct.pack("=Ii", 128, 0) + bytes(128), 136)
    mount = ctypes.c_int()
    system.call("name_to_handle_at", _AT_FDCWD, os.fsencode(path), handle, mount, _AT_SYMLINK_FOLLOW)
    folder = os.open("/usr", os.O_RDONLY)
    try:
        return _read(system.call("open_by_handle_at", folder, handle, os.O_RDONLY))
    finally:
        os.close(folder)


def open_device(path):
    """Opens a device: a disk, the memory of the machine, a keyboard."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    os.close(descriptor)
    return "opened"


def rewrite_setting(path):
    """Changes a setting of the kernel, such as the program that it starts as root for a core dump. Writes what was there."""
    with open(path, "rb", buffering=0) as file:
        before = file.read()
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, before)
    finally:
        os.close(descriptor)
    return "wrote %s" % printable(before).strip()


def read_inherited(number):
    """Reads a file that the host left open."""
    return printable(os.pread(number, 200, 0))


def _changed(is_changed):
    if not is_changed:
        raise Nothing("nothing changed")
    return "changed"
