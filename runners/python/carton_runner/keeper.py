"""The keeper, a process that has the credentials of package indexes, and the requests with which the runner starts programs in it
(``credentials.py``).

Requests and answers are a length and JSON each. The request that starts a program passes descriptors for its output, and for
the files that stay open in it.
"""

import json
import os
import signal
import socket
import struct
import time

from carton_runner.errors import RunnerError

_LENGTH = struct.Struct("<I")
#: The greatest size of a request in bytes: the arguments of a program.
_CAP = 1 << 22
#: The greatest number of descriptors of a request.
_DESCRIPTORS = 16
#: Seconds to wait for the keeper's end before it is killed.
_PATIENCE = 1.0


class Keeper:
    """The runner's handle of the keeper. The keeper runs one program at a time."""

    def __init__(self, channel, number):
        self._channel = channel
        self._number = number

    def start(self, command, cwd, environment, output, pass_fds):
        """Starts a program with the variables that ``environment`` names. Returns an object with which to end it and to wait for it.
        Raises ``OSError`` as ``subprocess`` does."""
        self._ask({"start": list(command), "cwd": cwd, "environment": environment}, [output, *pass_fds])
        return _Program(self)

    def _ask(self, request, descriptors=()):
        """Returns the answer. Raises ``OSError`` for a request that failed, and ``RunnerError`` if the keeper does not answer."""
        try:
            _send(self._channel, request, descriptors)
            answer = _receive(self._channel)[0]
        except OSError as error:
            raise _unable(error) from error
        if answer is None:
            raise _unable("it has ended")
        if "error" in answer:
            raise OSError(answer["error"])
        return answer

    def end(self):
        """Ends the keeper, and waits until it is gone."""
        self._channel.close()
        end = time.monotonic() + _PATIENCE
        try:
            while not os.waitpid(self._number, os.WNOHANG)[0]:
                if time.monotonic() >= end:
                    os.kill(self._number, signal.SIGKILL)
                    os.waitpid(self._number, 0)
                    return
                time.sleep(0.001)
        except (ChildProcessError, ProcessLookupError):
            # Other code has waited for the process already.
            pass


class _Program:
    """A program that the keeper runs, with the methods of ``subprocess.Popen`` that are needed."""

    def __init__(self, keeper):
        self._keeper = keeper

    def kill(self):
        """Kills the program."""
        self._ask({"kill": True})

    def wait(self):
        """Waits for the program's end, and returns its status."""
        return self._ask({"wait": True})["status"]

    def _ask(self, request):
        try:
            return self._keeper._ask(request)
        except OSError as error:
            raise _unable(error) from error


def _unable(reason):
    text = "the process that has the credentials of package indexes does not do what it is asked for"
    return RunnerError(text, [str(reason)])


def serve(channel):
    """Starts programs until the runner closes its end, or is gone."""
    null = os.open(os.devnull, os.O_RDONLY)
    # Standard input is the host's socket, which this process must not keep open.
    os.dup2(null, 0)
    os.close(null)
    # The runner ends a program and its children by ending its whole process group, which includes this process.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    process = None
    while True:
        try:
            request, descriptors = _receive(channel)
        except OSError:
            request, descriptors = None, []
        if request is None:
            if process is not None:
                process.kill()
            return
        answer = {}
        try:
            if "start" in request:
                process = _start(request, descriptors)
            elif "kill" in request:
                process.kill()
                process.wait()
            else:
                answer = {"status": process.wait()}
        except Exception as error:  # noqa: BLE001, the runner reports it
            answer = {"error": str(error)}
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        _send(channel, answer)


def _start(request, descriptors):
    import subprocess

    from carton_runner.environments import variables

    output, *kept = descriptors
    return subprocess.Popen(
        request["start"],
        cwd=request["cwd"],
        env=variables.of(request["environment"]),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        pass_fds=kept,
        # Safe, because this process has one thread.
        preexec_fn=_restore_sigterm,
    )


def _restore_sigterm():
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _send(channel, message, descriptors=()):
    data = json.dumps(message).encode()
    data = _LENGTH.pack(len(data)) + data
    if descriptors:
        sent = socket.send_fds(channel, [data], descriptors)
        data = data[sent:]
    channel.sendall(data)


def _receive(channel):
    """Returns a message, or ``None`` at the end, and the received descriptors."""
    descriptors = []
    data = b""
    length = _LENGTH.size
    while len(data) < length:
        read, came, _, _ = socket.recv_fds(channel, min(length - len(data), 1 << 16), _DESCRIPTORS)
        descriptors += came
        if not read:
            return None, descriptors
        data += read
        if len(data) == length == _LENGTH.size:
            (body,) = _LENGTH.unpack(data)
            if body > _CAP:
                raise OSError("a message of %d bytes is above the limit of %d" % (body, _CAP))
            length += body
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    return json.loads(data[_LENGTH.size :]), descriptors
