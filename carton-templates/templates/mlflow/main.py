"""Runs a model of MLflow."""

import os

import mlflow.pyfunc

#: The folder with the file `MLmodel`, beside this file.
MODEL = "mlmodel"


def get_model():
    return mlflow.pyfunc.load_model(os.path.join(os.path.dirname(os.path.abspath(__file__)), MODEL))
