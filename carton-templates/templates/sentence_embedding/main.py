"""Runs a model of sentence-transformers, which makes embeddings of texts."""

import os

# Nothing is looked for in the Hub of Hugging Face.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import numpy
from sentence_transformers import SentenceTransformer

#: The model's folder, beside this file.
MODEL = "model"
EXAMPLE = ("The quick brown fox jumps over the lazy dog.", "A fast animal leaps.", "The stock market fell.")


class Model:
    def __init__(self):
        folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), MODEL)
        options = {"use_safetensors": True}
        self.model = SentenceTransformer(folder, local_files_only=True, trust_remote_code=False, model_kwargs=options)
        self.width = self.encode(["width"]).shape[1]

    def signature(self):
        embedding = {"name": "embedding", "dtype": "float32", "shape": ["batch", self.width]}
        return {"inputs": [{"name": "text", "dtype": "string", "shape": ["batch"]}], "outputs": [embedding]}

    def example(self):
        return {"text": texts_of(EXAMPLE, len(EXAMPLE))}

    def infer_with_tensors(self, inputs):
        """Texts longer than the model's `max_seq_length` are cut off, as sentence-transformers does."""
        texts = inputs["text"].tolist()
        return {"embedding": self.encode(texts) if texts else numpy.empty((0, self.width), "float32")}

    def encode(self, texts):
        return numpy.asarray(self.model.encode(texts, show_progress_bar=False), "float32")


def texts_of(texts, shape):
    array = numpy.empty(len(texts), object)
    array[:] = texts
    return array.reshape(shape)


def get_model():
    return Model()
