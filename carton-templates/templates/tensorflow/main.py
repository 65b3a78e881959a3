"""Runs a SavedModel of TensorFlow."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy
import tensorflow

#: The folder with `saved_model.pb`, beside this file.
MODEL = "saved_model"
#: The signature that calls use.
SIGNATURE = "serving_default"
#: Sizes for dimensions of any size, of which the example takes the first that the model accepts.
SIZES = (8, 64, 256)


class Model:
    def __init__(self):
        # The function works only as long as what it was loaded with.
        self.loaded = tensorflow.saved_model.load(os.path.join(os.path.dirname(os.path.abspath(__file__)), MODEL))
        self.function = self.loaded.signatures[SIGNATURE]
        self.inputs = self.function.structured_input_signature[1]
        self.outputs = self.function.structured_outputs

    def signature(self):
        inputs = [described(name, self.inputs[name]) for name in sorted(self.inputs)]
        return {"inputs": inputs, "outputs": [described(name, self.outputs[name]) for name in sorted(self.outputs)]}

    def example(self):
        failure = None
        for size in SIZES:
            inputs = {name: pattern(name, spec, size) for name, spec in sorted(self.inputs.items())}
            try:
                self.infer_with_tensors(inputs)
            except Exception as error:
                failure = error
                continue
            return inputs
        raise failure

    def infer_with_tensors(self, inputs):
        tensors = {name: tensorflow.constant(inputs[name], spec.dtype) for name, spec in self.inputs.items()}
        return {name: array_of(name, value) for name, value in self.function(**tensors).items()}


def dtype_of(name, dtype):
    """A text of TensorFlow is any bytes. As TensorFlow Serving has it, those that are no text have names that end with `_bytes`."""
    if dtype == tensorflow.string:
        return "bytes" if name.endswith("_bytes") else "string"
    return dtype.name


def described(name, spec):
    if spec.shape.rank is None:
        return {"name": name, "dtype": dtype_of(name, spec.dtype), "shape": "*"}
    sizes = enumerate(spec.shape.as_list())
    shape = [size if size is not None else "batch" if axis == 0 else "%s_%d" % (name, axis) for axis, size in sizes]
    return {"name": name, "dtype": dtype_of(name, spec.dtype), "shape": shape}


def pattern(name, spec, size):
    """A deterministic value for an input: a sine, zeros and ones, or sentences."""
    sizes = [None, None] if spec.shape.rank is None else spec.shape.as_list()
    shape = [given if given is not None else 2 if axis == 0 else size for axis, given in enumerate(sizes)]
    numbers = numpy.arange(int(numpy.prod(shape)))
    if spec.dtype == tensorflow.string:
        texts = numpy.empty(len(numbers), object)
        sentences = ["the quick brown fox", "jumps over the lazy dog"]
        if dtype_of(name, spec.dtype) == "bytes":
            sentences = [sentence.encode() for sentence in sentences]
        texts[:] = [sentences[number % 2] for number in numbers]
        return texts.reshape(shape)
    values = numpy.sin(numbers) if spec.dtype.is_floating or spec.dtype.is_complex else numbers % 2
    return values.astype(spec.dtype.as_numpy_dtype).reshape(shape)


def array_of(name, value):
    array = value.numpy()
    if value.dtype != tensorflow.string:
        return array
    # TensorFlow gives one text of rank 0 as bytes.
    elements = numpy.asarray(array, object).ravel().tolist()
    texts = numpy.empty(len(elements), object)
    texts[:] = elements if dtype_of(name, value.dtype) == "bytes" else [one.decode() for one in elements]
    return texts.reshape(value.shape.as_list())


def get_model():
    return Model()
