"""Makes the models of the benchmarks that are not in the repository: make_models.py DIRECTORY

- `pixels.onnx`: `x` FP32 ["batch", 3, 224, 224] to `y` FP32 ["batch", 3], the mean of each channel. The work is reading the input.
- `layers.onnx`: `x` FP32 ["batch", 1024] to `y` of that shape, through four products with matrices of 1024 x 1024. A single row is bound by
  reading 16 MB of weights, so that a batch of rows takes little longer.
"""

import sys
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

directory = Path(sys.argv[1])
directory.mkdir(parents=True, exist_ok=True)


def write(name, nodes, input_shape, output_shape, constants=()):
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, input_shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, output_shape)
    graph = helper.make_graph(nodes, name, [x], [y], list(constants))
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), directory / f"{name}.onnx")


write("pixels", [helper.make_node("ReduceMean", ["x"], ["y"], axes=[2, 3], keepdims=0)], ["batch", 3, 224, 224], ["batch", 3])

# Orthogonal up to noise: a chain keeps the size of its input.
generator = np.random.default_rng(1)
layers = [generator.standard_normal((1024, 1024), np.float32) / 32 for _ in range(4)]
names = ["x", "a", "b", "c", "y"]
write(
    "layers",
    [helper.make_node("MatMul", [names[i], f"w{i}"], [names[i + 1]]) for i in range(4)],
    ["batch", 1024],
    ["batch", 1024],
    [numpy_helper.from_array(layer, f"w{i}") for i, layer in enumerate(layers)],
)

# What ONNX would give for the row that the benchmark sends, so that it can check its answers.
row = (np.arange(1024) % 251 / 251).astype(np.float32)[None]
expected = row.astype(np.float64)
for layer in layers:
    expected = expected @ layer.astype(np.float64)
np.save(directory / "layers.npy", expected.astype(np.float32))
