"""Other processes: their memory, descriptors and settings. `pid` is the host, the launcher, another runner, or any process of the user."""

import ctypes
import os
import struct

from ways import system
from ways.outcome import Nothing, printable
from ways.peer import peer
from ways.system import Vector

_PTRACE_PEEKDATA = 2
_PTRACE_ATTACH = 16
_PTRACE_DETACH = 17
_PTRACE_SEIZE = 0x4206
_PTRACE_INTERRUPT = 0x4207
_WALL = 0x40000000


def list_processes(pid):
    """Learns which programs run, with their arguments."""
    if str(pid) not in os.listdir("/proc"):
        raise Nothing("the process is not listed")
    return read_process_file(pid, "cmdline")


def read_process_file(pid, name):
    """Reads the environment, the arguments or the addresses of another process."""
    with open("/proc/%d/%s" % (pid, name), "rb") as file:
        return printable(file.read(8192), 8192)


def read_process_link(pid, name):
    """Learns the program, the working folder or the root of another process."""
    return os.readlink("/proc/%d/%s" % (pid, name))


def read_by_root_of_process(pid, path):
    """Opens a file by the root of another process, which is not confined."""
    with open("/proc/%d/root%s" % (pid, path), "rb") as file:
        return printable(file.read(200))


def read_by_working_folder_of_process(pid, name):
    """Opens a file by the working folder of another process."""
    with open("/proc/%d/cwd/%s" % (pid, name), "rb") as file:
        return printable(file.read(200))


def read_descriptor_of_process(pid, number):
    """Opens what another process has open, such as a file that is deleted already."""
    with open("/proc/%d/fd/%d" % (pid, number), "rb") as file:
        return printable(file.read(200))


def read_memory_file(pid, address, n_bytes):
    """Reads the memory of another process through its file."""
    descriptor = os.open("/proc/%d/mem" % pid, os.O_RDONLY)
    try:
        return printable(os.pread(descriptor, n_bytes, address))
    finally:
        os.close(descriptor)


def write_memory_file(pid, address, text):
    """Writes the memory of another process through its file."""
    descriptor = os.open("/proc/%d/mem" % pid, os.O_RDWR)
    try:
        os.pwrite(descriptor, text.encode(), address)
    finally:
        os.close(descriptor)
    return "wrote"


def read_memory(pid, address, n_bytes):
    """Reads the memory of another process by a system call."""
    buffer = ctypes.create_string_buffer(n_bytes)
    here, there = Vector(ctypes.addressof(buffer), n_bytes), Vector(address, n_bytes)
    system.call("process_vm_readv", pid, here, 1, there, 1, 0)
    return printable(buffer.raw)


def write_memory(pid, address, text):
    """Writes the memory of another process by a system call."""
    buffer = ctypes.create_string_buffer(text.encode(), len(text))
    here, there = Vector(ctypes.addressof(buffer), len(text)), Vector(address, len(text))
    system.call("process_vm_writev", pid, here, 1, there, 1, 0)
    return "wrote"


def trace(pid, address):
    """Stops another process and reads its memory, as a debugger does."""
    system.call("ptrace", _PTRACE_ATTACH, pid, None, None)
    return _peek_and_detach(pid, address)


def trace_quietly(pid, address):
    """The same without a signal that the other process could see."""
    system.call("ptrace", _PTRACE_SEIZE, pid, None, None)
    system.call("ptrace", _PTRACE_INTERRUPT, pid, None, None)
    return _peek_and_detach(pid, address)


def _peek_and_detach(pid, address):
    try:
        os.waitpid(pid, _WALL)
        word = ctypes.c_long()
        system.call("ptrace", _PTRACE_PEEKDATA, pid, address, word)
        return printable(struct.pack("=q", word.value))
    finally:
        system.call("ptrace", _PTRACE_DETACH, pid, None, None)


def take_descriptor(pid, number):
    """Takes over an open file of another process."""
    process = system.call("pidfd_open", pid, 0)
    try:
        taken = system.call("pidfd_getfd", process, number, 0)
    finally:
        os.close(process)
    try:
        return printable(os.pread(taken, 200, 0))
    finally:
        os.close(taken)


def take_descriptor_of_peer(number):
    """Takes over an open file of the process that made the socket of the protocol, without its number and `pidfd_open`."""
    process = peer()
    try:
        taken = system.call("pidfd_getfd", process, number, 0)
    finally:
        os.close(process)
    try:
        return printable(os.pread(taken, 200, 0))
    finally:
        os.close(taken)


def compare_resources(pid):
    """Learns whether another process has the same file open, and the order of addresses in the kernel."""
    kcmp_files = 2
    return "order %d" % system.call("kcmp", os.getpid(), pid, kcmp_files, 0, 0)


def find_locks(pid):
    """Learns an address in another process, which tells where its memory is."""
    head, n_bytes = ctypes.c_void_p(), ctypes.c_size_t()
    system.call("get_robust_list", pid, head, n_bytes)
    return "the address %#x" % (head.value or 0)


def enter_namespaces_of_process(pid):
    """Enters the namespaces of another process."""
    process = system.call("pidfd_open", pid, 0)
    try:
        system.call("setns", process, 0x20000 | 0x40000000)
    finally:
        os.close(process)
    return "entered"


def pin_process(pid):
    """Moves another process onto one core."""
    os.sched_setaffinity(pid, {sorted(os.sched_getaffinity(pid))[0]})
    return "pinned"


def slow_process_down(pid):
    """Lowers the priority of another process."""
    os.setpriority(os.PRIO_PROCESS, pid, 15)
    return "lowered"


def idle_process(pid):
    """Lets another process run only when no other wants to."""
    os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))
    return "lowered"


def batch_process(pid):
    """Makes another process wait for others, by a newer system call."""
    attributes = struct.pack("=IIQiIQQQ", 48, os.SCHED_BATCH, 0, 19, 0, 0, 0, 0)
    system.call("sched_setattr", pid, attributes, 0)
    return "lowered"


def slow_files_of_process(pid):
    """Lowers the priority of another process at the disk."""
    ioprio_who_process, idle_class = 1, 3 << 13
    system.call("ioprio_set", ioprio_who_process, pid, idle_class)
    return "lowered"


def limit_process(pid):
    """Takes the descriptors of another process away."""
    import resource

    resource.prlimit(pid, resource.RLIMIT_NOFILE, (64, 64))
    return "limited"


def offer_process_for_killing(pid):
    """Makes the kernel end another process first when memory is short."""
    with open("/proc/%d/oom_score_adj" % pid, "w") as file:
        file.write("1000")
    return "offered"


def move_pages_of_process(pid):
    """Moves the memory of another process, which makes it slow and tells where its pages are."""
    system.call("migrate_pages", pid, 64, struct.pack("=Q", 1), struct.pack("=Q", 1))
    return "moved"


def find_process(pid):
    """Learns whether a number belongs to a process, and to which group."""
    return "group %d" % os.getpgid(pid)
