"""Runs a model of MLflow of any flavor, as `mlflow.pyfunc.load_model` loads it.

A schema of columns has one input a column, and one of tensors one input a tensor; without a name it is `input`. Parameters are optional inputs.
What the model returns is `prediction`, unless MLflow names it.
"""

import os

# Models have no network.
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")

import mlflow.pyfunc
import numpy
import pandas
from mlflow.types.schema import Array, DataType, ParamSpec, TensorSpec

#: The folder with the file MLmodel, beside this file.
MODEL = "mlmodel"
#: The dtypes of columns and parameters. Times are texts in the form of ISO 8601, as in MLflow's JSON.
DTYPES = {"boolean": "bool", "integer": "int32", "long": "int64", "float": "float32", "double": "float64", "binary": "bytes"}


class Model:
    def __init__(self):
        folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), MODEL)
        self.model = mlflow.pyfunc.load_model(folder, suppress_warnings=True)
        about = self.model.metadata
        try:
            self.shown, self.shown_params = about.load_input_example(folder), about.load_input_example_params(folder) or {}
        except (mlflow.MlflowException, OSError, ValueError) as error:
            print(f"MLflow cannot read its input example: {error}")
            self.shown, self.shown_params = None, {}
        self.schema, self.returned = about.get_input_schema(), about.get_output_schema() or []
        if self.schema is None and (hasattr(self.shown, "dtype") or isinstance(self.shown, (dict, pandas.DataFrame))):
            self.schema = mlflow.models.infer_signature(self.shown).inputs
        self.is_tensors = self.schema is not None and self.schema.is_tensor_spec()
        self.is_named = self.schema is not None and self.schema.has_input_names()
        unnamed = "input" if self.is_tensors else "column_{}"
        self.specs = {spec.name or unnamed.format(number): spec for number, spec in enumerate(self.schema or [])}
        self.params = {spec.name: spec for spec in about.get_params_schema() or [] if spec.name not in self.specs}

    def infer_with_tensors(self, inputs):
        params = {name: array.tolist() for name, array in inputs.items() if name in self.params}
        given = {name: array for name, array in inputs.items() if name not in params}
        if self.is_tensors:
            given = {name: array.astype(str) if array.dtype == object else array for name, array in given.items()}
        elif self.schema is not None:
            given = pandas.DataFrame({name: column(given[name], spec) for name, spec in self.specs.items() if name in given})
            given.columns = given.columns if self.is_named else range(len(given.columns))
        if isinstance(given, dict) and list(given) == ["input"] and not self.is_named:
            given = given["input"]
        found = self.model.predict(given, params=params or None)
        if isinstance(found, list) and found and isinstance(found[0], dict):
            found = pandas.DataFrame(found)
        if not isinstance(found, (dict, pandas.DataFrame)):
            names = [spec.name for spec in self.returned if spec.name]
            found = {names[0] if len(names) == 1 else "prediction": found}
        return {str(name): values(value) for name, value in found.items()}

    def signature(self):
        """Asked when the model is packed: the inputs and outputs, with their dtypes and shapes."""
        if self.schema is None:
            raise ValueError(
                "the model of MLflow says nothing of its inputs: log it with a signature or an input example, or add a signature by "
                "mlflow.models.set_signature; or declare one input, named `input`, which the model gets as it is"
            )
        inputs = [declared(name, spec) for name, spec in [*self.specs.items(), *self.params.items()]]
        outputs = [declared(spec.name or "prediction", spec) for spec in self.returned]
        if (example := self.example()) is not None:
            # What it returns, because MLflow does not check that a model keeps to its schema.
            sizes = {spec["name"]: spec["shape"] for spec in outputs}
            rows = {len(example[name]) for name in self.specs if name in example and example[name].ndim}
            outputs = [observed(name, array, sizes.get(name, []), rows) for name, array in self.infer_with_tensors(example).items()]
            if len(rows) > 1:
                inputs = [{**spec, "shape": ["*" if size == "batch" else size for size in spec["shape"]]} for spec in inputs]
        return {"inputs": inputs, "outputs": outputs}

    def example(self):
        """Asked when the model is packed: MLflow's input example; None if there is none, or one with values that tensors lack."""
        if self.shown is None or self.schema is None:
            return None
        shown = self.shown.toarray() if hasattr(self.shown, "toarray") else self.shown
        if not self.is_tensors and not isinstance(shown, pandas.DataFrame):
            shown = pandas.DataFrame(shown if isinstance(shown, list) else [shown])
        if isinstance(shown, pandas.DataFrame) and not self.is_named:
            shown = shown.to_numpy() if self.is_tensors else shown.set_axis(list(self.specs), axis=1)
        shown = shown if isinstance(shown, (dict, pandas.DataFrame)) else {next(iter(self.specs)): shown}
        shown, specs = {**{name: shown[name] for name in shown}, **self.shown_params}, {**self.specs, **self.params}
        try:
            return {name: values(shown[name], declared(name, spec)["dtype"]) for name, spec in specs.items() if name in shown}
        except ValueError as error:
            print(f"the input example of MLflow is no test of the model: {error}")


def declared(name, spec):
    """What a carton declares of a tensor, a column or a parameter of MLflow's schema."""
    if isinstance(spec, TensorSpec):
        kind, shape = spec.type, ["*" if size == -1 and axis else "batch" if size == -1 else size for axis, size in enumerate(spec.shape)]
        dtype = {"U": "string", "S": "bytes", "O": None, "M": None, "m": None}.get(kind.kind, kind.name)
    else:
        kind, shape = (spec.dtype, ["*"] * len(spec.shape or ())) if isinstance(spec, ParamSpec) else (spec.type, ["batch"])
        kind, shape = (kind.dtype, [*shape, "*"]) if isinstance(kind, Array) else (kind, shape)
        dtype = DTYPES.get(kind.name, "string") if isinstance(kind, DataType) else None
    if dtype is None:
        raise ValueError(f"`{name}` is {spec}, which no tensor is: change main.py so that it makes one of tensors")
    return {"name": name, "dtype": dtype, "shape": shape, **({} if getattr(spec, "required", False) else {"optional": True})}


def observed(name, array, sizes, rows):
    """What a carton declares of an output that was returned for the example, whose inputs have these numbers of rows."""
    sizes = sizes if len(sizes) == array.ndim else ["*"] * array.ndim
    shape = [found if found == size else "batch" if axis == 0 and rows == {found} else "*" for axis, (found, size) in enumerate(zip(array.shape, sizes))]
    is_bytes = array.dtype.kind == "S" or array.size and isinstance(array.flat[0], bytes)
    return {"name": name, "dtype": "bytes" if is_bytes else "string" if array.dtype.kind in "UO" else array.dtype.name, "shape": shape}


def column(array, spec):
    """A column of a DataFrame."""
    if spec.type == DataType.datetime:
        return pandas.to_datetime(pandas.Series(array), format="ISO8601")
    return list(array) if array.ndim > 1 or array.dtype == object else array


def values(found, dtype=None):
    """An array of numbers, texts or bytes, of the dtype that a carton declares if one is given. Raises ValueError where it lacks a value."""
    is_text = dtype in ("string", "bytes")
    array = numpy.asarray(found.toarray() if hasattr(found, "toarray") else found, dtype=object if is_text else None)
    if array.dtype == object:
        if pandas.isna(array).any():
            raise ValueError("a value is missing")
        is_text = is_text or array.size and isinstance(array.flat[0], (str, bytes))
        array = array if is_text else numpy.array(array.tolist())
    if dtype is None or is_text:
        return numpy.array([str(text) for text in array.flat], object).reshape(array.shape) if dtype == "string" else array
    cast = array.astype(dtype)
    if cast.dtype.kind in "iub" and not numpy.array_equal(cast, array):
        raise ValueError(f"{array.dtype} has values that {dtype} lacks")
    return cast


def get_model():
    return Model()
