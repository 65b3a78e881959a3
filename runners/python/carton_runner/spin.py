"""Waits for the next message without going to sleep, if it arrives soon.

Waking a process on a sleeping core costs more than an empty call, and a process that wakes up on another core leaves its caches
behind. A host that makes one call after the other sends the next one soon after an answer. After waits that were that short, this
process first yields its core repeatedly for a moment, before it sleeps.
"""

import os
import select
import time

#: The longest time to spin, in seconds: about the time until the next call of a host that makes one call after the other, and whose
#: core fell asleep during the last one.
_LONGEST = 400e-6
#: The number of failed spins in a row after which some waits do not spin.
_PATIENCE = 3
#: The number of waits without spinning after that. It doubles each time that the next spin fails too.
_TRY_AGAIN_AFTER = 64
#: The greatest number of doublings: a spin costs milliseconds if other processes keep the yielded core.
_DOUBLINGS = 4


class Spin:
    """Waits until a descriptor can be read."""

    def __init__(self, descriptor):
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)
        self._has_cores = (os.cpu_count() or 1) > 1 and hasattr(os, "sched_yield")
        #: The number of failed spins in a row.
        self._in_vain = 0
        #: The number of waits before the next spin.
        self._rest = 0

    def wait(self):
        """Returns when there is data to read, or the connection is closed."""
        if self._has_cores and self._is_worth_it() and self._spin():
            return
        # `poll` rather than ``recvmsg``, which is also woken each time the host reads what was sent to it.
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
        # If other processes keep the yielded core for long, sleeping is faster.
        self._learn(clock() < until)
        return True

    def _learn(self, was_worth_it):
        if was_worth_it:
            self._in_vain = 0
            return
        self._in_vain += 1
        if self._in_vain >= _PATIENCE:
            self._rest = _TRY_AGAIN_AFTER << min(self._in_vain - _PATIENCE, _DOUBLINGS)
