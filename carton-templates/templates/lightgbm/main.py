"""Runs a model of LightGBM, by `Booster.predict`.

A file has the rounds that were saved: up to the best one if the training was stopped early. The prediction is a probability for a binary
objective, and a probability for each class for several classes, as `Booster.predict` returns them.

NaN is a missing value, unless the model was trained otherwise. Categories are their codes: of a column of pandas, the positions in the
list of categories that the model has, as numbers.
"""

import os

import lightgbm
import numpy

#: The model's file, beside this one.
MODEL = "model.txt"
#: How many of the first rounds the example's values are taken from.
EXAMPLE_ROUNDS = 20


class Model:
    def __init__(self):
        self.booster = lightgbm.Booster(model_file=os.path.join(os.path.dirname(os.path.abspath(__file__)), MODEL))
        self.n_features = self.booster.num_feature()

    def infer_with_tensors(self, inputs):
        return {"prediction": self.booster.predict(inputs["features"])}

    def signature(self):
        """Asked when the model is packed: the inputs and outputs, with their dtypes and shapes."""
        names = self.booster.feature_name()
        description = "Columns: " + ", ".join(names[:100]) + (", …" if len(names) > 100 else "")
        features = {"name": "features", "dtype": "float64", "shape": ["batch", self.n_features], "description": description}
        return {"inputs": [features], "outputs": described(self.infer_with_tensors(self.example()))}

    def example(self):
        """Asked when the model is packed: rows with values of the model's splits, those next to them, and missing values."""
        return {"features": rows_around(self._splits(), self.n_features, numpy.float64)}

    def _splits(self):
        """The values at which the first trees split, by feature."""
        found, categories = {}, {}
        nodes = [tree["tree_structure"] for tree in self.booster.dump_model(num_iteration=EXAMPLE_ROUNDS)["tree_info"]]
        while nodes:
            node = nodes.pop()
            if "split_feature" not in node:
                continue
            if node["decision_type"] == "==":
                categories.setdefault(node["split_feature"], set()).update(map(int, str(node["threshold"]).split("||")))
            else:
                found.setdefault(node["split_feature"], set()).add(float(node["threshold"]))
            nodes += [node["left_child"], node["right_child"]]
        return {
            **{feature: around(values, numpy.float64) for feature, values in found.items()},
            **{feature: exact(values) for feature, values in categories.items()},
        }


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
