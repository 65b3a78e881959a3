"""The functions of the runner that a model can call.

    import carton_runner

    def infer(x):
        y = carton_runner.empty(x.shape, x.dtype)
        numpy.multiply(x, 2, out=y)
        return {"y": y}

Outside a runner (in a test of the model, in a process that the model started) everything here works too: arrays are
ordinary ones, and nothing is ever cancelled.
"""

__all__ = ["empty", "is_cancelled"]

#: The runner's process sets both; elsewhere they stay ``None``.
_pool = None
_call = None


def empty(shape, dtype=float):
    """Returns a new array like ``numpy.empty(shape, dtype)``, in memory shared with the caller of the model.

    If the model returns the array or a contiguous view of it as an output, it is passed on without a copy. If the model
    keeps a reference to it, which it may write to again, it is copied. Small arrays, and arrays of types that Carton does
    not have, are ordinary ones.

    Raises ``MemoryError`` when there is no room in shared memory and none is freed in time.
    """
    import numpy

    dtype = numpy.dtype(dtype)
    if _pool is None:
        return numpy.empty(shape, dtype)
    return _pool.empty(shape, dtype)


def is_cancelled():
    """Returns whether the running call was cancelled. Long computations should check it now and then, and return early if
    it was; the value that they then return is ignored."""
    call = _call
    return call is not None and call.cancelled
