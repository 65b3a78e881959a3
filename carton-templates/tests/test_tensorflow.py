"""The template of TensorFlow beside the signatures of the SavedModel."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy
import pytest
import tensorflow as tf
from written import check_signature, written


class Net(tf.Module):
    def __init__(self):
        super().__init__()
        self.weights = tf.Variable(tf.random.stateless_normal((4, 2), (1, 2)))

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32)])
    def score(self, x):
        y = x @ self.weights
        return {"y": y, "label": tf.gather(["no", "yes"], tf.argmax(y, -1))}

    @tf.function(input_signature=[tf.TensorSpec(None, tf.int64)])
    def double(self, x):
        return {"twice": x * 2}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def lengths(self, image_bytes):
        return {"length": tf.strings.length(image_bytes), "same_bytes": tf.identity(image_bytes)}


def saved(folder, name, signature="serving_default"):
    net = Net()
    tf.saved_model.save(net, folder / "saved_model", signatures={signature: getattr(net, name)})
    ours = written(folder, "tensorflow", MODEL="saved_model", SIGNATURE=signature)
    loaded = tf.saved_model.load(folder / "saved_model")
    return ours, loaded.signatures[signature], loaded


def test_outputs_are_those_of_the_signature(tmp_path):
    ours, theirs, _loaded = saved(tmp_path, "score")
    inputs = ours.example()
    found = ours.infer_with_tensors(inputs)
    check_signature(ours, inputs, found)
    expected = theirs(x=tf.constant(inputs["x"]))
    numpy.testing.assert_array_equal(found["y"], expected["y"].numpy())
    assert found["label"].tolist() == [text.decode() for text in expected["label"].numpy()]
    assert ours.signature()["inputs"] == [{"name": "x", "dtype": "float32", "shape": ["batch", 4]}]


def test_a_rank_may_be_unknown(tmp_path):
    ours, _theirs, _loaded = saved(tmp_path, "double", "scale")
    assert ours.signature()["inputs"] == [{"name": "x", "dtype": "int64", "shape": "*"}]
    assert ours.infer_with_tensors({"x": numpy.array(2**40)})["twice"] == 2**41
    check_signature(ours, ours.example(), ours.infer_with_tensors(ours.example()))


def test_names_that_end_with_bytes_are_bytes(tmp_path):
    ours, _theirs, _loaded = saved(tmp_path, "lengths")
    inputs = {"image_bytes": numpy.array([b"\xff\x00\xfe", b""], object)}
    found = ours.infer_with_tensors(inputs)
    check_signature(ours, inputs, found)
    assert found["length"].tolist() == [3, 0]
    assert found["same_bytes"].tolist() == inputs["image_bytes"].tolist()


def test_an_export_of_keras(tmp_path):
    keras = pytest.importorskip("keras", reason="this environment has no Keras")
    if keras.backend.backend() != "tensorflow":
        pytest.skip("Keras exports with its backend, which is %s here" % keras.backend.backend())
    model = keras.Sequential([keras.Input((3,), name="features"), keras.layers.Dense(2, activation="tanh")])
    model.export(tmp_path / "saved_model", verbose=False)
    ours = written(tmp_path, "tensorflow", MODEL="saved_model")
    inputs = ours.example()
    (found,) = ours.infer_with_tensors(inputs).values()
    theirs = tf.saved_model.load(tmp_path / "saved_model")
    numpy.testing.assert_array_equal(found, theirs.serve(inputs["features"]).numpy())
