"""Tracks arrays over shared memory, and notices when the last view of one is gone.

The views of a NumPy array, and the views of those, keep the original array alive through their ``base``. So one weak reference
to that array, here called the root, tells when memory is no longer in use, whatever the model did with its inputs.
"""

import weakref


class Hold(weakref.ref):
    """A weak reference to a root, and the bytes under it. ``memory.let_go`` is called when the root is gone."""

    __slots__ = ("key", "memory", "region", "offset", "length", "buffer")
    # Otherwise the methods of the array would be used, and arrays have no hash.
    __hash__ = object.__hash__
    __eq__ = object.__eq__


class Roots:
    """The live roots by their ``id``."""

    def __init__(self):
        self._holds = {}

    def add(self, root, memory, region, offset, length, buffer=None):
        """Registers a new root."""
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
        # Runs wherever the last reference was dropped, even inside other code of the runner: takes no lock.
        if self._holds.get(hold.key) is hold:
            del self._holds[hold.key]
        hold.memory.let_go(hold)

    def alive(self):
        """Returns all holds whose root is alive."""
        return list(self._holds.values())

    def find(self, array):
        """Returns the hold of the root that ``array`` is a view of, and the root; two ``None`` if it is not in shared memory."""
        holds = self._holds
        while array is not None:
            hold = holds.get(id(array))
            if hold is not None and hold() is array:
                return hold, array
            # A view through the buffer protocol has a memoryview as its base, whose object is the array.
            base = getattr(array, "base", None)
            array = base.obj if type(base) is memoryview else base
        return None, None
