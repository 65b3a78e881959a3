"""The package as which a model is imported, in the runner's process and in processes that the model starts. Its modules are those
in the model's folder."""

import os as _os

_folder = _os.environ["CARTON_PYTHON_MODEL_FOLDER"]
__path__ = [_folder]
_initial = _os.path.join(_folder, "__init__.py")
if _os.path.isfile(_initial):
    __file__ = _initial
    with open(_initial, "rb") as _file:
        exec(compile(_file.read(), _initial, "exec"))
