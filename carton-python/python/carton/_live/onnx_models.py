"""Models of ONNX, which the onnx runner reads as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .examples import named_example
from .live import Live

#: Above this size an ONNX model needs files for its weights, because a protobuf message is limited to 2 GiB.
MAX_PROTOBUF_BYTES = 2**31 - 2**24


def of_onnx(model: Any, folder: Path, example: Any, names: list[str] | None) -> Live:
    import onnx

    path = folder / "model.onnx"
    if model.ByteSize() < MAX_PROTOBUF_BYTES:
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
