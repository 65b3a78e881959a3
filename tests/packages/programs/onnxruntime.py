# part: quick
# requires: onnxruntime==1.32.0 onnx==1.23.2
import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper


def model():
    weights = np.random.default_rng(1).normal(size=(4, 3)).astype("float32")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["xw"]), helper.make_node("Softmax", ["xw"], ["y"], axis=-1)]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])
    graph = helper.make_graph(nodes, "softmax", [x], [y], [numpy_helper.from_array(weights, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def run():
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    session = onnxruntime.InferenceSession(model(), options, providers=["CPUExecutionProvider"])
    (y,) = session.run(None, {"x": np.arange(20, dtype="float32").reshape(5, 4) / 10})
    return {"numbers": y.ravel().tolist()}
