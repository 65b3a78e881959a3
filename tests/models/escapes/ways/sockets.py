"""Sockets of each family, and ways to reach a server without `connect`."""

import array
import ctypes
import mmap
import os
import platform
import socket
import struct
import threading
import time

from ways import system
from ways.outcome import Nothing, printable
from ways.scratch import new_path

_SECONDS = 3.0


def _greeting(connected):
    """Returns what a server says first."""
    with connected:
        return printable(connected.recv(200))


def _connected(family, kind, address):
    created = socket.socket(family, kind)
    created.settimeout(_SECONDS)
    try:
        created.connect(address)
    except BaseException:
        created.close()
        raise
    return created


def connect_tcp(port):
    """Reaches a server on this machine or in the network: a database, a cloud's metadata, an attacker's own."""
    return _greeting(_connected(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", port)))


def connect_tcp6(port):
    """The same by IPv6."""
    return _greeting(_connected(socket.AF_INET6, socket.SOCK_STREAM, ("::1", port)))


def connect_by_first_bytes(port):
    """The same without `connect`: the first bytes name the server (TCP fast open)."""
    fast_open = 0x20000000
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as created:
        # Python's timeout would make the socket one that does not wait.
        created.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("=qq", int(_SECONDS), 0))
        created.sendto(b"escaped", fast_open, ("127.0.0.1", port))
        return printable(created.recv(200))


def send_udp(port):
    """Sends data out, in one packet."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as created:
        created.sendto(b"escaped", ("127.0.0.1", port))
    return "sent"


def send_udp6(port):
    """The same by IPv6."""
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as created:
        created.sendto(b"escaped", ("::1", port))
    return "sent"


def send_multipath_tcp(port):
    """The same by a protocol that rules about TCP may not know."""
    multipath = 262
    created = socket.socket(socket.AF_INET, socket.SOCK_STREAM, multipath)
    created.settimeout(_SECONDS)
    created.connect(("127.0.0.1", port))
    return _greeting(created)


def resolve_name(name, port):
    """Sends data out as a part of a name, through the resolver of the C library. The test answers at a port of this machine."""
    state = _resolver_state()
    address = struct.pack("=H", socket.AF_INET) + struct.pack(">H", port) + bytes([127, 0, 0, 1]) + bytes(8)
    # struct __res_state: two numbers, the options, the number of servers, their addresses.
    ctypes.memmove(state + 16, struct.pack("=i", 1), 4)
    ctypes.memmove(state + 20, address, len(address))
    return socket.getaddrinfo(name, None, socket.AF_INET, socket.SOCK_STREAM)[0][4][0]


def _resolver_state():
    for library in (None, "libresolv.so.2"):
        try:
            functions = ctypes.CDLL(library)
            functions.__res_state.restype = ctypes.c_void_p
            functions.__res_init()
            return functions.__res_state()
        except (AttributeError, OSError):
            continue
    raise Nothing("this C library has another resolver")


def listen_tcp():
    """Waits for connections from outside. Returns the port, which stays open."""
    created = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    created.bind(("127.0.0.1", 0))
    created.listen(5)
    _KEPT.append(created)
    return "%d" % created.getsockname()[1]


def listen_without_bind():
    """The same with a port that the kernel chooses."""
    created = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    created.listen(5)
    _KEPT.append(created)
    return "%d" % created.getsockname()[1]


_KEPT = []


def listen_at_path(path):
    """Waits for connections at a path."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as created:
        created.bind(path)
        created.listen(5)
        return "listens"


def listen_in_scratch():
    """The same at a path in its own scratch folder."""
    return listen_at_path(new_path())


def listen_at_abstract_name(name):
    """Waits for connections at a name, in the place of another program."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as created:
        created.bind("\0" + name)
        created.listen(5)
        return "listens"


def listen_at_any_abstract_name():
    """The same at a name that the kernel chooses."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as created:
        created.bind("")
        created.listen(5)
        return printable(created.getsockname())


def connect_to_path(path):
    """Reaches a server of the user at a path: Docker's, an agent with keys, the desktop."""
    return _greeting(_connected(socket.AF_UNIX, socket.SOCK_STREAM, path))


def connect_to_path_from_working_folder(path):
    """The same, by its name alone."""
    os.chdir(os.path.dirname(path))
    return connect_to_path(os.path.basename(path))


def connect_sequence_to_path(path):
    """The same by another kind of socket."""
    return _greeting(_connected(socket.AF_UNIX, socket.SOCK_SEQPACKET, path))


def connect_to_abstract_name(name):
    """Reaches a server of the user at a name without a file: the display, the bus of the session."""
    return _greeting(_connected(socket.AF_UNIX, socket.SOCK_STREAM, "\0" + name))


def send_to_path(path):
    """Sends a packet to a server at a path."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as created:
        created.sendto(b"escaped", path)
    return "sent"


def send_to_abstract_name(name):
    """Sends a packet to a server at a name."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as created:
        created.sendto(b"escaped", "\0" + name)
    return "sent"


def _pair(kind):
    return socket.socketpair(socket.AF_UNIX, kind)


def send_to_path_from_pair(path):
    """The same by one end of a pair, which needs neither `socket` nor `connect`."""
    one, other = _pair(socket.SOCK_DGRAM)
    with one, other:
        one.sendto(b"escaped", path)
    return "sent"


def send_message_to_path_from_pair(path):
    """The same by `sendmsg`, whose address no filter of arguments sees."""
    one, other = _pair(socket.SOCK_DGRAM)
    with one, other:
        one.sendmsg([b"escaped"], [], 0, path)
    return "sent"


def send_message_to_path_from_sequence_pair(path):
    """The same by a pair that keeps the limits of messages."""
    one, other = _pair(socket.SOCK_SEQPACKET)
    with one, other:
        one.sendmsg([b"escaped"], [], 0, path)
        other.settimeout(0.2)
        if other.recv(100) == b"escaped":
            raise Nothing("the address was ignored: the message went to the other end")
    return "sent"


def send_message_to_path_from_stream_pair(path):
    """The same by a pair of streams."""
    one, other = _pair(socket.SOCK_STREAM)
    with one, other:
        one.sendmsg([b"escaped"], [], 0, path)
    return "sent"


def connect_pair_again(path):
    """Connects one end of a pair with a server."""
    one, other = _pair(socket.SOCK_DGRAM)
    with one, other:
        one.connect(path)
        one.send(b"escaped")
    return "sent"


def receive_descriptor(path):
    """Gets an open file from a server of the user, which then may be read in any sandbox."""
    with _connected(socket.AF_UNIX, socket.SOCK_STREAM, path) as connected:
        _, control, _, _ = connected.recvmsg(200, socket.CMSG_SPACE(4))
    descriptors = array.array("i")
    for _, _, data in control:
        descriptors.frombytes(data[: len(data) - len(data) % 4])
    if not descriptors:
        raise Nothing("no descriptor came")
    try:
        return printable(os.pread(descriptors[0], 200, 0))
    finally:
        os.close(descriptors[0])


def open_socket(family, kind, protocol=0):
    """Opens a socket of a family: packets of the network card, the machine that hosts this one, the kernel's ciphers."""
    with socket.socket(family, kind, protocol) as created:
        return "opened %d" % created.fileno()


def wait_for_network(seconds):
    """Waits for a thread that has failed, as models do that wait for workers."""
    address = ("192.0.2.1", 80)
    threading.Thread(target=socket.create_connection, args=(address, 5), daemon=True).start()
    time.sleep(seconds)
    return "waited"


def list_network_cards():
    """Learns the cards and addresses of this machine from the kernel."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as created:
        get_link, request_dump = 18, 0x301
        created.send(struct.pack("=IHHII", 32, get_link, request_dump, 1, 0) + struct.pack("=BxHiII", 0, 0, 0, 0, 0))
        return "%d bytes about network cards" % len(created.recv(65536))


def send_ping():
    """Sends data out in packets for errors, which firewalls may pass."""
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as created:
        created.sendto(struct.pack("!BBHHH", 8, 0, 0xF7FF, 0, 0), ("127.0.0.1", 0))
    return "sent"


def connect_by_32_bit_calls(port):
    """Makes its system calls by the interrupt of 32-bit programs, whose numbers mean other calls."""
    if platform.machine() != "x86_64":
        raise Nothing("this processor has no such calls here")
    # push rbx; mov eax, edi; mov ebx, esi; mov r8d, ecx; mov ecx, edx; mov edx, r8d; int 0x80; pop rbx; ret
    code = bytes.fromhex("5389f889f34189c889d14489c2cd805bc3")
    program = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    program.write(code)
    function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_int)(
        ctypes.addressof(ctypes.c_char.from_buffer(program))
    )

    def call(*arguments):
        result = function(*arguments)
        if result < 0:
            raise OSError(-result, os.strerror(-result))
        return result

    # Addresses in such calls have 32 bits.
    address = ctypes.CDLL(None, use_errno=True).mmap
    address.restype = ctypes.c_long
    address.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    map_private_anonymous_32_bit = 0x2 | 0x20 | 0x40
    low = address(None, mmap.PAGESIZE, 3, map_private_anonymous_32_bit, -1, 0)
    name = struct.pack("=H", socket.AF_INET) + struct.pack(">H", port) + bytes([127, 0, 0, 1]) + bytes(8)
    ctypes.memmove(low, name, len(name))
    socket_of_32_bit, connect_of_32_bit = 359, 362
    descriptor = call(socket_of_32_bit, socket.AF_INET, socket.SOCK_STREAM, 0)
    call(connect_of_32_bit, descriptor, low, len(name))
    return _greeting(socket.socket(fileno=descriptor))


def connect_by_x32_calls():
    """Makes its system calls by the numbers of another convention, which a filter may not compare."""
    if platform.machine() != "x86_64":
        raise Nothing("this processor has no such calls")
    descriptor = system.call_number(system.number("socket") | 0x40000000, socket.AF_INET, socket.SOCK_STREAM, 0)
    os.close(descriptor)
    return "opened %d" % descriptor
