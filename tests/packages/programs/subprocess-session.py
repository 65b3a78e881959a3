# Processes in a session, and in a group, of their own.
# part: quick
# requires:
import os
import signal
import subprocess
import sys


def run():
    code = "import os; print(os.getsid(0) == os.getpid(), os.getpgrp() == os.getpid())"
    session = subprocess.run([sys.executable, "-c", code], start_new_session=True, capture_output=True, text=True, check=True)
    sleeper = subprocess.Popen(["sleep", "60"], start_new_session=True)
    os.killpg(sleeper.pid, signal.SIGTERM)
    return {"numbers": [word == "True" for word in session.stdout.split()] + [sleeper.wait()]}
