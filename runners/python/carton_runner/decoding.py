"""Converts the tensors of a message to NumPy arrays (spec/runner-protocol.md, section 6).

The arrays are read-only views of the bytes of the frame, or of the host's memory. Every range, shape and string is
checked; strings are checked in a copy that the host cannot change.
"""

import struct
import sys

from carton_runner import small_floats
from carton_runner.errors import ProtocolError, RunnerError
from carton_runner.frames import malformed

_U64 = 1 << 64
_MAX_RANK = 64
#: Sizes of the elements in bytes.
SIZES = {
    "float32": 4,
    "float64": 8,
    "int8": 1,
    "int16": 2,
    "int32": 4,
    "int64": 8,
    "uint8": 1,
    "uint16": 2,
    "uint32": 4,
    "uint64": 8,
    "bool": 1,
    "float16": 2,
    **small_floats.SIZES,
    "complex64": 8,
    "complex128": 16,
}
#: A tensor below the first size is copied out of a frame above the second size, so that it does not keep the frame in memory.
_SMALL, _LARGE_FRAME = 16 << 10, 64 << 10
_NESTED_TWICE = "a nested tensor inside a nested one"


class Decoder:
    """Makes arrays of the host's tensors. ``use`` sets NumPy once the model's environment is active."""

    def __init__(self, host_memory, pool):
        self._host_memory = host_memory
        self._pool = pool
        self._numpy = None
        self._dtypes = {}
        #: Whether the inputs that are decoded have tensors of `small_floats`.
        self._has_bits = False

    def use(self, numpy):
        """Sets the NumPy of the model."""
        self._numpy = numpy
        of_bits = {name: small_floats.BITS[size][0] for name, size in small_floats.SIZES.items()}
        self._dtypes = {name: numpy.dtype(of_bits.get(name, name)) for name in SIZES}

    def decode(self, message, wires, body):
        """Returns the inputs by name. Raises :class:`ProtocolError` for tensors that no host may send, and
        :class:`RunnerError` for tensors that NumPy cannot hold."""
        if type(wires) is not list:
            raise malformed(message, "its tensors are no list")
        arrays = {}
        problem = None
        # An earlier call may have failed.
        self._has_bits = False
        for wire in wires:
            if type(wire) is not dict:
                raise malformed(message, "a tensor is no object")
            name = wire.get("name", "")
            if type(name) is not str:
                raise malformed(message, "the name of a tensor is no text")
            if name in arrays:
                raise ProtocolError("tensor `%s`: it is there twice" % name)
            try:
                arrays[name] = self._tensor(wire, body, False)
            except _Malformed as error:
                raise malformed(message, "tensor `%s`: %s" % (name, error)) from None
            except _Wrong as error:
                raise ProtocolError("tensor `%s`: %s" % (name, error)) from None
            except (ValueError, OverflowError, MemoryError) as error:
                # The other tensors are decoded nevertheless, because their lent memory has to be given back.
                problem = RunnerError("NumPy cannot hold the input `%s`: %s" % (name, error))
                arrays[name] = None
        if problem is not None:
            raise problem
        if self._has_bits:
            return small_floats.WithBits(arrays)
        return arrays

    def discard(self, wires, inside_nested=False):
        """Gives back the memory that the host lends with tensors that are not decoded."""
        for wire in wires if type(wires) is list else ():
            if type(wire) is dict:
                inner = wire.get("inner")
                if inner:
                    if inside_nested:
                        # JSON can be nested deeper than Python's recursion limit.
                        raise ProtocolError(_NESTED_TWICE)
                    self.discard(inner, True)
                if wire.get("data") is not None:
                    place, owner, region, offset, _ = _data(wire["data"])
                    if place == "shared" and owner == "host":
                        self._host_memory.give_back(region, offset)

    def _tensor(self, wire, body, inside_nested):
        kind = wire.get("dtype")
        size = SIZES.get(kind) if type(kind) is str else None
        if size is None and kind != "string" and kind != "bytes":
            if kind == "nested":
                return self._nested(wire, body, inside_nested)
            raise _Malformed("there is no dtype %r" % (kind,))
        shape = wire.get("shape", ())
        if (type(shape) is not list and shape != ()) or len(shape) > _MAX_RANK:
            raise _Malformed("its shape is no list of at most %d dimensions" % _MAX_RANK)
        count = 1
        for dimension in shape:
            if type(dimension) is not int or not 0 <= dimension < _U64:
                raise _Malformed("a dimension is no integer from 0 to 2^64 - 1")
            count *= dimension
        place, owner, region, offset, length = _data(wire.get("data"))
        if size is None:
            return self._strings(kind, count, shape, place, owner, region, offset, length, body)
        if count * size != length:
            raise _Wrong("shape %s of %s needs %d bytes, found %d" % (list(shape), kind, count * size, length))
        array = self._numbers(kind, shape, place, owner, region, offset, length, body)
        if kind == "bool":
            # NumPy computes nonsense with other bytes.
            if count and array.view("uint8").max() > 1:
                raise _Wrong("an element is neither 0 nor 1, the values of bool")
        elif kind in small_floats.SIZES:
            self._has_bits = True
            return small_floats.Bits(array, kind)
        return array

    def _numbers(self, kind, shape, place, owner, region, offset, length, body):
        dtype = self._dtypes[kind]
        alignment = dtype.itemsize // 2 if dtype.kind == "c" else dtype.itemsize
        if place == "inline":
            if offset + length > len(body):
                raise _outside(length, offset, len(body))
            if (length < _SMALL and len(body) > _LARGE_FRAME) or offset % alignment:
                body, offset = bytes(body[offset : offset + length]), 0
            return self._numpy.ndarray(shape, dtype, body, offset)
        if offset % alignment:
            raise _Wrong("its data is not aligned to %d bytes" % alignment)
        if owner == "runner":
            return self._own(region, offset, length, shape, dtype)
        try:
            memory = self._host_memory.region(region, offset, length)
        except ValueError as error:
            raise _Wrong(str(error)) from None
        try:
            array = self._numpy.ndarray(shape, dtype, memory, offset)
        except BaseException:
            self._host_memory.give_back(region, offset)
            raise
        self._host_memory.lend(array, region, offset, length)
        return array

    def _own(self, region, offset, length, shape, dtype):
        """Returns an array over memory that this side lent and now gets back as an input."""
        array = self._pool.array(self._lent(region, offset, length), offset, shape, dtype)
        array.flags.writeable = False
        return array

    def _lent(self, region, offset, length):
        buffer = self._pool.find(region, offset, length)
        if buffer is None:
            raise _Wrong("%d bytes at offset %d of region %d do not lie inside a lent buffer" % (length, offset, region))
        return buffer

    def _strings(self, kind, count, shape, place, owner, region, offset, length, body):
        if place == "inline":
            if offset + length > len(body):
                raise _outside(length, offset, len(body))
            block = bytes(body[offset : offset + length])
        elif owner == "runner":
            buffer = self._lent(region, offset, length)
            block = bytes(memoryview(buffer.region.memory)[offset : offset + length])
            self._pool.drop(buffer)
        else:
            try:
                memory = self._host_memory.region(region, offset, length)
            except ValueError as error:
                raise _Wrong(str(error)) from None
            # The host could change a string between its check and its use.
            block = memory[offset : offset + length]
            self._host_memory.give_back(region, offset)
        elements = read_strings(count, block) if kind == "string" else read_elements(count, block)
        array = self._numpy.empty(count, dtype=object)
        array[:] = elements
        array = array.reshape(shape)
        array.flags.writeable = False
        return array

    def _nested(self, wire, body, inside_nested):
        if inside_nested:
            raise _Wrong(_NESTED_TWICE)
        inner = wire.get("inner", ())
        if type(inner) is not list and inner != ():
            raise _Malformed("`inner` is no list")
        arrays = []
        kind = None
        for element in inner:
            if type(element) is not dict:
                raise _Malformed("an element of a nested tensor is no object")
            kind = kind or element.get("dtype")
            if element.get("dtype") != kind:
                raise _Wrong("the elements of a nested tensor have different dtypes")
            arrays.append(self._tensor(element, body, True))
        return arrays


class _Malformed(ProtocolError):
    """Fields of the wrong type."""


class _Wrong(ProtocolError):
    """Fields that contradict each other."""


def _outside(length, offset, found):
    return _Wrong("%d bytes at %d do not lie inside the %d bytes of the frame" % (length, offset, found))


def _data(data):
    """Returns the location of elements: ``inline`` or ``shared``, owner, region, offset, length."""
    if type(data) is not dict or len(data) != 1:
        raise _Wrong("it has no data") if data is None else _Malformed("`data` is not one place")
    ((place, fields),) = data.items()
    if type(fields) is not dict or place not in ("inline", "shared"):
        raise _Malformed("`data` is neither `inline` nor `shared`")
    offset, length = fields.get("offset"), fields.get("length")
    owner = region = None
    if place == "shared":
        owner, region = fields.get("owner"), fields.get("region")
        if owner not in ("host", "runner") or type(region) is not int or not 0 <= region < _U64:
            raise _Malformed("`shared` names no region of the host or the runner")
    if type(offset) is not int or type(length) is not int or not 0 <= offset < _U64 or not 0 <= length < _U64:
        raise _Malformed("the offset or length of its data is no integer from 0 to 2^64 - 1")
    return place, owner, region, offset, length


def read_elements(count, block):
    """Reads ``count`` elements of any bytes from a block, which must be a copy that the host cannot change."""
    start_of_text = (count + 1) * 8
    if start_of_text > len(block):
        raise _Wrong("%d bytes cannot hold the offsets of %d strings" % (len(block), count))
    offsets = _offsets(count + 1, block[:start_of_text])
    text = block[start_of_text:]
    if offsets[0]:
        raise _Wrong("the first string does not start at 0")
    if offsets[count] != len(text):
        raise _Wrong("the last string ends at %d, the text at %d" % (offsets[count], len(text)))
    elements = []
    start = 0
    for index in range(1, count + 1):
        end = offsets[index]
        if end < start or end > len(text):
            raise _Wrong("string %d from %d to %d does not lie inside %d bytes of text" % (index - 1, start, end, len(text)))
        elements.append(text[start:end])
        start = end
    return elements


def read_strings(count, block):
    """Reads ``count`` strings from a block, as :func:`read_elements`."""
    texts = []
    for index, element in enumerate(read_elements(count, block)):
        try:
            texts.append(element.decode())
        except UnicodeDecodeError as error:
            raise _Wrong("string %d is not UTF-8: %s" % (index, error)) from None
    return texts


def _offsets(count, block):
    if sys.byteorder == "little":
        return memoryview(block).cast("Q")
    return struct.unpack("<%dQ" % count, block)
