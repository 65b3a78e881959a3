"""Models of the python runner: estimators, functions, classes and objects, each a module that reads a pickle."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Callable, Iterable

from .._errors import InvalidInputError
from .examples import as_received, as_sent, column_array, copies_of, named_example, parameters_of, with_result, with_signature
from .libraries import is_of
from .live import Live
from .packages import distributions_of, pin, with_requirements
from .pickles import pickled

#: The input of an estimator, whose example has no name of its own.
_FEATURES = "features"
_PICKLE = "model.pickle"

_ESTIMATOR = '''\
"""A {kind}, packed by `carton.pack`."""

import os
import pickle

import numpy
{imports}

class Model:
    def __init__(self):
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "{pickle}"), "rb") as file:
            self.estimator = pickle.load(file)

    def infer_with_tensors(self, inputs):
        features = {features}
        return {{{outputs}}}


def get_model():
    return Model()
'''

_PICKLED = '''\
"""{kind}, packed by `carton.pack`."""

import os
import pickle

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "{pickle}"), "rb") as file:
    {name} = pickle.load(file)
'''

_PICKLED_OBJECT = _PICKLED.replace("{name}", "_model") + '''

def get_model():
    return _model
'''


def methods_of(model: Any) -> dict[str, str]:
    """The outputs of an estimator, and the method that computes each."""
    if is_of(model, "xgboost", "Booster"):
        return {"prediction": "inplace_predict"}
    found = {"prediction": "predict", "probabilities": "predict_proba"}
    methods = {output: method for output, method in found.items() if callable(getattr(model, method, None))}
    if not methods and callable(getattr(model, "transform", None)):
        return {"transformed": "transform"}
    return methods if "prediction" in methods else {}


def of_estimator(model: Any, methods: dict[str, str], folder: Path, example: Any, names: list[str] | None) -> Live:
    extra = []
    columns = None
    if is_of(example, "pandas", "DataFrame"):
        columns = [str(name) for name in example.columns]
        extra = ["pandas"]
    expected = None
    named: dict[str, Any] | None
    if example is None:
        named = None
        name = names[0] if names else _FEATURES
    elif columns is not None:
        named = {str(name): column_array(series) for name, series in example.items()}
    else:
        named = named_example(example, names or [_FEATURES])
        if len(named) != 1:
            error = InvalidInputError(f"an estimator has one input, and the example has {len(named)}: {', '.join(named)}")
            error.hint = "pass an array, or a pandas.DataFrame whose columns become inputs"
            raise error
        ((name, values),) = named.items()
        named = {name: as_received(values, name)}
    if columns is not None and named is not None:
        # In a DataFrame made of inputs as the model gets them, because that is what the packed model computes.
        import pandas

        given: Any = pandas.DataFrame({name: named[name] for name in columns})
        features = f"pandas.DataFrame({{name: inputs[name] for name in {columns!r}}})"
    else:
        given = None if named is None else named[name]
        features = f"inputs[{name!r}]"
    if given is not None:
        computed = {output: getattr(model, method)(given) for output, method in methods.items()}
        # Estimators with several targets return a list of arrays for the probabilities.
        methods = {output: method for output, method in methods.items() if not isinstance(computed[output], list)}
        expected = {output: as_sent(computed[output]) for output in methods}
    outputs = ", ".join(f"{output!r}: numpy.asarray(self.estimator.{method}(features))" for output, method in methods.items())
    kind = f"{type(model).__module__.split('.')[0]} model ({type(model).__name__})"
    imports = "import pandas\n" if columns is not None else ""
    text = _ESTIMATOR.format(kind=kind, imports=imports, pickle=_PICKLE, features=features, outputs=outputs)
    live = _python(model, folder, text, extra)
    if named is not None:
        live.example = named
        with_signature(live, expected)
    return live


def of_function(
    model: Callable[..., Any], folder: Path, example: Any, names: list[str] | None, output_names: list[str] | None
) -> Live:
    title = getattr(model, "__name__", type(model).__name__)
    parameters = names or parameters_of(model, title)
    text = _PICKLED.format(kind=f"The function {title}", pickle=_PICKLE, name="infer")
    live = _python(model, folder, text)
    live.options = {"infer_fn": "infer"}
    if example is not None:
        live.example = {name: as_received(value, name) for name, value in named_example(example, parameters).items()}
        with_result(live, model(**copies_of(live.example)), output_names)
    return live


def of_class(model: type, folder: Path, example: Any, names: list[str] | None) -> Live:
    if not callable(getattr(model, "infer_with_tensors", None)) and not callable(getattr(model, "infer_with_handle", None)):
        error = InvalidInputError(f"the class {model.__qualname__} has no method `infer_with_tensors`")
        error.hint = "pass an instance if it is an estimator; otherwise define `def infer_with_tensors(self, inputs)`"
        raise error
    text = _PICKLED.format(kind=f"The class {model.__name__}", pickle=_PICKLE, name="get_model")
    live = _python(model, folder, text)
    if example is not None:
        live.example = {name: as_received(value, name) for name, value in named_example(example, names).items()}
        with_result(live, model().infer_with_tensors(copies_of(live.example)), None)
    return live


def of_object(model: Any, folder: Path, example: Any, names: list[str] | None) -> Live:
    text = _PICKLED_OBJECT.format(kind=f"An object of the class {type(model).__name__}", pickle=_PICKLE)
    # Pickled first: a call may change the object.
    live = _python(model, folder, text)
    if example is not None:
        live.example = {name: as_received(value, name) for name, value in named_example(example, names).items()}
        with_result(live, model.infer_with_tensors(copies_of(live.example)), None)
    return live


def _python(model: Any, folder: Path, text: str, extra: Iterable[str] = ()) -> Live:
    """Writes the folder of a model for the python runner: its module, its pickle, and its requirements."""
    content, modules = pickled(model)
    (folder / "main.py").write_text(text, encoding="utf-8")
    (folder / _PICKLE).write_bytes(content)
    needed = distributions_of({"numpy", *modules, *extra})
    pins = {name: pin(name) for name in needed}
    constraints = {name: pin(name) for name in with_requirements(needed)}
    (folder / "requirements.txt").write_text("".join(f"{pin}\n" for pin in ["-c constraints.txt", *sorted(pins.values())]))
    (folder / "constraints.txt").write_text("".join(f"{pin}\n" for pin in sorted(constraints.values())))
    version = f"={sys.version_info.major}.{sys.version_info.minor}"
    return Live(folder, "python", framework_version=version)
