"""The host's regions of shared memory, and the buffers in them that are lent to this side (spec/runner-protocol.md, section 7)."""

import mmap
import os
import resource
from collections import deque

from carton_runner import descriptors, regions
from carton_runner.errors import ProtocolError

#: The greatest number of regions of a host.
_REGION_CAP = 4096
#: The greatest total size of these regions in bytes. Hosts are trusted; the limit catches wrong sizes.
_BYTE_CAP = 8 << 40
#: Smaller arrays are copied if a model may write to them, because mapping them again takes longer.
_WORTH_MAPPING = 256 << 10


class _CopyOnWritePages(mmap.mmap):
    """A private mapping of the host's pages. Pages that are written to become this process's own."""

    #: The lent array, which must live as long as this mapping.
    lent = None


class HostMemory:
    """The host's regions by number, and the buffers to be given back."""

    def __init__(self, roots, on_release):
        self._roots = roots
        self._on_release = on_release
        self._regions = {}
        #: Whether the model may write to inputs; the pages of regions are then mapped again.
        self.are_inputs_writable = False
        #: The descriptors of regions with the identities of their files: a model may close a descriptor, and open another file
        #: under its number.
        self._files = {}
        self._total = 0
        self._releases = deque()
        #: The bytes of all live arrays. Approximate, because arrays may be dropped on any thread at any time.
        self.n_bytes = 0

    def map(self, number, size, descriptor):
        """Maps a region that the host announced, and closes ``descriptor``."""
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
        """Keeps a descriptor of a region, if it is useful and there is room for it. Without one, inputs in the region are
        copied if they may be written to."""
        # Each mapping already uses a descriptor, and the model needs some too.
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
        """Forgets a region. Arrays in it keep the mapping alive."""
        region = self._regions.pop(number, None)
        if region is None:
            raise ProtocolError("region %d of shared memory: it was never mapped" % number)
        self._total -= len(region)
        descriptor, identity = self._files.pop(number, (-1, None))
        if identity is not None and _identity(descriptor) == identity:
            os.close(descriptor)

    def region(self, number, offset, length):
        """Returns the mapping of a region, which must contain ``length`` bytes at ``offset``."""
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
        """Registers the bytes under ``array`` as lent by the host until the last view of it is gone."""
        self._roots.add(array, self, region, offset, length)
        self.n_bytes += length

    def writable(self, array):
        """Returns an array with the same elements that this process may write to, and that no other process sees. If ``array`` is in
        a region of the host, only pages that are written to are copied."""
        hold, root = self._roots.find(array)
        if hold is not None and hold.memory is self and root is array and hold.length >= _WORTH_MAPPING:
            own = self._own_pages(hold)
            if own is not None:
                # The pages that are not written to are still the host's, so it must keep lending them.
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
            # There are no mappings or descriptors left, so the caller copies the array.
            return None

    def let_go(self, hold):
        """Called when the last view of an array is gone: queues its buffer for release."""
        self.n_bytes -= hold.length
        self._releases.append((hold.region, hold.offset))
        self._on_release()

    def count(self):
        """Counts :attr:`n_bytes` anew."""
        self.n_bytes = sum(hold.length for hold in self._roots.alive() if hold.memory is self)

    def give_back(self, region, offset):
        """Queues a buffer for release that was copied at once, as strings are."""
        self._releases.append((region, offset))

    def has_releases(self):
        """Whether buffers wait to be given back."""
        return bool(self._releases)

    def take_releases(self):
        """Returns all queued releases as a part of a message. The caller must hold the lock of the connection and send it."""
        releases = self._releases
        if not releases:
            return ""
        entries = []
        while releases:
            entries.append('{"region":%d,"offset":%d}' % releases.popleft())
        return '"release":[%s],' % ",".join(entries)


def _identity(descriptor):
    """Returns the identity of a descriptor's file; ``None`` if the descriptor is closed."""
    try:
        status = os.fstat(descriptor)
    except OSError:
        return None
    return status.st_dev, status.st_ino
