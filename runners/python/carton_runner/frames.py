"""Splits the stream from the host into messages (spec/runner-protocol.md, sections 2 and 3).

Every size is checked against its limit before memory is allocated. The meaning of a message is left to others.
"""

import os
import socket
import struct
from collections import deque
from json import JSONDecoder

from carton_runner.errors import ProtocolError

HEADER = struct.Struct("<QI")
#: The size of the largest frame that is read, the same as in other runners.
FRAME_CAP = 4 << 30
#: The size of the largest frame that is sent: the default limit of hosts.
SEND_CAP = 1 << 30
JSON_CAP = 16 << 20
#: The greatest number of descriptors that may wait for the message that names them.
DESCRIPTOR_CAP = 4096
_BUFFER_LENGTH = 64 << 10
#: Room for the 253 descriptors that the kernel passes with one message.
_ANCILLARY_LENGTH = socket.CMSG_SPACE(253 * 4)
_FLAGS = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
_U64 = 1 << 64


class EndOfFile(Exception):
    """The host closed the connection, or is gone."""


class FrameReader:
    """Reads frames from a socket, and keeps their descriptors until a message claims them.

    Only one thread reads at a time. ``before_waiting`` is called before each read that may block.
    """

    def __init__(self, connection, before_waiting=None):
        self._socket = connection
        self._before_waiting = before_waiting
        self._buffer = bytearray(_BUFFER_LENGTH)
        self._view = memoryview(self._buffer)
        self._whole = [self._view]
        self._start = 0
        self._end = 0
        self._descriptors = deque()

    def has_read_ahead(self):
        """Whether bytes of the next frames were read already."""
        return self._start < self._end

    def next(self):
        """Blocks until a frame is complete. Returns its JSON as text, and the bytes after it."""
        if self._start == self._end:
            self._start = self._end = 0
            if self._descriptors:
                self._close_unclaimed()
        while self._end - self._start < 12:
            self._fill()
        start = self._start
        length, json_length = HEADER.unpack_from(self._buffer, start)
        if length > FRAME_CAP:
            raise ProtocolError("a frame of %d bytes is above the limit of %d" % (length, FRAME_CAP))
        if json_length > JSON_CAP:
            raise ProtocolError("a message of %d bytes of JSON is above the limit of %d" % (json_length, JSON_CAP))
        if length < 4 + json_length:
            raise ProtocolError("a frame of %d bytes cannot hold %d bytes of JSON" % (length, json_length))
        middle = start + 12 + json_length
        end = start + 8 + length
        if end <= self._end:
            text, body = self._buffer[start + 12 : middle], bytes(self._view[middle:end])
            self._start = end
        else:
            self._start = start + 12
            text = self._read(json_length)
            body = memoryview(self._read(length - 4 - json_length)).toreadonly()
        try:
            return text.decode(), body
        except UnicodeDecodeError as error:
            raise ProtocolError("malformed message: it is not UTF-8: %s" % error) from None

    def claim(self, message):
        """Returns the next descriptor that was received; the caller closes it."""
        if not self._descriptors:
            raise ProtocolError("`%s` names a descriptor, none came with it" % message)
        return self._descriptors.popleft()

    def _read(self, n_bytes):
        """Takes the buffered bytes and reads the rest in place, never past the end of the frame."""
        target = bytearray(n_bytes)
        n_buffered = min(n_bytes, self._end - self._start)
        target[:n_buffered] = self._view[self._start : self._start + n_buffered]
        self._start += n_buffered
        if n_buffered < n_bytes:
            view = memoryview(target)
            while n_buffered < n_bytes:
                n_buffered += self._receive([view[n_buffered:]])
            view.release()
        return target

    def _fill(self):
        if self._start:
            rest = bytes(self._view[self._start : self._end])
            self._buffer[: len(rest)] = rest
            self._start, self._end = 0, len(rest)
        self._end += self._receive([self._view[self._end :]] if self._end else self._whole)

    def _receive(self, buffers):
        if self._before_waiting is not None:
            self._before_waiting()
        try:
            n_bytes, ancillary, flags, _ = self._socket.recvmsg_into(buffers, _ANCILLARY_LENGTH, _FLAGS)
        except ConnectionResetError:
            raise EndOfFile from None
        if ancillary:
            self._queue(ancillary)
        if flags & socket.MSG_CTRUNC:
            raise ProtocolError("descriptors came that could not be received")
        if not n_bytes:
            raise EndOfFile
        return n_bytes

    def _queue(self, ancillary):
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                count = len(data) // 4
                descriptors = struct.unpack("%di" % count, data[: count * 4])
                self._descriptors.extend(descriptors)
                if not _FLAGS:
                    for descriptor in descriptors:
                        os.set_inheritable(descriptor, False)
        if len(self._descriptors) > DESCRIPTOR_CAP:
            raise ProtocolError("more than %d descriptors came with one message" % DESCRIPTOR_CAP)

    def _close_unclaimed(self):
        while self._descriptors:
            os.close(self._descriptors.popleft())


def _refuse_constant(name):
    raise ValueError("%s is no number of JSON" % name)


_decoder = JSONDecoder(parse_constant=_refuse_constant)
_scan = _decoder.scan_once


def parse(text):
    """Returns a message's id (or ``None``), releases (a list of pairs), name and fields."""
    try:
        envelope, end = _scan(text, 0)
        if end != len(text):
            envelope = _decoder.decode(text)
    except StopIteration:
        envelope = _decode_slowly(text)
    except (ValueError, RecursionError) as error:
        raise ProtocolError("malformed message: %s" % error) from None
    if type(envelope) is not dict:
        raise ProtocolError("malformed message: it is no object")
    message = envelope.get("message")
    if type(message) is not dict or len(message) != 1:
        raise ProtocolError("malformed message: `message` must be an object with one key")
    ((name, fields),) = message.items()
    number = envelope.get("id")
    if number is not None:
        check_number(number, name, "id")
    release = envelope.get("release")
    if release is None:
        releases = ()
    else:
        releases = _releases(release, name)
    return number, releases, name, fields


def _decode_slowly(text):
    """Parses a message that begins with white space, which is rare, but allowed."""
    try:
        return _decoder.decode(text)
    except (ValueError, RecursionError) as error:
        raise ProtocolError("malformed message: %s" % error) from None


def _releases(release, name):
    if type(release) is not list:
        raise malformed(name, "`release` is no list")
    pairs = []
    for entry in release:
        if type(entry) is not dict:
            raise malformed(name, "`release` holds what is no object")
        region, offset = entry.get("region"), entry.get("offset")
        pairs.append((check_number(region, name, "region"), check_number(offset, name, "offset")))
    return pairs


def malformed(message, problem):
    """Returns the error for a message of a known name with invalid fields."""
    return ProtocolError("malformed message `%s`: %s" % (message, problem))


def check_number(value, message, field):
    """Returns ``value`` if it is an integer from 0 to 2^64 - 1, otherwise raises."""
    if type(value) is not int or not 0 <= value < _U64:
        raise malformed(message, "`%s` is no integer from 0 to 2^64 - 1" % field)
    return value
