"""A classifier of scikit-learn, as train.py has trained and saved it."""

import pickle
from pathlib import Path

import numpy


class Classifier:
    def __init__(self, classifier, names):
        self.classifier = classifier
        self.names = numpy.array(names)

    def infer_with_tensors(self, tensors):
        features = tensors["features"]
        return {
            "species": self.names[self.classifier.predict(features)],
            "probabilities": self.classifier.predict_proba(features),
        }


def get_model():
    with open(Path(__file__).with_name("iris.pickle"), "rb") as file:
        saved = pickle.load(file)
    return Classifier(saved["classifier"], saved["names"])
