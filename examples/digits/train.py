"""Trains the digit classifier of this folder and writes all files beside this script except carton.toml and README.md.

    python3 -m venv /tmp/digits && /tmp/digits/bin/pip install -r requirements.txt && /tmp/digits/bin/python train.py

scikit-learn trains a network with one hidden layer on its digits (8x8 pixels, part of the package). The ONNX graph is built
from the trained weights, and what the self-tests expect is computed by ONNX Runtime, so that Carton is compared with
another implementation. Seeds are fixed and one thread is used: on one machine, two runs write the same bytes.
"""

import os

# Set before NumPy is imported: with several threads, sums would be added up in another order each time.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import struct
import zlib
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

FOLDER = Path(__file__).resolve().parent
SEED = 0
HIDDEN = 48
PIXEL_MAX = 16.0
PICTURE_SCALE = 8


def build_model(classifier):
    """Returns the network as an ONNX graph: images in, a probability for each digit out."""
    names = ["hidden_weight", "output_weight", "hidden_bias", "output_bias"]
    parameters = [
        numpy_helper.from_array(array.astype(np.float32), name)
        for name, array in zip(names, [*classifier.coefs_, *classifier.intercepts_], strict=True)
    ]
    nodes = [
        helper.make_node("Flatten", ["image"], ["pixels"], axis=1),
        helper.make_node("Gemm", ["pixels", "hidden_weight", "hidden_bias"], ["hidden"]),
        helper.make_node("Relu", ["hidden"], ["activation"]),
        helper.make_node("Gemm", ["activation", "output_weight", "output_bias"], ["score"]),
        helper.make_node("Softmax", ["score"], ["probabilities"], axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, 8, 8])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["batch", 10])],
        parameters,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return model.SerializeToString(deterministic=True)


def png(pixels):
    """Returns a grey picture as PNG, uncompressed so that its bytes do not depend on a compressor."""
    height, width = pixels.shape
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 0)) + chunk(b"IEND", b"")


def main():
    digits = load_digits()
    pixels = (digits.data / PIXEL_MAX).astype(np.float32)
    train_x, test_x, train_y, test_y = train_test_split(
        pixels, digits.target, test_size=0.25, random_state=SEED, stratify=digits.target
    )
    classifier = MLPClassifier((HIDDEN,), alpha=0.3, learning_rate_init=0.005, max_iter=300, random_state=SEED)
    classifier.fit(train_x, train_y)

    model = build_model(classifier)
    (FOLDER / "model.onnx").write_bytes(model)

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def predict(images):
        return session.run(["probabilities"], {"image": images})[0]

    images = np.ascontiguousarray(test_x.reshape(-1, 1, 8, 8))
    accuracy = np.mean(predict(images).argmax(axis=1) == test_y)
    print(f"accuracy on {len(images)} digits not trained on: {accuracy:.4f}")
    assert accuracy > 0.95

    one, sixteen = images[:1], images[1:17]
    np.save(FOLDER / "image.npy", one)
    np.save(FOLDER / "probabilities.npy", predict(one))
    np.savez(FOLDER / "cases.npz", images=sixteen, probabilities=predict(sixteen))
    grey = np.round(one[0, 0] * 255).astype(np.uint8)
    (FOLDER / "digit.png").write_bytes(png(np.kron(grey, np.ones((PICTURE_SCALE, PICTURE_SCALE), np.uint8))))
    print(f"image.npy and digit.png show a {test_y[0]}, the model says {predict(one).argmax()}")


if __name__ == "__main__":
    main()
