"""Sends to the host without ever blocking. Data that the host does not take yet waits in a backlog, which the next thread that
waits for the socket sends. So both sides can send much at once without a deadlock (spec/runner-protocol.md, section 1).
"""

import errno
import json
import os
import select
import socket
import struct
import threading
from collections import deque

from carton_runner.frames import HEADER, JSON_CAP, SEND_CAP

_FLAGS = socket.MSG_DONTWAIT | getattr(socket, "MSG_NOSIGNAL", 0)
#: The number of waiting frames at which the host is given up, because it sends but never reads.
_BACKLOG_LIMIT = 1 << 16
#: The number of pieces per system call; the kernel's limit is 1024.
_PIECES = 1000
#: Up to this many bytes one copy is cheaper than several pieces.
_JOINED = 64 << 10


class TooLarge(Exception):
    """The message does not fit into a frame."""


class Connection:
    """The sending half of the socket. ``lost(error)`` is called when it can no longer be written to."""

    def __init__(self, connection, lost):
        self.socket = connection
        #: Held while a message is built and sent, so that releases and regions are sent in order.
        self.lock = threading.RLock()
        self._lost = lost
        self._backlog = deque()

    def send(self, message, number=None, release="", parts=(), n_bytes=0):
        """Sends a message given as JSON (``"pong":{}``), with its id and the releases that
        :meth:`carton_runner.host_memory.HostMemory.take_releases` returned."""
        start = "{" if number is None else '{"id":%d,' % number
        text = ('%s%s"message":{%s}}' % (start, release, message)).encode("utf-8", "replace")
        length = 4 + len(text) + n_bytes
        if length > SEND_CAP or len(text) > JSON_CAP:
            raise TooLarge("a message of %d bytes is above the limit of %d" % (length, SEND_CAP))
        head = HEADER.pack(length, len(text)) + text
        if not n_bytes:
            pieces = [head]
        elif length <= _JOINED:
            pieces = [b"".join((head, *parts))]
        else:
            pieces = [head, *parts]
        with self.lock:
            self._send(pieces, None)

    def check(self, message, n_bytes):
        """Raises :class:`TooLarge` for a message that does not fit, before anything is done for it."""
        # The reserve of 1 MiB is for the id and the releases.
        if n_bytes + len(message) > SEND_CAP - (1 << 20) or len(message) > JSON_CAP - (1 << 20):
            raise TooLarge("a message of %d bytes is above the limit of %d" % (n_bytes + len(message), SEND_CAP))

    def send_with_descriptor(self, message, descriptor):
        """Sends a message and a descriptor, and closes the descriptor."""
        text = ('{"message":{%s}}' % message).encode()
        with self.lock:
            self._send([HEADER.pack(4 + len(text), len(text)) + text], descriptor)

    def _send(self, pieces, descriptor):
        if not self._backlog:
            pieces, descriptor = self._try(pieces, descriptor)
        if pieces:
            if len(self._backlog) >= _BACKLOG_LIMIT:
                self._lost(OSError(errno.ENOBUFS, "the host reads nothing"))
            self._backlog.append((pieces, descriptor))

    def _try(self, pieces, descriptor):
        """Sends as much as the socket takes now, and returns the rest."""
        while pieces:
            ancillary = []
            if descriptor is not None:
                ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", descriptor))]
            try:
                if ancillary or len(pieces) > 1:
                    sent = self.socket.sendmsg(pieces[:_PIECES], ancillary, _FLAGS)
                else:
                    sent = self.socket.send(pieces[0], _FLAGS)
            except BlockingIOError:
                return pieces, descriptor
            except OSError as error:
                self._lost(error)
                raise
            if descriptor is not None:
                os.close(descriptor)
                descriptor = None
            if len(pieces) == 1 and sent == len(pieces[0]):
                break
            pieces = _rest(pieces, sent)
        return None, None

    def has_backlog(self):
        """Whether data waits to be sent."""
        return bool(self._backlog)

    def flush(self):
        """Sends as much of the backlog as the host takes now."""
        with self.lock:
            while self._backlog:
                pieces, descriptor = self._try(*self._backlog[0])
                if pieces:
                    self._backlog[0] = (pieces, descriptor)
                    return
                self._backlog.popleft()

    def wait(self, descriptors=(), timeout=None):
        """Waits until the socket or one of ``descriptors`` can be read, and sends the backlog meanwhile. Returns the descriptors
        that can be read."""
        poll = select.poll()
        number = self.socket.fileno()
        for descriptor in descriptors:
            poll.register(descriptor, select.POLLIN)
        while True:
            backlog = bool(self._backlog)
            poll.register(number, select.POLLIN | (select.POLLOUT if backlog else 0))
            readable = []
            for descriptor, events in poll.poll(timeout):
                if descriptor == number and events & select.POLLOUT:
                    self.flush()
                if events & ~select.POLLOUT:
                    readable.append(descriptor)
            if readable or not backlog or timeout is not None:
                return readable


def _rest(pieces, sent):
    """Returns the rest of ``pieces`` after ``sent`` bytes."""
    rest = []
    for piece in pieces:
        if sent >= len(piece):
            sent -= len(piece)
        else:
            rest.append(memoryview(piece)[sent:])
            sent = 0
    return rest


def quote(text):
    """Returns ``text`` as a JSON string. Characters that are not valid Unicode (lone surrogates) become ``?``."""
    return json.dumps(text.encode("utf-8", "replace").decode(), ensure_ascii=False)
