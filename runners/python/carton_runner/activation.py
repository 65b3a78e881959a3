"""Makes a model's folder and its environment those of this process, as the ``activate_this`` of virtualenv does.

The process stays the one that was started: modules of the standard library and of the runner are the interpreter's own.
"""

import fnmatch
import os
import site
import sys

from carton_runner import environments

_HERE = os.path.dirname(os.path.abspath(__file__))
#: Holds the package as which a model is imported, also by processes that it starts.
_IMPORTING = os.path.join(_HERE, "importing")
#: Tells that package, here and in processes that the model starts, where the model is.
MODEL_FOLDER = "CARTON_PYTHON_MODEL_FOLDER"


def hide_variables():
    """Deletes the remaining variables for installing packages; ``credentials.part`` has removed the secret ones."""
    for name in list(os.environ):
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in environments.VARIABLES):
            del os.environ[name]


def activate(model_folder, packages):
    """Puts the model's folder and the folder of its packages in front of the search path. With packages of its own, the
    model sees none that happen to be installed beside the interpreter."""
    if packages is not None:
        others = {os.path.realpath(folder) for folder in site.getsitepackages()}
        sys.path[:] = [folder for folder in sys.path if os.path.realpath(folder) not in others]
        n_before = len(sys.path)
        site.addsitedir(os.fspath(packages))
        # What was added, and what its .pth files added, goes to the front.
        sys.path[:] = sys.path[n_before:] + sys.path[:n_before]
        _enter_virtual_environment(os.fspath(packages))
    os.environ[MODEL_FOLDER] = model_folder
    for folder in (_IMPORTING, model_folder):
        if folder in sys.path:
            sys.path.remove(folder)
        sys.path.insert(0, folder)
    os.chdir(model_folder)


def _enter_virtual_environment(packages):
    """Processes that the model starts with ``sys.executable`` see the same packages."""
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
