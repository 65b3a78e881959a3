"""The user's folders: what can be made there, and what a scratch folder can do to whoever deletes it."""

import fcntl
import os
import stat
import struct
import time

from ways import system
from ways.outcome import Nothing, printable
from ways.scratch import folder as scratch
from ways.scratch import new_path


def list_folder(path):
    """Learns the names of the user's files."""
    return printable(" ".join(sorted(os.listdir(path))), 2000)


def make_file(path):
    """Makes a file that the user's programs find, such as one in a folder of programs or of settings."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    os.write(descriptor, b"escaped")
    os.close(descriptor)
    return "made"


def make_folder(path):
    """Makes a folder."""
    os.mkdir(path)
    return "made"


def make_link(path):
    """Makes a symbolic link, which lets a careless program of the user write elsewhere."""
    os.symlink("/etc/passwd", path)
    return "made"


def make_pipe(path):
    """Makes a pipe in the file system, which a program outside can write to."""
    os.mkfifo(path)
    return "made"


def make_device(path):
    """Makes a device of its own for a disk of the machine."""
    os.mknod(path, 0o600 | stat.S_IFBLK, os.makedev(254, 0))
    return "made"


def make_device_in_scratch():
    """The same where it may write."""
    path = new_path()
    os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 3))
    os.close(os.open(path, os.O_RDWR))
    return "made and opened"


def remove_folder(path):
    """Deletes a folder of the user."""
    os.rmdir(path)
    return "deleted"


def rename_out_of_scratch(path):
    """Moves a file of its own to where it may not write."""
    own = new_path()
    with open(own, "wb") as file:
        file.write(b"escaped")
    os.rename(own, path)
    return "moved"


def link_out_of_scratch(path):
    """Gives a file of its own a second name where it may not write. What it writes later is there too."""
    own = new_path()
    with open(own, "wb") as file:
        file.write(b"escaped")
    os.link(own, path)
    return "linked"


def make_unnamed_file(folder, name):
    """Makes a file without a name in a folder of the user, and names it later."""
    descriptor = os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o644)
    return _name(descriptor, os.path.join(folder, name))


def name_unnamed_file_of_scratch(path):
    """Makes a file without a name where it may write, and names it where it may not."""
    descriptor = os.open(scratch(), os.O_TMPFILE | os.O_RDWR, 0o644)
    return _name(descriptor, path)


def _name(descriptor, path):
    try:
        os.write(descriptor, b"escaped")
        # With linkat and AT_SYMLINK_FOLLOW: the link in /proc leads to the file.
        os.link("/proc/self/fd/%d" % descriptor, path, src_dir_fd=descriptor, follow_symlinks=True)
    finally:
        os.close(descriptor)
    return "named"


def leave_links(target, marker):
    """Leaves links to a folder of the user in the scratch folder: whoever deletes the one may delete what is in the other."""
    base = os.path.join(scratch(), marker)
    os.mkdir(base)
    os.symlink(target, os.path.join(base, "link"))
    os.symlink(target, base + "-link")
    os.symlink(os.path.join(target, "kept"), base + "-file")
    os.mkfifo(base + "-pipe")
    with open(os.path.join(base.encode(), b"\xff\n\x1b"), "wb") as file:
        file.write(b"escaped")
    return base


def leave_closed_folders(marker):
    """Leaves folders that may not be listed in the scratch folder, so that whoever deletes them cannot see what is in them."""
    base = os.path.join(scratch(), marker)
    before = os.umask(0)
    try:
        # Modes that are given when a folder is made, because changing them later may have no effect.
        os.mkdir(base, 0o300)
        with open(os.path.join(base, "file"), "wb") as file:
            file.write(b"escaped")
        os.mkdir(os.path.join(base, "closed"), 0)
    finally:
        os.umask(before)
    return base


def leave_deep_folders(marker, depth):
    """Leaves folders in folders in the scratch folder, deeper than descriptors or the stack of whoever deletes them reach."""
    base = os.path.join(scratch(), marker)
    os.mkdir(base)
    at = os.open(base, os.O_RDONLY)
    # Landlock walks to the root for each of them, which takes longer the deeper they are.
    end = time.monotonic() + 8
    for _ in range(depth):
        if time.monotonic() > end:
            break
        os.mkdir("d", dir_fd=at)
        below = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)
    return base


def make_undeletable(marker):
    """Leaves in the scratch folder a file that even root cannot delete before its flag is gone."""
    path = os.path.join(scratch(), marker)
    with open(path, "wb") as file:
        file.write(b"escaped")
        file.flush()
        get, put, immutable = 0x80086601, 0x40086602, 0x10
        (flags,) = struct.unpack("=q", fcntl.ioctl(file.fileno(), get, bytes(8)))
        fcntl.ioctl(file.fileno(), put, struct.pack("=q", flags | immutable))
    try:
        os.unlink(path)
    except PermissionError:
        return path
    raise Nothing("it was deleted")


def mount_over_scratch():
    """Mounts a file system in the scratch folder, which then cannot be deleted."""
    system.call("mount", b"tmpfs", os.fsencode(scratch()), b"tmpfs", 0, None)
    system.call("umount2", os.fsencode(scratch()), 0)
    return "mounted"


def leave_shared_memory(name):
    """Leaves a file in the memory that all programs of the user share."""
    with open("/dev/shm/" + name, "wb") as file:
        file.write(b"escaped")
    return "left"


def read_shared_memory(name):
    """Reads what another program shares by a name."""
    descriptor = system.library("shm_open", os.fsencode("/" + name), os.O_RDONLY, 0)
    try:
        return printable(os.read(descriptor, 200))
    finally:
        os.close(descriptor)
