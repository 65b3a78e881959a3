"""The kernel: namespaces, mounts, parts with a history of errors, and the rights of root."""

import ctypes
import errno
import os
import signal
import struct
import subprocess
import sys
import time

from ways import system
from ways.outcome import Nothing, printable
from ways.scratch import new_path

_NEW_USER = 0x10000000
_NEW_MOUNTS = 0x20000
_NEW_NETWORK = 0x40000000
_NEW_PROCESSES = 0x20000000


def enter_user_namespace():
    """Becomes root in a namespace of its own, which opens most of the kernel to it."""
    system.call("unshare", _NEW_USER)
    return "capabilities %s" % _capabilities()


def enter_mount_namespace():
    """Mounts file systems over those that rules are about."""
    try:
        system.call("unshare", _NEW_MOUNTS)
    except PermissionError:
        system.call("unshare", _NEW_USER | _NEW_MOUNTS)
    system.call("mount", b"tmpfs", b"/tmp", b"tmpfs", 0, None)
    return "mounted"


def enter_network_namespace():
    """Gets network cards of its own, and all protocols of the kernel."""
    try:
        system.call("unshare", _NEW_NETWORK)
    except PermissionError:
        system.call("unshare", _NEW_USER | _NEW_NETWORK)
    return "entered"


def clone_into_namespace():
    """Starts a process in a namespace by `clone`."""
    child = system.call("clone", _NEW_USER | signal.SIGCHLD, 0, 0, 0, 0)
    if child == 0:
        os._exit(7)
    return _status(child)


def clone_into_namespace_by_newer_call():
    """The same by `clone3`, whose arguments no filter sees."""
    arguments = struct.pack("=8Q", _NEW_USER | _NEW_PROCESSES, 0, 0, 0, signal.SIGCHLD, 0, 0, 0)
    child = system.call("clone3", arguments, len(arguments))
    if child == 0:
        os._exit(7)
    return _status(child)


def _status(child):
    _, status = os.waitpid(child, 0)
    if os.WEXITSTATUS(status) != 7:
        raise Nothing("the process ended with %d" % status)
    return "a process in a namespace"


def mount_file_system():
    """Mounts over a folder that all programs see."""
    place = new_path()
    os.mkdir(place)
    system.call("mount", b"tmpfs", os.fsencode(place), b"tmpfs", 0, None)
    system.call("umount2", os.fsencode(place), 0)
    return "mounted"


def mount_by_newer_calls():
    """The same by the newer system calls."""
    os.close(system.call("fsopen", b"tmpfs", 0))
    return "opened a file system"


def copy_mount():
    """Copies a part of the tree of files, without the rules about its path."""
    clone, recursive = 1, 0x8000
    tree = system.call("open_tree", -100, b"/", clone | recursive)
    os.close(tree)
    return "copied"


def change_mount():
    """Makes a read-only file system writable."""
    attributes = struct.pack("=4Q", 0, 1, 0, 0)
    system.call("mount_setattr", -100, b"/", 0, attributes, len(attributes))
    return "changed"


def list_mounts():
    """Learns the mounts of this machine, with the places of the user's disks."""
    request = struct.pack("=IIQQQ", 32, 0, 0xFFFFFFFFFFFFFFFF, 0, 0)
    found = (ctypes.c_uint64 * 64)()
    return "%d mounts" % system.call("listmount", request, found, 64, 0)


def change_root():
    """Makes another folder the root, in which paths mean other files."""
    system.call("chroot", b"/usr")
    return "the root has %s" % " ".join(sorted(os.listdir("/"))[:3])


def exchange_root():
    """The same for all processes of a namespace of mounts."""
    # A wrong place: whoever may not do this gets EPERM before it is looked at.
    try:
        system.call("pivot_root", b"/usr", b"/usr")
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.EBUSY):
            return "only the place was wrong"
        raise


def load_kernel_program():
    """Loads a program into the kernel."""
    # A map of the type array with keys and values of 4 bytes.
    attributes = struct.pack("=5I", 2, 4, 4, 1, 0).ljust(128, b"\0")
    os.close(system.call("bpf", 0, attributes, len(attributes)))
    return "made a map"


def load_kernel_module():
    """Loads code into the kernel."""
    return _only("init_module", [b"no module", 9, b""], (errno.ENOEXEC,), "only the module was no module")


def load_another_kernel():
    """Replaces the kernel."""
    return _only("kexec_load", [0, 0, None, 0xFFFF], (errno.EINVAL,), "only the flags were wrong")


def restart_machine():
    """Stops the machine."""
    return _only("reboot", [0, 0, 0, None], (errno.EINVAL,), "only the magic number was wrong")


def count_programs():
    """Writes the programs of all users to a file of its own."""
    return _only("acct", [b"/nonexistent/file"], (errno.ENOENT,), "only the file was missing")


def swap_to_file():
    """Lets the kernel write memory of all programs to a file of its own."""
    path = new_path()
    with open(path, "wb") as file:
        file.write(bytes(65536))
    return _only("swapon", [os.fsencode(path), 0], (errno.EINVAL,), "only the signature was missing")


def _only(name, arguments, expected, evidence):
    """Makes a system call with an argument that is refused after the caller's rights were found sufficient."""
    try:
        system.call(name, *arguments)
    except OSError as error:
        if error.errno in expected:
            return evidence
        raise
    return "done"


def count_events(pid):
    """Observes what another process does, by the counters of the processor and the kernel."""
    software, page_faults = 1, 2
    attributes = struct.pack("=IIQ", software, 112, page_faults).ljust(112, b"\0")
    os.close(system.call("perf_event_open", attributes, pid, -1, -1, 0))
    return "opened a counter"


def count_own_events():
    """The same for this process, which needs a large part of the kernel too."""
    software, page_faults, exclude_kernel = 1, 2, 0x20
    attributes = struct.pack("=IIQQQQQQ", software, 112, page_faults, 0, 0, 0, exclude_kernel, 0).ljust(112, b"\0")
    os.close(system.call("perf_event_open", attributes, 0, -1, -1, 0))
    return "opened a counter"


def handle_page_faults():
    """Stops the kernel in the middle of its work, which makes races in it easy to win."""
    user_mode_only = 1
    os.close(system.call("userfaultfd", user_mode_only))
    return "opened"


def handle_page_faults_by_device():
    """The same by a device, which also sees the kernel's own faults."""
    import fcntl

    new = 0xAA00
    descriptor = os.open("/dev/userfaultfd", os.O_RDWR)
    try:
        os.close(fcntl.ioctl(descriptor, new, os.O_CLOEXEC))
    finally:
        os.close(descriptor)
    return "opened"


def open_ring():
    """Makes system calls that no filter sees."""
    parameters = ctypes.create_string_buffer(120)
    os.close(system.call("io_uring_setup", 4, parameters))
    return "opened"


def use_up_watches():
    """Takes instances of inotify, of which the kernel has some for each user."""
    os.close(system.call("inotify_init1", 0))
    return "one more"


def use_up_timers():
    """Takes timers, which the kernel counts for each user together with signals that wait."""
    monotonic, many = 1, 3000
    timer = ctypes.create_string_buffer(8)
    made = []
    try:
        for _ in range(many):
            system.call("timer_create", monotonic, None, timer)
            made.append(int.from_bytes(timer.raw[:4], "little"))
        return "%d timers" % len(made)
    finally:
        for number in made:
            system.call("timer_delete", number)


def change_personality():
    """Weakens the protection of memory for the programs that it starts."""
    no_randomization = 0x0040000
    before = system.call("personality", 0xFFFFFFFF)
    system.call("personality", before | no_randomization)
    if not system.call("personality", 0xFFFFFFFF) & no_randomization:
        raise Nothing("nothing changed")
    return "changed"


def set_clock():
    """Sets the time of the machine, to what it is."""
    now = time.clock_gettime_ns(time.CLOCK_REALTIME)
    system.call("clock_settime", time.CLOCK_REALTIME, struct.pack("=qq", now // 10**9, now % 10**9))
    return "set"


def set_time_of_day():
    """The same by an older call."""
    now = time.time()
    system.call("settimeofday", struct.pack("=qq", int(now), int(now % 1 * 1e6)), None)
    return "set"


def tune_clock():
    """Makes the clock of the machine run faster. Sets the frequency that it has."""
    buffer = ctypes.create_string_buffer(208)
    system.call("adjtimex", buffer)
    frequency = 2
    ctypes.memmove(buffer, struct.pack("=I", frequency), 4)
    system.call("adjtimex", buffer)
    return "set"


def set_host_name():
    """Renames the machine, to the name that it has."""
    name = os.uname().nodename.encode()
    system.call("sethostname", name, len(name))
    return "set"


def set_domain_name():
    """Changes the domain of the machine, to the one that it has."""
    with open("/proc/sys/kernel/domainname", "rb") as file:
        name = file.read().strip()
    system.call("setdomainname", name, len(name))
    return "set"


def read_kernel_log():
    """Reads addresses and the names of programs in the messages of the kernel."""
    buffer = ctypes.create_string_buffer(200)
    read_all = 3
    return printable(buffer.raw[: system.call("syslog", read_all, buffer, 200)])


def become_other_user(user):
    """Takes the rights of another user."""
    os.setuid(user)
    return "user %d" % os.getuid()


def become_real_time():
    """Takes a processor for itself."""
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    return "first in, first out"


def raise_priority():
    """Runs before all other programs of the machine."""
    os.setpriority(os.PRIO_PROCESS, 0, -5)
    return "raised"


def gain_rights_by_program(name):
    """Starts a program that its file gives the rights of root: here the one that shows the state of the password of a user, `name`."""
    done = subprocess.run(["passwd", "-S", name], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=10)
    if done.returncode or not done.stdout.startswith(name.encode()):
        raise PermissionError(1, printable(done.stderr or done.stdout))
    return printable(done.stdout)


def keep_rights_for_programs():
    """Learns whether a program that it starts has rights beyond those of a user."""
    code = "print([int(l.split()[1], 16) for l in open('/proc/self/status') if l[:6] in ('CapEff', 'CapBnd')])"
    done = subprocess.run([sys.executable, "-ISc", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=20)
    if done.returncode:
        # Without /proc, ask for one right after the other.
        return _capabilities_by_call()
    if done.stdout.strip() == b"[0, 0]":
        raise Nothing("no rights")
    return printable(done.stdout)


def _capabilities_by_call():
    code = (
        "import ctypes, struct; library = ctypes.CDLL(None); data = ctypes.create_string_buffer(24);"
        "library.capget(struct.pack('=Ii', 0x20080522, 0), data); print(struct.unpack('=6I', data.raw)[0::3])"
    )
    done = subprocess.run([sys.executable, "-ISc", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=20)
    if done.returncode:
        raise Nothing("no answer: %s" % printable(done.stderr))
    if done.stdout.strip() == b"(0, 0)":
        raise Nothing("no rights")
    return printable(done.stdout)


def _capabilities():
    with open("/proc/self/status") as file:
        return [line.split()[1] for line in file if line.startswith("CapEff")][0]


def change_segments():
    """Changes the table of segments of this process, a part of the kernel with a history of errors."""
    import platform

    if platform.machine() != "x86_64":
        raise Nothing("this processor has none")
    modify_ldt, read_default = 154, 2
    system.call_number(modify_ldt, read_default, ctypes.create_string_buffer(128), 128)
    return "read"


def use_ports():
    """Speaks to devices without the kernel."""
    import platform

    if platform.machine() != "x86_64":
        raise Nothing("this processor has none")
    ioperm = 173
    system.call_number(ioperm, 0x80, 1, 1)
    return "opened"
