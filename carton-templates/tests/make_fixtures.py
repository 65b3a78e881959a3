"""Makes the files in `fixtures/`, each by its own framework: `python make_fixtures.py FRAMEWORK`, in an environment that has it.

FRAMEWORK is keras (with JAX), torch (with transformers and sentence-transformers), tensorflow, spacy, or others (with gguf, coremltools and
pyreadr).
"""

import inspect
import os
import pathlib
import shutil
import sys

FIXTURES = pathlib.Path(__file__).parent / "fixtures"


def made(name):
    folder = FIXTURES / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def function(text):
    """A function that does not know where this file is. Keras shows its text in a warning."""
    inspect.getsource = lambda _function: text
    return eval(text)


def make_keras():
    os.environ["KERAS_BACKEND"] = "jax"
    import keras

    folder = made("keras")
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    # The loss is not loaded.
    model.compile(loss=function("lambda truth, found: truth - found"))
    model.save(folder / "dense.keras")
    model.save(folder / "dense.h5")
    model.save_weights(folder / "dense.weights.h5")
    keras.Sequential([keras.Input((2,)), keras.layers.Lambda(function("lambda x: x + 1"))]).save(folder / "lambda.keras")
    text = keras.layers.TextVectorization(vocabulary=["fox"])
    keras.Sequential([keras.Input((1,), dtype="string"), text]).save(folder / "text.keras")

    class Own(keras.layers.Layer):
        def call(self, x):
            return x

    keras.Sequential([keras.Input((2,)), Own()]).save(folder / "own.keras")
    keras.saving.register_keras_serializable("acme")(Own)
    keras.Sequential([keras.Input((2,)), Own()]).save(folder / "registered.keras")


def make_torch():
    import torch
    import transformers
    from safetensors.torch import save_file
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Normalize, Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling
    from test_hugging_face import NET, labels, tokenizer

    folder = made("torch")
    torch.manual_seed(1)
    net = torch.nn.Linear(2, 1).eval()
    program = torch.export.export(net, (torch.zeros(1, 2),))
    for node in program.graph.nodes:
        # It says where this file is.
        node.meta.pop("stack_trace", None)
    torch.export.save(program, folder / "program.pt2")
    torch.save(net.state_dict(), folder / "weights.pt")
    torch.save(net, folder / "library_module.pt")
    torch.save(net.state_dict(), folder / "weights_before_1.6.pt", _use_new_zipfile_serialization=False)

    class Own(torch.nn.Module):
        pass

    Own.__module__, Own.__qualname__ = "acme.nets", "Own"
    sys.modules["acme"] = sys.modules["acme.nets"] = type(sys)("acme.nets")
    sys.modules["acme.nets"].Own = Own
    torch.save(Own(), folder / "own_module.pt")
    save_file(net.state_dict(), folder / "weights.safetensors")

    folder = made("hugging_face")
    net = {**NET, "n_layers": 1}
    config = transformers.DistilBertConfig(**net, **labels(["bad", "good"]))
    transformers.DistilBertForSequenceClassification(config).save_pretrained(folder / "text_classification")
    tokenizer(folder / "text_classification")
    transformers.DistilBertModel(transformers.DistilBertConfig(**net)).save_pretrained(folder / "net")
    tokenizer(folder / "net")
    modules = [Transformer(str(folder / "net")), Pooling(8), Normalize()]
    SentenceTransformer(modules=modules, device="cpu").save_pretrained(str(folder / "sentences"))
    shutil.rmtree(folder / "net")
    (folder / "sentences" / "README.md").unlink()


def make_tensorflow():
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow as tf

    class Net(tf.Module):
        def __init__(self):
            super().__init__()
            self.scale = tf.Variable(2.0)

        @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
        def double(self, x):
            return {"y": x * self.scale}

    folder = made("tensorflow")
    net = Net()
    tf.saved_model.save(net, folder / "default", signatures=net.double)
    tf.saved_model.save(net, folder / "one", signatures={"scale": net.double})
    tf.saved_model.save(net, folder / "two", signatures={"a": net.double, "b": net.double})
    # Only what is read.
    for name in ("one", "two"):
        shutil.rmtree(folder / name / "variables")
        (folder / name / "variables").mkdir()
        (folder / name / "variables" / "variables.index").touch()
    converted = tf.lite.TFLiteConverter.from_concrete_functions([net.double.get_concrete_function()], net).convert()
    (folder / "double.tflite").write_bytes(converted)


def make_spacy():
    import spacy

    folder = made("spacy")
    nlp = spacy.blank("xx")
    nlp.add_pipe("sentencizer")
    nlp.to_disk(folder)
    # Only what is read.
    for path in folder.iterdir():
        if path.name not in ("meta.json", "config.cfg"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def make_others():
    import coremltools
    import gguf
    import pandas
    import pyreadr

    folder = made("others")
    writer = gguf.GGUFWriter(folder / "model.gguf", "llama")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    described = [("x", coremltools.models.datatypes.Array(2))]
    builder = coremltools.models.neural_network.NeuralNetworkBuilder(described, [("y", described[0][1])])
    builder.add_activation("half", "LINEAR", "x", "y", [0.5, 0])
    (folder / "half.mlmodel").write_bytes(builder.spec.SerializeToString())
    frame = pandas.DataFrame({"x": [1.0]})
    pyreadr.write_rds(str(folder / "plain.rds"), frame)
    pyreadr.write_rds(str(folder / "gzip.rds"), frame, compress="gzip")
    pyreadr.write_rdata(str(folder / "gzip.RData"), frame, df_name="x", compress="gzip")


if __name__ == "__main__":
    globals()["make_" + sys.argv[1]]()
