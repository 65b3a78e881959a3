"""The free ranges of one region of memory. Pure."""

from bisect import bisect_left


class FreeRanges:
    """Free ranges in the order of their offsets; neighbours are always joined."""

    def __init__(self, size):
        self._starts = [0]
        self._ends = [size]

    def take(self, length, alignment):
        """Returns the offset of ``length`` free bytes at a multiple of ``alignment``, a power of two, or ``None``. Low addresses are
        reused first, because the system has already provided their pages."""
        starts, ends = self._starts, self._ends
        for index, start in enumerate(starts):
            offset = (start + alignment - 1) & -alignment
            end = offset + length
            if end > ends[index]:
                continue
            # The rest before and after the taken range stays free.
            if offset > start:
                if end < ends[index]:
                    starts.insert(index + 1, end)
                    ends.insert(index, offset)
                else:
                    ends[index] = offset
            elif end < ends[index]:
                starts[index] = end
            else:
                del starts[index], ends[index]
            return offset
        return None

    def give_back(self, offset, length):
        """Gives back a range that :meth:`take` returned."""
        starts, ends = self._starts, self._ends
        end = offset + length
        index = bisect_left(starts, offset)
        joins_next = index < len(starts) and starts[index] == end
        if index and ends[index - 1] == offset:
            if joins_next:
                ends[index - 1] = ends[index]
                del starts[index], ends[index]
            else:
                ends[index - 1] = end
        elif joins_next:
            starts[index] = offset
        else:
            starts.insert(index, offset)
            ends.insert(index, end)

    def as_pairs(self):
        """Returns the free ranges as pairs of start and end."""
        return list(zip(self._starts, self._ends))
