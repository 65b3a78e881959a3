"""Makes the models of the tests and records what ONNX Runtime returns for them.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install -r requirements.txt && /tmp/venv/bin/python make.py

Everything is seeded: running it again with the same releases of its requirements makes the same files.
"""

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

HERE = Path(__file__).parent
RANDOM = np.random.default_rng(7)
CASES = []

NAMES = {
    "float32": TensorProto.FLOAT,
    "float64": TensorProto.DOUBLE,
    "float16": TensorProto.FLOAT16,
    "int8": TensorProto.INT8,
    "int16": TensorProto.INT16,
    "int32": TensorProto.INT32,
    "int64": TensorProto.INT64,
    "uint8": TensorProto.UINT8,
    "uint16": TensorProto.UINT16,
    "uint32": TensorProto.UINT32,
    "uint64": TensorProto.UINT64,
    "string": TensorProto.STRING,
    "bool": TensorProto.BOOL,
}


def value(name, dtype, shape):
    return helper.make_tensor_value_info(name, NAMES[dtype], shape)


def weights(name, *shape):
    return numpy_helper.from_array(RANDOM.standard_normal(shape).astype(np.float32) * 0.5, name)


def ints(name, values):
    return numpy_helper.from_array(np.array(values, np.int64), name)


def model(nodes, inputs, outputs, initializers=(), opset=17, ir_version=8, domains=()):
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(initializers))
    imports = [helper.make_opsetid("", opset)] + [helper.make_opsetid(*domain) for domain in domains]
    made = helper.make_model(graph, opset_imports=imports, ir_version=ir_version, producer_name="carton tests")
    return made


def save(name, made, check=True):
    if check:
        onnx.checker.check_model(made)
    onnx.save(made, HERE / name)


def to_json(array):
    array = np.asarray(array)
    dtype = "string" if array.dtype == object or array.dtype.kind == "U" else str(array.dtype)
    if array.dtype == bool:
        array = array.astype(np.uint8)
    return {"dtype": dtype, "shape": list(array.shape), "data": array.reshape(-1).tolist()}


def case(name, inputs, outputs=None):
    session = onnxruntime.InferenceSession(HERE / name, providers=["CPUExecutionProvider"])
    names = outputs or [output.name for output in session.get_outputs()]
    inputs = {key: np.asarray(array) for key, array in inputs.items()}
    results = session.run(names, inputs)
    CASES.append(
        {
            "model": name,
            "inputs": {key: to_json(array) for key, array in inputs.items()},
            "outputs": {key: to_json(array) for key, array in zip(names, results)},
        }
    )


def floats(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def mlp(opset=17, ir_version=8):
    return model(
        [
            helper.make_node("Gemm", ["x", "w1", "b1"], ["h1"]),
            helper.make_node("Relu", ["h1"], ["h2"]),
            helper.make_node("Gemm", ["h2", "w2", "b2"], ["h3"]),
            helper.make_node("Softmax", ["h3"], ["y"], axis=1),
        ],
        [value("x", "float32", ["batch", 4])],
        [value("y", "float32", ["batch", 3])],
        [weights("w1", 4, 8), weights("b1", 8), weights("w2", 8, 3), weights("b2", 3)],
        opset=opset,
        ir_version=ir_version,
    )


save("mlp.onnx", mlp())
case("mlp.onnx", {"x": floats(5, 4)})
case("mlp.onnx", {"x": floats(0, 4)})

# Convolutions and pooling with attributes left to their defaults.
save(
    "conv.onnx",
    model(
        [
            helper.make_node("Conv", ["x", "k1", "c1"], ["a"], pads=[1, 1, 1, 1]),
            helper.make_node("BatchNormalization", ["a", "scale", "bias", "mean", "variance"], ["b"]),
            helper.make_node("Relu", ["b"], ["c"]),
            helper.make_node("MaxPool", ["c"], ["d"], kernel_shape=[2, 2], strides=[2, 2]),
            helper.make_node("Conv", ["d", "k2"], ["e"], strides=[2, 2]),
            helper.make_node("AveragePool", ["e"], ["e2"], kernel_shape=[2, 2]),
            helper.make_node("GlobalAveragePool", ["e2"], ["f"]),
            helper.make_node("Flatten", ["f"], ["h"]),
            helper.make_node("Gemm", ["h", "w"], ["y"]),
        ],
        [value("x", "float32", ["n", 3, 16, 16])],
        [value("y", "float32", ["n", 5])],
        [
            weights("k1", 6, 3, 3, 3),
            weights("c1", 6),
            weights("scale", 6),
            weights("bias", 6),
            weights("mean", 6),
            numpy_helper.from_array(np.full(6, 0.8, np.float32), "variance"),
            weights("k2", 4, 6, 3, 3),
            weights("w", 4, 5),
        ],
    ),
)
case("conv.onnx", {"x": floats(2, 3, 16, 16)})

save(
    "tokens.onnx",
    model(
        [
            helper.make_node("Gather", ["table", "ids"], ["vectors"]),
            helper.make_node("ReduceMean", ["vectors"], ["mean"], axes=[1], keepdims=0),
            helper.make_node("ArgMax", ["mean"], ["best"], axis=1, keepdims=0),
            helper.make_node("Greater", ["mean", "zero"], ["positive"]),
            helper.make_node("Add", ["ids", "one"], ["next"]),
        ],
        [value("ids", "int64", ["batch", "length"])],
        [
            value("mean", "float32", ["batch", 6]),
            value("best", "int64", ["batch"]),
            value("positive", "bool", ["batch", 6]),
            value("next", "int64", ["batch", "length"]),
        ],
        [weights("table", 20, 6), numpy_helper.from_array(np.float32(0), "zero"), ints("one", 1)],
    ),
)
case("tokens.onnx", {"ids": np.array([[0, 19, 3], [7, 7, 1]], np.int64)})
case("tokens.onnx", {"ids": np.array([[4, 2, 2]], np.int64)}, outputs=["best"])

save(
    "scalar.onnx",
    model(
        [
            helper.make_node("Mul", ["x", "two"], ["double"]),
            helper.make_node("Add", ["double", "two"], ["y"]),
            helper.make_node("Add", ["i", "i"], ["j"]),
            helper.make_node("Not", ["b"], ["c"]),
        ],
        [value("x", "float32", []), value("i", "int64", []), value("b", "bool", [])],
        [value("y", "float32", []), value("j", "int64", []), value("c", "bool", [])],
        [numpy_helper.from_array(np.float32(2), "two")],
    ),
)
case("scalar.onnx", {"x": np.float32(1.5), "i": np.int64(-2147483648 // 2), "b": np.bool_(True)})

save(
    "small_types.onnx",
    model(
        [
            helper.make_node("Identity", ["a"], ["a_out"]),
            helper.make_node("Identity", ["b"], ["b_out"]),
            helper.make_node("Mul", ["c", "c"], ["c_out"]),
            helper.make_node("Transpose", ["d"], ["d_out"], perm=[1, 0]),
        ],
        [
            value("a", "int8", ["n"]),
            value("b", "uint8", ["n"]),
            value("c", "int32", ["n"]),
            value("d", "float32", ["r", "s"]),
        ],
        [
            value("a_out", "int8", ["n"]),
            value("b_out", "uint8", ["n"]),
            value("c_out", "int32", ["n"]),
            value("d_out", "float32", ["s", "r"]),
        ],
    ),
)
case(
    "small_types.onnx",
    {
        "a": np.array([-128, 0, 127], np.int8),
        "b": np.array([0, 128, 255], np.uint8),
        "c": np.array([-3, 0, 40000], np.int32),
        "d": floats(2, 3),
    },
)

ALL = [name for name in NAMES if name not in ("float16", "bool")]
save(
    "every_dtype.onnx",
    model(
        [helper.make_node("Identity", [f"{name}_in"], [f"{name}_out"]) for name in ALL],
        [value(f"{name}_in", name, ["n"]) for name in ALL],
        [value(f"{name}_out", name, ["n"]) for name in ALL],
    ),
)
EVERY = {f"{name}_in": np.array([1, 2, 100], name) for name in ALL if name != "string"}
EVERY["int64_in"] = np.array([-(2**63), 0, 2**63 - 1], np.int64)
EVERY["uint64_in"] = np.array([0, 1, 2**64 - 1], np.uint64)
EVERY["string_in"] = np.array(["", "né", "🙂"], object)
case("every_dtype.onnx", EVERY)
case(
    "every_dtype.onnx",
    {key: array[:0] for key, array in EVERY.items()},
)

save(
    "labels.onnx",
    model(
        [
            helper.make_node("StringConcat", ["words", "mark"], ["marked"]),
            helper.make_node(
                "LabelEncoder",
                ["words"],
                ["labels"],
                domain="ai.onnx.ml",
                keys_strings=["cat", "dog"],
                values_int64s=[1, 5_000_000_000],
                default_int64=-1,
            ),
        ],
        [value("words", "string", ["n"])],
        [value("marked", "string", ["n"]), value("labels", "int64", ["n"])],
        [helper.make_tensor("mark", TensorProto.STRING, [1], [b"!"])],
        opset=20,
        domains=[("ai.onnx.ml", 3)],
    ),
)
case("labels.onnx", {"words": np.array(["cat", "dog", "", "n\u00e9"], object)})

# Operator sets that exporters in use write.
for opset, ir_version in [(7, 3), (9, 4), (11, 6), (13, 7), (18, 8), (21, 10), (24, 12), (26, 13)]:
    made = mlp(opset, ir_version)
    if ir_version < 4:
        # Up to IR version 3 every initializer is listed among the inputs too.
        made.graph.input.extend(
            helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            for tensor in made.graph.initializer
        )
    save(f"opset_{opset}.onnx", made)
    case(f"opset_{opset}.onnx", {"x": floats(2, 4)})
save("opset_27.onnx", mlp(27, 13))

# A graph inside an operator, which uses a value of the graph around it.
branch = lambda name, op: helper.make_graph(  # noqa: E731
    [helper.make_node(op, ["x"], [f"{name}_y"])], name, [], [value(f"{name}_y", "float32", None)]
)
save(
    "branches.onnx",
    model(
        [
            helper.make_node("If", ["flag"], ["y"], then_branch=branch("then", "Neg"), else_branch=branch("else", "Abs")),
        ],
        [value("flag", "bool", []), value("x", "float32", ["n"])],
        [value("y", "float32", None)],
    ),
    check=False,  # the output has no shape, which the checker forbids and exporters write
)
case("branches.onnx", {"flag": np.bool_(True), "x": floats(3)})
case("branches.onnx", {"flag": np.bool_(False), "x": floats(3)})

# Operators whose common shortcuts are wrong for equal elements and for zero.
for opset in (7, 17):
    save(
        f"ties_{opset}.onnx",
        model(
            [
                helper.make_node("ArgMax", ["x"], ["first"]),
                helper.make_node("ArgMin", ["ids"], ["lowest"], axis=-1, keepdims=0),
                helper.make_node("Sign", ["x"], ["sign"]) if opset > 8 else helper.make_node("Neg", ["x"], ["sign"]),
            ]
            + ([helper.make_node("ArgMax", ["ids"], ["last"], axis=1, select_last_index=1)] if opset > 11 else []),
            [value("x", "float32", ["n", "m"])]
            + [value("ids", "float32" if opset < 11 else "int64", ["n", "m"])],
            [
                value("first", "int64", [1, "m"]),
                value("lowest", "int64", ["n"]),
                value("sign", "float32", ["n", "m"]),
            ]
            + ([value("last", "int64", ["n", 1])] if opset > 11 else []),
            opset=opset,
        ),
    )
    case(
        f"ties_{opset}.onnx",
        {
            "x": np.array([[0, -2, 7], [-0.0, -2, 9], [0, 5, 9]], np.float32),
            "ids": np.array([[4, 1, 1], [2, 2, 2], [9, 3, 9]], np.float32 if opset < 11 else np.int64),
        },
    )
save(
    "vector_product.onnx",
    model(
        [
            helper.make_node("MatMul", ["x", "weights"], ["scores"]),
            helper.make_node("MatMul", ["v", "v"], ["square"]),
        ],
        [value("x", "float32", ["a", "b", "c", 4]), value("v", "float32", ["n"])],
        [value("scores", "float32", ["a", "b", "c"]), value("square", "float32", [])],
        [weights("weights", 4)],
    ),
)
case("vector_product.onnx", {"x": floats(2, 1, 3, 4), "v": floats(3)})
save(
    "deviations.onnx",
    model(
        [
            helper.make_node("MaxPool", ["x"], ["a"], kernel_shape=[2, 2], auto_pad="SAME_LOWER"),
            helper.make_node("Resize", ["a", "", "scales"], ["y"], mode="cubic"),
        ],
        [value("x", "float32", [1, 1, 4, 4])],
        [value("y", "float32", [1, 1, 8, 8])],
        [numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "scales")],
    ),
)
case("deviations.onnx", {"x": floats(1, 1, 4, 4)})

save("passthrough.onnx", model([helper.make_node("Neg", ["x"], ["y"])], [value("x", "float32", ["n"])], [value("y", "float32", ["n"]), value("x", "float32", ["n"])]))
case("passthrough.onnx", {"x": floats(3)})

# Models whose values are not all of the types of inputs and outputs, each for another reason.
save(
    "wide_constant.onnx",
    model(
        [helper.make_node("Add", ["x", "wide"], ["y"])],
        [value("x", "int64", ["n"])],
        [value("y", "int64", ["n"])],
        [ints("wide", [7, 5_000_000_000])],
    ),
)
case("wide_constant.onnx", {"x": np.array([1, 2], np.int64)})
save(
    "unbounded_slice.onnx",
    model(
        [helper.make_node("Slice", ["x", "starts", "ends"], ["y"])],
        [value("x", "float32", ["n"])],
        [value("y", "float32", ["m"])],
        [ints("starts", [1]), ints("ends", [2**63 - 1])],
    ),
)
case("unbounded_slice.onnx", {"x": floats(4)})
save(
    "half.onnx",
    model([helper.make_node("Neg", ["x"], ["y"])], [value("x", "float16", ["n"])], [value("y", "float16", ["n"])]),
)
save(
    "sequence.onnx",
    model(
        [
            helper.make_node("SplitToSequence", ["x"], ["parts"]),
            helper.make_node("Neg", ["x"], ["y"]),
        ],
        [value("x", "float32", [4])],
        [helper.make_tensor_sequence_value_info("parts", TensorProto.FLOAT, None), value("y", "float32", [4])],
    ),
)
case("sequence.onnx", {"x": floats(4)}, outputs=["y"])
save(
    "unknown_operator.onnx",
    model(
        [helper.make_node("Frobnicate", ["x"], ["y"], domain="com.example")],
        [value("x", "float32", [2])],
        [value("y", "float32", [2])],
        domains=[("com.example", 1)],
    ),
    check=False,
)


def external(folder, location, align, with_length=True):
    """An MLP whose weights are in `location`, all of them or the first one, after one byte of padding unless `align`."""
    (HERE / folder).mkdir(exist_ok=True)
    made = mlp()
    data = bytearray() if align else bytearray(b"\0")
    for tensor in made.graph.initializer:
        raw = numpy_helper.to_array(tensor).tobytes()
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        entries = {"location": location}
        if with_length:
            entries |= {"offset": len(data), "length": len(raw)}
        for key, entry in entries.items():
            tensor.external_data.add(key=key, value=str(entry))
        data += raw
        if not with_length:
            # Without offset and length a tensor is the whole file, so only the first one can be external.
            break
    onnx.save(made, HERE / folder / "model.onnx")
    path = HERE / folder / location
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    case(f"{folder}/model.onnx", {"x": floats(2, 4)})


made = model(
    [helper.make_node("Add", ["x", "wide"], ["y"])],
    [value("x", "int64", ["n"])],
    [value("y", "int64", ["n"])],
    [ints("wide", [7, 8, -3_000_000_000])],
)
made.graph.initializer[0].ClearField("raw_data")
made.graph.initializer[0].data_location = TensorProto.EXTERNAL
made.graph.initializer[0].external_data.add(key="location", value="wide.data")
(HERE / "external_wide").mkdir(exist_ok=True)
onnx.save(made, HERE / "external_wide" / "model.onnx")
(HERE / "external_wide" / "wide.data").write_bytes(np.array([7, 8, -3_000_000_000], np.int64).tobytes())
case("external_wide/model.onnx", {"x": np.array([1, 2, 3], np.int64)})

external("external", "model.onnx.data", align=True)
external("external_unaligned", "model.onnx.data", align=False)
external("external_elsewhere", "sub/weights", align=True)
external("external_whole", "first.bin", align=True, with_length=False)

(HERE / "cases.json").write_text("[\n" + ",\n".join(json.dumps(entry) for entry in CASES) + "\n]\n")
