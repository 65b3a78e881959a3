"""Packs live objects: writes what is in memory as the folder or file of a model, which the runners know.

| object | what is packed | runner |
|---|---|---|
| `onnx.ModelProto` | `model.onnx` | `onnx` |
| `torch.nn.Module` | TorchScript, traced with the example, or scripted without one | `torchscript` |
| scikit-learn or XGBoost estimator, and any other object with `predict` or `transform` | a pickle | `python` |
| Python function, class, or object with `infer_with_tensors` | a pickle of its code | `python` |

A model for the `python` runner requires this interpreter's minor version and the packages that its pickle refers to, in the versions that
are installed here. Files of the user's own that it needs are in the pickle (by cloudpickle).
"""

from __future__ import annotations

import asyncio
import contextlib
import dis
import importlib.metadata
import importlib.util
import inspect
import io
import json
import os
import pickle
import re
import sys
import tempfile
import threading
import types
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from . import _carton, _convert
from ._errors import InvalidInputError, UnsupportedError

#: The symbol of the first dimension in signatures that are inferred from an example.
_BATCH = "batch"
#: The input of an estimator, whose example has no name of its own.
_FEATURES = "features"
_PICKLE = "model.pickle"
#: Above this size an ONNX model needs files for its weights, because a protobuf message is limited to 2 GiB.
_MAX_PROTOBUF_BYTES = 2**31 - 2**24


@dataclass
class Live:
    """A live object as files, and what is known of it."""

    #: The file or folder of the model.
    path: str | os.PathLike[str]
    #: None leaves the choice to the files of the model.
    runner: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    framework_version: str | None = None
    #: The signature, if an example shows it.
    inputs: list[_carton.TensorSpec] | None = None
    outputs: list[_carton.TensorSpec] | None = None
    #: The inputs of the example, by name.
    example: dict[str, Any] | None = None
    #: What the object itself returns for the example; None if only the packed model can tell.
    expected: dict[str, Any] | None = None

    def completed(self, chosen: dict[str, Any]) -> dict[str, Any]:
        """The options of a pack with what is known of the object. What the caller chose is kept."""
        specs = [*(chosen["inputs"] or ()), *(chosen["outputs"] or ())]
        # A declared name may differ from the one that the object has.
        declared = {spec.internal_name or spec.name: spec.name for spec in specs}

        def renamed(values: dict[str, Any]) -> dict[str, Any]:
            return {declared.get(name, name): value for name, value in values.items()}

        completed = dict(chosen)
        for name in ("runner", "framework_version", "inputs", "outputs"):
            if chosen[name] is None:
                completed[name] = getattr(self, name)
        if self.options:
            given = {} if chosen["options"] is None else json.loads(chosen["options"])
            completed["options"] = json.dumps({**self.options, **given})
        if self.example is not None:
            expected = None if self.expected is None else renamed(self.expected)
            tests = "record" if expected is None else "self_tests"
            completed[tests] = [*chosen[tests], ("example", None, renamed(self.example), expected)]
        return completed


@contextlib.contextmanager
def prepared(
    model: Any,
    *,
    example: Any = None,
    inputs: Sequence[_carton.TensorSpec] | None = None,
    outputs: Sequence[_carton.TensorSpec] | None = None,
) -> Iterator[Live]:
    """The model as files, for the time of a `with` block: a path as it is, a live object in a temporary folder. See `save`."""
    if isinstance(model, (str, os.PathLike)):
        names = None if inputs is None else [spec.name for spec in inputs]
        yield Live(os.fspath(model), example=None if example is None else named_example(example, names))
        return
    with tempfile.TemporaryDirectory(prefix="carton-pack-") as folder:
        yield save(model, Path(folder), example=example, inputs=inputs, outputs=outputs)


def save(
    model: Any,
    folder: Path,
    *,
    example: Any = None,
    inputs: Sequence[_carton.TensorSpec] | None = None,
    outputs: Sequence[_carton.TensorSpec] | None = None,
) -> Live:
    """Writes a live object into an empty folder.

    Args:
        model: The object; the table above has the kinds.
        folder: An empty folder.
        example: Inputs of a call: a dict by name; a tuple in the order of the inputs; a pandas DataFrame, each column of which is an input
            (for estimators); or the only input.
        inputs: Declared inputs. They give names to an example without names.
        outputs: Declared outputs.

    Raises:
        InvalidInputError: The object is of no kind that can be packed, or the example does not fit it.
        UnsupportedError: A package is missing that packing needs.
    """
    input_names = None if inputs is None else [spec.internal_name or spec.name for spec in inputs]
    output_names = None if outputs is None else [spec.internal_name or spec.name for spec in outputs]
    if _is_of(model, "onnx", "ModelProto"):
        return _onnx(model, folder, example, input_names)
    if _is_of(model, "torch.nn", "Module"):
        return _torch(model, folder, example, input_names, output_names)
    if inspect.isclass(model):
        return _class(model, folder, example, input_names)
    if callable(getattr(model, "infer_with_tensors", None)):
        return _object(model, folder, example, input_names)
    methods = _methods(model)
    if methods:
        return _estimator(model, methods, folder, example, input_names)
    if callable(model):
        return _function(model, folder, example, input_names, output_names)
    error = InvalidInputError(f"a {type(model).__module__}.{type(model).__qualname__} is not a model that can be packed")
    error.hint = "pass a path, a function, a class, an estimator, a torch.nn.Module or an onnx.ModelProto"
    raise error


def named_example(example: Any, names: Sequence[str] | None) -> dict[str, Any]:
    """The inputs of an example by name: `names` are those of the model's inputs, in order, if they are known.

    Raises:
        InvalidInputError: The example has no names and the model has none, or they are too few.
    """
    if isinstance(example, Mapping):
        return {str(name): value for name, value in example.items()}
    values = list(example) if isinstance(example, tuple) else [example]
    if names is None:
        error = InvalidInputError("the inputs of the example have no names")
        error.hint = "pass a dict: example={'image': x}"
        raise error
    if len(values) > len(names):
        raise InvalidInputError(f"the example has {len(values)} inputs, and the model has {len(names)}: {', '.join(names)}")
    return dict(zip(names, values))


def _is_of(model: Any, module: str, name: str) -> bool:
    """Whether the value is an instance of a class of a library. The library is not imported for it."""
    library = sys.modules.get(module)
    kind = getattr(library, name, None)
    return kind is not None and isinstance(model, kind)


# ONNX and PyTorch.


def _onnx(model: Any, folder: Path, example: Any, names: list[str] | None) -> Live:
    import onnx

    path = folder / "model.onnx"
    if model.ByteSize() < _MAX_PROTOBUF_BYTES:
        onnx.save_model(model, str(path))
        packed = path
    else:
        # `save_model` moves the weights out of the message that it is given.
        copy = type(model)()
        copy.CopyFrom(model)
        onnx.save_model(copy, str(path), save_as_external_data=True, all_tensors_to_one_file=True, location="weights.bin")
        packed = folder
    live = Live(packed, "onnx")
    if example is not None:
        initialized = {tensor.name for tensor in model.graph.initializer}
        own = [value.name for value in model.graph.input if value.name not in initialized]
        live.example = named_example(example, names or own)
    return live


def _torch(model: Any, folder: Path, example: Any, names: list[str] | None, output_names: list[str] | None) -> Live:
    import torch

    path = folder / "model.pt"
    was_training = model.training
    model.eval()
    try:
        parameters = names or _parameters(model.forward, type(model).__name__)
        tensors = None
        if example is not None:
            example = named_example(example, parameters)
            tensors = {name: torch.as_tensor(value) for name, value in example.items()}
        if isinstance(model, torch.jit.ScriptModule):
            script = model
        elif tensors is None:
            script = torch.jit.script(model)
        else:
            with torch.no_grad():
                # Models that return dicts are traced only if it is not strict.
                script = torch.jit.trace(model, example_kwarg_inputs=tensors, strict=False)
        torch.jit.save(script, str(path))
        major, minor = torch.__version__.split(".")[:2]
        # An older libtorch does not read the file.
        live = Live(path, "torchscript", framework_version=f">={major}.{minor}, <{int(major) + 1}")
        if tensors is not None:
            with torch.no_grad():
                result = model(**tensors)
            if isinstance(result, Mapping):
                result = {str(name): _of_torch(value) for name, value in result.items()}
            else:
                result = tuple(map(_of_torch, result if isinstance(result, (tuple, list)) else [result]))
            live.example = {name: tensor.numpy(force=True) for name, tensor in tensors.items()}
            _with_signature(live, _outputs(result, output_names))
        return live
    finally:
        model.train(was_training)


def _of_torch(tensor: Any) -> Any:
    """A tensor as the runner returns it, which makes floats of the halves."""
    import torch

    return (tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor).numpy(force=True)


# Models of the python runner.

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


def _methods(model: Any) -> dict[str, str]:
    """The outputs of an estimator, and the method that computes each."""
    if _is_of(model, "xgboost", "Booster"):
        return {"prediction": "inplace_predict"}
    found = {"prediction": "predict", "probabilities": "predict_proba"}
    methods = {output: method for output, method in found.items() if callable(getattr(model, method, None))}
    if not methods and callable(getattr(model, "transform", None)):
        return {"transformed": "transform"}
    return methods if "prediction" in methods else {}


def _estimator(model: Any, methods: dict[str, str], folder: Path, example: Any, names: list[str] | None) -> Live:
    extra = []
    columns = None
    if _is_of(example, "pandas", "DataFrame"):
        columns = [str(name) for name in example.columns]
        extra = ["pandas"]
    expected = None
    named: dict[str, Any] | None
    if example is None:
        named = None
        name = names[0] if names else _FEATURES
    elif columns is not None:
        named = {str(name): _column(series) for name, series in example.items()}
    else:
        named = named_example(example, names or [_FEATURES])
        if len(named) != 1:
            error = InvalidInputError(f"an estimator has one input, and the example has {len(named)}: {', '.join(named)}")
            error.hint = "pass an array, or a pandas.DataFrame whose columns become inputs"
            raise error
        ((name, values),) = named.items()
        named = {name: _plain(values, name)}
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
        expected = {output: _dense(computed[output]) for output in methods}
    outputs = ", ".join(f"{output!r}: numpy.asarray(self.estimator.{method}(features))" for output, method in methods.items())
    kind = f"{type(model).__module__.split('.')[0]} model ({type(model).__name__})"
    imports = "import pandas\n" if columns is not None else ""
    text = _ESTIMATOR.format(kind=kind, imports=imports, pickle=_PICKLE, features=features, outputs=outputs)
    live = _python(model, folder, text, extra)
    if named is not None:
        live.example = named
        _with_signature(live, expected)
    return live


def _function(
    model: Callable[..., Any], folder: Path, example: Any, names: list[str] | None, output_names: list[str] | None
) -> Live:
    title = getattr(model, "__name__", type(model).__name__)
    parameters = names or _parameters(model, title)
    text = _PICKLED.format(kind=f"The function {title}", pickle=_PICKLE, name="infer")
    live = _python(model, folder, text)
    live.options = {"infer_fn": "infer"}
    if example is not None:
        live.example = {name: _plain(value, name) for name, value in named_example(example, parameters).items()}
        _with_result(live, model(**_copies(live.example)), output_names)
    return live


def _class(model: type, folder: Path, example: Any, names: list[str] | None) -> Live:
    if not callable(getattr(model, "infer_with_tensors", None)) and not callable(getattr(model, "infer_with_handle", None)):
        error = InvalidInputError(f"the class {model.__qualname__} has no method `infer_with_tensors`")
        error.hint = "pass an instance if it is an estimator; otherwise define `def infer_with_tensors(self, inputs)`"
        raise error
    text = _PICKLED.format(kind=f"The class {model.__name__}", pickle=_PICKLE, name="get_model")
    live = _python(model, folder, text)
    if example is not None:
        live.example = {name: _plain(value, name) for name, value in named_example(example, names).items()}
        _with_result(live, model().infer_with_tensors(_copies(live.example)), None)
    return live


def _object(model: Any, folder: Path, example: Any, names: list[str] | None) -> Live:
    text = _PICKLED_OBJECT.format(kind=f"An object of the class {type(model).__name__}", pickle=_PICKLE)
    # Pickled first: a call may change the object.
    live = _python(model, folder, text)
    if example is not None:
        live.example = {name: _plain(value, name) for name, value in named_example(example, names).items()}
        _with_result(live, model.infer_with_tensors(_copies(live.example)), None)
    return live


def _parameters(function: Callable[..., Any], title: str) -> list[str]:
    """The names of a function's parameters, which are the inputs of the model."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"the parameters of {title} are not known: {error}") from error
    for parameter in parameters:
        if parameter.kind is parameter.POSITIONAL_ONLY:
            wrong = InvalidInputError(f"{title} takes `{parameter.name}` by position only, and inputs are passed by name")
            wrong.hint = "remove the `/` from its parameters, or wrap it in a function"
            raise wrong
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [parameter.name for parameter in parameters if parameter.kind in named]


# Examples.


def _plain(value: Any, name: str) -> Any:
    """A value as a model gets it from its runner: an array, or a list of arrays of several shapes."""
    kind, converted, shape = _convert.plain(value, name)
    if kind == "strings":
        return _convert.strings(converted, shape).copy()
    if kind == "nested":
        return [_plain(element, name) for element in converted]
    return converted


def _column(series: Any) -> np.ndarray:
    """A column of a DataFrame as an array that a carton can hold."""
    name = str(series.name)
    if series.isna().any():
        raise InvalidInputError(f"column `{name}` of the example has missing values")
    values: np.ndarray = series.to_numpy()
    if values.dtype.kind == "b":
        values = values.astype(np.uint8)
    found: np.ndarray = _plain(values, name)
    return found


def _copies(example: Mapping[str, Any]) -> dict[str, Any]:
    """Copies of inputs, so that a function that writes to them does not change the example."""
    return {name: [part.copy() for part in value] if isinstance(value, list) else value.copy() for name, value in example.items()}


def _dense(value: Any) -> np.ndarray:
    """An output as the runner sends it: its dtype is one that cartons have."""
    if hasattr(value, "toarray"):
        raise InvalidInputError("the estimator returns a sparse matrix, which is not a tensor")
    array: np.ndarray = np.asarray(value)
    if array.dtype.kind == "b":
        array = array.astype(np.uint8)
    return array


def _outputs(result: Any, names: Sequence[str] | None) -> dict[str, Any]:
    """The outputs of a call by name: a dict as it is, otherwise the values in the order of the names."""
    if isinstance(result, Mapping):
        return {str(name): _value(value) for name, value in result.items()}
    values = list(result) if isinstance(result, tuple) else [result]
    if names is None:
        names = ["output"] if len(values) == 1 else [f"output_{number}" for number in range(len(values))]
    if len(names) != len(values):
        raise InvalidInputError(f"the model returned {len(values)} outputs, and {len(names)} are declared: {', '.join(names)}")
    return {name: _value(value) for name, value in zip(names, values)}


def _value(value: Any) -> Any:
    if isinstance(value, list):
        try:
            return _dense(value)
        except ValueError:
            return [_dense(element) for element in value]
    return _dense(value)


def _with_result(live: Live, result: Any, names: Sequence[str] | None) -> None:
    """Adds the signature, and what the object returned for the example."""
    if inspect.isawaitable(result):
        result = _awaited(result)
    if inspect.isasyncgen(result):
        result = iter(_awaited(_collect(result)))
    if isinstance(result, Iterable) and inspect.isgenerator(result) or type(result).__name__ == "list_iterator":
        items = list(_first(result, 2))
        if not items:
            raise InvalidInputError("the model is a stream, and the example has no items")
        outputs = _outputs(items[0], names)
        _with_signature(live, outputs)
        if len(items) > 1:
            # A self-test is a call with one answer.
            live.expected = None
            live.example = None
        return
    _with_signature(live, _outputs(result, names))


def _first(items: Any, n: int) -> Iterable[Any]:
    try:
        for _, item in zip(range(n), items):
            yield item
    finally:
        close = getattr(items, "close", None)
        if close is not None:
            close()


async def _collect(items: Any) -> list[Any]:
    found = []
    async for item in items:
        found.append(item)
        if len(found) == 2:
            break
    await items.aclose()
    return found


def _awaited(awaitable: Any) -> Any:
    """The result of a coroutine. It runs on a thread of its own, because the caller may be in an event loop, as notebooks are."""
    results: list[Any] = []
    errors: list[BaseException] = []

    async def wait() -> Any:
        return await awaitable

    def run() -> None:
        try:
            results.append(asyncio.run(wait()))
        except BaseException as error:  # noqa: B902, raised again below
            errors.append(error)

    thread = threading.Thread(target=run, name="carton-example")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def _with_signature(live: Live, expected: dict[str, Any] | None) -> None:
    """Infers the signature from the example and what the object returns for it."""
    assert live.example is not None
    arrays = [value for value in live.example.values() if isinstance(value, np.ndarray) and value.ndim]
    n_rows = arrays[0].shape[0] if arrays else None
    live.inputs = [_spec(name, value, n_rows) for name, value in live.example.items()]
    if expected is not None:
        live.outputs = [_spec(name, value, n_rows) for name, value in expected.items()]
        live.expected = expected


def _spec(name: str, value: Any, n_rows: int | None) -> _carton.TensorSpec:
    """The declaration that fits a value. Its first dimension is a symbol if it has as many elements as the first input has."""
    if isinstance(value, list):
        return _carton.TensorSpec(name, value[0].dtype, "*")
    shape: list[int | str] = list(value.shape)
    if shape and shape[0] == n_rows:
        shape[0] = _BATCH
    try:
        return _carton.TensorSpec(name, value.dtype, shape)
    except ValueError as error:
        wrong = InvalidInputError(f"`{name}`: cartons have no tensors of dtype {value.dtype}")
        wrong.hint = "convert it in the model, for example by array.astype(numpy.float32)"
        raise wrong from error


# Pickles and the packages that they need.


def _python(model: Any, folder: Path, text: str, extra: Iterable[str] = ()) -> Live:
    """Writes the folder of a model for the python runner: its module, its pickle, and its requirements."""
    content, modules = _pickled(model)
    (folder / "main.py").write_text(text, encoding="utf-8")
    (folder / _PICKLE).write_bytes(content)
    needed = _distributions({"numpy", *modules, *extra})
    pins = {name: _pin(name) for name in needed}
    constraints = {name: _pin(name) for name in _closure(needed)}
    (folder / "requirements.txt").write_text("".join(f"{pin}\n" for pin in ["-c constraints.txt", *sorted(pins.values())]))
    (folder / "constraints.txt").write_text("".join(f"{pin}\n" for pin in sorted(constraints.values())))
    version = f"={sys.version_info.major}.{sys.version_info.minor}"
    return Live(folder, "python", framework_version=version)


class _References:
    """Collects the modules that a pickle refers to, from the objects that the pickler sees."""

    def __init__(self) -> None:
        self.modules: set[str] = set()

    def see(self, value: Any) -> None:
        if isinstance(value, types.CodeType):
            # Imports in the body of a function.
            operations = dis.get_instructions(value)
            self.modules.update(str(one.argval) for one in operations if one.opname == "IMPORT_NAME" and one.argval)
        elif isinstance(value, types.ModuleType):
            self.modules.add(value.__name__)
        elif isinstance(value, type):
            self.modules.update(str(base.__module__) for base in value.__mro__)
        else:
            self.modules.update(str(base.__module__) for base in type(value).__mro__)
            if isinstance(module := getattr(value, "__module__", None), str):
                self.modules.add(module)


def _pickler(base: type[Any], references: _References, file: io.BytesIO) -> Any:
    class Pickler(base):  # type: ignore[misc]
        def persistent_id(self, value: Any) -> None:
            references.see(value)

    return Pickler(file, protocol=5)


def _pickled(model: Any) -> tuple[bytes, set[str]]:
    """The pickle of an object, and the modules that unpickling and using it imports.

    Functions and classes of the user's own files, and of a notebook, are pickled with their code.
    """
    references, file = _References(), io.BytesIO()
    try:
        _pickler(pickle.Pickler, references, file).dump(model)
        own = {module for module in references.modules if _is_own(module)}
        if not own:
            return file.getvalue(), references.modules
    except (pickle.PicklingError, AttributeError, TypeError):
        own = {module for module in references.modules if _is_own(module)}
    try:
        import cloudpickle
    except ImportError:
        missing = UnsupportedError("packing code that is not in an installed package needs the package cloudpickle")
        missing.hint = "pip install cloudpickle"
        raise missing from None
    registered: list[types.ModuleType] = []
    try:
        while True:
            for name in own:
                if name != "__main__" and name in sys.modules:
                    cloudpickle.register_pickle_by_value(sys.modules[name])
                    registered.append(sys.modules[name])
            known = {module.__name__ for module in registered} | {"__main__"}
            references, file = _References(), io.BytesIO()
            try:
                _pickler(cloudpickle.Pickler, references, file).dump(model)
            except (pickle.PicklingError, AttributeError, TypeError) as error:
                raise InvalidInputError(f"the model cannot be pickled: {error}") from error
            own = {module for module in references.modules if _is_own(module)} - known
            if not own:
                break
            if unknown := sorted(name for name in own if name not in sys.modules):
                wrong = InvalidInputError(f"the model imports `{unknown[0]}` in a function, which is in no installed package")
                wrong.hint = "import it at the top of the file, so that it is packed with the model"
                raise wrong
    finally:
        for module in registered:
            cloudpickle.unregister_pickle_by_value(module)
    return file.getvalue(), (references.modules | {"cloudpickle"}) - known


def _is_own(module: str) -> bool:
    """Whether a module is neither of Python nor of an installed package: `__main__`, a notebook, or a file of the user's."""
    top = module.partition(".")[0]
    if top == "__main__":
        return True
    if top in sys.stdlib_module_names or top in sys.builtin_module_names:
        return False
    return top not in _installed() or any(_is_editable(name) for name in _installed()[top])


def _installed() -> Mapping[str, list[str]]:
    """The names of the installed distributions that have a top-level module."""
    # The list takes some 50 ms to make, and an object refers to some hundred modules.
    paths = tuple(sys.path)
    if _installed_cache.get("paths") != paths:
        _installed_cache["paths"] = paths
        _installed_cache["names"] = importlib.metadata.packages_distributions()
    names: Mapping[str, list[str]] = _installed_cache["names"]
    return names


_installed_cache: dict[str, Any] = {}


def _is_editable(distribution: str) -> bool:
    text = importlib.metadata.distribution(distribution).read_text("direct_url.json") or ""
    return re.search(r'"editable"\s*:\s*true', text) is not None


def _distributions(modules: Iterable[str]) -> set[str]:
    """The distributions that modules are from."""
    found: set[str] = set()
    for module in modules:
        top = module.partition(".")[0]
        if top in sys.stdlib_module_names or top in sys.builtin_module_names or top == "__main__":
            continue
        # Several distributions may share a top-level module (a namespace): the one whose file it is.
        names = sorted(set(_installed().get(top, [])))
        if len(names) > 1:
            names = [name for name in names if _has_module(name, module)] or names
        found.update(_normalized(name) for name in names)
    return found


def _has_module(distribution: str, module: str) -> bool:
    loaded = getattr(sys.modules.get(module), "__file__", None)
    if loaded is None:
        return False
    files = importlib.metadata.files(distribution) or []
    return any(Path(str(file.locate())) == Path(loaded) for file in files)


def _closure(distributions: Iterable[str]) -> set[str]:
    """The distributions and those that they require, as far as they are installed. Requirements of extras count where installed."""
    found: set[str] = set()
    to_visit = list(distributions)
    while to_visit:
        name = to_visit.pop()
        if name in found:
            continue
        try:
            required = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        found.add(name)
        matches = (re.match(r"[A-Za-z0-9][A-Za-z0-9._-]*", one) for one in required)
        to_visit += [_normalized(match[0]) for match in matches if match]
    return found


def _normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _pin(distribution: str) -> str:
    """The requirement of exactly the installed version. Builds (`2.1+cpu`) are in no index under their whole version."""
    version = importlib.metadata.version(distribution).partition("+")[0]
    return f"{distribution}=={version}"
