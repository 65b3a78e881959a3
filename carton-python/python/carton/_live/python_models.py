"""Models of the python runner: estimators, functions, classes and objects, each a module that reads a pickle."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Any, Callable, Iterable

from .._errors import InvalidInputError
from .._structure import is_structured
from .examples import (
    as_received,
    as_sent,
    column_array,
    copies_of,
    leaves_received,
    named_example,
    optional_parameters,
    parameters_of,
    with_result,
    with_signature,
)
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


{functions}
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
    def has(method: str) -> bool:
        return callable(getattr(model, method, None))

    if not has("predict"):
        return {"scores": "score_samples"} if has("score_samples") else {"transformed": "transform"} if has("transform") else {}
    found = {"probabilities": "predict_proba"} if has("predict_proba") else {"decision": "decision_function", "scores": "score_samples"}
    return {"prediction": "predict", **{output: method for output, method in found.items() if has(method)}}


# Estimators' own functions are also in the packed module, so they use nothing else of this one.


def output_of(value: Any) -> Any:
    """What an estimator returns as an array, or as a list of arrays: the probabilities of several targets."""
    import numpy

    return [numpy.asarray(one) for one in value] if isinstance(value, list) else numpy.asarray(value)


def frame_of(columns: Any, categories: Any) -> Any:
    """A DataFrame of columns by name. `categories` has the categories of some columns, their dtype, and whether they are ordered."""
    import pandas

    made = {}
    for name, values in columns.items():
        if name in categories:
            known, dtype, ordered = categories[name]
            index = pandas.Index(known, dtype=dtype)
            codes = index.get_indexer(values)
            if (codes < 0).any():
                unknown = values[(codes < 0).argmax()]
                raise ValueError(f"input `{name}`: {unknown!r} is none of its {len(known)} categories")
            made[name] = pandas.Categorical.from_codes(codes, categories=index, ordered=ordered)
        else:
            made[name] = values
    return pandas.DataFrame(made)


def _categories_of(frame: Any) -> dict[str, tuple[list[Any], str, bool]]:
    """The categories of the columns of a DataFrame that have some."""
    found = {}
    for name, series in frame.items():
        if type(series.dtype).__name__ == "CategoricalDtype":
            known = series.cat.categories
            values = known.tolist()
            if not all(isinstance(value, (str, int, float)) for value in values):
                raise InvalidInputError(f"column `{name}` of the example has categories of dtype {known.dtype}, which are neither texts nor numbers")
            found[str(name)] = (values, str(known.dtype), bool(series.cat.ordered))
    return found


def of_estimator(model: Any, methods: dict[str, str], folder: Path, example: Any, names: list[str] | None) -> Live:
    extra = []
    columns = None
    categories: dict[str, tuple[list[Any], str, bool]] = {}
    functions: list[Callable[..., Any]] = [output_of]
    if is_of(example, "pandas", "DataFrame"):
        columns = [str(name) for name in example.columns]
        categories = _categories_of(example)
        functions.append(frame_of)
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
        given: Any = frame_of({name: named[name] for name in columns}, categories)
        features = f"frame_of({{name: inputs[name] for name in {columns!r}}}, {categories!r})"
    else:
        given = None if named is None else named[name]
        features = f"inputs[{name!r}]"
    if given is not None:
        expected = {}
        for output, method in methods.items():
            computed = getattr(model, method)(given)
            # Estimators with several targets return a list of arrays for the probabilities.
            expected[output] = [as_sent(one) for one in computed] if isinstance(computed, list) else as_sent(computed)
    outputs = ", ".join(f"{output!r}: output_of(self.estimator.{method}(features))" for output, method in methods.items())
    kind = f"{type(model).__module__.split('.')[0]} model ({type(model).__name__})"
    sources = "\n\n".join(map(inspect.getsource, functions)).replace("-> Any", "").replace(": Any", "")
    text = _ESTIMATOR.format(kind=kind, functions=f"{sources}\n", pickle=_PICKLE, features=features, outputs=outputs)
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
    live.optional = optional_parameters(model)
    if example is not None:
        named = named_example(example, parameters)
        live.example = leaves_received(named)
        if any(map(is_structured, named.values())):
            # The packed model makes the values of their leaves, and tells what it returns for them.
            with_signature(live, None)
        else:
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
