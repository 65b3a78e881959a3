"""Moves the runner's descriptors to the upper end of the table, where a model that closes descriptors by number, or reuses the
numbers, does not hit them by accident."""

import fcntl
import os
import resource

_HIGHEST = 4000


def move_up(descriptor):
    """Moves a descriptor to a high number, and makes it non-inheritable."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    highest = _HIGHEST if limit == resource.RLIM_INFINITY else min(limit, _HIGHEST)
    for lowest in (max(3, highest - 64), 3):
        try:
            moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, lowest)
            break
        except OSError:
            if lowest == 3:
                raise
    os.close(descriptor)
    return moved
