"""Runs a model of CatBoost, by the class that the model's loss is of: `CatBoostClassifier`, `CatBoostRegressor` or `CatBoostRanker`.

A classifier returns `prediction`, the labels, and `probabilities`. NaN is a missing value of a number.

A model of numbers alone takes one matrix, `features`. Any other takes each column by its name: numbers, categories as texts (CatBoost takes
the integer 3 and the text "3" for the same category), texts, and embeddings as a matrix.
"""

import json
import os

import catboost
import numpy

#: The model's file, beside this one.
MODEL = "model.cbm"
#: Its format: cbm or json.
FORMAT = "cbm"

_OF_CLASSIFIERS = ("Logloss", "CrossEntropy", "MultiClass", "MultiClassOneVsAll", "MultiLogloss", "MultiCrossEntropy", "Focal")
_OF_RANKERS = ("YetiRank", "YetiRankPairwise", "PairLogit", "PairLogitPairwise", "QueryRMSE", "QuerySoftMax", "QueryCrossEntropy", "StochasticRank", "LambdaMart", "GroupQuantile")


class Model:
    def __init__(self):
        loaded = catboost.CatBoost()
        loaded.load_model(os.path.join(os.path.dirname(os.path.abspath(__file__)), MODEL), format=FORMAT)
        loss = _loss_of(loaded)
        if loss in _OF_CLASSIFIERS:
            self.model = catboost.to_classifier(loaded)
        elif loss in _OF_RANKERS:
            self.model = catboost.to_ranker(loaded)
        elif loss is not None:
            self.model = catboost.to_regressor(loaded)
        else:
            # A sum of models says no more what they were trained for: its raw values are the prediction.
            self.model = loaded
        self.names = list(self.model.feature_names_)
        kinds = {"category": self.model.get_cat_feature_indices(), "text": self.model.get_text_feature_indices()}
        kinds["embedding"] = self.model.get_embedding_feature_indices()
        #: The features that are no numbers, by their places.
        self.kinds = {place: kind for kind, places in kinds.items() for place in places}

    def infer_with_tensors(self, inputs):
        features = self._frame(inputs) if self.kinds else inputs["features"]
        outputs = {"prediction": numpy.asarray(self.model.predict(features))}
        if hasattr(self.model, "predict_proba"):
            outputs["probabilities"] = numpy.asarray(self.model.predict_proba(features))
        return outputs

    def signature(self):
        """Asked when the model is packed: the inputs and outputs, with their dtypes and shapes."""
        if self.kinds:
            inputs = [{"name": name, **self._column(place)} for place, name in enumerate(self.names)]
        else:
            description = "Columns: " + ", ".join(self.names[:100]) + (", …" if len(self.names) > 100 else "")
            inputs = [{"name": "features", "dtype": "float32", "shape": ["batch", len(self.names)], "description": description}]
        example = self.example()
        if example is None:
            return {"inputs": inputs}
        return {"inputs": inputs, "outputs": described(self.infer_with_tensors(example))}

    def example(self):
        """Asked when the model is packed: rows with values of the model's borders, those next to them, and missing values. None for a model
        of embeddings, because the file does not say how long they are."""
        if "embedding" in self.kinds.values():
            return None
        borders = {place: around(values, numpy.float32) for place, values in self.model.get_borders().items() if values}
        rows = rows_around(borders, len(self.names), numpy.float32)
        if not self.kinds:
            return {"features": rows}
        texts = numpy.array([str(row % 3) for row in range(len(rows))], object)
        return {name: texts if place in self.kinds else rows[:, place].copy() for place, name in enumerate(self.names)}

    def _column(self, place):
        kind = self.kinds.get(place)
        if kind == "embedding":
            return {"dtype": "float32", "shape": ["batch", "length"]}
        return {"dtype": "string" if kind else "float32", "shape": ["batch"]}

    def _frame(self, inputs):
        # CatBoost itself needs it.
        import pandas

        columns = {}
        for place, name in enumerate(self.names):
            values = inputs[name]
            columns[name] = list(values) if self.kinds.get(place) == "embedding" else values.astype(object) if place in self.kinds else values
        return pandas.DataFrame(columns)


def _loss_of(model):
    """The name of the loss that the model was trained with; None if the file does not say."""
    metadata = model.get_metadata()
    parameters = metadata["params"] if "params" in metadata else ""
    return json.loads(parameters).get("loss_function", {}).get("type") if parameters else None


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
