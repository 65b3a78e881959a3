"""Makes the requested device visible to frameworks, before they are imported.

This module does not know which frameworks a model uses, or which devices they support. But all of them need a driver that lists the
GPU. So another process asks NVIDIA's driver: the driver reads ``CUDA_VISIBLE_DEVICES`` only once, and must not be initialised in a
process that may fork.
"""

import os
import re
import sys
import time

from carton_runner.calls import Cancelled
from carton_runner.errors import RunnerError

VISIBLE = "CUDA_VISIBLE_DEVICES"
#: The GPUs that were visible when this process started; a load that failed may have changed the variable since.
_GIVEN = os.environ.get(VISIBLE)
_NAME = re.compile(r"(?:GPU|MIG)-[A-Za-z0-9/-]{1,200}")
_INDEX = re.compile(r"[0-9]{1,9}")
#: The driver of NVIDIA's GPUs.
_DRIVER = "libcuda.so.1"
#: Exists on a machine with GPUs of AMD. Their library comes with the frameworks, which report problems themselves.
_OF_AMD = "/dev/kfd"
#: The time limit for the driver's answer, in seconds. It may have to wake GPUs up.
_PATIENCE = 120

#: Seconds between two checks whether the load was cancelled.
_PAUSE = 0.25

_ASK = """
import ctypes, sys
driver = ctypes.CDLL(sys.argv[1])
count = ctypes.c_int()
status = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
print(status, count.value)
"""
#: The meanings of the driver's common error numbers.
_REASONS = {
    100: "it lists no such GPU",
    101: "it lists no such GPU",
    304: "the sandbox, a container or the system refuses what it needs",
    803: "it does not fit the kernel's part of it",
}


def choose(device, is_wanted):
    """Makes the device that a load requests visible to frameworks; ``None`` requests any device. ``is_wanted`` returns whether the
    load has not been cancelled. Raises ``Cancelled`` if it has been, and ``RunnerError`` (``unavailable``) for a text that names no
    device, and for a GPU that this machine does not have."""
    if device is None:
        if _GIVEN is None:
            os.environ.pop(VISIBLE, None)
        else:
            os.environ[VISIBLE] = _GIVEN
        return
    if device == "cpu":
        os.environ[VISIBLE] = ""
        return
    shown = _shown(device)
    problem = _problem(shown, is_wanted)
    if problem is not None:
        raise _unusable("device `%s` cannot be used" % device, [problem])
    os.environ[VISIBLE] = shown


def _shown(device):
    """Returns the value for ``CUDA_VISIBLE_DEVICES``. An index counts the GPUs that are visible already."""
    if _NAME.fullmatch(device):
        return device
    if not _INDEX.fullmatch(device):
        text = "`%s` names no device: expected `cpu`, the index of a GPU, or its name `GPU-…` or `MIG-…`"
        raise _unusable(text % device[:100])
    index = int(device)
    if _GIVEN is None:
        return str(index)
    shown = [gpu.strip() for gpu in _GIVEN.split(",") if gpu.strip()]
    if index >= len(shown):
        text = "device `%s` is not there: %s shows %d GPUs, counted from 0"
        raise _unusable(text % (device, VISIBLE, len(shown)))
    return shown[index]


def _unusable(message, causes=()):
    return RunnerError(message, causes, "unavailable", "use the device `cpu`, or one that this machine has")


def _problem(shown, is_wanted):
    """Returns the reason why no framework can use the GPU that is shown; ``None`` if no reason is known."""
    import subprocess

    command = [sys.executable, "-IBS", "-c", _ASK, _DRIVER]
    try:
        asked = subprocess.Popen(
            command,
            env=dict(os.environ, **{VISIBLE: shown}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        with asked:
            printed, said = _wait_for(asked, is_wanted)
    except (OSError, subprocess.TimeoutExpired) as error:
        return "the driver cannot be asked: %s" % error
    answer = printed.split()
    if asked.returncode == 0 and len(answer) == 2:
        status, count = (int(number) for number in answer)
        if status == 0 and count > 0:
            return None
        return "the driver of NVIDIA's GPUs says: %s" % _REASONS.get(status or 100, "error %d" % status)
    if os.path.exists(_OF_AMD):
        return None
    said = said.decode(errors="replace").strip().splitlines()
    return "the driver of NVIDIA's GPUs cannot be used: %s" % (said[-1] if said else "it ended with %d" % asked.returncode)


def _wait_for(asked, is_wanted):
    """Returns the output of a process when it has ended. Kills it when its time is over or the load is cancelled."""
    import subprocess

    end = time.monotonic() + _PATIENCE
    while True:
        try:
            return asked.communicate(timeout=_PAUSE)
        except subprocess.TimeoutExpired:
            if is_wanted() and time.monotonic() < end:
                continue
            asked.kill()
            if not is_wanted():
                raise Cancelled from None
            raise subprocess.TimeoutExpired("the driver", _PATIENCE) from None
