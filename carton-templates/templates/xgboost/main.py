"""Runs a model of XGBoost."""

import os

import numpy
import xgboost

#: The model's file, beside this one.
MODEL = "model.json"


class Model:
    def __init__(self):
        self.booster = xgboost.Booster()
        self.booster.load_model(os.path.join(os.path.dirname(os.path.abspath(__file__)), MODEL))

    def signature(self):
        """Asked when the model is packed: the inputs and outputs, with their dtypes and shapes."""
        return {
            "inputs": [{"name": "features", "dtype": "float32", "shape": ["batch", self.booster.num_features()]}],
            "outputs": [{"name": "prediction", "dtype": "float32", "shape": ["batch"]}],
        }

    def example(self):
        """Asked when the model is packed: inputs of a call, for the first self-test."""
        return {"features": numpy.zeros((2, self.booster.num_features()), "float32")}

    def infer_with_tensors(self, inputs):
        return {"prediction": self.booster.inplace_predict(inputs["features"])}


def get_model():
    return Model()
