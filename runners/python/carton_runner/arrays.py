"""Converts the values of a model to NumPy arrays of dtypes that the host takes (runners/python/README.md, "Outputs").

What the host does not take is sent as its carrier: `bool` as `uint8`, shorter floats as `float32`, complex numbers as pairs, bytes as base64.
"""

import base64
import sys

from carton_runner import small_floats
from carton_runner.errors import RunnerError

#: The dtypes of format v1 that are numbers.
_NUMBERS = ("float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
#: The dtypes beyond format v1, which a host announces if it takes them.
BEYOND = ("bool", "float16", *small_floats.SIZES, "complex64", "complex128", "bytes")
_OF_NUMPY = ("bool", "float16", "complex64", "complex128")
#: Hints for dtypes that Carton does not have.
_ADVICE = {
    "f": "round it in the model, such as with `.astype(numpy.float64)`",
    "c": "round it in the model, such as with `.astype(numpy.complex128)`",
    "M": "return the time as int64: `.astype(numpy.int64)` counts in the unit of the dtype, and the output's description should name it",
    "m": "return the duration as int64: `.astype(numpy.int64)` counts in the unit of the dtype, and the output's description should name it",
    "V": "return its fields as outputs of their own",
}
_OF_INTEGERS = "return it as int8 or uint8, which hold each of its values: `.astype(numpy.int8)`, `.astype(numpy.uint8)`"
_OF_FLOATS = "return it as float32, which holds each of its values: `.astype(numpy.float32)`"


class Arrays:
    """Makes arrays of values. ``use`` sets NumPy once the model's environment is active."""

    def __init__(self):
        self.numpy = None
        #: The dtypes beyond format v1 that the host takes.
        self.taken = frozenset()
        self._native = {}

    def use(self, numpy):
        """Sets the NumPy of the model."""
        self.numpy = numpy
        names = (*_NUMBERS, *(name for name in _OF_NUMPY if name in self.taken))
        self._native = {numpy.dtype(name): name for name in names}

    def array(self, name, value, wanted=None):
        """Returns ``value`` as an array in the byte order of this machine, and the name of its dtype. Elements of ``string`` and ``bytes``
        are Python objects. ``wanted`` is the declared dtype, which numbers of Python get if they fit."""
        if type(value) is not self.numpy.ndarray:
            if _is_of_torch(value):
                return self._of_torch(name, value)
            value = self._as_array(name, value, wanted)
        found = self._native.get(value.dtype)
        if found == "bool":
            return self._zeros_and_ones(value), found
        if found is not None:
            return value, found
        return self._other(name, value, wanted)

    def _zeros_and_ones(self, array):
        """Booleans without the bytes beyond 0 and 1 that views of other arrays may hold, and NumPy takes for true."""
        held = array.view(self.numpy.uint8)
        return held != 0 if array.size and held.max() > 1 else array

    def empty(self, kind):
        """Returns an array without elements, of one dimension, that is sent with the dtype of that name."""
        numpy = self.numpy
        if kind in small_floats.SIZES:
            return numpy.empty(0, small_floats.BITS[small_floats.SIZES[kind]][0])
        return numpy.empty(0, object if kind in ("string", "bytes") else kind)

    def _other(self, name, array, wanted):
        """As :meth:`array`, for arrays of other dtypes than those that are sent as they are."""
        numpy = self.numpy
        dtype = array.dtype
        kind = dtype.kind
        if kind in "OUTS":
            return self._of_objects(name, array.astype(object) if kind == "S" else array, wanted)
        if dtype.names is None and dtype.name in small_floats.SIZES:
            if dtype.name not in self.taken:
                return array.astype(numpy.float32), "float32"
            if dtype.isnative:
                self._native[dtype] = dtype.name
                return array, dtype.name
        if not dtype.isnative:
            # A large array is copied a second time later, which is acceptable because this byte order is rare.
            return self.array(name, array.astype(dtype.newbyteorder("=")), wanted)
        if kind == "b":
            return self._zeros_and_ones(array).view(numpy.uint8), "uint8"
        if kind == "f" and dtype.itemsize == 2:
            return array.astype(numpy.float32), "float32"
        if kind == "c" and dtype.itemsize <= 16:
            part = numpy.dtype("f%d" % (dtype.itemsize // 2))
            return numpy.ascontiguousarray(array).view(part).reshape((*array.shape, 2)), part.name
        raise self._unsupported(name, dtype)

    def _of_objects(self, name, array, wanted):
        """Tells arrays of bytes from those of text."""
        if wanted == "bytes" and array.size:
            # Text for bytes is its UTF-8. Sent as text it would be taken for base64.
            elements = array.ravel().tolist()
            if all(isinstance(one, str) for one in elements):
                try:
                    array = self._objects([one.encode() for one in elements], array.shape)
                except UnicodeEncodeError as error:
                    raise RunnerError("output `%s` holds what is no text in Unicode: %r" % (name, error.object[:100])) from None
        are_bytes = isinstance(array.flat[0], bytes) if array.size else wanted == "bytes"
        if not are_bytes:
            return array, "string"
        if "bytes" in self.taken:
            return array, "bytes"
        texts = [base64.b64encode(one).decode() if isinstance(one, bytes) else one for one in array.ravel().tolist()]
        return self._objects(texts, array.shape), "string"

    def _objects(self, elements, shape):
        array = self.numpy.empty(len(elements), dtype=object)
        for index, element in enumerate(elements):
            array[index] = element
        return array.reshape(shape)

    def _of_torch(self, name, value):
        """A tensor of PyTorch, without a copy if it is in ordinary memory. NumPy gets the bits of those that it has no dtype for."""
        torch = sys.modules["torch"]
        kind = str(value.dtype).rpartition(".")[2]
        try:
            value = value.detach().cpu().resolve_conj().resolve_neg()
            if kind not in small_floats.SIZES:
                return self.array(name, value.numpy())
            if kind not in self.taken:
                return self.array(name, value.float().numpy())
            of_numpy, of_torch = small_floats.BITS[small_floats.SIZES[kind]]
            return value.view(getattr(torch, of_torch)).numpy().view(of_numpy), kind
        except (TypeError, ValueError, RuntimeError) as error:
            if isinstance(error, RunnerError):
                raise
            described = "output `%s` is a %s of %s that is no tensor: %s" % (name, type_name(value), value.dtype, error)
            hint = "return a dense tensor of floats, integers, booleans or complex numbers"
            raise RunnerError(described, hint=hint) from error

    def _unsupported(self, name, dtype):
        advice = _ADVICE.get("V" if dtype.names is not None else dtype.kind)
        if dtype.kind == "V" and dtype.names is None or advice is None:
            # Numbers of `ml_dtypes`, such as `int4` and `float4_e2m1fn`.
            advice = _OF_INTEGERS if "int" in dtype.name else _OF_FLOATS if "float" in dtype.name else _WHAT_IS_A_TENSOR
        return RunnerError("output `%s` has the dtype %s, which Carton has no name for" % (name, dtype), hint=advice)

    def _as_array(self, name, value, wanted):
        numpy = self.numpy
        if value is None:
            hint = "return an array, a number or text; NaN or an empty array can stand for none"
            raise RunnerError("output `%s` is None" % name, hint=hint)
        if isinstance(value, numpy.ma.MaskedArray):
            hint = "fill it, such as with `.filled(0)`"
            raise RunnerError("output `%s` is a masked array, and Carton has no masks" % name, hint=hint)
        if isinstance(value, (str, bytes, bytearray)):
            # NumPy's own conversion would cut NULs off.
            return self._objects([str(value) if isinstance(value, str) else bytes(value)], ())
        if isinstance(value, (numpy.ndarray, numpy.generic)):
            return numpy.asarray(value)
        plain = isinstance(value, (bool, int, float, complex, list, tuple))
        if not plain and not hasattr(value, "__array__"):
            raise RunnerError("output `%s` is a %s, which is no tensor" % (name, type_name(value)), hint=_WHAT_IS_A_TENSOR)
        if isinstance(value, (list, tuple)):
            if wanted in ("string", "bytes") or _has_text(value):
                return self._array_of_text(name, value)
        try:
            array = numpy.asarray(value)
        except (ValueError, OverflowError, TypeError) as error:
            check_list(name, value)
            described = "output `%s` is a %s that is no tensor: %s" % (name, type_name(value), error)
            raise RunnerError(described, hint=_WHAT_IS_A_TENSOR) from error
        if plain and array.dtype.kind not in "biufc":
            check_list(name, value)
        if plain and array.dtype.kind in "fO" and array.size and _are_integers(value):
            # NumPy makes floats of them, or objects.
            raise RunnerError("the integers in output `%s` fit no dtype, neither int64 nor uint64" % name)
        if plain and array.dtype == object:
            what = "output `%s` is a %s of what is neither numbers nor text" % (name, type_name(value))
            raise RunnerError(what, hint=_WHAT_IS_A_TENSOR)
        if plain and wanted not in (None, "string", "bytes", "nested") and array.dtype.name != wanted:
            return self._as_declared(array, wanted)
        return array

    def _as_declared(self, array, wanted):
        """Numbers of Python, which have no dtype, with the declared one; unchanged if they do not fit. No number is ever rounded to an integer,
        nor to an infinity."""
        numpy = self.numpy
        kind = array.dtype.kind
        if wanted in small_floats.SIZES:
            # Without `ml_dtypes` as float32, which the host takes for this dtype if no element is rounded.
            dtype = small_floats.numpy_dtype(wanted) or numpy.dtype("float32")
            kinds = "biuf"
        else:
            dtype = numpy.dtype(wanted)
            kinds = {"f": "biuf", "c": "biufc"}.get(dtype.kind, "biu")
        if not array.size:
            return array.astype(dtype)
        if kind not in kinds:
            return array
        if dtype.kind == "b":
            return array.astype(dtype) if array.min() >= 0 and array.max() <= 1 else array
        if dtype.kind in "iu":
            limits = numpy.iinfo(dtype)
            fits = limits.min <= int(array.min()) and int(array.max()) <= limits.max
            return array.astype(dtype) if fits else array
        with numpy.errstate(over="ignore"):
            converted = array.astype(dtype)
        # The short floats have no function `isfinite` in some versions of `ml_dtypes`.
        seen = converted if dtype.kind in "fc" else converted.astype(numpy.float32)
        return converted if (numpy.isfinite(seen) == numpy.isfinite(array)).all() else array

    def _array_of_text(self, name, value):
        """Converts a list of texts or bytes, or nested lists of them. NumPy's own conversion would cut NULs from their ends, so the elements are
        stored as objects."""
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



def type_name(value):
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else "%s.%s" % (kind.__module__, kind.__name__)


#: The most dimensions of an array. A list that holds itself has no end.
_MAX_DEPTH = 64

#: What models return, for messages.
_WHAT_IS_A_TENSOR = "return NumPy arrays, numbers, text, or lists of them; arrays in a list may have several shapes"


def _has_text(value):
    """Whether the first element at the bottom of nested lists is text or bytes."""
    for _ in range(_MAX_DEPTH):
        if isinstance(value, (list, tuple)) and value:
            value = value[0]
    return isinstance(value, (str, bytes))


def check_list(name, value):
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
            if isinstance(other, (str, bytes)):
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


def _is_of_torch(value):
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, getattr(torch, "Tensor", ()))
