"""The template of Keras beside `predict` of Keras. The variable KERAS_BACKEND selects the backend."""

import os

BACKEND = os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
import numpy
import pytest
from written import check_signature, written


def check(folder, model):
    """Returns the template's model, the model that Keras loads, and the example with the template's answer, which is as its signature says."""
    model.save(folder / "model.keras")
    ours = written(folder, "keras", MODEL="model.keras", BACKEND=BACKEND)
    inputs = ours.example()
    found = ours.infer_with_tensors(inputs)
    check_signature(ours, inputs, found)
    theirs = keras.saving.load_model(folder / "model.keras", compile=False)
    return ours, theirs, inputs, found


def test_a_sequential_model_has_the_names_of_its_first_and_last_layers(tmp_path):
    keras.utils.set_random_seed(1)
    layers = [keras.layers.Input((6, 6, 1), name="image"), keras.layers.Conv2D(2, 3, activation="relu"), keras.layers.BatchNormalization()]
    layers += [keras.layers.Flatten(), keras.layers.Dropout(0.5), keras.layers.Dense(3, activation="softmax", name="digit")]
    ours, theirs, inputs, found = check(tmp_path, keras.Sequential(layers))
    assert ours.signature() == {
        "inputs": [{"name": "image", "dtype": "float32", "shape": ["batch", 6, 6, 1]}],
        "outputs": [{"name": "digit", "dtype": "float32", "shape": ["batch", 3]}],
    }
    numpy.testing.assert_array_equal(found["digit"], theirs.predict(inputs["image"], verbose=0))
    assert len(numpy.unique(found["digit"])) > 3
    seven = numpy.cos(numpy.arange(7 * 36, dtype="float32")).reshape(7, 6, 6, 1)
    numpy.testing.assert_array_equal(ours.infer_with_tensors({"image": seven})["digit"], theirs.predict(seven, verbose=0))


def test_dicts_of_inputs_and_outputs_keep_their_keys(tmp_path):
    keras.utils.set_random_seed(2)
    a, b = keras.Input((4,), name="first_layer"), keras.Input((None,), name="second_layer", dtype="int32")
    embedded = keras.layers.GlobalAveragePooling1D()(keras.layers.Embedding(5, 2)(b))
    joined = keras.layers.Concatenate()([a, embedded])
    outputs = {"y": keras.layers.Dense(1)(joined), "z": keras.layers.Dense(2)(joined)}
    ours, theirs, inputs, found = check(tmp_path, keras.Model({"a": a, "b": b}, outputs))
    assert ours.signature()["inputs"][1] == {"name": "b", "dtype": "int32", "shape": ["batch", "b_1"]}
    expected = theirs.predict(inputs, verbose=0)
    for name in ("y", "z"):
        numpy.testing.assert_array_equal(found[name], expected[name])


def test_lists_of_inputs_have_the_names_of_layers(tmp_path):
    keras.utils.set_random_seed(3)
    left, right = keras.Input((3,), name="left"), keras.Input((3,), name="right")
    shared = keras.layers.Dense(2, name="shared")
    ours, theirs, inputs, found = check(tmp_path, keras.Model([left, right], [shared(left), shared(right)]))
    assert sorted(inputs) == ["left", "right"] and sorted(found) == ["shared", "shared.1"]
    inputs["right"] = inputs["right"] * 3
    found = ours.infer_with_tensors(inputs)
    expected = theirs.predict([inputs["left"], inputs["right"]], verbose=0)
    numpy.testing.assert_array_equal(found["shared"], expected[0])
    numpy.testing.assert_array_equal(found["shared.1"], expected[1])


def test_a_model_that_was_compiled_with_a_loss_of_its_own_is_loaded(tmp_path):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile(loss=lambda truth, found: (truth - found) ** 2)
    check(tmp_path, model)


def test_code_in_a_model_is_refused(tmp_path):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Lambda(lambda x: x + 1)])
    with pytest.raises(Exception, match="Lambda|safe_mode|lambda"):
        check(tmp_path, model)


@pytest.mark.skipif(BACKEND != "tensorflow", reason="texts are computed by TensorFlow alone")
def test_texts_go_in(tmp_path):
    layer = keras.layers.TextVectorization(output_sequence_length=4, vocabulary=["the", "fox", "dog"])
    text = keras.Input((1,), dtype="string", name="text")
    embedded = keras.layers.Embedding(8, 2)(layer(text))
    ours, theirs, inputs, found = check(tmp_path, keras.Model(text, keras.layers.Dense(1, name="y")(keras.layers.GlobalAveragePooling1D()(embedded))))
    import tensorflow

    assert inputs["text"].tolist() == [["the quick brown fox"], ["jumps over the lazy dog"]]
    numpy.testing.assert_array_equal(found["y"], theirs.predict(tensorflow.constant(inputs["text"].tolist()), verbose=0))
