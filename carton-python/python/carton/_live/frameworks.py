"""Models of frameworks whose own files a runner reads: ONNX and PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Mapping

from .examples import named_example, named_outputs, parameters_of, with_signature
from .live import Live

#: Above this size an ONNX model needs files for its weights, because a protobuf message is limited to 2 GiB.
_MAX_PROTOBUF_BYTES = 2**31 - 2**24


def of_onnx(model: Any, folder: Path, example: Any, names: list[str] | None) -> Live:
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


def of_torch(model: Any, folder: Path, example: Any, names: list[str] | None, output_names: list[str] | None) -> Live:
    import torch

    path = folder / "model.pt"
    was_training = model.training
    model.eval()
    try:
        parameters = names or parameters_of(model.forward, type(model).__name__)
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
                result = {str(name): _as_sent(value) for name, value in result.items()}
            else:
                result = tuple(map(_as_sent, result if isinstance(result, (tuple, list)) else [result]))
            live.example = {name: tensor.numpy(force=True) for name, tensor in tensors.items()}
            with_signature(live, named_outputs(result, output_names))
        return live
    finally:
        model.train(was_training)


def _as_sent(tensor: Any) -> Any:
    """A tensor as the runner returns it, which makes floats of the halves."""
    import torch

    return (tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor).numpy(force=True)
