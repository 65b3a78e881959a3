"""Runs a command on a kernel that seems to lack some system calls: ``without_system_calls.py NUMBER,NUMBER… COMMAND…``.

A filter of seccomp answers them with ENOSYS, and calls of ``prctl`` and ``seccomp`` are not affected unless they are named.
"""

import ctypes
import os
import struct
import sys

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD_NUMBER, EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, ENOSYS = 0x7FFF0000, 0x00050000 | 38


def instruction(code, if_true, if_false, value):
    return struct.pack("<HBBI", code, if_true, if_false, value)


program = [instruction(LOAD_NUMBER, 0, 0, 0)]
for number in map(int, sys.argv[1].split(",")):
    program += [instruction(EQUAL, 0, 1, number), instruction(RETURN, 0, 0, ENOSYS)]
program.append(instruction(RETURN, 0, 0, ALLOW))
code = ctypes.create_string_buffer(b"".join(program))
filter_program = struct.pack("<HxxxxxxQ", len(program), ctypes.addressof(code))
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filter_program, 0, 0):
    sys.exit(os.strerror(ctypes.get_errno()))
os.execvp(sys.argv[2], sys.argv[2:])
