"""Converts the values that a model returned into the tensors of a message (spec/runner-protocol.md, section 6).

Sending takes three steps. :meth:`Encoder.encode` converts every output, and copies those in ordinary memory. Then the
caller drops its references to the outputs. :meth:`Encoded.settle` finds the arrays of the pool that the model still keeps: the
model may write to them, so they are copied as well. All others are passed on without a copy.
"""

import json
import struct
from collections.abc import Mapping

from carton_runner.errors import RunnerError
from carton_runner.pool import THRESHOLD

#: Inline tensors start at multiples of this many bytes in a frame.
_ALIGNMENT = 64
_PADDING = bytes(_ALIGNMENT)
#: A part of a larger buffer below this size is copied into the frame, which is cheaper than lending it.
_SMALL_PART = 4 << 10
#: The dtypes of which `float32` holds each value. NumPy has the second one from the package `ml_dtypes`.
_HALVES = frozenset(("float16", "bfloat16"))
#: Hints for dtypes that Carton does not have.
_ADVICE = {
    "longdouble": "round it in the model, such as with `.astype(numpy.float64)`",
    "c": "return its real and imaginary parts as two outputs",
    "M": "return the time as int64: `.astype(numpy.int64)` counts in the unit of the dtype, and the output's description should name it",
    "m": "return the duration as int64: `.astype(numpy.int64)` counts in the unit of the dtype, and the output's description should name it",
    "S": "return text, such as with `numpy.char.decode(output, 'utf-8')`",
    "V": "return its fields as outputs of their own",
}


class Encoder:
    """Encodes outputs. ``use`` sets NumPy once the model's environment is active."""

    def __init__(self, roots, host_memory, pool):
        self.roots = roots
        self.host_memory = host_memory
        self.pool = pool
        self.numpy = None
        self.names = {}
        self.native = {}

    def use(self, numpy):
        """Sets the NumPy of the model."""
        self.numpy = numpy
        names = ("float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
        self.native = {numpy.dtype(name): name for name in names}

    def encode(self, outputs, declared):
        """Encodes ``outputs``, a dict of the values that the model returned. ``declared`` has the dtypes of the signature by
        name."""
        encoded = Encoded(self)
        try:
            for name, value in outputs.items():
                quoted = self.names.get(name) if type(name) is str else None
                encoded.add(name, quoted or self._quote(name), value, declared)
        except BaseException:
            encoded.abandon()
            raise
        return encoded

    def _quote(self, name):
        if not isinstance(name, str):
            raise RunnerError("the names of outputs are text, found %r" % (name,))
        name = str(name)
        try:
            name.encode()
        except UnicodeEncodeError:
            raise RunnerError("the name of an output is no text in Unicode: %r" % name) from None
        quoted = json.dumps(name)
        if len(self.names) < 1024:
            self.names[name] = quoted
        return quoted

    # Conversion of Python values to arrays.

    def array(self, name, value, declared):
        """Returns ``value`` as an array of a dtype that Carton has, in the byte order of this machine, and the name of that
        dtype, which is ``string`` for arrays of text."""
        numpy = self.numpy
        if type(value) is not numpy.ndarray:
            value = self._as_array(name, value, declared)
        dtype = value.dtype
        found = self.native.get(dtype)
        if found is not None:
            return value, found
        kind = dtype.kind
        if kind == "b":
            return value.view(numpy.uint8), "uint8"
        if kind in "OUT":
            return value, "string"
        if dtype.name in _HALVES:
            return value.astype(numpy.float32), "float32"
        if not dtype.isnative:
            # A large array is copied a second time later, which is acceptable because this byte order is rare.
            return self.array(name, value.astype(dtype.newbyteorder("=")), declared)
        raise self._unsupported(name, dtype)

    def _unsupported(self, name, dtype):
        kind = "longdouble" if dtype.kind == "f" and dtype.itemsize > 8 else dtype.kind
        if kind == "V" and dtype.names is None:
            # A number of another package, such as the float8 of `ml_dtypes`.
            kind = None
        advice = _ADVICE.get(dtype.name) or _ADVICE.get(kind) or "return it as one of float32 … uint64, or as text"
        return RunnerError("output `%s` has the dtype %s, which Carton has no name for" % (name, dtype), hint=advice)

    def _as_array(self, name, value, declared):
        numpy = self.numpy
        if value is None:
            hint = "return an array, a number or text for each output; NaN or an empty array can stand for none"
            raise RunnerError("output `%s` is None" % name, hint=hint)
        if isinstance(value, numpy.ma.MaskedArray):
            hint = "fill it, such as with `.filled(0)`"
            raise RunnerError("output `%s` is a masked array, and Carton has no masks" % name, hint=hint)
        if isinstance(value, (numpy.ndarray, numpy.generic)):
            return numpy.asarray(value)
        plain = isinstance(value, (bool, int, float, str, list, tuple))
        if not plain and not hasattr(value, "__array__"):
            raise RunnerError("output `%s` is a %s, which is no tensor" % (name, _type_name(value)), hint=_WHAT_IS_A_TENSOR)
        if isinstance(value, str):
            array = numpy.empty((), dtype=object)
            array[()] = value
            return array
        wanted = declared.get(name)
        if isinstance(value, (list, tuple)):
            if wanted == "string" or _has_text(value):
                return self._array_of_text(name, value)
        try:
            array = numpy.asarray(_without_bfloat16(value))
        except (ValueError, OverflowError, TypeError) as error:
            _check_list(name, value)
            described = "output `%s` is a %s that is no tensor: %s" % (name, _type_name(value), error)
            raise RunnerError(described, hint=_WHAT_IS_A_TENSOR) from error
        if plain and array.dtype.kind not in "biuf":
            _check_list(name, value)
        if plain and array.dtype.kind in "fO" and array.size and _are_integers(value):
            # NumPy makes floats of them, or objects.
            raise RunnerError("the integers in output `%s` fit no dtype, neither int64 nor uint64" % name)
        if array.dtype == object:
            what = "output `%s` is a %s of what is neither numbers nor text" % (name, _type_name(value))
            raise RunnerError(what, hint=_WHAT_IS_A_TENSOR)
        if plain and wanted and wanted != "string" and array.dtype.name != wanted:
            # Python's numbers have no dtype, so the declared one is used. No number is ever rounded to an integer.
            dtype = numpy.dtype(wanted)
            if not array.size or self._fits(array, dtype):
                return array.astype(dtype)
        return array

    def _fits(self, array, dtype):
        """Whether numbers of Python can have a dtype: floats by rounding, but not to an infinity."""
        numpy = self.numpy
        if dtype.kind == "f":
            if array.dtype.kind != "f" or dtype.itemsize >= array.dtype.itemsize:
                return array.dtype.kind in "fiub"
            with numpy.errstate(over="ignore"):
                return bool((numpy.isfinite(array.astype(dtype)) == numpy.isfinite(array)).all())
        if array.dtype.kind not in "iub":
            return False
        limits = numpy.iinfo(dtype)
        return limits.min <= int(array.min()) and int(array.max()) <= limits.max

    def _array_of_text(self, name, value):
        """Converts a list of texts, or nested lists of texts. NumPy's own conversion would cut NULs from the ends of texts, so the
        elements are stored as objects."""
        shape = []
        level = value
        while isinstance(level, (list, tuple)):
            shape.append(len(level))
            if not level:
                break
            level = level[0]
        flat = [value]
        for length in shape:
            if any(not isinstance(part, (list, tuple)) or len(part) != length for part in flat):
                raise _ragged(name)
            flat = [element for part in flat for element in part]
        array = self.numpy.empty(len(flat), dtype=object)
        for index, element in enumerate(flat):
            array[index] = element
        return array.reshape(shape)


def _type_name(value):
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else "%s.%s" % (kind.__module__, kind.__name__)


#: The most dimensions of an array. A list that holds itself has no end.
_MAX_DEPTH = 64

#: What models return, for messages.
_WHAT_IS_A_TENSOR = "return NumPy arrays, numbers, text, or lists of them; arrays in a list may have several shapes"


def _has_text(value):
    """Whether the first element at the bottom of nested lists is text."""
    for _ in range(_MAX_DEPTH):
        if isinstance(value, (list, tuple)) and value:
            value = value[0]
    return isinstance(value, str)


def _check_list(name, value):
    """Says why nested lists are not the numbers of a tensor, if the reason is in them. NumPy itself makes text of numbers beside text, and
    objects of ``None``."""
    to_visit = [value]
    depth = 0
    while to_visit:
        depth += 1
        if depth > _MAX_DEPTH:
            raise RunnerError("output `%s` is lists in lists, %d deep or more" % (name, _MAX_DEPTH), hint=_WHAT_IS_A_TENSOR)
        # All lists of one depth.
        lists = [one for one in to_visit if isinstance(one, (list, tuple))]
        others = [one for one in to_visit if not isinstance(one, (list, tuple))]
        for other in others:
            if other is None:
                hint = "return numbers alone; NaN can stand for one that is missing"
                raise RunnerError("output `%s` is a list that holds None" % name, hint=hint)
            if isinstance(other, str):
                hint = "return numbers and text as outputs of their own"
                raise RunnerError("output `%s` is a list of numbers that holds text: %r" % (name, other[:100]), hint=hint)
        lengths = {len(one) for one in lists}
        if len(lengths) > 1 or (lists and others):
            raise _ragged(name)
        # A list may stand in its own level twice, and in all that follow.
        to_visit = [element for one in {id(one): one for one in lists}.values() for element in one]


def _ragged(name):
    hint = "return a list of NumPy arrays, which may have several shapes: `[numpy.array(row) for row in rows]`"
    return RunnerError("the lists in output `%s` have different lengths" % name, hint=hint)


def _are_integers(value):
    """Whether a value, or each in nested lists, is an integer."""
    to_visit = [value]
    while to_visit:
        one = to_visit.pop()
        if isinstance(one, (list, tuple)):
            to_visit += one
        elif not isinstance(one, int):
            return False
    return True


def _without_bfloat16(value):
    """A tensor of PyTorch as one that NumPy has, with the same values."""
    if str(getattr(value, "dtype", "")) == "torch.bfloat16":
        return value.float()
    return value


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

    def add(self, name, quoted, value, declared):
        """Adds one output."""
        numpy = self._encoder.numpy
        if isinstance(value, (list, tuple)) and any(isinstance(element, numpy.ndarray) for element in value):
            return self._add_nested(name, quoted, value, declared)
        self.wires.append(self._tensor(name, '"name":%s,' % quoted, value, declared, len(self.wires)))
        return None

    def _add_nested(self, name, quoted, value, declared):
        inner = []
        first = None
        for index, element in enumerate(value):
            inner_name = "%s[%d]" % (name, index)
            array, kind = self._encoder.array(inner_name, element, declared)
            first = first or kind
            if kind != first:
                raise RunnerError("the elements of output `%s` are %s and %s: they must be of one dtype" % (name, first, kind))
            inner.append(self._tensor(inner_name, "", array, declared, None))
        self.wires.append('{"name":%s,"dtype":"nested","inner":[%s]}' % (quoted, ",".join(inner)))

    def _tensor(self, name, named, value, declared, index):
        array, kind = self._encoder.array(name, value, declared)
        shape = str(list(array.shape))
        start = '{%s"dtype":"%s","shape":%s,"data":{' % (named, kind, shape)
        if kind == "string":
            return "%s%s}}" % (start, self._block(_strings_block(name, array.ravel().tolist())))
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
        if offset < hold.offset or offset + n_bytes > hold.offset + hold.length or offset % array.itemsize:
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


def _address(array):
    return array.__array_interface__["data"][0]


def _strings_block(name, texts):
    """Returns the block of a string tensor: ``n + 1`` offsets into the text, and the text."""
    encoded = []
    offsets = [0]
    end = 0
    for text in texts:
        if not isinstance(text, str):
            hint = "return text alone, or numbers as an array of a numeric dtype: an array of dtype object is one of text"
            raise RunnerError("output `%s` holds a %s where only text is expected" % (name, _type_name(text)), hint=hint)
        try:
            data = text.encode()
        except UnicodeEncodeError:
            raise RunnerError("output `%s` holds what is no text in Unicode: %r" % (name, text[:100])) from None
        encoded.append(data)
        end += len(data)
        offsets.append(end)
    encoded.insert(0, struct.pack("<%dQ" % len(offsets), *offsets))
    return b"".join(encoded)


def by_name(result, declared):
    """Returns the values that a model returned by the names of the outputs: a dict unchanged, anything else in the order of the
    declared outputs."""
    if isinstance(result, Mapping):
        return result
    hint = "return a dict of the outputs by name"
    if not declared:
        problem = "the model returned a %s, and the carton declares no outputs that it could be" % _type_name(result)
        raise RunnerError(problem, hint=hint)
    if isinstance(result, list) and len(declared) > 1:
        result = tuple(result)
    if not isinstance(result, tuple):
        result = (result,)
    if len(result) != len(declared):
        problem = "the model returned %d outputs, the carton declares %d (%s)"
        raise RunnerError(problem % (len(result), len(declared), ", ".join(declared)), hint=hint)
    return dict(zip(declared, result))
