"""Converts the values that a model returned into the tensors of a message (spec/runner-protocol.md, section 6).

Sending takes three steps. :meth:`Encoder.encode` converts every output, and copies those in ordinary memory. Then the
caller drops its references to the outputs. :meth:`Encoded.settle` finds the arrays of the pool that the model still keeps: the
model may write to them, so they are copied as well. All others are passed on without a copy.
"""

import json
import struct

from carton_runner import structure
from carton_runner.arrays import Arrays, type_name
from carton_runner.errors import RunnerError
from carton_runner.pool import THRESHOLD

#: Inline tensors start at multiples of this many bytes in a frame.
_ALIGNMENT = 64
_PADDING = bytes(_ALIGNMENT)
#: A part of a larger buffer below this size is copied into the frame, which is cheaper than lending it.
_SMALL_PART = 4 << 10


class Encoder:
    """Encodes outputs. ``use`` sets NumPy once the model's environment is active."""

    def __init__(self, roots, host_memory, pool):
        self.roots = roots
        self.host_memory = host_memory
        self.pool = pool
        self.numpy = None
        self.arrays = Arrays()
        self.names = {}

    def take(self, dtypes):
        """Sets the names of the dtypes beyond format v1 that the host takes. Called before :meth:`use`."""
        self.arrays.taken = frozenset(dtypes)

    def use(self, numpy):
        """Sets the NumPy of the model."""
        self.numpy = numpy
        self.arrays.use(numpy)

    def encode(self, outputs, declared):
        """Encodes ``outputs``, the values that the model returned by the names that they have in the model. ``declared`` are the
        ``structure.DeclaredOutputs``."""
        encoded = Encoded(self)
        try:
            for name, value in structure.leaves(outputs, declared, self.numpy):
                name = declared.renamed.get(name, name)
                encoded.add(name, self.names.get(name) or self._quote(name), value, declared.dtypes.get(name))
        except BaseException:
            encoded.abandon()
            raise
        return encoded

    def _quote(self, name):
        try:
            name.encode()
        except UnicodeEncodeError:
            raise RunnerError("the name of an output is no text in Unicode: %r" % name) from None
        quoted = json.dumps(name)
        if len(self.names) < 1024:
            self.names[name] = quoted
        return quoted


class Encoded:
    """Outputs ready to be sent."""

    def __init__(self, encoder):
        self._encoder = encoder
        #: Descriptions of tensors as JSON, in order; only their beginnings for tensors that are settled later.
        self.wires = []
        #: The bytes of the frame after its JSON.
        self.parts = []
        self.n_bytes = 0
        #: Arrays over memory of the host, kept until the message that names them is sent.
        self.parting = []
        # Buffers of the pool to be lent, with the offsets that name them.
        self._lends = []
        # Arrays of the pool that the model may still keep, with their positions in `wires`.
        self._doubtful = []

    def add(self, name, quoted, value, wanted):
        """Adds one output. ``wanted`` is its declared dtype, if there is one."""
        if isinstance(value, structure.Nested):
            return self._add_nested(name, quoted, value, wanted)
        array, kind = self._encoder.arrays.array(name, value, wanted)
        self.wires.append(self._tensor(name, '"name":%s,' % quoted, array, kind, len(self.wires)))
        return None

    def _add_nested(self, name, quoted, value, wanted):
        arrays = self._encoder.arrays
        inner = [
            None if element is structure.EMPTY else arrays.array("%s[%d]" % (name, index), element, wanted)
            for index, element in enumerate(value)
        ]
        kinds = list(dict.fromkeys(one[1] for one in inner if one is not None))
        if len(kinds) > 1:
            raise RunnerError("the elements of output `%s` are %s and %s: they must be of one dtype" % (name, kinds[0], kinds[1]))
        kind = kinds[0] if kinds else wanted or "float64"
        wires = []
        for index, one in enumerate(inner):
            array = arrays.empty(kind) if one is None else one[0]
            wires.append(self._tensor("%s[%d]" % (name, index), "", array, kind, None))
        self.wires.append('{"name":%s,"dtype":"nested","inner":[%s]}' % (quoted, ",".join(wires)))

    def _tensor(self, name, named, array, kind, index):
        shape = list(array.shape)
        start = '{%s"dtype":"%s","shape":%s,"data":{' % (named, kind, shape)
        if kind == "string" or kind == "bytes":
            return "%s%s}}" % (start, self._block(_objects_block(name, array.ravel().tolist(), kind)))
        n_bytes = array.nbytes
        if n_bytes >= _SMALL_PART and self._encoder.pool.is_in_use:
            shared = self._shared(array, n_bytes, start, index)
            if shared is not None:
                return shared
            if n_bytes >= THRESHOLD:
                return "%s%s}}" % (start, self._pooled(array, n_bytes))
        return "%s%s}}" % (start, self._inline(array.tobytes(), n_bytes))

    def _shared(self, array, n_bytes, start, index):
        """Returns the description of an array that is in shared memory already; ``None`` if it has to be copied."""
        if not array.flags.c_contiguous:
            return None
        hold, root = self._encoder.roots.find(array)
        if hold is None:
            return None
        offset = hold.offset + _address(array) - _address(root)
        # A view made with stride tricks may reach beyond its root.
        if offset < hold.offset or offset + n_bytes > hold.offset + hold.length or offset % _alignment(array):
            return None
        if hold.buffer is None:
            self.parting.append(root)
            return _shared_json(start, "host", hold.region, offset, n_bytes)
        if index is None:
            # Elements of nested tensors are copied, because `settle` does not handle elements of lists.
            return None
        self._encoder.pool.hold(hold.buffer)
        if hold.buffer.is_shared:
            # The buffer was lent before, so nothing writes to it any more.
            self._lends.append((hold.buffer, offset))
            return _shared_json(start, "runner", hold.region, offset, n_bytes)
        self._doubtful.append((index, hold, offset, n_bytes, start))
        return start

    def _pooled(self, array, n_bytes):
        """Copies an array into the pool."""
        buffer = self._encoder.pool.take(n_bytes)
        numpy = self._encoder.numpy
        numpy.copyto(numpy.ndarray(array.shape, array.dtype, buffer.region.memory, buffer.offset), array)
        return self._lend(buffer, n_bytes)

    def _block(self, block):
        n_bytes = len(block)
        if n_bytes < THRESHOLD or not self._encoder.pool.is_in_use:
            return self._inline(block, n_bytes)
        buffer = self._encoder.pool.take(n_bytes)
        buffer.region.memory[buffer.offset : buffer.offset + n_bytes] = block
        return self._lend(buffer, n_bytes)

    def _lend(self, buffer, n_bytes):
        self._lends.append((buffer, buffer.offset))
        return '"shared":{"owner":"runner","region":%d,"offset":%d,"length":%d}' % (
            buffer.region.number,
            buffer.offset,
            n_bytes,
        )

    def _inline(self, data, n_bytes):
        offset = self.n_bytes
        padding = -offset % _ALIGNMENT
        if padding:
            self.parts.append(_PADDING[:padding])
            offset += padding
        self.parts.append(data)
        self.n_bytes = offset + n_bytes
        return '"inline":{"offset":%d,"length":%d}' % (offset, n_bytes)

    def settle(self):
        """Decides which arrays of the pool are passed on without a copy. The caller must have dropped the outputs before."""
        while self._doubtful:
            index, hold, offset, n_bytes, start = self._doubtful.pop()
            buffer = hold.buffer
            if hold() is None:
                self._lends.append((buffer, offset))
                self.wires[index] = _shared_json(start, "runner", hold.region, offset, n_bytes)
                continue
            try:
                self.wires[index] = "%s%s}}" % (start, self._copied(buffer, offset, n_bytes))
            finally:
                self._encoder.pool.drop(buffer)

    def _copied(self, buffer, offset, n_bytes):
        copy = self._encoder.pool.take(n_bytes)
        with memoryview(buffer.region.memory) as source, memoryview(copy.region.memory) as target:
            target[copy.offset : copy.offset + n_bytes] = source[offset : offset + n_bytes]
        return self._lend(copy, n_bytes)

    def lend(self, announce):
        """Lends the buffers that the message names. The message must be sent next."""
        pool = self._encoder.pool
        lends, self._lends = self._lends, []
        for buffer, offset in lends:
            pool.lend(buffer, offset, announce)

    def abandon(self):
        """Drops all buffers, because the message is not sent."""
        pool = self._encoder.pool
        while self._doubtful:
            pool.drop(self._doubtful.pop()[1].buffer)
        while self._lends:
            pool.drop(self._lends.pop()[0])
        self.parting.clear()
        self.parts.clear()


def _shared_json(start, owner, region, offset, n_bytes):
    place = '"shared":{"owner":"%s","region":%d,"offset":%d,"length":%d}' % (owner, region, offset, n_bytes)
    return "%s%s}}" % (start, place)


def _alignment(array):
    """The bytes whose multiples the offset of an array has to be: those of an element, for complex numbers of a part of it."""
    return array.itemsize // 2 if array.dtype.kind == "c" else array.itemsize


def _address(array):
    return array.__array_interface__["data"][0]


def _objects_block(name, elements, kind):
    """Returns the block of a tensor of strings or bytes: ``n + 1`` offsets into the text, and the text."""
    encoded = []
    offsets = [0]
    end = 0
    for element in elements:
        if kind == "bytes":
            if not isinstance(element, bytes):
                problem = "output `%s` holds a %s where only bytes are expected" % (name, type_name(element))
                raise RunnerError(problem, hint="return bytes alone; text as bytes is `text.encode()`")
            data = element
        elif not isinstance(element, str):
            hint = "return text alone, or numbers as an array of a numeric dtype: an array of dtype object is one of text or bytes"
            raise RunnerError("output `%s` holds a %s where only text is expected" % (name, type_name(element)), hint=hint)
        else:
            try:
                data = element.encode()
            except UnicodeEncodeError:
                raise RunnerError("output `%s` holds what is no text in Unicode: %r" % (name, element[:100])) from None
        encoded.append(data)
        end += len(data)
        offsets.append(end)
    encoded.insert(0, struct.pack("<%dQ" % len(offsets), *offsets))
    return b"".join(encoded)
