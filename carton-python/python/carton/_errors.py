"""The exceptions of carton: one tree below `Error`, with a class for each kind of failure."""

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


class Timeout(Error, TimeoutError):
    """A call took longer than its timeout. The runner was killed if it was working on the call; the next call starts it again."""


class BusyError(Error):
    """Too many calls wait for the model, or their tensors fill its shared memory. The same call may succeed later."""


class ModelError(Error, RuntimeError):
    """The model or its framework failed in the call, or the runner refuses to load the model."""


class RunnerCrashed(Error, RuntimeError):
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


class Cancelled(Error):
    """The work was cancelled."""


class ForkError(Error, RuntimeError):
    """This process was forked from one that had used carton, and has none of the threads that carton needs."""
