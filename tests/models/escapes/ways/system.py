"""System calls by number, for those that Python has no function for."""

import ctypes
import os
import platform

_LIBRARY = ctypes.CDLL(None, use_errno=True)
_LIBRARY.syscall.restype = ctypes.c_long

#: The numbers on x86-64 and on aarch64. Those from 424 on are the same on all processors.
_NUMBERS = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "adjtimex": (159, 171),
    "bpf": (321, 280),
    "capset": (126, 91),
    "chroot": (161, 51),
    "clock_settime": (227, 112),
    "clone": (56, 220),
    "fanotify_init": (300, 262),
    "fanotify_mark": (301, 263),
    "finit_module": (313, 273),
    "get_robust_list": (274, 100),
    "init_module": (175, 105),
    "inotify_add_watch": (254, 27),
    "inotify_init1": (294, 26),
    "ioprio_get": (252, 31),
    "ioprio_set": (251, 30),
    "kcmp": (312, 272),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "memfd_create": (319, 279),
    "migrate_pages": (256, 238),
    "mount": (165, 40),
    "mq_open": (240, 180),
    "mq_timedreceive": (243, 183),
    "mq_unlink": (241, 181),
    "msgget": (68, 186),
    "msgrcv": (70, 188),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "perf_event_open": (298, 241),
    "personality": (135, 92),
    "pivot_root": (155, 41),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "reboot": (169, 142),
    "renameat2": (316, 276),
    "request_key": (249, 218),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "sched_setattr": (314, 274),
    "semctl": (66, 191),
    "semget": (64, 190),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "shmat": (30, 196),
    "shmget": (29, 194),
    "socket": (41, 198),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "tgkill": (234, 131),
    "timer_create": (222, 107),
    "timer_delete": (226, 111),
    "tkill": (200, 130),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
}
_NUMBERS_OF_ALL = {
    "pidfd_send_signal": 424,
    "io_uring_setup": 425,
    "open_tree": 428,
    "fsopen": 430,
    "pidfd_open": 434,
    "clone3": 435,
    "openat2": 437,
    "pidfd_getfd": 438,
    "mount_setattr": 442,
    "fchmodat2": 452,
    "listmount": 458,
    "setxattrat": 463,
    "file_setattr": 469,
}


def number(name):
    """Returns the number of a system call on this processor."""
    if name in _NUMBERS_OF_ALL:
        return _NUMBERS_OF_ALL[name]
    return _NUMBERS[name][("x86_64", "aarch64").index(platform.machine())]


def call(name, *arguments):
    """Makes a system call and returns its result. Arguments are numbers, bytes, None, or objects of ctypes, which are passed by their
    addresses."""
    return call_number(number(name), *arguments)


def call_number(number, *arguments):
    """Makes the system call of this number."""
    ctypes.set_errno(0)
    result = _LIBRARY.syscall(ctypes.c_long(number), *[_word(argument) for argument in arguments])
    if result == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def library(name, *arguments):
    """Calls a function of the C library that returns -1 for an error."""
    function = getattr(_LIBRARY, name)
    function.restype = ctypes.c_long
    ctypes.set_errno(0)
    result = ctypes.c_int(function(*[_word(argument) for argument in arguments])).value
    if result == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def _word(argument):
    if argument is None:
        return ctypes.c_void_p(None)
    if isinstance(argument, int):
        return ctypes.c_long(argument if argument < 1 << 63 else argument - (1 << 64))
    if isinstance(argument, bytes):
        return ctypes.c_char_p(argument)
    return ctypes.byref(argument)


class Vector(ctypes.Structure):
    """``struct iovec``"""

    _fields_ = [("base", ctypes.c_void_p), ("n_bytes", ctypes.c_size_t)]
