"""Loads a model: its options, its environment and its code (runners/python/README.md has the conventions)."""

import importlib
import inspect
import os
import sys
from pathlib import Path

from carton_runner import activation, devices, entry_point, environments, model_modules, tracebacks
from carton_runner.errors import RunnerError
from carton_runner.model import Model

_MODEL_OPTION = "model."
_WRITABLE_INPUTS = "writable_inputs"
#: Cartons with this file follow the conventions of the original Carton, whose models own their inputs.
_LOCK_OF_THE_ORIGINAL = ".carton/carton.lock"


class Options:
    """The parsed options of a model."""

    def __init__(self, options, warn):
        self.package = self.entrypoint = self.function = None
        #: The arguments of the entry point.
        self.for_model = {}
        #: Whether the model may write to its inputs; ``None`` if the options do not say.
        self.writable_inputs = None
        names = {"entrypoint_package": "package", "entrypoint_fn": "entrypoint", "infer_fn": "function"}
        for name, value in options.items():
            if name in names:
                if not isinstance(value, str) or not value:
                    raise RunnerError("the option `%s` must be a name, found %r" % (name, value))
                setattr(self, names[name], value)
            elif name == _WRITABLE_INPUTS:
                if not isinstance(value, bool):
                    raise RunnerError("the option `%s` must be true or false, found %r" % (name, value))
                self.writable_inputs = value
            elif name.startswith(_MODEL_OPTION):
                self.for_model[name[len(_MODEL_OPTION) :]] = value
            elif name == "model" and isinstance(value, dict):
                # TOML reads `model.x = 1` without quotes as a table.
                self.for_model.update(value)
            else:
                warn("unknown option `%s`" % name)
        if self.entrypoint and self.function:
            raise RunnerError("of the options `entrypoint_fn` and `infer_fn` only one can be given")


def load(fields, report, call, loops, before_model):
    """Returns the model that a ``load`` requests, and its NumPy. ``before_model`` is called before code of the model runs. Writes
    nothing itself."""
    warnings = []
    options = Options(fields["options"], warnings.append)
    folder = model_folder(fields)
    # Checked first, so that an unusable device is reported before packages are fetched.
    devices.choose(fields["device"], report.is_wanted)
    packages = environments.find(Path(folder), report)
    # Only now, because the host loads a model again after it was prepared.
    for warning in warnings:
        report.warn(warning)
    before_model()
    activation.hide_variables()
    activation.activate(folder, packages)
    model_modules.install(folder)
    numpy = _import_numpy(folder, packages)
    package = options.package or entry_point.only_module(os.listdir(folder))
    module = _import(package, folder)
    if options.function:
        function = _attribute(module, options.function, package, "infer_fn")
        for name in options.for_model:
            report.warn("the option `model.%s` is not used: the model is a plain function" % name)
        model = Model.of_function(function, fields["inputs"], fields["outputs"], loops)
    else:
        try:
            made = _call_entrypoint(module, options, package, report, call, loops)
        except ModuleNotFoundError as error:
            raise _not_found(error, folder) from None
        model = Model.of_object(made, fields["inputs"], fields["outputs"], loops)
    model.writable_inputs = options.writable_inputs
    if options.writable_inputs is None:
        model.writable_inputs = os.path.exists(os.path.join(folder, _LOCK_OF_THE_ORIGINAL))
    return model, numpy


def model_folder(fields):
    """Returns the model's folder as ``load`` and ``prepare`` name it."""
    folder = os.path.abspath(fields["path"])
    if not os.path.isdir(folder):
        raise RunnerError("there is no folder %s" % folder)
    return folder


def _import_numpy(folder, packages):
    if os.path.exists(os.path.join(folder, "numpy.py")):
        raise RunnerError("the model's own `numpy.py` hides NumPy", hint="give the file another name")
    try:
        import numpy
        import numpy.ma  # noqa: F401, used to recognise masked arrays
    except ImportError as error:
        where = "the model's environment" if packages is not None else "the Python that runs the model"
        if packages is None:
            hint = "pack the model anew, which gives it NumPy, or install it: %s -m pip install numpy" % sys.executable
        else:
            # Every lock contains NumPy, so the environment must have been changed.
            hint = "delete the folder %s: the environment is made anew" % Path(packages).parents[2]
        if os.path.exists(os.path.join(folder, "numpy", "__init__.py")):
            where, hint = "the model's own folder `numpy`", "give the folder another name"
        raise RunnerError("NumPy cannot be imported from %s" % where, [str(error)], "unavailable", hint) from error
    return numpy


def _import(package, folder):
    name = "%s.%s" % (model_modules.PACKAGE, package)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name
        if missing is not None and (name == missing or name.startswith(missing + ".")):
            raise entry_point.no_module(package, os.listdir(folder)) from None
        raise _not_found(error, folder) from None
    except SyntaxError as error:
        raise tracebacks.describe(error, folder) from None


def _not_found(error, folder):
    """Returns the error for a missing module that the model imports, with a hint."""
    described = tracebacks.describe(error, folder)
    if error.name is not None and not error.name.startswith(model_modules.PACKAGE):
        described.hint = _missing_package(error.name.split(".")[0], folder)
    return described


#: Packages whose names differ from the modules that are imported from them.
_PACKAGES = {
    "PIL": "pillow",
    "attr": "attrs",
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python-headless",
    "dateutil": "python-dateutil",
    "dotenv": "python-dotenv",
    "faiss": "faiss-cpu",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
}


def _missing_package(module, folder):
    """Returns the hint for a missing module."""
    package = _PACKAGES.get(module, module)
    if not os.path.exists(os.path.join(folder, "requirements.txt")):
        return "name the package in a requirements.txt beside the model, a line `%s`, and pack the model again" % package
    return "add the package to the model's requirements.txt, a line `%s`, and pack the model again" % package


def _attribute(module, name, package, option):
    value = module
    for part in name.split("."):
        value = getattr(value, part, None)
    if not callable(value):
        what = "no function" if value is None else "a %s, not a function," % type(value).__name__
        file = os.path.basename(getattr(module, "__file__", None) or "")
        raise entry_point.no_function(package, name, option, what, file)
    return value


def _call_entrypoint(module, options, package, report, call, loops):
    name = options.entrypoint or "get_model"
    entrypoint = _attribute(module, name, package, "entrypoint_fn")
    arguments = dict(options.for_model)
    try:
        parameters = inspect.signature(entrypoint).parameters.values()
    except (TypeError, ValueError):
        parameters = None
    if parameters is not None and not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        known = {
            parameter.name
            for parameter in parameters
            if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        }
        for option in [option for option in arguments if option not in known]:
            report.warn("unknown option `model.%s`: `%s` has no such parameter" % (option, name))
            del arguments[option]
    made = entrypoint(**arguments)
    if inspect.isawaitable(made):
        made = loops.run(call, made)
    return made


class EventLoops:
    """The one event loop on which all coroutines of the model run, created for the first one."""

    def __init__(self):
        self._loop = None

    def run(self, call, awaitable, cancellable=True):
        """Runs a coroutine, or another awaitable, until it is done. Cancelling the call cancels it if it is ``cancellable``."""
        # Imported only here, because most models have no coroutines, and the import is slow.
        import asyncio

        if self._loop is None or self._loop.is_closed():
            self._loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self._loop)
        if not asyncio.iscoroutine(awaitable):
            awaitable = _wait_for(awaitable)
        return call.run(self._loop, awaitable, cancellable)


async def _wait_for(awaitable):
    return await awaitable
