"""Describes exceptions of a model: the exception, its causes, and the traceback (only in the model and its libraries)."""

import importlib
import os
import re
import traceback

from carton_runner.calls import Cancelled
from carton_runner.connection import TooLarge
from carton_runner.errors import RunnerError

_OURS = os.path.dirname(os.path.abspath(__file__)) + os.sep
#: The greatest numbers of characters of a traceback, and of an exception's own text.
_TRACEBACK_CAP = 64 << 10
_TEXT_CAP = 16 << 10
_CHAIN_CAP = 16
#: The hint for a model that writes to its inputs.
_READ_ONLY = (
    "inputs lie in memory that is shared with the caller: copy what is written to (`x = x.copy()`), or set the model's option "
    "`writable_inputs = true`, with which the model gets copies"
)
#: What `pickle` says of a name that `__main__` does not have.
_OF_MAIN = re.compile(r"Can't get attribute '([\w.]+)' on <module '__main__'[^>]*>|module '__main__' has no attribute '(\w+)'")
#: The messages of NumPy and Cython about arrays that must not be written to.
_SAYS_READ_ONLY = re.compile(r"(?:destination|array|WRITEBACKIFCOPY base|write flag set|byte-swapped) is read-only\Z")


def of_call(error, call, model):
    """Returns the error of a call that failed with this exception; ``model`` is ``None`` before one is loaded."""
    if call.cancelled:
        return Cancelled()
    if isinstance(error, RunnerError):
        return error
    if isinstance(error, TooLarge):
        return RunnerError(str(error), code="too_large")
    described = describe(error)
    lost = _lost_class(error)
    if lost is not None:
        described.hint = "the pickle was made by a script or notebook that defines `%s` itself: %s" % (lost, of_lost_class(lost))
    if model is not None and not model.writable_inputs and _is_about_read_only(error):
        described.hint = _READ_ONLY
    return described


def describe(error, folder=None):
    """Returns the error of a call for an exception of the model: ``TypeName: text``, the exceptions that led to it, and the
    traceback. With the ``folder`` of the model the text begins with the line of the model where it happened."""
    try:
        causes = [_text(cause) for cause in _chain(error)]
        causes.extend(_traceback(error))
        message = _text(error)
        if folder is not None and not isinstance(error, SyntaxError):
            message = _line_in(error, folder) + message
    except Exception:  # noqa: BLE001, a model's exception may itself fail to be described
        message, causes = type(error).__name__, []
    return RunnerError(message, causes)


def of_lost_class(name):
    """Returns what can be done about a pickle that names this class or function of `__main__`."""
    return (
        "move `%s` into a module beside the model, such as `classes.py`, import it from there in the script that makes the pickle, "
        "and make it again"
        % name.split(".")[0]
    )


def _lost_class(error):
    """Returns the class or function of `__main__` that a pickle names, if an exception is about one."""
    for one in (error, *_chain(error)):
        found = _OF_MAIN.search(_text(one)) if isinstance(one, AttributeError) else None
        if found is not None:
            return found[1] or found[2]
    return None


def _is_about_read_only(error):
    """Whether an exception, or one that led to it, is about an array that must not be written to."""
    return any(isinstance(one, ValueError) and _SAYS_READ_ONLY.search(_text(one)) for one in (error, *_chain(error)))


def _line_in(error, folder):
    """Returns the last line of the model's own code that was reached, as ``net.py, line 3: ``."""
    frames = traceback.extract_tb(error.__traceback__)
    for frame in reversed(frames):
        if frame.filename.startswith(folder + os.sep):
            return "%s, line %d: " % (os.path.relpath(frame.filename, folder), frame.lineno)
    return ""


def _text(error):
    name = type(error).__name__
    try:
        text = str(error)
    except Exception:  # noqa: BLE001
        text = "<exception str() failed>"
    if isinstance(error, SyntaxError):
        text = "".join(traceback.TracebackException.from_exception(error).format_exception_only()).strip()
        return shortened(text, _TEXT_CAP)
    return shortened("%s: %s" % (name, text) if text else name, _TEXT_CAP)


def _chain(error):
    """Returns the exceptions that led to this one, outermost first."""
    chain = []
    seen = {id(error)}
    while len(chain) < _CHAIN_CAP:
        cause = error.__cause__
        if cause is None and not error.__suppress_context__:
            cause = error.__context__
        if cause is None or id(cause) in seen:
            break
        seen.add(id(cause))
        chain.append(cause)
        error = cause
    return chain


def _traceback(error):
    """Returns the traceback as Python prints it, without the frames of the runner; nothing if there are no others."""
    described = traceback.TracebackException.from_exception(error)
    if not _without_ours(described, set()):
        return []
    return [shortened("".join(described.format()).rstrip(), _TRACEBACK_CAP)]


def _without_ours(described, seen):
    """Removes the runner's frames from a traceback and from those of its causes. Returns whether any frame is left."""
    if described is None or id(described) in seen:
        return False
    seen.add(id(described))
    frames = [frame for frame in described.stack if not _is_ours(frame.filename)]
    described.stack = traceback.StackSummary.from_list(frames)
    left = bool(frames)
    for other in (described.__cause__, described.__context__, *(getattr(described, "exceptions", None) or ())):
        left = _without_ours(other, seen) or left
    return left


def _is_ours(filename):
    return filename.startswith((_OURS, "<frozen importlib", importlib.__file__))


def shortened(text, cap=_TEXT_CAP):
    """Returns a text without its middle, if it is longer than ``cap`` characters."""
    if len(text) <= cap:
        return text
    return "%s\n  […]\n%s" % (text[: cap // 2], text[-cap // 2 :])
