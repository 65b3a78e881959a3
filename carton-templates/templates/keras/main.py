"""Runs a model of Keras 3 (`.keras`)."""

import os

#: The model's file, beside this one.
MODEL = "model.keras"
#: What computes: `jax`, `tensorflow` or `torch`.
BACKEND = "jax"

# Keras reads this when it is imported.
os.environ["KERAS_BACKEND"] = BACKEND
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy

#: Sizes for dimensions of any size, of which the example takes the first that the model accepts.
SIZES = (8, 64, 256)


class Model:
    def __init__(self):
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), MODEL)
        # Without the optimizer and the loss, which may be functions of a module that is not here.
        self.model = keras.saving.load_model(path, compile=False, safe_mode=True)
        if not getattr(self.model, "inputs", None):
            raise ValueError("the model %r has no declared inputs: save it after it was built, such as by a call" % self.model.name)
        self.inputs = names(getattr(self.model, "_inputs_struct", None), self.model.inputs)
        self.outputs = names(getattr(self.model, "_outputs_struct", None), self.model.outputs)

    def signature(self):
        return {
            "inputs": [described(name, tensor) for name, tensor in zip(self.inputs, self.model.inputs)],
            "outputs": [described(name, tensor) for name, tensor in zip(self.outputs, self.model.outputs)],
        }

    def example(self):
        failure = None
        for size in SIZES:
            inputs = {name: pattern(tensor, size) for name, tensor in zip(self.inputs, self.model.inputs)}
            try:
                self.infer_with_tensors(inputs)
            except Exception as error:
                failure = error
                continue
            return inputs
        raise failure

    def infer_with_tensors(self, inputs):
        values = [tensor_of(inputs[name]) for name in self.inputs]
        struct = getattr(self.model, "_inputs_struct", None)
        # The model's own structure of inputs: one, a list, a dict, or what is nested in them.
        value = values[0] if struct is None and len(values) == 1 else values if struct is None else keras.tree.pack_sequence_as(struct, values)
        result = keras.tree.flatten(self.model.predict_on_batch(value))
        return {name: texts_of(numpy.asarray(value)) for name, value in zip(self.outputs, result)}


def names(struct, tensors):
    """The names of the model's inputs or outputs: the keys of dicts, otherwise those of the layers."""
    found = []
    paths = dict(paths_in(struct))
    for tensor in tensors:
        path = paths.get(id(tensor), ())
        name = ".".join(map(str, path)) if any(isinstance(part, str) for part in path) else tensor._keras_history.operation.name
        taken = sum(1 for other in found if other == name or other.startswith(name + "."))
        found.append("%s.%d" % (name, taken) if taken else name)
    return found


def paths_in(struct, path=()):
    """The identity of each tensor in a structure, and the keys and positions that lead to it."""
    if isinstance(struct, (dict, list, tuple)):
        for key, value in struct.items() if isinstance(struct, dict) else enumerate(struct):
            yield from paths_in(value, (*path, key))
    else:
        yield id(struct), path


def described(name, tensor):
    shape = [size if size is not None else "batch" if axis == 0 else "%s_%d" % (name.replace(".", "_"), axis) for axis, size in enumerate(tensor.shape)]
    return {"name": name, "dtype": tensor.dtype, "shape": shape}


def pattern(tensor, size):
    """A deterministic value for an input: a sine, zeros and ones, or sentences."""
    shape = [given if given is not None else 2 if axis == 0 else size for axis, given in enumerate(tensor.shape)]
    n_elements = int(numpy.prod(shape))
    if tensor.dtype == "string":
        sentences = ["the quick brown fox", "jumps over the lazy dog"]
        return numpy.array([sentences[index % 2] for index in range(n_elements)], object).reshape(shape)
    if "float" in tensor.dtype:
        return numpy.sin(numpy.arange(n_elements)).astype(numpy_dtype(tensor.dtype)).reshape(shape)
    return (numpy.arange(n_elements) % 2).astype(tensor.dtype).reshape(shape)


def numpy_dtype(name):
    if name != "bfloat16":
        return name
    import ml_dtypes

    return ml_dtypes.bfloat16


def tensor_of(array):
    if array.dtype.kind not in "OU":
        return array
    import tensorflow

    return tensorflow.constant(array.astype(object))


def texts_of(array):
    """Text of TensorFlow, which is UTF-8, as text of Python."""
    if array.dtype.kind not in "OS":
        return array
    texts = numpy.empty(array.size, object)
    texts[:] = [one.decode() if isinstance(one, bytes) else one for one in array.ravel().tolist()]
    return texts.reshape(array.shape)


def get_model():
    return Model()
