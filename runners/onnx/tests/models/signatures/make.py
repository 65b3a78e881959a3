"""Makes models whose files state shapes that they do not have, or values that no tensor holds, and records what ONNX Runtime returns.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install -r ../requirements.txt && /tmp/venv/bin/python make.py
"""

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

HERE = Path(__file__).parent
RETURNED = {}
onnxruntime.set_default_logger_severity(3)


def tensor(name, shape, element=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, element, shape)


def value(name, kind):
    return helper.make_value_info(name, kind)


def save(name, nodes, inputs, outputs):
    graph = helper.make_graph(nodes, "g", inputs, outputs)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="carton tests")
    onnx.save(made, HERE / name)


def run(name, **inputs):
    session = onnxruntime.InferenceSession(HERE / name, providers=["CPUExecutionProvider"])
    outputs = session.run(None, {key: np.array(array, np.float32) for key, array in inputs.items()})
    named = {output.name: array for output, array in zip(session.get_outputs(), outputs)}
    RETURNED[name] = {
        "inputs": inputs,
        "outputs": {key: {"shape": list(array.shape), "data": array.reshape(-1).tolist()} for key, array in named.items()},
    }


# What exporters state wrongly: a symbol, a fixed size, and the number of dimensions. `right` has what it states.
save(
    "stale.onnx",
    [
        helper.make_node("Concat", ["x", "x"], ["twice"], axis=0),
        helper.make_node("Concat", ["x", "x"], ["wide"], axis=1),
        helper.make_node("Unsqueeze", ["x", "axes"], ["deep"]),
        helper.make_node("Relu", ["x"], ["right"]),
        helper.make_node("Constant", [], ["axes"], value_ints=[0]),
    ],
    [tensor("x", ["batch", 2])],
    [
        tensor("twice", ["batch", 2]),
        tensor("wide", ["batch", 3]),
        tensor("deep", [1, "length"]),
        tensor("right", ["batch", 2]),
    ],
)
run("stale.onnx", x=[[1.0, -2.0]])
# One wrong size again. The model takes one row at a time, of more than 60 elements.
save(
    "one_long_row.onnx",
    [
        helper.make_node("Squeeze", ["x", "rows"], ["row"]),
        helper.make_node("Gather", ["row", "places"], ["y"]),
        helper.make_node("Constant", [], ["rows"], value_ints=[0]),
        helper.make_node("Constant", [], ["places"], value_ints=[60, 0]),
    ],
    [tensor("x", ["n", "length"])],
    [tensor("y", ["n"])],
)
run("one_long_row.onnx", x=[[float(n) for n in range(61)]])
# Names that some exporters write for every size that they do not know.
save(
    "placeholders.onnx",
    [helper.make_node("Relu", ["a"], ["b"]), helper.make_node("Relu", ["c"], ["d"])],
    [tensor("a", [None, 3, "?", "?"]), tensor("c", ["None", "None", "unk__6"])],
    [tensor("b", [None, 3, "?", "?"]), tensor("d", ["None", "None", "unk__6"])],
)
run("placeholders.onnx", a=[[[[1.0, 2.0]]] * 3], c=[[[1.0], [-1.0]]])
# An index that zeros are out of range for: the model takes no zeros.
save(
    "no_zeros.onnx",
    [
        helper.make_node("Cast", ["x"], ["sizes"], to=TensorProto.INT64),
        helper.make_node("Constant", [], ["numbers"], value_floats=[1.0, 2.0, 3.0, 4.0]),
        helper.make_node("Reshape", ["numbers", "sizes"], ["y"], allowzero=1),
    ],
    [tensor("x", [2])],
    [tensor("y", ["a", "b"])],
)
run("no_zeros.onnx", x=[1.0, 4.0])

# The file does not say what its output is.
save("untyped.onnx", [helper.make_node("Relu", ["x"], ["y"])], [tensor("x", [2])], [onnx.ValueInfoProto(name="y")])
run("untyped.onnx", x=[1.0, -1.0])

floats = helper.make_tensor_type_proto(TensorProto.FLOAT, None)
sequence = helper.make_sequence_type_proto(floats)
save(
    "only_sequence.onnx",
    [helper.make_node("SplitToSequence", ["x"], ["parts"]), helper.make_node("Optional", ["x"], ["maybe"])],
    [tensor("x", [4])],
    [value("parts", sequence), value("maybe", helper.make_optional_type_proto(floats))],
)
save(
    "of_sequence.onnx",
    [
        helper.make_node("ConcatFromSequence", ["parts"], ["y"], axis=0),
        helper.make_node("Identity", ["z"], ["w"]),
    ],
    [value("parts", sequence), tensor("z", [2], TensorProto.COMPLEX64)],
    [tensor("y", ["n"]), tensor("w", [2], TensorProto.COMPLEX64)],
)

(HERE / "returned.json").write_text(json.dumps(RETURNED, indent=1) + "\n")
