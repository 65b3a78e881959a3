"""Runs a model of XGBoost.

A file that the scikit-learn interface saved (`XGBClassifier.save_model`) is run by the same class: `predict`, and for classifiers
`predict_proba`, with the rounds up to the best one if the training was stopped early. A file that `Booster.save_model` wrote is run by
`Booster.predict`, which uses all rounds, also after early stopping: `ITERATIONS` chooses others.

NaN is a missing value. Categories are their codes: the positions in the list of categories, as numbers.
"""

import json
import os

import numpy
import xgboost

#: The model's file, beside this one.
MODEL = "model.json"
#: The class of the scikit-learn interface that saved the file; empty if `Booster` did.
ESTIMATOR = ""
#: The first round that `Booster.predict` uses, and the one after the last; (0, 0) are all.
ITERATIONS = (0, 0)
#: How many of the first rounds the example's values are taken from.
EXAMPLE_ROUNDS = 20


class Model:
    def __init__(self):
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), MODEL)
        if ESTIMATOR:
            self.estimator = getattr(xgboost, ESTIMATOR)()
            self.estimator.load_model(path)
            self.booster = self.estimator.get_booster()
        else:
            self.estimator = None
            self.booster = xgboost.Booster()
            self.booster.load_model(path)
        self.n_features = self.booster.num_features()
        #: Their names, if the model has some.
        self.names = self.booster.feature_names
        self.types = self.booster.feature_types

    def infer_with_tensors(self, inputs):
        features = inputs["features"]
        if features.ndim != 2 or features.shape[1] != self.n_features:
            raise ValueError(f"input `features` has shape {list(features.shape)}, and the model takes [batch, {self.n_features}]")
        if self.estimator is None:
            matrix = xgboost.DMatrix(features, feature_names=self.names, feature_types=self.types, enable_categorical=self._has_categories())
            return {"prediction": self.booster.predict(matrix, iteration_range=ITERATIONS)}
        # An array has no names to compare with those of the model.
        outputs = {"prediction": self.estimator.predict(features, validate_features=False)}
        if hasattr(self.estimator, "predict_proba"):
            outputs["probabilities"] = self.estimator.predict_proba(features, validate_features=False)
        return outputs

    def signature(self):
        """Asked when the model is packed: the inputs and outputs, with their dtypes and shapes."""
        features = {"name": "features", "dtype": "float32", "shape": ["batch", self.n_features]}
        if self.names:
            features["description"] = "Columns: " + ", ".join(self.names[:100]) + (", …" if len(self.names) > 100 else "")
        return {"inputs": [features], "outputs": described(self.infer_with_tensors(self.example()))}

    def example(self):
        """Asked when the model is packed: rows with values of the model's splits, those next to them, and missing values."""
        return {"features": rows_around(self._splits(), self.n_features, numpy.float32)}

    def _has_categories(self):
        return "c" in (self.types or ())

    def _splits(self):
        """The values at which the first trees split, by feature."""
        n_rounds = self.booster.num_boosted_rounds()
        try:
            part = self.booster[: min(n_rounds, EXAMPLE_ROUNDS)] if n_rounds > EXAMPLE_ROUNDS else self.booster
        except xgboost.core.XGBoostError:
            # A linear model has no trees to take some of.
            part = self.booster
        model = json.loads(bytes(part.save_raw("json")).decode("utf-8", "replace"))["learner"]["gradient_booster"]
        model = model.get("gbtree", model)["model"]
        found = {}
        for tree in model.get("trees", ()):
            nodes = zip(tree["left_children"], tree["split_indices"], tree["split_conditions"], tree.get("split_type", tree["left_children"]))
            for left, feature, value, kind in nodes:
                if left != -1 and kind != 1:
                    found.setdefault(feature, set()).add(float(value))
            places = zip(tree.get("categories_nodes", ()), tree.get("categories_segments", ()), tree.get("categories_sizes", ()))
            for node, start, size in places:
                found.setdefault(tree["split_indices"][node], set()).update(tree["categories"][start : start + size])
        # Categories are whole numbers, and nothing is next to them.
        self._whole = {place for place, kind in enumerate(self.types or ()) if kind == "c"}
        return {feature: exact(values) if feature in self._whole else around(values, numpy.float32) for feature, values in found.items()}


def exact(values):
    return sorted({0.0, *map(float, values)})


def around(values, dtype):
    """At most 64 of the values, each with the numbers next to it."""
    ordered = numpy.array(sorted(values), dtype)
    ordered = ordered[:: len(ordered) // 64 + 1]
    # Next to zero are numbers that processors may take for zero.
    with numpy.errstate(under="ignore"):
        found = numpy.stack([numpy.nextafter(ordered, dtype(-numpy.inf)), ordered, numpy.nextafter(ordered, dtype(numpy.inf))])
    return found.T.ravel().tolist()


def rows_around(values, n_features, dtype):
    """Rows that go through the values of each feature in an order of its own. The last two have missing values."""
    n_rows = 16 if n_features <= 4096 else 4
    rows = numpy.zeros((n_rows, n_features), dtype)
    random = numpy.random.RandomState(0)
    for feature, choices in sorted(values.items()):
        # One value of each part of the list.
        places = (random.permutation(n_rows) + random.random_sample(n_rows)) * len(choices) / n_rows
        rows[:, feature] = numpy.array(choices, dtype)[places.astype(int)]
    rows[-1, ::2] = numpy.nan
    rows[-2, 1::2] = numpy.nan
    return rows


def described(outputs):
    """The outputs' names, dtypes and shapes, of which the first dimension is the batch."""
    return [{"name": name, "dtype": dtype_of(value), "shape": ["batch", *value.shape[1:]]} for name, value in outputs.items()]


def dtype_of(value):
    return "string" if value.dtype.kind in "OU" else value.dtype.name


def get_model():
    return Model()
