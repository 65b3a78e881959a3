"""A model that tries to leave its sandbox. It is given the name of a way, and the arguments of its function as JSON.

The answer begins with one word. `escaped`: with what was achieved. `contained`: with the error. `broken`: the attempt itself has an
error, and shows nothing. Without a runner, for a look at one of them:

    python3 main.py read_file '{"path": "/etc/hostname"}'

Three more names run another attempt in a process of its own, whose name and arguments are those of the attempt: `child`, `grandchild`,
and `program`, which is the same in another interpreter.
"""

import errno
import json
import os
import signal
import subprocess
import sys
import time

_FOLDER = os.path.dirname(os.path.abspath(__file__))
if _FOLDER not in sys.path:
    sys.path.insert(0, _FOLDER)

import ways  # noqa: E402
import ways.scratch  # noqa: E402
import ways.system  # noqa: E402
from ways.outcome import Nothing, printable  # noqa: E402

#: Seconds that an attempt may take.
_PATIENCE = 20


class _TimeIsUp(BaseException):
    pass


def attempt(attempt, argument, region=None):
    """The model. `region` is a tensor that is large enough to lie in memory that the host lends."""
    ways.memory.lend(region)
    return {"result": answer(str(attempt[()]), str(argument[()]))}


def answer(name, argument):
    """Makes an attempt and describes its outcome in one line."""

    def stop(*_):
        raise _TimeIsUp

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, _PATIENCE, 1)
    try:
        return "escaped: %s" % _make(name, json.loads(argument or "{}"))
    except Nothing as outcome:
        return "contained: %s" % outcome
    except OSError as error:
        code = errno.errorcode.get(error.errno, error.errno)
        if error.errno is None and isinstance(error, TimeoutError):
            code = "ETIMEDOUT"
        return "contained: %s %s" % (code, printable(str(error)))
    except MemoryError as error:
        return "contained: ENOMEM %s" % printable(str(error))
    except (_TimeIsUp, subprocess.TimeoutExpired):
        return "broken: it did not end"
    except Exception as error:
        return "broken: %s: %s" % (type(error).__name__, printable(str(error)))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _make(name, arguments):
    if name == "where":
        return _where()
    if name in ("child", "grandchild", "program"):
        return _outcome({"child": _in_child, "grandchild": _in_grandchild, "program": _in_program}[name](**arguments))
    return ways.ALL[name](**arguments)


def _where():
    """Tells the test where this process is."""
    import resource

    places = {
        "pid": os.getpid(),
        "parent": os.getppid(),
        "group": os.getpgid(0),
        "user": os.getuid(),
        "folder": os.getcwd(),
        "scratch": ways.scratch.folder(),
        "home": os.environ.get("HOME"),
        "executable": sys.executable,
        "descriptors": [number for number in range(256) if _is_open(number)],
        "no_new_privileges": ways.system.library("prctl", 39, 0, 0, 0, 0),
        "core": resource.getrlimit(resource.RLIMIT_CORE)[1],
    }
    return json.dumps(places)


def _is_open(number):
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _outcome(text):
    """Turns the answer of another process into the outcome of this attempt."""
    kind, _, rest = text.partition(": ")
    if kind == "escaped":
        return rest
    if kind == "contained":
        raise Nothing(rest)
    raise RuntimeError(rest or text)


def _in_child(attempt, **arguments):
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(read)
            os.write(write, answer(attempt, json.dumps(arguments)).encode("utf-8", "replace"))
        finally:
            os._exit(0)
    os.close(write)
    return _collect(child, read)


def _in_grandchild(attempt, **arguments):
    return _in_child("child", attempt=attempt, **arguments)


def _collect(child, read):
    """Returns what a child wrote, or by which signal it ended."""
    data = b""
    end = time.monotonic() + _PATIENCE - 2
    try:
        os.set_blocking(read, False)
        while time.monotonic() < end:
            try:
                piece = os.read(read, 65536)
            except BlockingIOError:
                # A process that the attempt leaves behind may keep the pipe open.
                if data:
                    break
                ended, status = os.waitpid(child, os.WNOHANG)
                if not ended:
                    time.sleep(0.005)
                    continue
                try:
                    # What it wrote between the two calls.
                    data = os.read(read, 65536)
                except BlockingIOError:
                    pass
                return data.decode("utf-8", "replace") if data else _ended(status)
            if not piece:
                break
            data += piece
    finally:
        os.close(read)
    if data:
        try:
            os.waitpid(child, 0)
        except ChildProcessError:
            pass
        return data.decode("utf-8", "replace")
    if time.monotonic() >= end:
        os.kill(child, signal.SIGKILL)
    return _ended(os.waitpid(child, 0)[1])


def _ended(status):
    if os.WIFSIGNALED(status):
        return "contained: killed by %s" % signal.Signals(os.WTERMSIG(status)).name
    return "broken: the child ended without an answer"


def _in_program(attempt, **arguments):
    # Bytecode is kept in the scratch folder, because there are many such programs.
    options = ["-IS", "-X", "pycache_prefix=%s" % ways.scratch.folder()]
    command = [sys.executable, *options, os.path.join(_FOLDER, "main.py"), attempt, json.dumps(arguments)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        output, errors = process.communicate(timeout=_PATIENCE - 2)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    if process.returncode < 0:
        return "contained: killed by %s" % signal.Signals(-process.returncode).name
    return output.decode("utf-8", "replace").strip() or "broken: %s" % printable(errors[-200:])


if __name__ == "__main__":
    print(answer(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "{}"))
