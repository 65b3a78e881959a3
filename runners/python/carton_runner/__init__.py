"""What a model can ask of the runner that it runs in.

    import carton_runner

    def infer(x):
        y = carton_runner.empty(x.shape, x.dtype)
        numpy.multiply(x, 2, out=y)
        return {"y": y}

Outside a runner (in a test of the model, in a process that the model started) everything here works too: arrays are
ordinary ones, and nothing is ever cancelled.
"""

__all__ = ["empty", "is_cancelled"]

#: The runner's process sets both; elsewhere there is neither a pool nor a call.
_pool = None
_call = None


def empty(shape, dtype=float):
    """A new array like ``numpy.empty(shape, dtype)``, in memory shared with the caller of the model.

    Returned as an output it is passed on without a copy, as are contiguous views of it, unless the model keeps a
    reference to it, to write to it again: then it is copied. Small arrays, and those of types that Carton has no name
    for, are ordinary ones.

    Raises ``MemoryError`` when there is no room in shared memory and none comes free in time.
    """
    import numpy

    dtype = numpy.dtype(dtype)
    if _pool is None:
        return numpy.empty(shape, dtype)
    return _pool.empty(shape, dtype)


def is_cancelled():
    """Whether nobody waits any more for the call that runs now. Long computations should look now and then, and return
    anything: what they return is not looked at."""
    call = _call
    return call is not None and call.cancelled
