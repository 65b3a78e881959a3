"""The thread that reads while a call takes long, so that pings are answered, cancellations arrive, and the end of the
host ends the process.

It adds no cost to calls: it is not notified of them, but checks every few milliseconds whether the same call still runs. After a
while without calls it sleeps until the next one.
"""

import os
import threading
import time

from carton_runner import descriptors
from carton_runner.errors import ProtocolError
from carton_runner.frames import EndOfFile

#: Seconds after which a call that still runs counts as long.
_TICK = 0.02
#: The number of ticks without calls after which this thread sleeps.
_PATIENCE = 50
#: Milliseconds for which it waits for the host before it checks for other work.
_WAIT = 50


class Watcher:
    """Watches the calls of a server."""

    def __init__(self, server):
        self._server = server
        #: Whether the thread sleeps, and has to be woken to notice calls and releases.
        self.asleep = False
        self._alarm = threading.Lock()
        self._alarm.acquire()
        #: Whether the thread that runs the call wants to read.
        self._yield = False
        self._woken, self._wake = (descriptors.move_up(end) for end in os.pipe())
        os.set_blocking(self._woken, False)
        os.set_blocking(self._wake, False)

    def start(self):
        """Starts watching."""
        threading.Thread(target=self._run, name="carton-watcher", daemon=True).start()

    def descriptors(self):
        """Returns the descriptors that a process that the model forks has to close."""
        return [end for end in (self._woken, self._wake) if end is not None]

    def wake(self):
        """Wakes the thread. May be called at any time on any thread."""
        self.asleep = False
        try:
            self._alarm.release()
        except RuntimeError:
            # Another thread has released it already.
            pass

    def stand_down(self):
        """Makes the watcher stop reading. Returns when the caller holds the lock for reading."""
        self._yield = True
        try:
            os.write(self._wake, b"\0")
        except OSError:
            # The model closed the pipe: the watcher checks the flag itself now and then.
            pass
        self._server.reading.acquire()
        self._yield = False

    def _run(self):
        try:
            self._watch()
        except (EndOfFile, ProtocolError) as end:
            self._server.ended(end)
        except BaseException:  # noqa: BLE001, without this thread the process could hang
            self._server.process.crashed()

    def _watch(self):
        server = self._server
        n_idle = 0
        seen = -1
        while True:
            if n_idle >= _PATIENCE:
                self._sleep()
                n_idle = 0
            time.sleep(_TICK)
            call, n_calls = server.call, server.n_calls
            if call is None:
                n_idle = n_idle + 1 if n_calls == seen else 0
                if server.host_memory.has_releases():
                    server.flush_releases()
            else:
                n_idle = 0
                if n_calls == seen and server.reading.acquire(False):
                    try:
                        self._read(call)
                    finally:
                        server.reading.release()
            seen = n_calls

    def _sleep(self):
        server = self._server
        # The flag is set before the last check: a call that begins meanwhile either sees the flag or is seen by the check.
        self.asleep = True
        if server.call is None and not server.host_memory.has_releases():
            idle_memory = server.trim()
            server.flush_releases()
            self._alarm.acquire(timeout=2.0 if idle_memory else -1)
        self.asleep = False

    def _read(self, call):
        """Reads until the call is over, or the thread that runs it reads itself."""
        server = self._server
        connection = server.connection
        while server.call is call and not self._yield:
            woken = () if self._woken is None else (self._woken,)
            readable = () if server.has_read_ahead() else connection.wait(woken, _WAIT)
            if self._woken in readable:
                self._drain()
            elif readable or server.has_read_ahead():
                server.read_for(call)
            elif server.host_memory.has_releases():
                server.flush_releases()

    def _drain(self):
        try:
            os.read(self._woken, 1000)
        except BlockingIOError:
            pass
        except OSError:
            # The model closed the pipe.
            self._woken = None
