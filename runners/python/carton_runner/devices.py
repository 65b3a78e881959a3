"""Lets frameworks see the device that was asked for, before they are imported.

Which frameworks a model has, and what they can use, is not known here. What is known is what all of them need of a GPU: a
driver that lists it. So NVIDIA's driver is asked, by another process, because it reads ``CUDA_VISIBLE_DEVICES`` once and must
not be started in a process that may fork.
"""

import os
import re
import sys
import time

from carton_runner.calls import Cancelled
from carton_runner.errors import RunnerError

VISIBLE = "CUDA_VISIBLE_DEVICES"
#: The GPUs that this process was shown; a load that failed may have changed the variable.
_GIVEN = os.environ.get(VISIBLE)
_NAME = re.compile(r"(?:GPU|MIG)-[A-Za-z0-9/-]{1,200}")
_INDEX = re.compile(r"[0-9]{1,9}")
#: The driver of NVIDIA's GPUs.
_DRIVER = "libcuda.so.1"
#: What a machine with GPUs of AMD has. Their library comes with the frameworks, which then say what is wrong.
_OF_AMD = "/dev/kfd"
#: Seconds in which the driver must answer. It may have to wake GPUs up.
_PATIENCE = 120

#: Seconds between two looks whether the load was cancelled.
_PAUSE = 0.25

_ASK = """
import ctypes, sys
driver = ctypes.CDLL(sys.argv[1])
count = ctypes.c_int()
status = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
print(status, count.value)
"""
#: What the driver's numbers mean that are worth knowing.
_REASONS = {100: "it lists no such GPU", 101: "it lists no such GPU", 803: "it does not fit the kernel's part of it"}


def choose(device, is_wanted):
    """Shows frameworks the device that a load asks for, ``None`` for any. ``is_wanted`` says whether somebody still waits for
    the load. Raises ``Cancelled`` if not, ``RunnerError`` (``unavailable``) for what
    names no device, and for a GPU that this machine does not have."""
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
    """What ``CUDA_VISIBLE_DEVICES`` has to be. An index counts the GPUs that are visible already."""
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
    """Why no framework can use the one GPU that is shown; ``None`` if nothing is known against it."""
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
    """What a process prints until it ends, which it has to do in time and while somebody waits for the load."""
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
