"""The floats that NumPy lacks, `bfloat16` and `float8_…`: as arrays of the package `ml_dtypes`, or as tensors of PyTorch.

Neither package is imported before such a tensor comes, or is declared for numbers of Python.
"""

import importlib

from carton_runner.errors import RunnerError

#: The bytes of an element.
SIZES = {"bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1}
#: The integers of NumPy and of PyTorch that hold the bits of an element, by its size.
BITS = {1: ("uint8", "uint8"), 2: ("uint16", "int16")}
#: The functions that make what models get of the bits, by dtype.
_opened = {}


class Bits:
    """An input of such a dtype before the model gets it. It is opened on the model's thread, because that may import a package."""

    __slots__ = ("array", "kind")

    def __init__(self, array, kind):
        self.array = array
        self.kind = kind

    def opened(self, name, writable, is_writable):
        """Returns what a model gets. ``writable`` makes a writable array of another; ``is_writable`` says whether the model's inputs are."""
        kind = self.kind
        if kind not in _opened:
            _opened[kind] = _function(kind, name)
        of_torch, function = _opened[kind]
        # PyTorch has no tensors that are read-only, and a write to the host's memory would end the process.
        return function(writable(self.array) if of_torch or is_writable else self.array)


class WithBits(dict):
    """Inputs by name, some of which are :class:`Bits`, or lists of them."""


def numpy_dtype(kind):
    """Returns NumPy's dtype of that name; ``None`` if `ml_dtypes` is not installed, or lacks it."""
    module = _module("ml_dtypes")
    found = getattr(module, kind, None)
    if found is None:
        return None
    import numpy

    return numpy.dtype(found)


def _function(kind, name):
    dtype = numpy_dtype(kind)
    if dtype is not None:
        return False, lambda array: array.view(dtype)
    torch = _module("torch")
    of_torch = getattr(torch, kind, None)
    if of_torch is not None:
        bits = BITS[SIZES[kind]][1]
        return True, lambda array: torch.from_numpy(array.view(bits)).view(of_torch)
    hint = "add `ml_dtypes` to the model's requirements.txt, for NumPy arrays of this dtype, or `torch`, for tensors, and pack the model again"
    problem = "input `%s` is of %s, which needs the package ml_dtypes or torch, and neither that is installed has it" % (name, kind)
    raise RunnerError(problem, code="unavailable", hint=hint)


def _module(name):
    try:
        return importlib.import_module(name)
    except ImportError:
        return None
