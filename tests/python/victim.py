"""A process of the user that models try to reach, and a server of each kind that they try to talk to.

    victim.py FOLDER SECRET

Sockets and files are made in FOLDER. The first line of its output is a JSON object that says where everything is. Each line of its input is
answered with another one, which says what has reached it since its start. It ends with its input.
"""

import array
import ctypes
import json
import os
import resource
import select
import signal
import socket
import struct
import sys
import threading

FOLDER, SECRET = sys.argv[1:3]
library = ctypes.CDLL(None, use_errno=True)
library.syscall.restype = ctypes.c_long
IS_X86 = os.uname().machine == "x86_64"
#: What came: how often each signal, and what to which place.
signals = {}
received = {}
kept = []


def call(name, *arguments):
    numbers = {
        "shmget": (29, 194),
        "shmat": (30, 196),
        "shmctl": (31, 195),
        "semget": (64, 190),
        "semctl": (66, 191),
        "msgget": (68, 186),
        "msgsnd": (69, 189),
        "msgctl": (71, 187),
        "mq_open": (240, 180),
        "mq_unlink": (241, 181),
        "mq_timedsend": (242, 182),
        "add_key": (248, 217),
        "keyctl": (250, 219),
        "ioprio_get": (252, 31),
    }
    words = [argument if not isinstance(argument, int) else ctypes.c_long(argument) for argument in arguments]
    result = library.syscall(ctypes.c_long(numbers[name][0 if IS_X86 else 1]), *words)
    if result == -1:
        code = ctypes.get_errno()
        raise OSError(code, "%s: %s" % (name, os.strerror(code)))
    return result


def note(place, data):
    received.setdefault(place, []).append(data.decode("utf-8", "replace"))


def serve(place, listener, answer):
    """Answers each connection or packet on a thread."""

    def run():
        while True:
            try:
                answer(place, listener)
            except OSError:
                return

    kept.append(listener)
    threading.Thread(target=run, daemon=True).start()


def greet(place, listener):
    connected, _ = listener.accept()
    note(place, b"connected")
    with connected:
        connected.sendall(SECRET.encode())


def give_descriptor(place, listener):
    connected, _ = listener.accept()
    note(place, b"connected")
    with connected:
        connected.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [secret_file]))])


def take_packet(place, listener):
    note(place, listener.recv(1000))


def answer_name(place, listener):
    """Answers a question for the address of a name with 192.0.2.7."""
    question, sender = listener.recvfrom(1000)
    name, at = [], 12
    while question[at]:
        name.append(question[at + 1 : at + 1 + question[at]].decode())
        at += 1 + question[at]
    note(place, ".".join(name).encode())
    end = at + 5
    is_address = question[at + 1 : at + 3] == b"\0\1"
    header = question[:2] + struct.pack(">5H", 0x8180, 1, int(is_address), 0, 0)
    address = struct.pack(">HHHIH", 0xC00C, 1, 1, 60, 4) + bytes([192, 0, 2, 7])
    listener.sendto(header + question[12:end] + (address if is_address else b""), sender)


def listening(family, kind, address, backlog=5):
    created = socket.socket(family, kind)
    created.bind(address)
    if kind != socket.SOCK_DGRAM:
        created.listen(backlog)
    return created


def path(name):
    return os.path.join(FOLDER, name)


# A secret in a file that is deleted while it is open, and one in memory.
with open(path("deleted"), "wb") as file:
    file.write(SECRET.encode())
secret_file = os.open(path("deleted"), os.O_RDONLY)
os.unlink(path("deleted"))
secret_memory = ctypes.create_string_buffer(SECRET.encode(), len(SECRET))
target_memory = ctypes.create_string_buffer(b"before!", 8)



def count(number, _):
    signals[number] += 1


NUMBERS = [signal.SIGUSR1, signal.SIGUSR2, signal.SIGURG, signal.SIGWINCH, signal.SIGTERM, signal.SIGIO]
for number in NUMBERS:
    signals[int(number)] = 0
    signal.signal(number, count)

where = {
    "pid": os.getpid(),
    "secret_address": ctypes.addressof(secret_memory),
    "target_address": ctypes.addressof(target_memory),
    "secret_bytes": len(SECRET),
    "descriptor": secret_file,
    "missing": {},
}


def attempt(name, make):
    """Makes something to be reached. Systems do not have all of them."""
    try:
        where[name] = make()
    except OSError as error:
        where["missing"][name] = str(error)


def tcp(family, address):
    listener = listening(family, socket.SOCK_STREAM, (address, 0))
    serve("tcp" if family == socket.AF_INET else "tcp6", listener, greet)
    return listener.getsockname()[1]


def udp(family, address, place, answer):
    listener = listening(family, socket.SOCK_DGRAM, (address, 0))
    serve(place, listener, answer)
    return listener.getsockname()[1]


attempt("tcp", lambda: tcp(socket.AF_INET, "127.0.0.1"))
attempt("tcp6", lambda: tcp(socket.AF_INET6, "::1"))
attempt("udp", lambda: udp(socket.AF_INET, "127.0.0.1", "udp", take_packet))
attempt("udp6", lambda: udp(socket.AF_INET6, "::1", "udp6", take_packet))
attempt("names", lambda: udp(socket.AF_INET, "127.0.0.1", "names", answer_name))
abstract = "carton-escapes-%d" % os.getpid()
for name, kind, answer in [
    ("stream", socket.SOCK_STREAM, greet),
    ("sequence", socket.SOCK_SEQPACKET, greet),
    ("packet", socket.SOCK_DGRAM, take_packet),
    ("descriptors", socket.SOCK_STREAM, give_descriptor),
]:
    where[name] = path(name)
    serve(name, listening(socket.AF_UNIX, kind, where[name]), answer)
    if name in ("stream", "packet"):
        where["abstract_" + name] = abstract + name
        serve("abstract_" + name, listening(socket.AF_UNIX, kind, "\0" + abstract + name), answer)


def share_memory():
    key = os.getpid()
    number = call("shmget", key, 4096, 0o1600)
    address = call("shmat", number, None, 0)
    ctypes.memmove(address, SECRET.encode(), len(SECRET))
    kept.append(lambda: call("shmctl", number, 0, None))
    return key


def share_semaphore():
    key = os.getpid()
    number = call("semget", key, 1, 0o1600)
    kept.append(lambda: call("semctl", number, 0, 0, 0))
    return key


def send_message():
    key = os.getpid()
    number = call("msgget", key, 0o1600)
    message = ctypes.create_string_buffer(struct.pack("=q", 1) + SECRET.encode())
    call("msgsnd", number, message, len(SECRET), 0)
    kept.append(lambda: call("msgctl", number, 0, None))
    return key


def queue_message():
    name = "carton-escapes-%d" % os.getpid()
    queue = call("mq_open", name.encode(), os.O_CREAT | os.O_RDWR, 0o600, None)
    call("mq_timedsend", queue, SECRET.encode(), len(SECRET), 0, None)
    kept.append(lambda: call("mq_unlink", name.encode()))
    return name


def store_key():
    description, user_keyring, set_permissions, unlink = "carton-escapes-%d" % os.getpid(), -4, 5, 9
    number = call("add_key", b"user", description.encode(), SECRET.encode(), len(SECRET), user_keyring)
    # Everything for every process of the user.
    call("keyctl", set_permissions, number, 0x3F3F0000)
    kept.append(lambda: call("keyctl", unlink, number, user_keyring))
    return description


def share_by_name():
    name = "carton-escapes-%d" % os.getpid()
    with open("/dev/shm/" + name, "wb") as file:
        file.write(SECRET.encode())
    kept.append(lambda: os.unlink("/dev/shm/" + name))
    return name


attempt("system_v_memory", share_memory)
attempt("system_v_semaphore", share_semaphore)
attempt("system_v_queue", send_message)
attempt("posix_queue", queue_message)
attempt("key", store_key)
attempt("shared_memory", share_by_name)


def state():
    """What has reached this process, and what was done to it."""
    with open("/proc/self/oom_score_adj") as file:
        offered = int(file.read())
    try:
        disk = call("ioprio_get", 1, os.getpid())
    except OSError:
        disk = None
    return {
        "signals": signals,
        "received": received,
        "memory": target_memory.raw[:7].decode("utf-8", "replace"),
        "cores": len(os.sched_getaffinity(0)),
        "priority": os.getpriority(os.PRIO_PROCESS, 0),
        "scheduler": os.sched_getscheduler(0),
        "disk": disk,
        "descriptors": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "offered": offered,
    }


def main():
    print(json.dumps(where), flush=True)
    # A signal whose handler runs interrupts nothing.
    while True:
        select.select([sys.stdin], [], [])
        if not sys.stdin.readline():
            break
        print(json.dumps(state()), flush=True)
    for undo in kept:
        if callable(undo):
            try:
                undo()
            except OSError:
                pass


main()
