"""Modules of PyTorch: as TorchScript, or as ONNX where they export.

TorchScript takes any module, and needs a torchscript runner, which holds libtorch. ONNX runs without torch, in the runner that is part of
this package, but not every module exports.
"""

from __future__ import annotations

import contextlib
import warnings
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping

import numpy as np

from .. import _carton
from .._errors import InvalidInputError
from .examples import BATCH
from .live import Live
from .torch_call import Call, array_of, call_with, named
from .torch_export import exported, has_exporter


def of_torch(
    model: Any,
    folder: Path,
    *,
    example: Any,
    names: list[str] | None,
    output_names: list[str] | None,
    runner: str | None,
    options: Mapping[str, Any] | None,
) -> Live:
    """Writes a module into an empty folder. See `carton.pack` for the choice of its format.

    Raises:
        InvalidInputError: The module cannot be written in this format, or the example does not fit it.
        UnsupportedError: A package is missing that the export needs.
    """
    form = _format(model, runner, has_example=example is not None)
    with _evaluating(model):
        if example is None:
            if form == "onnx":
                raise InvalidInputError("exporting a module to ONNX takes a call of it: pass example=")
            return _torchscript(model, folder, None)
        call = call_with(model, example, names, output_names)
        return exported(call, folder, options) if form == "onnx" else _torchscript(model, folder, call)


def _format(model: Any, runner: str | None, *, has_example: bool) -> str:
    """The runner to pack for: the chosen one; otherwise `torchscript` where one is installed that reads the files of this torch."""
    import torch

    if runner in ("onnx", "torchscript"):
        return runner
    if runner is not None:
        error = InvalidInputError(f"a torch.nn.Module is packed for the runner `torchscript` or `onnx`, found `{runner}`")
        error.hint = "write it to a file, and pass the path, for any other runner"
        raise error
    major, minor = _version()
    for installed in _carton.runners():
        if installed.name == "torchscript":
            series = [int(part) for part in installed.framework_version.split(".")[:2]]
            if series[0] == major and series[1] >= minor:
                return "torchscript"
    is_exportable = has_example and not isinstance(model, torch.jit.ScriptModule) and has_exporter()
    return "onnx" if is_exportable else "torchscript"


def _version() -> tuple[int, int]:
    import torch

    major, minor = torch.__version__.split(".")[:2]
    return int(major), int(minor)


@contextlib.contextmanager
def _evaluating(model: Any) -> Iterator[None]:
    """Puts a module into evaluation for a `with` block, and each of its parts back into the mode that it had."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, is_training in modes:
            module.training = is_training


def _torchscript(model: Any, folder: Path, call: Call | None) -> Live:
    import torch

    # Its functions have no types.
    jit: Any = torch.jit
    path = folder / "model.pt"
    try:
        with warnings.catch_warnings(), torch.no_grad():
            # Not for the caller of `carton.pack`: that TorchScript is deprecated.
            warnings.filterwarnings("ignore", "`torch.jit")
            if isinstance(model, torch.jit.ScriptModule):
                script = model
            elif call is None:
                script = jit.script(model)
            else:
                # Modules that return dicts are traced only if it is not strict.
                script = jit.trace(model, example_kwarg_inputs=call.own_arguments(), strict=False)
            jit.save(script, str(path))
    except Exception as error:
        wrong = InvalidInputError(f"the module cannot be written as TorchScript: {type(error).__name__}: {error}")
        wrong.hint = "pass example=, so that it can be traced" if call is None else "pass runner='onnx' to export it to ONNX"
        raise wrong from error
    major, minor = _version()
    # An older libtorch does not read the file.
    packed = Live(path, "torchscript", framework_version=f">={major}.{minor}, <{major + 1}")
    if call is not None:
        packed.example = {name: tensor.numpy(force=True) for name, tensor in call.inputs.items()}
        packed.expected = {name: array_of(tensor) for name, tensor in call.outputs.items()}
        packed.inputs, packed.outputs = _signature(script, call, packed.example, packed.expected)
    return packed


def _signature(
    script: Any, call: Call, inputs: Mapping[str, np.ndarray], outputs: Mapping[str, np.ndarray]
) -> tuple[list[_carton.TensorSpec], list[_carton.TensorSpec]]:
    """The shapes of the example, with a symbol for what changes in a call with twice as many rows. Without one, if that call fails: a trace
    may have fixed the number of rows.
    """
    import torch

    twice = {name: torch.cat([tensor, tensor]) if call.has_rows(name) else tensor.clone() for name, tensor in call.inputs.items()}
    try:
        with torch.no_grad():
            found = named(script(**call.arguments(twice)), list(outputs))
        shapes = {name: tuple(found[name].shape) for name in outputs}
        is_fixed = any(len(shapes[name]) != array.ndim for name, array in outputs.items())
    except Exception:  # noqa: BLE001, whatever the module raises
        is_fixed = True
    if is_fixed:
        return _specs(inputs, lambda name, axis: False, call), _specs(outputs, lambda name, axis: False, call)
    return (
        _specs(inputs, lambda name, axis: axis == 0 and call.has_rows(name), call),
        _specs(outputs, lambda name, axis: shapes[name][axis] != outputs[name].shape[axis], call),
    )


def _specs(arrays: Mapping[str, np.ndarray], varies: Callable[[str, int], bool], call: Call) -> list[_carton.TensorSpec]:
    def size(name: str, axis: int, n: int) -> int | str:
        if not varies(name, axis):
            return n
        return BATCH if n == call.n_rows() else f"{name}_{axis}"

    return [
        _carton.TensorSpec(name, array.dtype, [size(name, axis, n) for axis, n in enumerate(array.shape)])
        for name, array in arrays.items()
    ]
