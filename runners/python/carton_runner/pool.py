"""The memory that this side lends to the host: regions, and buffers in them (spec/runner-protocol.md, section 7).

Regions are kept and their memory is reused, because touching a page for the first time costs many times as much as a copy into a
page that is in use. Regions that were idle for a while are given back whole. Small and large buffers are in separate regions,
so that a small buffer that is kept for long does not keep a large region.
"""

import gc
import threading
import time
from collections import deque

from carton_runner import regions
from carton_runner.errors import ProtocolError, RunnerError
from carton_runner.free_ranges import FreeRanges

#: Tensors of at least this many bytes travel in shared memory.
THRESHOLD = 16 << 10
_LARGE = 1 << 20
_SMALL_REGION = 16 << 20
_LARGE_REGION = 64 << 20
#: Sizes of regions are multiples of this, a huge page.
_REGION_STEP = 2 << 20
#: Buffers of at least this size start on a page, all others on a cache line.
_PAGE_ALIGNED = 64 << 10
_PAGE = 4096
_CACHE_LINE = 64
#: Seconds for which a region may be idle.
IDLE = 10.0
CAP = 4 << 30
#: Seconds for which a call waits for room.
PATIENCE = 30.0


class _Region:
    __slots__ = ("number", "memory", "descriptor", "size", "free", "n_buffers", "idle_since", "large")


class Buffer:
    """A part of a region. It is free again when no array is a view of it and none of it is lent to the host."""

    __slots__ = ("region", "offset", "length", "reserved", "n_holders", "is_shared")

    def __init__(self, region, offset, length, reserved):
        self.region = region
        self.offset = offset
        self.length = length
        self.reserved = reserved
        self.n_holders = 1
        #: Whether it is or was lent to the host: this side may not write to it any more.
        self.is_shared = False


class Pool:
    """Buffers for outputs. ``numpy`` is set once the model's environment is active; ``wanted`` returns whether the call that waits
    for room has not been cancelled."""

    def __init__(self, roots, on_idle, cap=CAP, patience=PATIENCE):
        self.numpy = None
        self.is_in_use = False
        self.wanted = lambda: True
        self._roots = roots
        self._on_idle = on_idle
        self._cap = cap
        self._patience = patience
        self._regions = []
        self._last_number = 0
        self._total = 0
        self._used = 0
        self._lent = {}
        self._retired = []
        # Buffers whose array is gone. Any thread appends to it without the lock.
        self._dropped = deque()
        # Reentrant, because a garbage collection that begins while the lock is held runs finalizers of the model.
        self._lock = threading.RLock()
        self._freed = threading.Condition(self._lock)

    # For models.

    def empty(self, shape, dtype):
        """Implements :func:`carton_runner.empty`."""
        numpy = self.numpy
        if numpy is None or not self.is_in_use or dtype.hasobject:
            return _numpy(self).empty(shape, dtype)
        shape = (shape,) if hasattr(shape, "__index__") else tuple(shape)
        n_bytes = dtype.itemsize
        for dimension in shape:
            n_bytes *= dimension.__index__()
        # NumPy reports a negative dimension. If this thread owns the lock, a finalizer calls this function while the thread is
        # changing the lists of the pool, which must not be used then.
        if n_bytes < THRESHOLD or self._lock._is_owned():
            return numpy.empty(shape, dtype)
        try:
            buffer = self.take(n_bytes)
        except RunnerError as error:
            raise MemoryError(error.message) from None
        return self.array(buffer, buffer.offset, shape, dtype)

    # For the encoding of tensors.

    def take(self, n_bytes):
        """Returns a buffer of ``n_bytes`` with arbitrary contents. The caller is its holder. Waits for a while if there is no
        room."""
        if n_bytes > self._cap:
            raise _full(n_bytes, self._used, self._cap)
        deadline = None
        with self._lock:
            while True:
                self._collect()
                buffer = self._try(n_bytes)
                if buffer is not None:
                    return buffer
                if deadline is None:
                    deadline = time.monotonic() + self._patience
                    # Unreachable arrays in reference cycles may not have been collected yet.
                    self._lock.release()
                    try:
                        gc.collect()
                    finally:
                        self._lock.acquire()
                    continue
                if time.monotonic() >= deadline or not self.wanted():
                    raise _full(n_bytes, self._used, self._cap)
                # An array that is dropped on another thread does not notify, so this waits in short steps.
                self._freed.wait(0.02)

    def array(self, buffer, offset, shape, dtype):
        """Returns an array over a part of ``buffer``. The array takes over the caller's hold."""
        try:
            array = self.numpy.ndarray(shape, dtype, buffer.region.memory, offset)
        except BaseException:
            self.drop(buffer)
            raise
        self._roots.add(array, self, buffer.region.number, offset, array.nbytes, buffer)
        return array

    def let_go(self, hold):
        """Called when an array is gone."""
        self._dropped.append(hold.buffer)
        self._on_idle()

    def hold(self, buffer):
        """Adds a holder."""
        with self._lock:
            buffer.n_holders += 1

    def drop(self, buffer):
        """Removes a holder."""
        with self._lock:
            self._drop(buffer)

    # For the connection.

    def lend(self, buffer, offset, announce):
        """Lends the buffer that a tensor names, and takes over the caller's hold. ``announce`` announces a region that the host
        does not know: its number, its size and a descriptor, which it closes."""
        region = buffer.region
        if region.descriptor is not None:
            announce(region.number, region.size, region.descriptor)
            region.descriptor = None
        buffer.is_shared = True
        with self._lock:
            self._lent.setdefault((region.number, offset), []).append(buffer)

    def release(self, pairs):
        """Takes back the buffers that the host releases."""
        with self._lock:
            for pair in pairs:
                buffers = self._lent.get(pair)
                if not buffers:
                    raise ProtocolError("region %d has no lent buffer at offset %d to be released" % pair)
                self._drop(buffers.pop())
                if not buffers:
                    del self._lent[pair]
        self._on_idle()

    def find(self, region, offset, length):
        """Returns the lent buffer that contains ``length`` bytes at ``offset`` of ``region``, and makes the caller a holder;
        ``None`` if there is none."""
        with self._lock:
            for buffers in self._lent.values():
                buffer = buffers[0]
                end = buffer.offset + buffer.length
                if buffer.region.number == region and buffer.offset <= offset and offset + length <= end:
                    buffer.n_holders += 1
                    return buffer
        return None

    def take_retired(self):
        """Returns the numbers of removed regions that were announced to the host."""
        if not self._retired:
            return ()
        with self._lock:
            retired, self._retired = self._retired, []
        return retired

    def trim(self, now):
        """Removes regions that have been idle for long. Returns whether there are other idle regions."""
        with self._lock:
            self._collect()
            for region in [r for r in self._regions if not r.n_buffers and now - r.idle_since >= IDLE]:
                self._retire(region)
            return any(not region.n_buffers for region in self._regions)

    def usage(self):
        """Returns the bytes of all buffers, and of all regions."""
        with self._lock:
            self._collect()
            return self._used, self._total

    # The callers of the methods below hold the lock.

    def _collect(self):
        while self._dropped:
            self._drop(self._dropped.popleft())

    def _drop(self, buffer):
        buffer.n_holders -= 1
        if buffer.n_holders:
            return
        region = buffer.region
        region.free.give_back(buffer.offset, buffer.reserved)
        region.n_buffers -= 1
        region.idle_since = time.monotonic()
        self._used -= buffer.reserved
        self._freed.notify_all()

    def _try(self, n_bytes):
        alignment = _PAGE if n_bytes >= _PAGE_ALIGNED else _CACHE_LINE
        reserved = (max(n_bytes, 1) + alignment - 1) & -alignment
        large = reserved >= _LARGE
        for region in self._regions:
            if region.large == large:
                buffer = self._take_from(region, n_bytes, reserved, alignment)
                if buffer is not None:
                    return buffer
        region = self._add_region(reserved, large)
        return region and self._take_from(region, n_bytes, reserved, alignment)

    def _take_from(self, region, n_bytes, reserved, alignment):
        offset = region.free.take(reserved, alignment)
        if offset is None:
            return None
        region.n_buffers += 1
        self._used += reserved
        return Buffer(region, offset, n_bytes, reserved)

    def _add_region(self, reserved, large):
        while self._total + reserved > self._cap:
            idle = next((region for region in self._regions if not region.n_buffers), None)
            if idle is None:
                return None
            self._retire(idle)
        wanted = max((reserved + _REGION_STEP - 1) // _REGION_STEP * _REGION_STEP, _LARGE_REGION if large else _SMALL_REGION)
        region = _Region()
        region.size = min(wanted, self._cap - self._total)
        try:
            region.memory, region.descriptor = regions.create(region.size)
        except OSError as error:
            raise RunnerError("making a region of shared memory: %s" % error) from error
        self._last_number += 1
        region.number = self._last_number
        region.free = FreeRanges(region.size)
        region.n_buffers = 0
        region.idle_since = time.monotonic()
        region.large = large
        self._total += region.size
        self._regions.append(region)
        return region

    def _retire(self, region):
        self._regions.remove(region)
        self._total -= region.size
        if region.descriptor is None:
            self._retired.append(region.number)
        else:
            import os

            os.close(region.descriptor)


def _numpy(pool):
    if pool.numpy is None:
        import numpy

        return numpy
    return pool.numpy


def _full(n_bytes, used, cap):
    message = "no room for %d bytes in shared memory, %d of %d bytes are in use" % (n_bytes, used, cap)
    return RunnerError(message, code="pool_full")
