"""Exports a module of PyTorch to ONNX, by `torch.onnx.export`."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import logging
import warnings
from pathlib import Path
from typing import Any, Iterator, Mapping

import numpy as np

from .._errors import InvalidInputError, UnsupportedError
from .examples import BATCH
from .live import Live
from .onnx_models import MAX_PROTOBUF_BYTES
from .torch_call import Call, array_of

#: How far the exported model may be from its module: rounding in another order, not other values. Relative to the largest element.
_TOLERANCE = 1e-3


def has_exporter() -> bool:
    return all(importlib.util.find_spec(package) is not None for package in ("onnx", "onnxscript"))


def exported(call: Call, folder: Path, options: Mapping[str, Any] | None) -> Live:
    if not has_exporter():
        missing = UnsupportedError("exporting a module to ONNX needs the packages onnx and onnxscript")
        missing.hint = "pip install onnx onnxscript; or pass runner='torchscript'"
        raise missing
    if twice := sorted(call.inputs.keys() & call.outputs.keys()):
        error = InvalidInputError(f"the module has an input and an output `{twice[0]}`, and ONNX has one name for one value")
        error.hint = "return it under another name, or pass runner='torchscript'"
        raise error
    weights = [*call.model.parameters(), *call.model.buffers()]
    is_large = sum(tensor.numel() * tensor.element_size() for tensor in weights) >= MAX_PROTOBUF_BYTES
    path = folder / "model.onnx"
    program = _program(call)
    # Nodes remember the lines of code that they are from, and the paths of its files.
    for node in program.model.graph.all_nodes():
        node.metadata_props.clear()
    program.save(str(path), external_data=is_large)
    # The signature is the model's own, which says what depends on the number of rows.
    packed = Live(folder if is_large else path, "onnx")
    packed.example = {name: tensor.numpy(force=True) for name, tensor in call.inputs.items()}
    # The self-test is recorded from the exported model, which rounds in another order than the module.
    _compare(packed, {name: array_of(tensor) for name, tensor in call.outputs.items()}, options)
    return packed


def _program(call: Call) -> Any:
    """The program of ONNX: for any number of rows if the module takes any, otherwise for the example's."""
    import torch

    shapes = call.arguments({name: {0: BATCH} if call.has_rows(name) else None for name in call.inputs})
    names: Any = {"input_names": list(call.inputs), "output_names": list(call.outputs)}

    def export(**options: Any) -> Any:
        # Failed attempts print what they have.
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()), torch.no_grad():
            return torch.onnx.export(call.model, kwargs=call.own_arguments(), dynamo=True, verbose=False, **names, **options)

    with warnings.catch_warnings(), _without_log():
        # They are about PyTorch's own code.
        warnings.simplefilter("ignore")
        try:
            return export(dynamic_shapes=shapes)
        except Exception:  # noqa: BLE001, the second attempt says what is wrong
            pass
        try:
            return export()
        except Exception as error:
            cause: BaseException = error
            while cause.__cause__ is not None:
                cause = cause.__cause__
            # What follows the first line is advice for people who change PyTorch.
            reason = f"{type(cause).__name__}: {str(cause).strip()}".partition("\n")[0]
            wrong = InvalidInputError(f"the module cannot be exported to ONNX: {reason}")
            wrong.hint = "pass runner='torchscript', whose runner takes any module"
            raise wrong from error


def _compare(packed: Live, expected: dict[str, np.ndarray], options: Mapping[str, Any] | None) -> None:
    """Checks that the exported model computes what the module returned."""
    import carton

    with carton.load(packed.path, runner=packed.runner, bare=True, options=options, progress=False) as exported:
        found = exported(packed.example)
    for name, wanted in expected.items():
        array = found[name]
        scale = max(1.0, float(np.abs(wanted).max(initial=0, where=np.isfinite(wanted))))
        if array.shape != wanted.shape or not np.allclose(array, wanted, _TOLERANCE, _TOLERANCE * scale, equal_nan=True):
            error = InvalidInputError(f"output `{name}` of the exported model is not what the module returns")
            error.hint = "random numbers do not export; pass runner='torchscript' if the module is right"
            raise error


@contextlib.contextmanager
def _without_log() -> Iterator[None]:
    """Hides the exporter's log, which is about packages that are not installed and about attempts that fail."""
    logger = logging.getLogger("torch")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)
