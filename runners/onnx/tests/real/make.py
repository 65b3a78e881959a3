"""Makes models as common tools export them, and records their outputs in ONNX Runtime for Python.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install -r requirements.txt && /tmp/venv/bin/python make.py

scikit-learn pipelines exported by skl2onnx, nets quantized by onnxruntime.quantization, and float16 and bfloat16.
"""

import json
import tempfile
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pandas
from onnx import TensorProto, helper, numpy_helper
from onnxruntime import quantization
from skl2onnx import to_onnx
from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType, StringTensorType
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

HERE = Path(__file__).parent
RANDOM = np.random.default_rng(11)
CASES = []


def to_json(array):
    array = np.asarray(array)
    if array.dtype == object or array.dtype.kind == "U":
        return {"dtype": "string", "shape": list(array.shape), "data": array.reshape(-1).tolist()}
    if array.dtype in (np.float32, np.float16, ml_dtypes.bfloat16):
        # Written as bits, so that infinities can be written too.
        bits = array.reshape(-1).view(f"u{array.dtype.itemsize}").tolist()
        return {"dtype": array.dtype.name, "shape": list(array.shape), "bits": bits}
    return {"dtype": str(array.dtype), "shape": list(array.shape), "data": array.reshape(-1).tolist()}


def table(rows):
    """Converts a sequence of maps as the runner does: a column for each label, in ascending order."""
    labels = sorted(rows[0]) if rows else []
    return np.array([[row[label] for label in labels] for row in rows], np.float32).reshape(len(rows), len(labels))


def record(name, inputs, outputs):
    CASES.append(
        {
            "model": name,
            "inputs": {key: to_json(array) for key, array in inputs.items()},
            "outputs": {key: to_json(array) for key, array in outputs.items()},
        }
    )


def case(name, inputs):
    session = onnxruntime.InferenceSession(HERE / name, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    results = session.run(names, inputs)
    outputs = {key: table(result) if isinstance(result, list) else result for key, result in zip(names, results)}
    record(name, inputs, outputs)


# Samples of customers: their data, a text, and whether they return.
CITIES = ["Köln", "Aix", "Oslo", "東京"]
WORDS = ["good", "bad", "slow", "quick", "friendly", "rude", "cheap", "dear"]
N = 80
age = RANDOM.normal(40, 12, (N, 2))
city = RANDOM.choice(CITIES, (N, 1)).astype(object)
review = np.array([[" ".join(RANDOM.choice(WORDS, 5))] for _ in range(N)], object)
came_back = (age[:, 0] / 40 + (city[:, 0] == "Oslo") + [("good" in text[0]) for text in review] > 1.4).astype(np.int64)
mood = np.array(["content", "cross", "delighted"], object)[came_back + (age[:, 1] > 45)]


def people(labels):
    frame = pandas.DataFrame({"age": age[:, 0], "stay": age[:, 1], "city": city[:, 0], "review": review[:, 0]})
    columns = ColumnTransformer(
        [
            ("numbers", StandardScaler(), ["age", "stay"]),
            ("city", OneHotEncoder(handle_unknown="ignore"), ["city"]),
            ("review", TfidfVectorizer(), "review"),
        ]
    )
    return Pipeline([("columns", columns), ("classify", LogisticRegression(max_iter=1000))]).fit(frame, labels)


def people_types(number):
    texts = [("city", StringTensorType([None, 1])), ("review", StringTensorType([None, 1]))]
    return [("age", number([None, 1])), ("stay", number([None, 1])), *texts]


PEOPLE = {"age": age[:6, :1], "stay": age[:6, 1:], "review": review[:6]}
PEOPLE["city"] = np.array([["Köln"], ["Aix"], ["Oslo"], ["東京"], ["elsewhere"], ["Aix"]], object)

for name, labels, number, options in [
    ("pipeline_numbers.onnx", came_back, DoubleTensorType, {"zipmap": False}),
    ("pipeline_words.onnx", mood, FloatTensorType, {}),
]:
    fitted = people(labels)
    # The locale that every machine has: the default is one that has to be installed.
    options = {id(fitted): options, TfidfVectorizer: {"locale": "C"}}
    made = to_onnx(fitted, initial_types=people_types(number), options=options, target_opset=17)
    onnx.save(made, HERE / name)
    width = np.float64 if number is DoubleTensorType else np.float32
    case(name, {key: array.astype(width) if array.dtype != object else array for key, array in PEOPLE.items()})

points = RANDOM.standard_normal((60, 3)).astype(np.float32)
# Labels whose order as numbers is not their order as text.
forest = RandomForestClassifier(4, max_depth=3, random_state=0).fit(points, np.array([2, 10, -3])[points.argmax(1)])
onnx.save(to_onnx(forest, initial_types=[("x", FloatTensorType([None, 3]))], target_opset=17), HERE / "forest.onnx")
case("forest.onnx", {"x": points[:5]})
case("forest.onnx", {"x": points[:1]})


# A small net, quantized in the two ways that onnxruntime.quantization has.
def weights(name, *shape):
    return numpy_helper.from_array(RANDOM.standard_normal(shape).astype(np.float32) * 0.4, name)


net = helper.make_model(
    helper.make_graph(
        [
            helper.make_node("Conv", ["x", "k", "c"], ["a"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
            helper.make_node("Relu", ["a"], ["b"]),
            helper.make_node("GlobalAveragePool", ["b"], ["d"]),
            helper.make_node("Flatten", ["d"], ["e"]),
            helper.make_node("MatMul", ["e", "w"], ["y"]),
        ],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 5])],
        [weights("k", 8, 3, 3, 3), weights("c", 8), weights("w", 8, 5)],
    ),
    opset_imports=[helper.make_opsetid("", 17)],
    ir_version=8,
)


class Calibration(quantization.CalibrationDataReader):
    def __init__(self):
        self.batches = iter([{"x": RANDOM.standard_normal((2, 3, 8, 8)).astype(np.float32)} for _ in range(8)])

    def get_next(self):
        return next(self.batches, None)


with tempfile.TemporaryDirectory() as folder:
    plain = Path(folder) / "net.onnx"
    onnx.save(net, plain)
    quantization.quantize_dynamic(plain, HERE / "quantized_dynamic.onnx")
    quantization.quantize_static(
        plain, HERE / "quantized_static.onnx", Calibration(), quant_format=quantization.QuantFormat.QDQ
    )
image = RANDOM.standard_normal((2, 3, 8, 8)).astype(np.float32)
case("quantized_dynamic.onnx", {"x": image})
case("quantized_static.onnx", {"x": image})

# float16 and bfloat16: NumPy rounds `x`, and the model `f`. Values between two neighbours, at the ends of the ranges, and subnormal ones, but
# none that overflow.
HALVES = {"float16": (TensorProto.FLOAT16, 11), "bfloat16": (TensorProto.BFLOAT16, 8)}
for name, (element, bits) in HALVES.items():
    made = helper.make_model(
        helper.make_graph(
            [
                helper.make_node("Cast", ["x"], ["wide"], to=TensorProto.FLOAT),
                helper.make_node("Identity", ["x"], ["same"]),
                helper.make_node("Cast", ["f"], ["narrow"], to=element),
            ],
            name,
            [
                helper.make_tensor_value_info("x", element, ["n"]),
                helper.make_tensor_value_info("f", TensorProto.FLOAT, ["n"]),
            ],
            [
                helper.make_tensor_value_info("wide", TensorProto.FLOAT, ["n"]),
                helper.make_tensor_value_info("same", element, ["n"]),
                helper.make_tensor_value_info("narrow", element, ["n"]),
            ],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    onnx.checker.check_model(made)
    onnx.save(made, HERE / f"{name}.onnx")
    step = 2.0**-bits
    values = [0.0, -0.0, 1.0, 1 + step, 1 + 3 * step, 1 + step * 1.01, 1 - step, -1 - step, 65504.0, 65519.0, 65520.0]
    values += [1e30, -3.4e38, 3.3895e38, 3.40e38, 2.0**-24, 2.0**-25, 2.0**-25 * 1.01, 3 * 2.0**-25, 2.0**-133, 2.0**-134]
    values += [2.0**-134 * 1.5, 6.1e-5, -6.0976e-5, np.inf, -np.inf, np.pi, 1 / 3]
    x = np.concatenate([np.array(values, np.float32), RANDOM.standard_normal(40).astype(np.float32)])
    with np.errstate(over="ignore"):
        overflows = np.isinf(x.astype(np.float16 if name == "float16" else ml_dtypes.bfloat16)) & np.isfinite(x)
    x = x[~overflows]
    session = onnxruntime.InferenceSession(HERE / f"{name}.onnx", providers=["CPUExecutionProvider"])
    if name == "float16":
        rounded = x.astype(np.float16)
        wide, same, narrow = session.run(["wide", "same", "narrow"], {"x": rounded, "f": x})
    else:
        rounded = x.astype(ml_dtypes.bfloat16)
        given = onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(rounded.view(np.uint16), TensorProto.BFLOAT16)
        f = onnxruntime.OrtValue.ortvalue_from_numpy(x)
        wide = session.run_with_ort_values(["wide"], {"x": given, "f": f})[0].numpy()
        # Python's ONNX Runtime cannot return bfloat16, so the same model casts its outputs back.
        narrow = session.run_with_ort_values(["narrow"], {"x": given, "f": f})[0]
        narrow = session.run_with_ort_values(["wide"], {"x": narrow, "f": f})[0].numpy().astype(ml_dtypes.bfloat16)
        same = wide.astype(ml_dtypes.bfloat16)
    record(f"{name}.onnx", {"x": rounded, "f": x}, {"wide": wide, "same": same, "narrow": narrow})
    assert (wide.view(np.uint32) == narrow.astype(np.float32).view(np.uint32)).all()

# A convolutional net for the benchmark.
layers = [helper.make_node("Conv", ["x", "first", "c0"], ["h0"], kernel_shape=[3, 3], pads=[1, 1, 1, 1])]
for layer in range(8):
    layers.append(helper.make_node("Relu", [f"h{layer}"], [f"r{layer}"]))
    layers.append(
        helper.make_node(
            "Conv", [f"r{layer}", f"k{layer}", "c0"], [f"h{layer + 1}"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]
        )
    )
layers += [
    helper.make_node("GlobalAveragePool", ["h8"], ["pooled"]),
    helper.make_node("Flatten", ["pooled"], ["flat"]),
    helper.make_node("MatMul", ["flat", "head"], ["y"]),
]
made = helper.make_model(
    helper.make_graph(
        layers,
        "convnet",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3, 96, 96])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 10])],
        [weights("first", 16, 3, 3, 3), weights("c0", 16), weights("head", 16, 10)]
        + [weights(f"k{layer}", 16, 16, 3, 3) for layer in range(8)],
    ),
    opset_imports=[helper.make_opsetid("", 17)],
    ir_version=8,
)
onnx.save(made, HERE / "convnet.onnx")

# A model with an input of any size, whose output is the first element.
made = helper.make_model(
    helper.make_graph(
        [helper.make_node("Slice", ["x", "start", "end"], ["y"])],
        "first",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])],
        [numpy_helper.from_array(np.array([0]), "start"), numpy_helper.from_array(np.array([1]), "end")],
    ),
    opset_imports=[helper.make_opsetid("", 17)],
    ir_version=8,
)
onnx.save(made, HERE / "first.onnx")

# A model whose output is as large as its input.
made = helper.make_model(
    helper.make_graph(
        [helper.make_node("Neg", ["x"], ["y"])],
        "negative",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])],
    ),
    opset_imports=[helper.make_opsetid("", 17)],
    ir_version=8,
)
onnx.save(made, HERE / "negative.onnx")

# Outputs that differ from their declaration, or that no operator writes: `y` is longer than `x` when it is
# repeated, `c` is a constant once the model is optimized, and `x` is an input.
made = helper.make_model(
    helper.make_graph(
        [
            helper.make_node("Tile", ["x", "repeats"], ["y"]),
            helper.make_node("Neg", ["x"], ["z"]),
            helper.make_node("Greater", ["x", "zero"], ["flags"]),
            helper.make_node("ConstantOfShape", ["size"], ["c"], value=numpy_helper.from_array(np.array([7], np.float32))),
        ],
        "deceptive",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"]),
            helper.make_tensor_value_info("repeats", TensorProto.INT64, [1]),
        ],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"]),
            helper.make_tensor_value_info("z", TensorProto.FLOAT, ["n"]),
            helper.make_tensor_value_info("flags", TensorProto.BOOL, ["n"]),
            helper.make_tensor_value_info("c", TensorProto.FLOAT, [8192]),
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"]),
        ],
        [numpy_helper.from_array(np.array(0, np.float32), "zero"), numpy_helper.from_array(np.array([8192]), "size")],
    ),
    opset_imports=[helper.make_opsetid("", 17)],
    ir_version=8,
)
onnx.save(made, HERE / "deceptive.onnx")
case("deceptive.onnx", {"x": np.array([1, -2], np.float32), "repeats": np.array([2])})
CASES.pop()

(HERE / "cases.json").write_text("[\n" + ",\n".join(json.dumps(entry) for entry in CASES) + "\n]\n")
