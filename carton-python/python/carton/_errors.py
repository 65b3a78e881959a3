"""The exceptions of carton: one tree below `Error`, with a class for each kind of failure.

Where a builtin exception means the same, the class is one of those as well. A call that Python itself would refuse, such as one with an unknown
keyword, raises `TypeError`.
"""

from __future__ import annotations


class Error(Exception):
    """A failure of carton. Its text is the error with its causes.

    Attributes:
        hint: What the user can do about it, or None.
    """

    hint: str | None = None

    def __str__(self) -> str:
        text = super().__str__()
        return f"{text}\nhint: {self.hint}" if self.hint else text


class InvalidInputError(Error, ValueError):
    """The caller passed something wrong: an invalid name or location, metadata that breaks a rule, a value that is not a tensor."""


class SignatureError(InvalidInputError):
    """Inputs or outputs contradict the signature of the carton."""


class ClosedError(Error, ValueError):
    """The model, or the sealed input, was closed."""


class TimedOutError(Error, TimeoutError):
    """A call or a load took longer than it may. The runner was killed if it was working on the call; the next call starts it again.

    It is a `TimeoutError`, but does not have its name, so that `from carton import *` hides no builtin.
    """


class BusyError(Error):
    """Too many calls wait for the model, or their tensors fill its shared memory. The same call may succeed later."""


class ModelError(Error, RuntimeError):
    """The model or its framework failed in the call, or the runner refuses to load the model."""


class RunnerCrashedError(Error, RuntimeError):
    """The runner's process died or could not be started. The next call starts it again."""


class NoRunnerError(Error, LookupError):
    """No installed runner fits the carton, or the runner lacks something on this machine."""


class IntegrityError(Error):
    """The carton is malformed, damaged, tampered with, or not the one that was expected."""


class UntrustedError(Error, PermissionError):
    """The carton is not signed by anyone who is trusted for its place, and must be."""


class UnsupportedError(Error):
    """The carton may be valid, but this version cannot use it."""


class NetworkError(Error, ConnectionError):
    """Something must be fetched over the network and cannot be."""


class MachineError(Error, OSError):
    """The operating system refused something: a file cannot be read or written, the disk is full."""


class SelfTestError(Error, AssertionError):
    """A self-test of the packed model failed."""


class SignatureMismatchError(InvalidInputError):
    """The metadata declares other inputs or outputs than the model to be packed has."""


class AbortedError(Error):
    """The work was ended before it was done, by the program that had begun it.

    Its name is not that of `asyncio.CancelledError`, which is no `Exception` and ends a task: a task that is cancelled while it awaits a call
    still gets that one.
    """


class ForkError(Error, RuntimeError):
    """This process was forked from one that had used carton, and has none of the threads that carton needs."""


def machine_error(error: OSError) -> MachineError:
    """What the operating system refused to Python code of this package, as carton raises it: with the `errno` and the file."""
    if error.errno is None:
        return MachineError(str(error))
    return MachineError(error.errno, error.strerror, error.filename)
