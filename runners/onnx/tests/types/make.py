"""Makes models with every kind of input and output that ONNX Runtime has, and records what its Python package returns for them.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install -r requirements.txt && /tmp/venv/bin/python make.py

Running it again with the same releases of its requirements makes the same files.
"""

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import onnxruntime_extensions
from onnx import TensorProto, helper, numpy_helper

HERE = Path(__file__).parent
CASES = []

FLOATS = {
    "float16": (TensorProto.FLOAT16, np.float16),
    "bfloat16": (TensorProto.BFLOAT16, ml_dtypes.bfloat16),
    "float8_e4m3fn": (TensorProto.FLOAT8E4M3FN, ml_dtypes.float8_e4m3fn),
    "float8_e5m2": (TensorProto.FLOAT8E5M2, ml_dtypes.float8_e5m2),
    "float8_e4m3fnuz": (TensorProto.FLOAT8E4M3FNUZ, ml_dtypes.float8_e4m3fnuz),
    "float8_e5m2fnuz": (TensorProto.FLOAT8E5M2FNUZ, ml_dtypes.float8_e5m2fnuz),
}


def tensor(name, element, shape):
    return helper.make_tensor_value_info(name, element, shape)


def value(name, kind):
    return onnx.ValueInfoProto(name=name, type=kind)


FLOAT = helper.make_tensor_type_proto(TensorProto.FLOAT, None)
LIST = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, ["n", 2]))
STRINGS = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.STRING, ["n"]))


def optional(kind):
    return helper.make_optional_type_proto(kind)


def mapping(key, element):
    return helper.make_map_type_proto(key, helper.make_tensor_type_proto(element, []))


def save(name, nodes, inputs, outputs, initializers=(), opset=21, ir_version=10, domains=()):
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(initializers))
    imports = [helper.make_opsetid("", opset)] + [helper.make_opsetid(*domain) for domain in domains]
    made = helper.make_model(graph, opset_imports=imports, ir_version=ir_version, producer_name="carton tests")
    onnx.save(made, HERE / name)
    return made


def to_json(found):
    """A tensor with its bits, or its strings; a list of tensors."""
    if isinstance(found, list):
        return {"list": [to_json(one) for one in found]}
    found = np.asarray(found)
    if found.dtype == object or found.dtype.kind == "U":
        return {"dtype": "string", "shape": list(found.shape), "data": found.reshape(-1).tolist()}
    bits = np.ascontiguousarray(found).reshape(-1).view(f"u{found.dtype.itemsize}").tolist()
    return {"dtype": found.dtype.name, "shape": list(found.shape), "bits": bits}


def case(name, inputs, given=None, session=None):
    """Records a call. `given` are the tensors as a caller of Carton names them, where ONNX Runtime takes another form."""
    session = session or onnxruntime.InferenceSession(HERE / name, providers=["CPUExecutionProvider"])
    absent = {one.name: None for one in session.get_inputs() if one.name not in inputs}
    names = [output.name for output in session.get_outputs()]
    outputs = dict(zip(names, session.run(names, inputs | absent)))
    record(name, given or inputs, outputs)


def record(name, inputs, outputs):
    CASES.append(
        {
            "model": name,
            "inputs": {key: to_json(one) for key, one in inputs.items()},
            "outputs": {key: to_json(one) for key, one in outputs.items() if one is not None},
        }
    )


# Each float: passed through, rounded from float32, and widened to it. Its Python package has no arrays of most of them, so ml_dtypes rounds.
VALUES = np.array([0.0, -0.0, 1.0, -1.5, 0.1, 3.14159, 200.0, 1e-3, -7e-3, 13.0, 0.4375], np.float32)
for name, (element, dtype) in FLOATS.items():
    save(
        f"{name}.onnx",
        [
            helper.make_node("Identity", ["x"], ["same"]),
            helper.make_node("Cast", ["f"], ["narrow"], to=element),
            helper.make_node("Cast", ["x"], ["wide"], to=TensorProto.FLOAT),
        ],
        [tensor("x", element, ["n"]), tensor("f", TensorProto.FLOAT, ["n"])],
        [tensor("same", element, ["n"]), tensor("narrow", element, ["n"]), tensor("wide", TensorProto.FLOAT, ["n"])],
    )
    x = VALUES.astype(dtype)
    record(f"{name}.onnx", {"x": x, "f": VALUES}, {"same": x, "narrow": x, "wide": x.astype(np.float32)})

save(
    "bool.onnx",
    [helper.make_node("Not", ["x"], ["y"])],
    [tensor("x", TensorProto.BOOL, ["n"])],
    [tensor("y", TensorProto.BOOL, ["n"])],
)
case("bool.onnx", {"x": np.array([True, False, True])})

# Sequences: of tensors of several shapes, of strings, and empty ones.
save(
    "sequences.onnx",
    [
        helper.make_node("ConcatFromSequence", ["parts"], ["joined"], axis=0),
        helper.make_node("SequenceInsert", ["parts", "x"], ["more"]),
        helper.make_node("SequenceLength", ["parts"], ["count"]),
        helper.make_node("SplitToSequence", ["words"], ["halves"]),
        helper.make_node("SequenceEmpty", [], ["none"], dtype=TensorProto.INT64),
    ],
    [value("parts", LIST), tensor("x", TensorProto.FLOAT, ["n", 2]), tensor("words", TensorProto.STRING, [4])],
    [
        tensor("joined", TensorProto.FLOAT, ["m", 2]),
        value("more", LIST),
        tensor("count", TensorProto.INT64, []),
        value("halves", STRINGS),
        value("none", helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.INT64, None))),
    ],
)
words = np.array(["a", "", "né", "🙂"], object)
rows = np.arange(8, dtype=np.float32).reshape(4, 2)
case("sequences.onnx", {"parts": [rows[:1], rows[1:]], "x": rows[:2], "words": words})

save(
    "length.onnx",
    [helper.make_node("SequenceLength", ["parts"], ["count"])],
    [value("parts", LIST)],
    [tensor("count", TensorProto.INT64, [])],
)
case("length.onnx", {"parts": [rows, rows[:0]]})
case("length.onnx", {"parts": []})

save(
    "string_lists.onnx",
    [helper.make_node("ConcatFromSequence", ["parts"], ["joined"], axis=0)],
    [value("parts", STRINGS)],
    [tensor("joined", TensorProto.STRING, ["n"])],
)
case("string_lists.onnx", {"parts": [words[:1], words[1:]]})

# Optional values, present and absent.
save(
    "optionals.onnx",
    [
        helper.make_node("OptionalHasElement", ["x"], ["has_x"]),
        helper.make_node("OptionalHasElement", ["parts"], ["has_parts"]),
        helper.make_node("Identity", ["x"], ["y"]),
        helper.make_node("Identity", ["parts"], ["same"]),
    ],
    [value("x", optional(FLOAT)), value("parts", optional(LIST))],
    [
        tensor("has_x", TensorProto.BOOL, []),
        tensor("has_parts", TensorProto.BOOL, []),
        value("y", optional(FLOAT)),
        value("same", optional(LIST)),
    ],
)
case("optionals.onnx", {"x": rows[0], "parts": [rows, rows[:1]]})
case("optionals.onnx", {"x": rows[0]})
case("optionals.onnx", {"parts": [rows]})
case("optionals.onnx", {})

# Maps, whose entries are inputs of their own.
save(
    "map_of_numbers.onnx",
    [helper.make_node("CastMap", ["x"], ["y"], domain="ai.onnx.ml", cast_to="TO_FLOAT", map_form="SPARSE", max_map=5)],
    [value("x", mapping(TensorProto.INT64, TensorProto.FLOAT))],
    [tensor("y", TensorProto.FLOAT, [1, 5])],
    opset=17,
    ir_version=8,
    domains=[("ai.onnx.ml", 3)],
)
case("map_of_numbers.onnx", {"x": {3: 1.5, 1: 2.0}}, {"x.3": np.float32(1.5), "x.1": np.float32(2.0)})
save(
    "map_of_words.onnx",
    [
        helper.make_node(
            "DictVectorizer", ["x"], ["y"], domain="ai.onnx.ml", string_vocabulary=["cat", "a.dog", "né", "cow"]
        )
    ],
    [value("x", mapping(TensorProto.STRING, TensorProto.FLOAT))],
    [tensor("y", TensorProto.FLOAT, [1, 4])],
    opset=17,
    ir_version=8,
    domains=[("ai.onnx.ml", 3)],
)
entries = {"a.dog": 2.5, "né": -1.0}
case("map_of_words.onnx", {"x": entries}, {f"x.{key}": np.float32(one) for key, one in entries.items()})

# Strings that the model passes on unread.
save(
    "strings.onnx",
    [helper.make_node("Identity", ["x"], ["y"])],
    [tensor("x", TensorProto.STRING, ["n"])],
    [tensor("y", TensorProto.STRING, ["n"])],
)
case("strings.onnx", {"x": words})

# Elements of less than a byte, which Carton's tensors do not have, and complex numbers, which ONNX Runtime does not have.
for name, element in [("int4", TensorProto.INT4), ("float4", TensorProto.FLOAT4E2M1), ("complex64", TensorProto.COMPLEX64)]:
    save(
        f"{name}.onnx",
        [helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)],
        [tensor("x", element, ["n"])],
        [tensor("y", TensorProto.FLOAT, ["n"])],
        opset=23,
        ir_version=11,
    )

# An operator of a library: onnxruntime-extensions.
save(
    "extension.onnx",
    [helper.make_node("StringUpper", ["x"], ["y"], domain="ai.onnx.contrib")],
    [tensor("x", TensorProto.STRING, ["n"])],
    [tensor("y", TensorProto.STRING, ["n"])],
    opset=17,
    ir_version=8,
    domains=[("ai.onnx.contrib", 1)],
)
options = onnxruntime.SessionOptions()
options.register_custom_ops_library(onnxruntime_extensions.get_library_path())
case(
    "extension.onnx",
    {"x": np.array(["carton", "Grüße", ""], object)},
    session=onnxruntime.InferenceSession(HERE / "extension.onnx", options, providers=["CPUExecutionProvider"]),
)

(HERE / "cases.json").write_text("[\n" + ",\n".join(json.dumps(entry) for entry in CASES) + "\n]\n")
