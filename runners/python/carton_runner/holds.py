"""Arrays over shared memory, and how it is noticed that the last view of one is gone.

The views of a NumPy array, and the views of those, keep the array that all of them started from: their ``base`` leads to
it. So one weak reference to that array, here called the root, says when memory is no longer looked at, whatever the model
did with its inputs.
"""

import weakref


class Hold(weakref.ref):
    """A weak reference to a root, and what it lies over: ``memory`` decides what becomes of that when the root is gone."""

    __slots__ = ("key", "memory", "region", "offset", "length", "buffer")
    # Those of the array itself would be used otherwise, and arrays have no hash.
    __hash__ = object.__hash__
    __eq__ = object.__eq__


class Roots:
    """The roots that are alive, by their ``id``."""

    def __init__(self):
        self._holds = {}

    def add(self, root, memory, region, offset, length, buffer=None):
        """Takes note of a new root."""
        hold = Hold(root, self._gone)
        hold.key = id(root)
        hold.memory = memory
        hold.region = region
        hold.offset = offset
        hold.length = length
        hold.buffer = buffer
        self._holds[hold.key] = hold
        return hold

    def _gone(self, hold):
        # Runs wherever the last reference was dropped, also in the middle of anything: takes no lock.
        if self._holds.get(hold.key) is hold:
            del self._holds[hold.key]
        hold.memory.let_go(hold)

    def alive(self):
        """All holds whose root is alive."""
        return list(self._holds.values())

    def find(self, array):
        """The hold of the root that ``array`` is a view of, and the root, if it lies in shared memory."""
        holds = self._holds
        while array is not None:
            hold = holds.get(id(array))
            if hold is not None and hold() is array:
                return hold, array
            # Views through the buffer protocol lead to the array by the object of their memoryview.
            base = getattr(array, "base", None)
            array = base.obj if type(base) is memoryview else base
        return None, None
