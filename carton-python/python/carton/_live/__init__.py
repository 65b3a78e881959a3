"""Packs live objects: writes what is in memory as the folder or file of a model, which the runners know.

| object | what is packed | runner |
|---|---|---|
| `onnx.ModelProto` | `model.onnx` | `onnx` |
| `torch.nn.Module` | TorchScript, traced with the example, or scripted without one | `torchscript` |
| `torch.nn.Module` | ONNX, where it exports | `onnx` |
| scikit-learn, XGBoost or LightGBM estimator, and any other object with `predict` or `transform` | a pickle | `python` |
| Python function, class, or object with `infer_with_tensors` | a pickle of its code | `python` |

A model for the `python` runner requires this interpreter's minor version and the packages that its pickle refers to, in the versions that
are installed here. Files of the user's own that it needs are in the pickle (by cloudpickle).
"""
from __future__ import annotations

import contextlib
import inspect
import os
import tempfile
from pathlib import Path
from typing import Any, Iterator, Mapping, Sequence

from .. import _carton
from .._errors import InvalidInputError
from .examples import named_example
from .libraries import is_of
from .live import Live
from .onnx_models import of_onnx
from .python_models import methods_of, of_class, of_estimator, of_function, of_object
from .torch_modules import of_torch

__all__ = ["Live", "prepared", "save"]


@contextlib.contextmanager
def prepared(
    model: Any,
    *,
    example: Any = None,
    inputs: Sequence[_carton.TensorSpec] | None = None,
    outputs: Sequence[_carton.TensorSpec] | None = None,
    runner: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Iterator[Live]:
    """The model as files, for the time of a `with` block: a path as it is, a live object in a temporary folder. See `save`."""
    if isinstance(model, (str, bytes, os.PathLike)):
        names = None if inputs is None else [spec.name for spec in inputs]
        yield Live(os.fspath(model), example=None if example is None else named_example(example, names))
        return
    with tempfile.TemporaryDirectory(prefix="carton-pack-") as folder:
        yield save(model, Path(folder), example=example, inputs=inputs, outputs=outputs, runner=runner, options=options)


def save(
    model: Any,
    folder: Path,
    *,
    example: Any = None,
    inputs: Sequence[_carton.TensorSpec] | None = None,
    outputs: Sequence[_carton.TensorSpec] | None = None,
    runner: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Live:
    """Writes a live object into an empty folder.

    Args:
        model: The object; the table above has the kinds.
        folder: An empty folder.
        example: Inputs of a call: a dict by name; a tuple in the order of the inputs; a pandas DataFrame, each column of which is an input
            (for estimators); or the only input.
        inputs: Declared inputs. They give names to an example without names.
        outputs: Declared outputs.
        runner: The runner that the caller chose, which decides the format of a `torch.nn.Module`.
        options: The caller's options of the runner.

    Raises:
        InvalidInputError: The object is of no kind that can be packed, or the example does not fit it.
        UnsupportedError: A package is missing that packing needs.
    """
    input_names = None if inputs is None else [spec.internal_name or spec.name for spec in inputs]
    output_names = None if outputs is None else [spec.internal_name or spec.name for spec in outputs]
    if is_of(model, "onnx", "ModelProto"):
        return of_onnx(model, folder, example, input_names)
    if is_of(model, "torch.nn", "Module"):
        return of_torch(
            model, folder, example=example, names=input_names, output_names=output_names, runner=runner, options=options
        )
    if inspect.isclass(model):
        return of_class(model, folder, example, input_names)
    if callable(getattr(model, "infer_with_tensors", None)):
        return of_object(model, folder, example, input_names)
    methods = methods_of(model)
    if methods:
        return of_estimator(model, methods, folder, example, input_names)
    if callable(model):
        return of_function(model, folder, example, input_names, output_names)
    error = InvalidInputError(f"a {type(model).__module__}.{type(model).__qualname__} is not a model that can be packed")
    error.hint = "pass a path, a function, a class, an estimator, a torch.nn.Module or an onnx.ModelProto"
    raise error
