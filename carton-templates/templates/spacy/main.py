"""Runs a pipeline of spaCy."""

import json
import os

import numpy
import spacy

#: The folder with `config.cfg`, beside this file.
MODEL = "pipeline"
#: The factories of components that give texts categories.
CATEGORIZERS = ("textcat", "textcat_multilabel")
EXAMPLE = ("Ada Lovelace wrote the first program in London in 1843. It was never run.", "What a good movie!")


class Model:
    def __init__(self):
        self.pipeline = spacy.load(os.path.join(os.path.dirname(os.path.abspath(__file__)), MODEL))
        found = (self.pipeline.get_pipe(name).labels for name in self.pipeline.pipe_names if self.is_categorizer(name))
        self.labels = [label for labels in found for label in labels]

    def is_categorizer(self, name):
        return self.pipeline.get_pipe_meta(name).factory in CATEGORIZERS

    def signature(self):
        # A text has any number of tokens, sentences and entities: they are in the document, which is JSON as spaCy writes it.
        outputs = [{"name": "document", "dtype": "string", "shape": ["batch"]}]
        if self.labels:
            outputs.append({"name": "scores", "dtype": "float32", "shape": ["batch", len(self.labels)]})
            outputs.append({"name": "labels", "dtype": "string", "shape": [len(self.labels)]})
        if self.width():
            outputs.append({"name": "vector", "dtype": "float32", "shape": ["batch", self.width()]})
        return {"inputs": [{"name": "text", "dtype": "string", "shape": ["batch"]}], "outputs": outputs}

    def width(self):
        return self.pipeline.vocab.vectors_length

    def example(self):
        return {"text": numpy.array(EXAMPLE, object)}

    def infer_with_tensors(self, inputs):
        # One by one: with `pipe`, the scores of a text without tokens depend on the other texts.
        documents = [self.pipeline(text) for text in inputs["text"].tolist()]
        outputs = {"document": texts_of([json.dumps(document.to_json(), ensure_ascii=False) for document in documents])}
        if self.labels:
            scores = [[document.cats[label] for label in self.labels] for document in documents]
            outputs["scores"] = numpy.array(scores, "float32").reshape(len(documents), len(self.labels))
            outputs["labels"] = texts_of(self.labels)
        if self.width():
            vectors = [document.vector for document in documents]
            outputs["vector"] = numpy.array(vectors, "float32").reshape(len(documents), self.width())
        return outputs


def texts_of(texts):
    array = numpy.empty(len(texts), object)
    array[:] = texts
    return array


def get_model():
    return Model()
