"""Activates a model's folder and its environment in this process, as the ``activate_this`` of virtualenv does.

The process is not restarted: modules of the standard library and of the runner stay the interpreter's own.
"""

import fnmatch
import os
import site
import sys

from carton_runner import environments

_HERE = os.path.dirname(os.path.abspath(__file__))
#: The folder of the package as which a model is imported, and of the main module of processes that the model starts.
_IMPORTING = os.path.join(_HERE, "importing")
#: That main module.
_MAIN_OF_PROCESSES = os.path.join(_IMPORTING, "_carton_model_processes.py")
#: The variable that gives that package the model's folder, in this process and in processes that the model starts.
MODEL_FOLDER = "CARTON_PYTHON_MODEL_FOLDER"


def hide_variables():
    """Deletes the variables for installing packages. The host passes none of them to a process that loads a model; this is for
    a host that does. It is no protection: a process can read the environment that it was started with."""
    for name in list(os.environ):
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in environments.WITHHELD):
            del os.environ[name]


def activate(model_folder, packages):
    """Puts the model's folder and the folder of its packages in front of the search path. A model with its own packages does
    not see the packages that are installed beside the interpreter."""
    if packages is not None:
        others = {os.path.realpath(folder) for folder in site.getsitepackages()}
        sys.path[:] = [folder for folder in sys.path if os.path.realpath(folder) not in others]
        n_before = len(sys.path)
        site.addsitedir(os.fspath(packages))
        # The added folders, and those that their .pth files added, go to the front.
        sys.path[:] = sys.path[n_before:] + sys.path[:n_before]
        _enter_virtual_environment(os.fspath(packages))
    os.environ[MODEL_FOLDER] = model_folder
    for folder in (_IMPORTING, model_folder):
        if folder in sys.path:
            sys.path.remove(folder)
        sys.path.insert(0, folder)
    os.chdir(model_folder)
    # `multiprocessing` imports the main module of this process in those that it starts.
    sys.modules["__main__"].__file__ = _MAIN_OF_PROCESSES


def _enter_virtual_environment(packages):
    """Sets ``sys.executable`` and the environment so that processes that the model starts see the same packages."""
    folder = packages
    for _ in range(4):
        folder = os.path.dirname(folder)
        python = os.path.join(folder, "bin", "python")
        if os.path.exists(os.path.join(folder, "pyvenv.cfg")) and os.access(python, os.X_OK):
            sys.prefix = sys.exec_prefix = folder
            sys.executable = python
            os.environ["VIRTUAL_ENV"] = folder
            os.environ["PATH"] = os.path.dirname(python) + os.pathsep + os.environ.get("PATH", os.defpath)
            return
