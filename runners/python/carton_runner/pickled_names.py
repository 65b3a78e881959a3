"""Finds the classes and functions that pickles name, without loading them.

A pickle names each by its module. `__main__`, the script or notebook that made the pickle, does not exist where a model runs, so a
pickle that names it can usually not be loaded there.

The files may be hostile. Their opcodes are read one after another, up to a limit for all files together, and long values are skipped.
"""

import bz2
import io
import lzma
import os
import pickletools
import re
import struct
import zipfile
import zlib

#: Files of these names are pickles of any protocol.
_SUFFIXES = (".pkl", ".pickle", ".p", ".sav", ".dill", ".joblib")
#: What pickles begin with. Since protocol 2 it is the number of the protocol. Before, it is an object (of `copy_reg` or a class), a list or
#: a dictionary: in protocol 0, and in 1.
_STARTS = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05", b"ccop", b"c__m", b"(lp0", b"(dp0", b"]q\x00", b"}q\x00")
_FILES_CAP = 1000
#: Of all files together; half a second for a million.
_OPCODES_CAP = 4_000_000
#: Of names and of what may be one. Longer text is skipped.
_TEXT_CAP = 256
_MEMO_CAP = 1 << 16
#: Of all files together: the bytes that are decompressed, and those that are searched where a file is not a pickle alone.
_BYTES_CAP = 256 << 20
#: PyTorch's older files have several pickles, one behind the other.
_PICKLES_CAP = 8
_NAMES_CAP = 100
#: NumPy's own limit.
_HEADER_CAP = 10_000
#: What compressed files begin with: gzip, zlib, xz, bzip2. zlib finds out by itself which of its two it is.
_COMPRESSIONS = (
    (b"\x1f\x8b", lambda: zlib.decompressobj(zlib.MAX_WBITS | 32)),
    (b"\x78", lambda: zlib.decompressobj(zlib.MAX_WBITS | 32)),
    (b"\xfd7zX", lzma.LZMADecompressor),
    (b"BZh", bz2.BZ2Decompressor),
)

_OPCODES = {opcode.code.encode("latin-1"): opcode for opcode in pickletools.opcodes}
_LENGTHS = {
    pickletools.TAKEN_FROM_ARGUMENT1: "<B",
    pickletools.TAKEN_FROM_ARGUMENT4: "<I",
    pickletools.TAKEN_FROM_ARGUMENT4U: "<I",
    pickletools.TAKEN_FROM_ARGUMENT8U: "<Q",
}
_TEXTS = frozenset(("SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"))
_NAME = rb"([A-Za-z_][\w.]{0,254})"
#: A name of `__main__` in the opcodes GLOBAL, and STACK_GLOBAL.
_OF_MAIN = re.compile(rb"c__main__\n" + _NAME + rb"\n|\x8c\x08__main__\x94?\x8c." + _NAME + rb"\x94?\x93", re.DOTALL)


def of_main(folder):
    """Yields the path, relative to the folder, of each file in it that is a pickle that names something of `__main__`, and these names."""
    n_files = 0
    budget = _Budget(_OPCODES_CAP, _BYTES_CAP)
    for parent, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted(files):
            n_files += 1
            if n_files > _FILES_CAP:
                return
            path = os.path.join(parent, name)
            if not os.path.isfile(path):
                # A pipe would block.
                continue
            try:
                found = {qualified for module, qualified in names(path, budget) if module == "__main__"}
            except Exception:  # noqa: BLE001, a file that no reader understands has no names to warn of
                continue
            if found:
                yield os.path.relpath(path, folder), sorted(found)


class _Budget:
    """The number of opcodes that may still be read, and of bytes that may be decompressed or searched."""

    def __init__(self, n, n_bytes):
        self.n = n
        self.n_bytes = n_bytes


def names(path, budget):
    """Returns what a file's pickles name, as pairs of a module and a name in it; nothing for a file that is no pickle."""
    with open(path, "rb") as file:
        start = file.read(4)
        file.seek(0)
        if start == b"PK\x03\x04":
            return _in_archive(file, budget)
        if start == b"\x93NUM":
            return _in_array(file, budget)
        name = os.fspath(path)
        is_named_so = name.endswith(_SUFFIXES) or os.path.splitext(name)[0].endswith(_SUFFIXES)
        for magic, decompressor in _COMPRESSIONS:
            # As joblib compresses, and people do.
            if is_named_so and start.startswith(magic):
                return _in_stream(_Sequential(io.BytesIO(_decompressed(file, decompressor(), budget)), budget), budget)
        if is_named_so or start.startswith(_STARTS):
            return _in_stream(_Seekable(file, budget), budget)
    return set()


def _in_archive(file, budget):
    """Searches a file of PyTorch, an archive with a pickle `data.pkl`."""
    found = set()
    with zipfile.ZipFile(file) as archive:
        pickles = [name for name in archive.namelist() if os.path.basename(name) == "data.pkl"]
        for name in pickles[:_PICKLES_CAP]:
            with archive.open(name) as entry:
                found |= _in_stream(_Sequential(entry, budget), budget)
    return found


def _in_array(file, budget):
    """Searches an array of NumPy. The elements of one of objects are a pickle behind its header."""
    version = file.read(8)[6:7]
    length = int.from_bytes(file.read(2 if version == b"\x01" else 4), "little")
    header = file.read(min(length, _HEADER_CAP))
    return _in_stream(_Seekable(file, budget), budget) if b"|O" in header else set()


def _in_stream(stream, budget):
    found = set()
    for _ in range(_PICKLES_CAP):
        try:
            _read_one(stream, found, budget)
        except _NoPickle:
            break
    # joblib puts arrays between the opcodes.
    found |= {("__main__", (one or other).decode()) for one, other in _OF_MAIN.findall(stream.rest())}
    return found


class _NoPickle(Exception):
    """The bytes are no opcode, or there are too few."""


def _read_one(stream, found, budget):
    """Adds what one pickle names."""
    memo = {}
    n_memo = 0
    # The last two values that were pushed, if they are short texts. Nothing is between the names of an opcode STACK_GLOBAL.
    pushed = (None, None)
    while budget.n:
        budget.n -= 1
        opcode = _OPCODES.get(stream.read(1))
        if opcode is None or len(found) >= _NAMES_CAP:
            raise _NoPickle
        argument = _argument(stream, opcode)
        name = opcode.name
        if name == "STOP":
            return
        if name in ("GLOBAL", "INST"):
            found.add(argument)
        elif name == "STACK_GLOBAL" and None not in pushed:
            found.add(pushed)
        if name in ("MEMOIZE", "PUT", "BINPUT", "LONG_BINPUT"):
            number = n_memo if name == "MEMOIZE" else argument
            n_memo += 1
            if pushed[1] is not None and len(memo) < _MEMO_CAP:
                memo[number] = pushed[1]
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            pushed = (pushed[1], memo.get(argument))
        elif name in _TEXTS:
            pushed = (pushed[1], argument)
        elif name not in ("PROTO", "FRAME"):
            pushed = (pushed[1], None)
    raise _NoPickle


def _argument(stream, opcode):
    """Reads the argument of an opcode. Returns it if it is a short text, a number of the memo, or the name of a class or function."""
    if opcode.arg is None:
        return None
    length = opcode.arg.n
    if length == pickletools.UP_TO_NEWLINE:
        if opcode.name in ("GLOBAL", "INST"):
            return stream.line(), stream.line()
        line = stream.line()
        return int(line) if opcode.name in ("GET", "PUT") and line.isdecimal() else None
    if length >= 0:
        argument = stream.read(length)
        return int.from_bytes(argument, "little") if opcode.name.endswith(("GET", "PUT")) else None
    form = _LENGTHS[length]
    (length,) = struct.unpack(form, stream.read(struct.calcsize(form)))
    if opcode.name in _TEXTS and length <= _TEXT_CAP:
        return stream.read(length).decode("utf-8", "replace")
    stream.skip(length)
    return None


class _Sequential:
    """The bytes of a file that can only be read from its beginning, up to the limit of the budget."""

    def __init__(self, file, budget):
        self._file = file
        self._budget = budget

    def read(self, n):
        """Returns exactly this many bytes."""
        data = self._file.read(n) if n <= self._budget.n_bytes else b""
        if len(data) != n:
            raise _NoPickle
        self._budget.n_bytes -= n
        return data

    def line(self):
        line = bytearray()
        while not line.endswith(b"\n"):
            line += self.read(1)
            if len(line) > _TEXT_CAP:
                raise _NoPickle
        return line[:-1].decode("utf-8", "replace")

    def skip(self, n):
        while n:
            part = min(n, 1 << 20)
            self.read(part)
            n -= part

    def rest(self):
        """Returns the bytes that were not read, as far as the limit allows."""
        data = self._file.read(self._budget.n_bytes)
        self._budget.n_bytes -= len(data)
        return data


class _Seekable(_Sequential):
    """The bytes of a file, of which long values are skipped."""

    def skip(self, n):
        place = self._file.tell() + n
        if place > os.fstat(self._file.fileno()).st_size:
            raise _NoPickle
        self._file.seek(place)


def _decompressed(file, decompressor, budget):
    """Returns the beginning of what a file has in compressed form."""
    try:
        return decompressor.decompress(file.read(budget.n_bytes), budget.n_bytes)
    except (zlib.error, lzma.LZMAError, OSError):
        return b""
