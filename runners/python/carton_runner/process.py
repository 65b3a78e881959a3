"""The runner as a process: its socket and its output, the processes that the model forks, and its end."""

import atexit
import errno
import faulthandler
import fcntl
import os
import socket
import stat
import sys
import threading
import traceback
import types

import carton_runner
from carton_runner import descriptors
from carton_runner.serving import Server

#: Seconds that exit handlers of the model may take; hosts kill a runner that has not ended a second after the connection.
_EXIT_PATIENCE = 0.8


def main():
    """Serves the host at standard input until it is gone or asks to shut down."""
    process = Process()
    try:
        connection = _take_standard_input()
    except OSError as error:
        print("python: %s; runners are started by carton, not by hand" % error, file=sys.stderr)
        sys.exit(2)
    _prepare()
    try:
        server = Server(connection, process)
        process.guard(server)
        server.serve()
    except BaseException:  # noqa: BLE001, no failure may leave a process behind that does not serve
        process.crashed()


def _take_standard_input():
    """Moves the socket to a descriptor that no child inherits, and replaces standard input by ``/dev/null``."""
    if not stat.S_ISSOCK(os.fstat(0).st_mode):
        raise OSError("standard input is not a socket")
    taken = socket.socket(fileno=descriptors.move_up(fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3)))
    if taken.family != socket.AF_UNIX or taken.type != socket.SOCK_STREAM:
        raise OSError("standard input is a socket, but not a stream of this machine")
    null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    os.dup2(null, 0)
    os.close(null)
    return taken


def _prepare():
    """Prepares the interpreter for a model."""
    sys.dont_write_bytecode = True
    sys.argv = ["carton"]
    # Processes that `multiprocessing` starts would otherwise run the runner's main file again.
    sys.modules["__main__"] = types.ModuleType("__main__")
    if sys.version_info >= (3, 14) and not _has_sockets():
        from carton_runner import start_method

        start_method.default_to_spawn()
    if sys.stderr is not None:
        # Prints the line of the model where a crash in C happened.
        faulthandler.enable(all_threads=False)
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            # Each complete line becomes a log record, whatever its bytes.
            stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)


def _has_sockets():
    """Whether the processes of this sandbox, if there is one, can connect to each other."""
    try:
        socket.socket(socket.AF_UNIX).close()
    except OSError:
        return False
    return True


class Process:
    """Ends this process, and the processes that the model forks."""

    def __init__(self):
        self._number = os.getpid()
        self._server = None
        # Kept, because the model may replace or close them.
        self._streams = [stream for stream in (sys.stdout, sys.stderr) if stream is not None]

    def guard(self, server):
        """Makes each process that the model forks from now on close the connection at once."""
        self._server = server
        os.register_at_fork(after_in_child=self._in_child)

    def _in_child(self):
        carton_runner._pool = carton_runner._call = None
        # Closed by number, because a thread of the parent may have held a lock of the objects at the fork.
        for descriptor in (self._server.connection.socket.fileno(), *self._server.watcher.descriptors()):
            try:
                os.close(descriptor)
            except OSError:
                pass

    def after_model(self):
        """Called whenever code of the model has run. Ends a process that the model forked and that returned from the model's
        code: it must not go on as if it were the runner."""
        if os.getpid() != self._number:
            self._say("a process that the model forked returned from the call, and was ended")
            self._flush()
            os._exit(1)
        for stream in self._streams:
            try:
                stream.flush()
            except (OSError, ValueError):
                # Closed by the model.
                pass

    def exit_as_asked(self, exit):
        """Handles ``sys.exit`` in a model."""
        status = exit.code
        if status is None:
            status = 0
        elif not isinstance(status, int):
            self._say(str(status))
            status = 1
        self._flush()
        os._exit(status & 0xFF)

    def end(self, status):
        """Ends the process when no call runs, because the host requested it or is gone. Exit handlers run, but not for long."""
        threading.Thread(target=self._end_later, args=(status,), daemon=True).start()
        try:
            atexit._run_exitfuncs()
        except BaseException:  # noqa: BLE001
            traceback.print_exc()
        self._flush()
        os._exit(status)

    def _end_later(self, status):
        threading.Event().wait(_EXIT_PATIENCE)
        os._exit(status)

    def end_at_once(self, status, reason=None):
        """Ends the process without exit handlers, because the host is gone."""
        if reason is not None:
            self._say(reason)
        os._exit(status)

    def lost(self, error):
        """Called when the connection can no longer be written to."""
        if error.errno in (errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN):
            self.end_at_once(0)
        self.end_at_once(1, "the connection to the host was lost: %s (did the model close descriptors?)" % error)

    def crashed(self):
        """Called after an unexpected exception of the runner."""
        try:
            traceback.print_exc()
            self._flush()
        finally:
            os._exit(70)

    def _say(self, text):
        try:
            os.write(2, ("python: %s\n" % text).encode("utf-8", "backslashreplace"))
        except OSError:
            pass

    def _flush(self):
        for stream in self._streams:
            try:
                stream.flush()
            except (OSError, ValueError):
                pass
