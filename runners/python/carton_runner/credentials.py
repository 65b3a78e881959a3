"""Keeps the credentials of package indexes away from the process that runs the model.

Installing packages needs them, models do not. They are in the environment that the host starts the runner with, and a process
can read its initial environment for as long as it lives. So the runner begins by restarting without them::

    runner, as it was started, with credentials
      ├── fork ────> keeper: keeps them, and starts uv and pip for the runner (``keeper.py``)
      └── execve ──> runner, the same process without them: serves the host, asks the keeper, ends it, imports the model

The keeper ends before the first line of the model runs. If no such variable is set, there is neither a second start nor a
keeper, and the runner starts uv and pip itself.
"""

import os
import socket
import stat
import sys

from carton_runner.descriptors import move_up

#: The variable that gives the restarted process its keeper: the descriptor of the socket, and the process number.
KEEPER = "CARTON_PYTHON_KEEPER"

#: The variables among ``environments.VARIABLES`` that can hold a password, or the location of one. The process that runs the
#: model is started without them.
VARIABLES = (
    "UV_*",
    "PIP_*",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "NETRC",
)

#: The keeper of this process.
_keeper = None


def is_credential(name):
    """Whether an environment variable is one of :data:`VARIABLES`."""
    return any(name.startswith(one[:-1]) if one.endswith("*") else name == one for one in VARIABLES)


def part():
    """Restarts this process without credentials, if it has any. Must be called before anything else, because messages of the
    host that were read before the restart would be lost."""
    global _keeper
    if not any(is_credential(name) for name in os.environ):
        _keeper = _inherited(os.environ.pop(KEEPER, ""))
        return
    ours, theirs = socket.socketpair()
    number = os.fork()
    if number == 0:
        try:
            ours.close()
            from carton_runner import keeper

            keeper.serve(theirs)
        finally:
            os._exit(0)
    theirs.close()
    clean = {name: value for name, value in os.environ.items() if not is_credential(name)}
    clean[KEEPER] = "%d:%d" % (ours.fileno(), number)
    os.set_inheritable(ours.fileno(), True)
    try:
        os.execve(sys.executable, [sys.executable, *_arguments()], clean)
    except OSError as error:
        # Continuing would give the credentials to the model.
        print("python: cannot start %r again without credentials: %s" % (sys.executable, error), file=sys.stderr)
        sys.exit(1)


def _arguments():
    """Returns the arguments of the interpreter, without its name."""
    given = getattr(sys, "orig_argv", None)
    if given is None:
        # Python before 3.10 does not provide them.
        with open("/proc/self/cmdline", "rb") as file:
            given = [os.fsdecode(argument) for argument in file.read().split(b"\0")[:-1]]
    return given[1:]


def _inherited(place):
    if not place:
        return None
    try:
        descriptor, number = (int(part) for part in place.split(":"))
        if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            return None
    except (OSError, ValueError):
        return None
    from carton_runner.keeper import Keeper

    return Keeper(socket.socket(fileno=move_up(descriptor)), number)


def keeper():
    """Returns the process that has the credentials; ``None`` if there were none."""
    return _keeper


def forget():
    """Ends the keeper. From then on the host is the only process with credentials that this process can reach. Must be called
    before code of a model runs."""
    global _keeper
    if _keeper is not None:
        _keeper.end()
        _keeper = None
