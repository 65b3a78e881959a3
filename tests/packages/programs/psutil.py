# What a process asks about itself and the machine.
# part: quick
# requires: psutil==7.2.2
import os
import sys
import subprocess

import psutil


def run():
    process = psutil.Process()
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    has_child = child.pid in {each.pid for each in process.children()}
    child.communicate(b"\n")
    checks = [
        process.pid == os.getpid(),
        process.memory_info().rss > 1_000_000,
        process.num_threads() >= 1,
        len(process.cmdline()) > 0,
        has_child,
        psutil.virtual_memory().total > 0,
        psutil.cpu_times().user > 0,
    ]
    return {"numbers": [*checks, psutil.cpu_count()]}
