"""Waits for the next message without going to sleep, where it comes at once.

Waking a process on a core that sleeps costs more than a call that does nothing, and one that wakes up on another core leaves its caches
behind. A host that makes one call after the other sends the next one soon after an answer: after waits that were
that short, this process gives its core away again and again for a moment, before it waits properly.
"""

import os
import select
import time

#: Seconds for which it spins at most: about as long as a host takes that makes one call after the other, and whose core fell asleep
#: during the last one.
_LONGEST = 400e-6
#: After so many waits that were in vain, the next ones are not tried.
_PATIENCE = 3
#: How many waits later it is tried again, at first; each time that this is in vain too, twice as many.
_TRY_AGAIN_AFTER = 64
#: How often that is doubled: a wait costs milliseconds where others keep the core that was given away.
_DOUBLINGS = 4


class Spin:
    """Waits until there is something to be read from a descriptor."""

    def __init__(self, descriptor):
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)
        self._has_cores = (os.cpu_count() or 1) > 1 and hasattr(os, "sched_yield")
        #: Waits in a row that were in vain.
        self._in_vain = 0
        #: Waits that are not tried before the next one that is.
        self._rest = 0

    def wait(self):
        """Returns when there is something to be read, or the connection is over."""
        if self._has_cores and self._is_worth_it() and self._spin():
            return
        # Here rather than in ``recvmsg``, which is also woken each time the host reads what was sent to it.
        self._poll.poll()

    def _is_worth_it(self):
        if self._rest:
            self._rest -= 1
            return False
        return True

    def _spin(self):
        poll, clock, give_away = self._poll.poll, time.perf_counter, os.sched_yield
        until = clock() + _LONGEST
        while not poll(0):
            if clock() >= until:
                self._learn(False)
                return False
            give_away()
        # Where others keep the core for long once it is given away, waiting properly is faster.
        self._learn(clock() < until)
        return True

    def _learn(self, was_worth_it):
        if was_worth_it:
            self._in_vain = 0
            return
        self._in_vain += 1
        if self._in_vain >= _PATIENCE:
            self._rest = _TRY_AGAIN_AFTER << min(self._in_vain - _PATIENCE, _DOUBLINGS)
