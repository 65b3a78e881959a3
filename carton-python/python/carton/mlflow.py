"""Cartons as models of MLflow, and models of MLflow as cartons.

    import carton.mlflow

    logged = carton.mlflow.log_model("digits.carton", name="digits")
    mlflow.pyfunc.load_model(logged.model_uri).predict({"image": pictures})

    carton.mlflow.pack("models:/cities/3", "cities.carton")

The artifact of such a model is the carton, byte for byte. MLflow finds it by `carton.mlflow`, the loader module that the file `MLmodel` names, in
every process that has the package `carton-runtime`: those of `mlflow models serve` and of Spark too. The model runs in the carton's runner, which must
be installed there unless it is in the package; `model_config={"install_runners": True}` installs it.

The signature of MLflow is made of the carton's:

- Several inputs of one value a row, which share their symbol, are columns; so are outputs of one value a row, if all are. Integers and floats
  that columns lack become the next larger type.
- All others are tensors, with -1 for sizes that are not fixed.
- An optional input is a column that is not required, or a parameter (`params` of `predict`) if it is a scalar. Others are left out.

MLflow has no tensors of bytes, of floats of 8 bits and `bfloat16`, nor of unknown rank. A model with such an input is saved without a signature of
inputs, and one with such an output without one of outputs, with a warning. Then MLflow checks nothing, and the carton still does.

`predict` takes a dict of arrays by the names of inputs; an array or a list, for a model with one input; or a DataFrame, whose columns are the
inputs, or else the last dimension of the only input. It returns the array of the only output, which is what MLflow takes a signature with one
output to mean; a dict of arrays where there are several; and a DataFrame where it got one and each output has a value for each row. With a
signature of tensors MLflow makes a dict of a DataFrame before the model sees it.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Mapping, Sequence

from . import _carton
from ._arguments import Sandbox, check_dict
from ._errors import IntegrityError, InvalidInputError, SignatureError, machine_error
from ._options import LoadOptions
from ._paths import AnyPath, location_text
from ._results import Packed

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from mlflow.models import Model as MlflowModel
    from mlflow.models import ModelSignature
    from mlflow.models.model import ModelInfo

__all__ = ["load_model", "log_model", "pack", "save_model"]

#: The name of the flavor in the file MLmodel.
_FLAVOR = "carton"
#: What `model_config` may say: the options of `carton.load`, and which output alone is returned. MLflow passes on only what the file MLmodel has already.
_CONFIG = ("output", *(name for name in LoadOptions.__annotations__ if name != "bare"))
#: The most elements of a self-test that becomes the input example, which is JSON.
_MAX_EXAMPLE = 10_000

_COLUMNS = {
    "bool": "boolean",
    **dict.fromkeys(("int8", "uint8", "int16", "uint16", "int32"), "integer"),
    **dict.fromkeys(("uint32", "int64"), "long"),
    **dict.fromkeys(("float16", "float32"), "float"),
    "float64": "double",
    "string": "string",
    "bytes": "binary",
}
_TENSORS = {
    **{f"{kind}{bits}": f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)},
    **{name: name for name in ("bool", "float16", "float32", "float64", "complex64", "complex128")},
    "string": "str",
}


def save_model(
    carton: AnyPath,
    path: str | os.PathLike[str],
    *,
    mlflow_model: MlflowModel | None = None,
    signature: ModelSignature | bool | None = None,
    input_example: Any = None,
    output: str | None = None,
    model_config: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    pip_requirements: Sequence[str] | str | None = None,
    extra_pip_requirements: Sequence[str] | str | None = None,
) -> None:
    """Saves a carton as a model of MLflow, in a folder of this machine.

    Args:
        carton: The carton: a path, or a URL that begins with `https://`, `http://`, `oci://`, `hf://`, `s3://`, `gs://` or `az://`.
            A local carton is copied as it is, with the signing bundle beside it. One at a URL is fetched whole.
        path: The folder, which does not exist yet.
        mlflow_model: The `mlflow.models.Model` that the carton is added to, for MLflow itself.
        signature: The signature of MLflow, by default that of the carton; `False` for none, so that the model gets what the caller passes.
        input_example: A call that MLflow shows and serves, by default the first self-test, or else the first example, unless it is large; `False` for
            none.
        output: The output that `predict` returns alone, as an array. By default all of them.
        model_config: Options of `carton.load` for whoever loads the model, such as `device`, `timeout`, `install_runners` and `sandbox` (a mode, or
            the values of a `Sandbox` by name). They can be overridden in `mlflow.pyfunc.load_model`. What a model may do, and whom it is trusted
            from, only those can say who load it.
        metadata: What the file MLmodel says besides; `carton` in it is what the carton says of itself, and its hash.
        pip_requirements: The packages of the environment, by default `carton-runtime` in this version. MLflow adds itself.
        extra_pip_requirements: Packages beside these.

    Raises:
        InvalidInputError: `model_config` has unknown options, or those of whoever loads the model; or there is no such output.
        MlflowException: The folder exists, or MLflow refuses something else.
        Error: The carton cannot be opened.

        >>> carton.mlflow.save_model("digits.carton", "digits-mlflow")  # doctest: +SKIP
    """
    import mlflow.pyfunc
    from mlflow.models import Model

    from carton import open as package_of

    check_dict("model_config", model_config or {})
    config = {**dict.fromkeys(_CONFIG), **({} if output is None else {"output": output}), **(model_config or {})}
    if unknown := sorted(set(config) - set(_CONFIG)):
        raise InvalidInputError(f"`model_config` has no `{unknown[0]}`, it has {', '.join(f'`{name}`' for name in _CONFIG)}")
    _check_permissions(config)
    if pip_requirements is None and extra_pip_requirements is None:
        pip_requirements = [_requirement()]
    elif pip_requirements is None:
        extra = [extra_pip_requirements] if isinstance(extra_pip_requirements, str) else list(extra_pip_requirements or ())
        pip_requirements, extra_pip_requirements = [_requirement(), *extra], None
    with tempfile.TemporaryDirectory(prefix="carton-mlflow-") as folder:
        file = _local(carton, folder)
        package = package_of(file, expect=config["expect"])
        config["expect"] = package.manifest_sha256
        if signature is None:
            signature = _signature(package, config["output"])
        if input_example is None and signature:
            input_example = _example(package, signature)
        model = Model() if mlflow_model is None else mlflow_model
        model.add_flavor(_FLAVOR, data=f"data/{file.name}", sha256=package.manifest_sha256, carton_version=_carton.__version__)
        mlflow.pyfunc.save_model(
            path,
            loader_module=__name__,
            data_path=os.fspath(file),
            mlflow_model=model,
            signature=signature or None,
            input_example=None if input_example is False else input_example,
            model_config=config,
            metadata={**(model.metadata or {}), **(metadata or {}), "carton": _about(package)},
            pip_requirements=pip_requirements,
            extra_pip_requirements=extra_pip_requirements,
        )
        bundle = file.with_name(f"{file.name}.sig")
        if bundle.is_file():
            shutil.copyfile(bundle, Path(path, "data", bundle.name))


def log_model(carton: AnyPath, name: str | None = None, **options: Any) -> ModelInfo:
    """Logs a carton as a model of MLflow, in the active run or a new one.

    Args:
        carton: The carton: a path, or a URL that begins with `https://`, `http://`, `oci://`, `hf://`, `s3://`, `gs://` or `az://`.
        name: The name of the model.
        options: Those of `save_model`, and those that the `log_model` of MLflow's flavors have: `registered_model_name`, `await_registration_for`,
            `params`, `tags`, `model_type`, `step`, `model_id`, `run_id`.

    Raises:
        MlflowException: MLflow cannot log the model.
        Error: The errors that `save_model` raises.

        >>> carton.mlflow.log_model("digits.carton", name="digits").model_uri  # doctest: +SKIP
        'models:/m-a674a8f6d4c84b8d95e1c2f43b3c6bc4'
    """
    from mlflow.models import Model

    return Model.log(artifact_path=None, name=name, flavor=sys.modules[__name__], carton=carton, **options)


def load_model(model_uri: str, *, dst_path: str | os.PathLike[str] | None = None, **load_options: Any) -> _carton.Model:
    """Loads the carton of a model of MLflow, as `carton.load` does.

    Args:
        model_uri: The model: `runs:/…`, `models:/…`, or another place that MLflow has artifacts in.
        dst_path: A folder for what is fetched, by default a temporary one. The model needs its files for as long as it is loaded.
        load_options: Options of `carton.load`. Those that the model was saved with, for `predict`, do not apply.

    Raises:
        InvalidInputError: The model is not a carton.
        IntegrityError: The carton is damaged, or not the one that was saved.
        Error: Any other failure; see its subclasses.

        >>> carton.mlflow.load_model("models:/digits/1")(image=pictures)  # doctest: +SKIP
    """
    import carton

    local = _downloaded(model_uri, None if dst_path is None else os.fspath(dst_path))
    flavors = _flavors(local)
    if _FLAVOR not in flavors:
        raise InvalidInputError(f"{model_uri} is not a carton; its flavors are {', '.join(sorted(flavors))}")
    file, sha256 = _artifact(local, flavors)
    return carton.load(file, **{"expect": sha256, **load_options})


def pack(model_uri: str, output: AnyPath, **options: Any) -> Packed:
    """Packs a model of MLflow, of any flavor that has `python_function`, into a carton.

    The environment is locked from the model's `requirements.txt`. MLflow's input example becomes a self-test, which expects what MLflow returns
    for it. A model that is a carton already is written as it is.

    Args:
        model_uri: The model: `runs:/…`, `models:/…`, another place that MLflow has artifacts in, or a local folder with a file `MLmodel`.
        output: The carton to be written.
        options: Those of `carton.pack`.

    Raises:
        InvalidInputError: There is no model of MLflow.
        MlflowException: MLflow does not have it, or may not fetch it.
        Error: The errors that `carton.pack` raises.

        >>> carton.mlflow.pack("models:/cities/3", "cities.carton")  # doctest: +SKIP
    """
    import carton

    with tempfile.TemporaryDirectory(prefix="carton-mlflow-") as folder:
        local = _downloaded(model_uri, folder)
        flavors = _flavors(local)
        if _FLAVOR not in flavors:
            return carton.pack(local, output, **options)
        if options:
            raise InvalidInputError(f"{model_uri} is a carton already, which is written without `{min(options)}`")
        file, sha256 = _artifact(local, flavors)
        for path, reason in carton.open(file, expect=sha256).verify().bad:
            raise IntegrityError(f"{path}: {reason}")
        target = Path(os.fsdecode(output))
        written = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            try:
                shutil.copyfile(file, written)
                written.replace(target)
            finally:
                written.unlink(missing_ok=True)
        except OSError as error:
            raise machine_error(error) from error
        return Packed(os.fspath(target), sha256, [], [], None)


def _load_pyfunc(path: str, model_config: Mapping[str, Any] | None = None) -> _Predictor:
    """What MLflow loads: `path` is the carton."""
    config = dict(model_config or {})
    output = config.get("output")
    return _Predictor(_loaded(Path(path), config), output)


def _loaded(file: Path, config: Mapping[str, Any]) -> _carton.Model:
    import carton

    options = {name: value for name, value in config.items() if value is not None and name != "output"}
    if isinstance(options.get("sandbox"), dict):
        options["sandbox"] = Sandbox(**options["sandbox"])
    return carton.load(file, **options)


class _Predictor:
    """A loaded carton with the interface of MLflow's models."""

    def __init__(self, model: _carton.Model, output: str | None) -> None:
        self._model = model
        self._output = output

    def predict(self, model_input: Any, params: Mapping[str, Any] | None = None) -> Any:
        """Runs the model: see the documentation of this module.

        Raises:
            InvalidInputError: A value is missing, has no tensor, or does not fit the input that the carton declares.
            Error: The call fails.
        """
        specs, declared = self._model.inputs, self._model.outputs
        is_frame = _is_frame(model_input)
        inputs = _of_frame(model_input, specs) if is_frame else _of_values(model_input, specs)
        inputs.update({name: value for name, value in (params or {}).items() if value is not None})
        outputs: dict[str, Any] = self._model(_cast(inputs, specs))
        if self._output is not None:
            return _output(outputs, self._output)
        if len(declared or outputs) == 1 and len(outputs) == 1:
            return next(iter(outputs.values()))
        if is_frame and all(_n_rows(value) == len(model_input) for value in outputs.values()):
            import pandas as pd

            columns = {name: value if _rank(value) == 1 else list(value) for name, value in outputs.items()}
            return pd.DataFrame(columns, index=model_input.index)
        return outputs


def _cast(inputs: Mapping[str, Any], specs: Sequence[_carton.TensorSpec]) -> dict[str, Any]:
    """Numbers of the declared types. Texts become bytes in the call."""
    return _carton.cast_inputs([spec for spec in specs if spec.dtype != "bytes"], inputs)


def _output(outputs: Mapping[str, Any], name: str) -> Any:
    if name not in outputs:
        raise SignatureError(f"the model has no output `{name}`; it has {', '.join(f'`{other}`' for other in outputs)}")
    return outputs[name]


def _rank(value: Any) -> int:
    return len(getattr(value, "shape", ()))


def _n_rows(value: Any) -> int | None:
    """The size of the first dimension; None of a scalar, and of a list, which is a nested tensor."""
    return value.shape[0] if _rank(value) else None


def _is_frame(value: Any) -> bool:
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(value, pandas.DataFrame)


def _required(specs: Sequence[_carton.TensorSpec]) -> list[_carton.TensorSpec]:
    return [spec for spec in specs if not spec.optional]


def _only(specs: Sequence[_carton.TensorSpec], found: str) -> _carton.TensorSpec:
    """The input that a value without a name is for."""
    required = _required(specs) or list(specs)
    if len(required) != 1:
        names = ", ".join(f"`{spec.name}`" for spec in required) or "none"
        error = InvalidInputError(f"{found} is for a model with one input, and this one has {names}")
        error.hint = "pass a dict of arrays by the names of the inputs"
        raise error
    return required[0]


def _of_values(given: Any, specs: Sequence[_carton.TensorSpec]) -> dict[str, Any]:
    """The inputs that are a dict, or one value."""
    if isinstance(given, Mapping):
        return {str(name): _array(value, f"input `{name}`") for name, value in given.items()}
    spec = _only(specs, f"a value of type {type(given).__name__}")
    return {spec.name: _array(given, f"input `{spec.name}`")}


def _of_frame(frame: pd.DataFrame, specs: Sequence[_carton.TensorSpec]) -> dict[str, Any]:
    """The inputs whose columns a frame has; without those the only input, whose last dimension the columns are."""
    import numpy as np

    names = list(frame.columns)
    required = [spec.name for spec in _required(specs)]
    if all(name in names for name in required) and any(spec.name in names for spec in specs):
        return {spec.name: _column(frame, spec) for spec in specs if spec.name in names}
    missing = next((name for name in required if name not in names), "")
    if len(required) != 1 and len(specs) != 1:
        raise InvalidInputError(f"the DataFrame has no column `{missing}`; its columns are {', '.join(map(str, names))}")
    spec = _only(specs, "a DataFrame without columns of that name")
    # Each column by itself: a common type of all of them may not have all their values.
    columns = [_cast({spec.name: _array(frame.iloc[:, number], f"column `{name}`")}, [spec]) for number, name in enumerate(names)]
    arrays = [column[spec.name] for column in columns]
    return {spec.name: _shaped(np.stack(arrays, axis=-1), spec) if arrays else np.empty((len(frame), 0))}


def _column(frame: pd.DataFrame, spec: _carton.TensorSpec) -> Any:
    values = frame[spec.name]
    if _is_frame(values):
        raise InvalidInputError(f"the DataFrame has {len(values.columns)} columns `{spec.name}`")
    return _shaped(_array(values, f"column `{spec.name}`"), spec)


def _shaped(array: Any, spec: _carton.TensorSpec) -> Any:
    """The rows in the shape that the carton declares, if they are flat and it declares all sizes."""
    sizes = spec.shape[1:] if not isinstance(spec.shape, str) else ()
    if _rank(array) in (1, 2) and _rank(array) != len(sizes) + 1 and all(isinstance(size, int) for size in sizes):
        n_elements = 1
        for size in sizes:
            n_elements *= int(size)
        if n_elements * len(array) == array.size:
            return array.reshape(len(array), *sizes)
    return array


def _array(value: Any, what: str) -> Any:
    """An array of a value, a column or a sparse matrix, whose elements are not Python's where NumPy has them."""
    import numpy as np

    if hasattr(value, "toarray"):
        return value.toarray()
    is_column = hasattr(value, "isna") and hasattr(value, "to_numpy")
    array = value.to_numpy() if is_column else value
    if not isinstance(array, np.ndarray) or array.dtype != object:
        return array
    if is_column and (missing := value.isna().to_numpy()).any():
        raise InvalidInputError(f"{what}: row {int(missing.argmax())} is missing")
    first = array.flat[0] if array.size else None
    try:
        if isinstance(first, (np.ndarray, list, tuple)):
            return np.stack([np.asarray(row) for row in array])
        if isinstance(first, (bool, int, float, complex, np.generic)) and not isinstance(first, (str, bytes)):
            return np.array(array.tolist())
    except ValueError as error:
        raise InvalidInputError(f"{what}: its rows have several shapes") from error
    return array


# Saving


def _requirement() -> str:
    return f"carton-runtime=={_carton.__version__}"


def _local(carton: AnyPath, folder: str) -> Path:
    """The file of a carton: the local one, or one that is fetched into the folder."""
    import carton as package

    location = location_text(carton)
    if "://" in location and isinstance(carton, str):
        file = Path(folder, "model.carton")
        package.resolve(location, file)
        return file
    text = location.partition("#sha256=")[0] if isinstance(carton, str) else os.fsdecode(carton)
    if text != location:
        package.open(location)
    return Path(text).absolute()


def _check_permissions(config: Mapping[str, Any]) -> None:
    """A saved model gives itself no permission on the machines that load it."""
    sandbox = config["sandbox"]
    if isinstance(sandbox, Mapping):
        widened = [name for name in ("allow", "env") if sandbox.get(name)] or ["mode"] * (sandbox.get("mode") == "off")
    else:
        widened = ["sandbox"] * (sandbox == "off")
    of_loaders = [name for name in ("allow_file_links", "bundle", "require_signed", "trusted_keys") if config[name] is not None]
    if found := [*widened, *of_loaders]:
        error = InvalidInputError(f"`model_config` of a saved model cannot say `{found[0]}`, which is up to those who load it")
        error.hint = "pass it to mlflow.pyfunc.load_model(…, model_config=…), or in MLFLOW_PYFUNC_INFERENCE_CONFIG to servers"
        raise error


def _about(package: _carton.Package) -> dict[str, Any]:
    """What the carton says of itself, for the metadata in the file MLmodel."""
    info = package.info()
    about = {
        "sha256": info.manifest_sha256,
        "model_name": info.model_name,
        "short_description": info.short_description,
        "license": info.license,
        "runner": info.runner.name,
        "framework_version": info.runner.framework_version,
    }
    return {name: value for name, value in about.items() if value is not None}


def _signature(package: _carton.Package, output: str | None) -> ModelSignature | None:
    """The carton's signature as MLflow's; None if it has nothing that MLflow can say."""
    from mlflow.models import ModelSignature
    from mlflow.types.schema import ColSpec, ParamSchema, ParamSpec, Schema

    inputs, outputs = package.inputs, package.outputs
    if output is not None and output not in [spec.name for spec in outputs]:
        raise InvalidInputError(f"the carton has no output `{output}`; it has {', '.join(f'`{spec.name}`' for spec in outputs) or 'none'}")
    required, optional = _required(inputs), [spec for spec in inputs if spec.optional]
    are_columns = len(required) > 1 and _share_rows(required)
    columns = [spec for spec in optional if are_columns and _share_rows([*required, spec])]
    scalars = [spec for spec in optional if spec.shape == () and _COLUMNS.get(spec.dtype, "binary") != "binary"]
    if left_out := [spec.name for spec in optional if spec not in columns and spec not in scalars]:
        warnings.warn(f"calls through MLflow leave out the optional input `{left_out[0]}`: it is neither a scalar nor a column", stacklevel=4)
    if are_columns:
        named = [ColSpec(_COLUMNS[spec.dtype], spec.name, required=not spec.optional) for spec in inputs if spec in required or spec in columns]
        input_schema = Schema(named)
    else:
        input_schema = _tensors("input", required)
    chosen = [spec for spec in outputs if output in (None, spec.name)]
    if chosen and _share_rows(chosen):
        output_schema = Schema([ColSpec(_COLUMNS[spec.dtype], spec.name) for spec in chosen])
    else:
        output_schema = _tensors("output", chosen)
    params = ParamSchema([ParamSpec(spec.name, _COLUMNS[spec.dtype], None) for spec in scalars]) if scalars else None
    if input_schema is None and output_schema is None and params is None:
        return None
    return ModelSignature(inputs=input_schema, outputs=output_schema, params=params)


def _share_rows(specs: Sequence[_carton.TensorSpec]) -> bool:
    """Whether each is one value a row, of as many rows as the others, and of a type that columns have."""
    rows = {spec.shape for spec in specs}
    return len(rows) == 1 and all(len(shape) == 1 and _is_symbol(shape[0]) for shape in rows if not isinstance(shape, str)) and all(
        not isinstance(spec.shape, str) and spec.dtype in _COLUMNS for spec in specs
    )


def _is_symbol(size: int | str) -> bool:
    return isinstance(size, str) and size != "*"


def _tensors(kind: str, specs: Sequence[_carton.TensorSpec]) -> Any:
    """A schema of tensors; None, with a warning, if one of them has none in MLflow."""
    import numpy as np
    from mlflow.types.schema import Schema, TensorSpec

    for spec in specs:
        reason = None
        if isinstance(spec.shape, str):
            reason = "its number of dimensions is not declared"
        elif spec.dtype not in _TENSORS:
            reason = f"there are no tensors of {spec.dtype}"
        if reason is not None:
            warnings.warn(f"the model is saved without a signature of {kind}s, because MLflow cannot declare `{spec.name}`: {reason}", stacklevel=5)
            return None
    named = [
        TensorSpec(np.dtype(_TENSORS[spec.dtype]), tuple(size if isinstance(size, int) else -1 for size in spec.shape), spec.name) for spec in specs
    ]
    return Schema(named) if named else None


def _example(package: _carton.Package, signature: ModelSignature) -> Any:
    """The first self-test or example that MLflow can show as an input example; None if there is none."""
    if signature.inputs is None:
        return None
    names = set(signature.inputs.input_names())
    params = {spec.name for spec in signature.params} if signature.params else set()
    readers = [*((package.self_test, name) for name in package.self_tests), *((package.example, name) for name in package.examples)]
    for read, name in readers:
        found: dict[str, Any] = read(name)[0]
        sizes = [getattr(value, "size", None) for value in found.values()]
        is_known = set(signature.inputs.required_input_names()) <= set(found) <= names | params
        if is_known and None not in sizes and sum(size for size in sizes if size is not None) <= _MAX_EXAMPLE:
            values = _shown({name: value for name, value in found.items() if name in names}, signature)
            scalars = {name: value.item() for name, value in found.items() if name in params}
            return (values, scalars) if scalars else values
    return None


def _shown(values: dict[str, np.ndarray], signature: ModelSignature) -> Any:
    if signature.inputs.is_tensor_spec():
        # MLflow compares the types, and has strings in arrays of their own type.
        return {name: value.astype(str) if value.dtype == object else value for name, value in values.items()}
    import pandas as pd

    return pd.DataFrame({name: list(value) if value.dtype == object else value for name, value in values.items()})


def _downloaded(model_uri: str, folder: str | None) -> Path:
    """The folder of a model on this machine. What is not there already is fetched into `folder`, or a temporary one, with the credentials of MLflow."""
    from mlflow.artifacts import download_artifacts

    local = Path(model_uri)
    if not (local / "MLmodel").is_file():
        local = Path(download_artifacts(artifact_uri=model_uri, dst_path=folder))
    if not (local / "MLmodel").is_file():
        error = InvalidInputError(f"{model_uri} has no file `MLmodel`, which a model of MLflow has")
        error.hint = "name the model in the run, as in runs:/RUN/NAME, or models:/NAME/VERSION"
        raise error
    return local


def _flavors(folder: Path) -> dict[str, Any]:
    from mlflow.models import Model

    flavors: dict[str, Any] = Model.load(os.fspath(folder)).flavors
    if "python_function" not in flavors:
        error = InvalidInputError(f"the model has no flavor `python_function`, it has {', '.join(sorted(flavors)) or 'none'}")
        error.hint = "log it with a flavor that mlflow.pyfunc.load_model can load"
        raise error
    return flavors


def _artifact(folder: Path, flavors: Mapping[str, Any]) -> tuple[Path, str]:
    """The carton in the folder of a model, and the hash that it must have."""
    about = flavors[_FLAVOR]
    data, sha256 = (about.get("data"), about.get("sha256")) if isinstance(about, dict) else (None, None)
    if not isinstance(data, str) or not isinstance(sha256, str) or not (folder / data).resolve().is_relative_to(folder.resolve()):
        raise IntegrityError("the file `MLmodel` does not name a carton in its folder and its hash")
    return folder / data, sha256
