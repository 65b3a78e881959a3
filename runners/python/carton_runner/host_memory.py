"""The host's regions of shared memory, and what of them this side was lent (spec/runner-protocol.md, section 7)."""

import mmap
import os
import resource
from collections import deque

from carton_runner import descriptors, regions
from carton_runner.errors import ProtocolError

#: The most regions a host may have at once.
_REGION_CAP = 4096
#: The most bytes they may have together. Hosts are trusted; this is for those that count wrongly.
_BYTE_CAP = 8 << 40
#: Arrays that are smaller are copied, when a model may write to them: mapping them again takes longer.
_WORTH_MAPPING = 256 << 10


class _CopyOnWritePages(mmap.mmap):
    """Pages of the host that become this process's own when they are written to."""

    #: The array that the host lends as long as it is alive.
    lent = None


class HostMemory:
    """The host's regions by number, and what is to be given back."""

    def __init__(self, roots, on_release):
        self._roots = roots
        self._on_release = on_release
        self._regions = {}
        #: Whether the model may write to inputs, for which the pages of regions are mapped again.
        self.are_inputs_writable = False
        #: The descriptors of regions, and which files they were: models close descriptors, and open others in their place.
        self._files = {}
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
            self._keep(number, descriptor)
        finally:
            os.close(descriptor)

    def _keep(self, number, descriptor):
        """Keeps a descriptor of a region, if it is of use and there is room for it. Without one, inputs in the region are
        copied where they may be written to."""
        # A mapping has a descriptor of its own already, and the model needs some too.
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if not self.are_inputs_writable or (limit != resource.RLIM_INFINITY and len(self._files) >= limit // 4):
            return
        kept = -1
        try:
            kept = os.dup(descriptor)
            kept = descriptors.move_up(kept)
        except OSError:
            # No descriptor is left.
            if kept >= 0:
                os.close(kept)
            return
        self._files[number] = (kept, _identity(kept))

    def unmap(self, number):
        """Forgets a region. Arrays that still lie in it keep the mapping."""
        region = self._regions.pop(number, None)
        if region is None:
            raise ProtocolError("region %d of shared memory: it was never mapped" % number)
        self._total -= len(region)
        descriptor, identity = self._files.pop(number, (-1, None))
        if identity is not None and _identity(descriptor) == identity:
            os.close(descriptor)

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

    def writable(self, array):
        """An array with the same elements that this process may write to, and that nobody else sees. Where ``array`` lies in a
        region of the host, only pages that are written to are copied."""
        hold, root = self._roots.find(array)
        if hold is not None and hold.memory is self and root is array and hold.length >= _WORTH_MAPPING:
            own = self._own_pages(hold)
            if own is not None:
                # The other pages are still the host's.
                own.lent = array
                return type(array)(array.shape, array.dtype, own, hold.offset % mmap.ALLOCATIONGRANULARITY)
        return array.copy()

    def _own_pages(self, hold):
        descriptor, identity = self._files.get(hold.region, (-1, None))
        if identity is None or _identity(descriptor) != identity:
            return None
        before = hold.offset % mmap.ALLOCATIONGRANULARITY
        access = {"flags": mmap.MAP_PRIVATE, "prot": mmap.PROT_READ | mmap.PROT_WRITE}
        try:
            return _CopyOnWritePages(descriptor, before + hold.length, offset=hold.offset - before, **access)
        except (OSError, ValueError):
            # Out of mappings or descriptors: then it is a copy.
            return None

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


def _identity(descriptor):
    """Which file a descriptor leads to."""
    try:
        status = os.fstat(descriptor)
    except OSError:
        return None
    return status.st_dev, status.st_ino
