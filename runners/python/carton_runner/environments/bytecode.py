"""Compiles the modules of an environment, in an interpreter that sees none of its packages: compiling runs no code of theirs, but the
start of an environment's own interpreter would (``.pth`` files)."""

import compileall
import os
import sys
import warnings


def command(folder):
    """Returns the command that compiles all modules below ``folder``."""
    return [sys.executable, "-I", "-S", "-B", os.path.abspath(__file__), os.fspath(folder)]


def main(folder):
    """Compiles all modules below ``folder``, on all cores. Modules that cannot be compiled are left as they are."""
    warnings.simplefilter("ignore")
    paths = [
        os.path.join(place, name) for place, _, names in os.walk(folder) for name in names if name.endswith(".py")
    ]
    n_cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    workers = []
    for first in range(min(n_cores, len(paths))):
        worker = os.fork()
        if worker == 0:
            try:
                _compile(paths[first::n_cores])
            finally:
                os._exit(0)
        workers.append(worker)
    for worker in workers:
        os.waitpid(worker, 0)


def _compile(paths):
    for path in paths:
        try:
            compileall.compile_file(path, quiet=2)
        except Exception:  # noqa: BLE001, such a module is compiled when it is imported, or fails then
            pass


if __name__ == "__main__":
    main(sys.argv[1])
