"""The host's regions of shared memory, and what of them this side was lent (spec/runner-protocol.md, section 7)."""

import os
from collections import deque

from carton_runner import regions
from carton_runner.errors import ProtocolError

#: The most regions a host may have at once.
_REGION_CAP = 4096
#: The most bytes they may have together. Hosts are trusted; this is for those that count wrongly.
_BYTE_CAP = 8 << 40


class HostMemory:
    """The host's regions by number, and what is to be given back."""

    def __init__(self, roots, on_release):
        self._roots = roots
        self._on_release = on_release
        self._regions = {}
        self._total = 0
        self._releases = deque()
        #: Bytes of all arrays that are alive. Approximate: arrays may go on any thread, in the middle of anything.
        self.n_bytes = 0

    def map(self, number, size, descriptor):
        """Maps a region that the host announced; ``descriptor`` is closed."""
        try:
            if number in self._regions:
                raise ProtocolError("region %d of shared memory: it is mapped already" % number)
            if len(self._regions) >= _REGION_CAP or self._total + size > _BYTE_CAP:
                raise ProtocolError("region %d of shared memory: there are too many, or they are too large" % number)
            if not size:
                raise ProtocolError("region %d of shared memory: it cannot have 0 bytes" % number)
            self._regions[number] = regions.receive(descriptor, number, size)
            self._total += size
        finally:
            os.close(descriptor)

    def unmap(self, number):
        """Forgets a region. Arrays that still lie in it keep the mapping."""
        region = self._regions.pop(number, None)
        if region is None:
            raise ProtocolError("region %d of shared memory: it was never mapped" % number)
        self._total -= len(region)

    def region(self, number, offset, length):
        """The mapping of a region in which ``length`` bytes at ``offset`` lie."""
        region = self._regions.get(number)
        if region is None:
            raise ValueError("region %d was never mapped" % number)
        if offset + length > len(region):
            raise ValueError(
                "%d bytes at offset %d do not lie inside region %d, which has %d bytes"
                % (length, offset, number, len(region))
            )
        return region

    def lend(self, array, region, offset, length):
        """The host lends the bytes that ``array`` lies over, until the last view of it is gone."""
        self._roots.add(array, self, region, offset, length)
        self.n_bytes += length

    def let_go(self, hold):
        """Nobody looks at an array any more."""
        self.n_bytes -= hold.length
        self._releases.append((hold.region, hold.offset))
        self._on_release()

    def count(self):
        """Sets :attr:`n_bytes` right."""
        self.n_bytes = sum(hold.length for hold in self._roots.alive() if hold.memory is self)

    def give_back(self, region, offset):
        """A buffer that was copied at once, as strings are."""
        self._releases.append((region, offset))

    def has_releases(self):
        """Whether there is something to be given back."""
        return bool(self._releases)

    def take_releases(self):
        """All that is to be given back, as a part of a message. The caller holds the lock of the connection and sends it."""
        releases = self._releases
        if not releases:
            return ""
        entries = []
        while releases:
            entries.append('{"region":%d,"offset":%d}' % releases.popleft())
        return '"release":[%s],' % ",".join(entries)
