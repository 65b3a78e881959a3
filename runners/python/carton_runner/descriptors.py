"""Where the runner keeps its descriptors: at the upper end of the table, where models that close descriptors by number,
and reuse the numbers, do not get at them by accident."""

import fcntl
import os
import resource

_HIGHEST = 4000


def move_up(descriptor):
    """Moves a descriptor to a high number that no process inherits."""
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
