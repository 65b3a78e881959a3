"""Loads a model: its options, its environment, its code (runners/python/README.md has the conventions)."""

import importlib
import inspect
import os
import sys
from pathlib import Path

from carton_runner import activation, environments
from carton_runner.errors import RunnerError
from carton_runner.model import Model

#: The package as which models are imported, as in the original Carton.
_PACKAGE = "_carton_model_module"
_MODEL_OPTION = "model."


class Options:
    """The options of a model, taken apart."""

    def __init__(self, options, warn):
        self.package = self.entrypoint = self.function = None
        #: For the entry point.
        self.for_model = {}
        names = {"entrypoint_package": "package", "entrypoint_fn": "entrypoint", "infer_fn": "function"}
        for name, value in options.items():
            if name in names:
                if not isinstance(value, str) or not value:
                    raise RunnerError("the option `%s` must be a name, found %r" % (name, value))
                setattr(self, names[name], value)
            elif name.startswith(_MODEL_OPTION):
                self.for_model[name[len(_MODEL_OPTION) :]] = value
            elif name == "model" and isinstance(value, dict):
                # How TOML reads `model.x = 1` without quotes.
                self.for_model.update(value)
            else:
                warn("unknown option `%s`" % name)
        if self.entrypoint and self.function:
            raise RunnerError("of the options `entrypoint_fn` and `infer_fn` only one can be given")


def load(fields, report, call, loops):
    """The model that a ``load`` asks for."""
    options = Options(fields["options"], report.warn)
    folder = os.path.abspath(fields["path"])
    if not os.path.isdir(folder):
        raise RunnerError("there is no folder %s" % folder)
    packages = environments.prepare(Path(folder), report)
    activation.hide_variables()
    activation.choose_device(fields["device"])
    _forget_earlier_attempts()
    activation.activate(folder, packages)
    numpy = _import_numpy(folder, packages)
    package = options.package or _only_module(folder)
    module = _import(package, folder)
    if options.function:
        function = _attribute(module, options.function, package, "infer_fn")
        for name in options.for_model:
            report.warn("the option `model.%s` is not used: the model is a plain function" % name)
        model = Model.of_function(function, fields["inputs"], fields["outputs"], loops)
    else:
        made = _call_entrypoint(module, options, package, report, call, loops)
        model = Model.of_object(made, fields["inputs"], fields["outputs"], loops)
    return model, numpy


def _forget_earlier_attempts():
    importlib.invalidate_caches()
    for name in [name for name in sys.modules if name.split(".")[0] == _PACKAGE]:
        del sys.modules[name]


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
            # Every lock has it, so that somebody must have changed the environment.
            hint = "delete the folder %s: the environment is made anew" % Path(packages).parents[2]
        if os.path.exists(os.path.join(folder, "numpy", "__init__.py")):
            where, hint = "the model's own folder `numpy`", "give the folder another name"
        raise RunnerError("NumPy cannot be imported from %s" % where, [str(error)], "unavailable", hint) from error
    return numpy


def _only_module(folder):
    """The model's module where none is named: the only file of Python in its folder, else ``main``."""
    names = [name[:-3] for name in os.listdir(folder) if name.endswith(".py") and name != "__init__.py"]
    return names[0] if len(names) == 1 else "main"


def _import(package, folder):
    name = "%s.%s" % (_PACKAGE, package)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # A module that the model itself lacks is an error like any other, with its traceback.
        if error.name is None or not (name == error.name or name.startswith(error.name + ".")):
            raise
        found = ", ".join(sorted(entry for entry in os.listdir(folder) if entry.endswith(".py"))) or "none"
        hint = "name the model's module with the option `entrypoint_package`"
        message = "the model has no module `%s` (there are these: %s)" % (package, found)
        raise RunnerError(message, hint=hint) from None


def _attribute(module, name, package, option):
    value = module
    for part in name.split("."):
        value = getattr(value, part, None)
    if not callable(value):
        what = "no function" if value is None else "a %s, not a function," % type(value).__name__
        hint = "name the function with the option `%s`" % option
        if option == "entrypoint_fn":
            hint += ", or a plain function that is the model with `infer_fn`"
        raise RunnerError("the module `%s` has %s `%s`" % (package, what, name), hint=hint)
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
    """The one event loop on which all coroutines of the model run, made when the first one comes."""

    def __init__(self):
        self._loop = None

    def run(self, call, awaitable, cancellable=True):
        """Runs a coroutine, or anything that can be awaited, until it is done. Cancelling the call cancels it."""
        # Most models have no coroutines, and the import takes long.
        import asyncio

        if self._loop is None or self._loop.is_closed():
            self._loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self._loop)
        if not asyncio.iscoroutine(awaitable):
            awaitable = _wait_for(awaitable)
        return call.run(self._loop, awaitable, cancellable)


async def _wait_for(awaitable):
    return await awaitable
