"""Runs an estimator of scikit-learn, or of a library with its interface, as its own methods run it.

The outputs are `prediction` (`predict`) with `probabilities` (`predict_proba`), or with `decision` (`decision_function`) and `scores`
(`score_samples`); without `predict`, `transformed` (`transform`) and `scores`. An output has the values and the dtype that the method returns;
what is sparse is made dense. For several targets, `probabilities.0` has those of the first one.

The input is one matrix, `features`; its columns are those of the training. An estimator that was trained on a DataFrame and looks for
columns by their names takes each column by its name. Missing numbers are NaN; there are no missing texts. A vectorizer takes texts.
"""

import os
import pickle
import re
import warnings

import numpy

#: The model's file, beside this one.
MODEL = "model.joblib"
#: How it was saved: by joblib, pickle or skops.
FORMAT = "joblib"
#: The types that a file of skops may have beside those that skops trusts itself. Each was found in the file; delete those that you do not trust.
TRUSTED = []

#: Names under which estimators keep those that get the same input, such as the first step of a pipeline.
_INNER = ("steps", "transformer_list", "best_estimator_", "estimators_", "calibrated_classifiers_", "regressor_", "classifier_", "estimator_", "estimator")


class Model:
    def __init__(self):
        self.estimator = _adapted(_load(os.path.join(os.path.dirname(os.path.abspath(__file__)), MODEL)))
        self.methods = _methods_of(self.estimator)
        if not self.methods:
            what = type(self.estimator).__module__ + "." + type(self.estimator).__qualname__
            raise TypeError(f"`{MODEL}` holds a {what}, which has none of the methods predict, score_samples and transform")
        # A matrix has no names of columns, which is as it should be.
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        self.parts = list(_parts_of(self.estimator))
        self.columns = _columns_of(self.parts)

    def infer_with_tensors(self, inputs):
        features = _frame_of(self.columns, inputs) if self.columns else inputs["features"]
        outputs = {}
        for output, method in self.methods.items():
            value = getattr(self.estimator, method)(features)
            if isinstance(value, list):
                outputs.update({f"{output}.{place}": _array_of(one) for place, one in enumerate(value)})
            else:
                outputs[output] = _array_of(value)
        return outputs

    def signature(self):
        """Asked when the model is packed: the inputs and outputs, with their dtypes and shapes."""
        if self.columns:
            inputs = [{"name": name, "dtype": column.dtype, "shape": ["batch"]} for name, column in self.columns.items()]
        else:
            inputs = [{"name": "features", **self._matrix()}]
        outputs = self.infer_with_tensors(self.example())
        described = [{"name": name, "dtype": _dtype_of(value), "shape": ["batch", *value.shape[1:]]} for name, value in outputs.items()]
        return {"inputs": inputs, "outputs": described}

    def example(self):
        """Asked when the model is packed: rows with values that the estimator knows: its thresholds, centers, ranges, categories and words."""
        if self.columns:
            return {name: column.example(place) for place, (name, column) in enumerate(self.columns.items())}
        words = _words_of(self.parts)
        if words is not None:
            words = words or "these are some words of a text that nobody knows before it is hashed".split()
            rows = [" ".join(words[place % len(words)] for place in range(row, row + 2 + row % 4)) for row in range(_N_ROWS)]
            return {"features": numpy.array(rows, object)}
        n_features = self._n_features()
        known = _categories_of(self.parts)
        if known is not None:
            dtype = _common_dtype(known)
            columns = [Column(dtype, values.tolist()).example(place) for place, values in enumerate(known)]
            return {"features": numpy.stack(columns, axis=1)}
        return {"features": _rows(_values_of(self.parts, n_features), n_features)}

    def _matrix(self):
        if _words_of(self.parts) is not None:
            return {"dtype": "string", "shape": ["batch"]}
        known = _categories_of(self.parts)
        dtype = "float64" if known is None else _common_dtype(known)
        matrix = {"dtype": dtype, "shape": ["batch", self._n_features()]}
        names = [str(name) for name in getattr(self.estimator, "feature_names_in_", ())]
        if names:
            matrix["description"] = "Columns: " + ", ".join(names[:100]) + (", …" if len(names) > 100 else "")
        return matrix

    def _n_features(self):
        if type(self.estimator).__module__.startswith("catboost."):
            return len(self.estimator.feature_names_)
        for part in self.parts:
            n_features = getattr(part, "n_features_in_", None)
            if n_features is not None:
                return int(n_features)
        raise TypeError(f"the estimator in `{MODEL}` does not say how many features it takes; write `signature` and `example` in this file")


class Column:
    """A column that is an input of its own. `values` are those that the estimator knows; `categories` those that its DataFrame had."""

    def __init__(self, dtype, values=(), categories=None):
        self.dtype = dtype
        self.values = values
        self.categories = categories

    def example(self, place):
        if self.dtype == "string":
            values = [str(value) for value in self.values if isinstance(value, str)] or ["a", "b", "a b"]
        else:
            values = [value for value in self.values if value == value and value is not None] or [-1.5, -0.5, 0.0, 0.5, 1.5]
        chosen = [values[at] for at in _places_in(len(values), _N_ROWS, numpy.random.RandomState(place))]
        return numpy.array(chosen, object if self.dtype == "string" else self.dtype)

    def series(self, name, values):
        """What the DataFrame gets."""
        if self.categories is None:
            return values
        import pandas

        index = pandas.Index(self.categories)
        codes = index.get_indexer(values)
        if (codes < 0).any():
            raise ValueError(f"input `{name}`: {values[(codes < 0).argmax()]!r} is none of its {len(index)} categories")
        return pandas.Categorical.from_codes(codes, categories=index)


_N_ROWS = 16


def _load(path):
    if FORMAT == "skops":
        import skops.io

        return skops.io.load(path, trusted=TRUSTED)
    if FORMAT == "joblib":
        import joblib

        return joblib.load(path)
    with open(path, "rb") as file:
        return pickle.load(file)


def _adapted(estimator):
    """A booster with the methods of an estimator."""
    module = type(estimator).__module__
    if type(estimator).__name__ == "Booster" and module.startswith("xgboost."):
        return _XGBoost(estimator)
    if type(estimator).__name__ == "Booster" and module.startswith("lightgbm."):
        estimator.n_features_in_ = estimator.num_feature()
    if module.startswith("catboost.") and estimator.get_cat_feature_indices() + estimator.get_text_feature_indices():
        raise TypeError('CatBoost models with categories or texts are taken as files of CatBoost; save it by `model.save_model("model.cbm")`')
    return estimator


class _XGBoost:
    """A booster of XGBoost, which takes a matrix of its own."""

    def __init__(self, booster):
        self.booster = booster
        self.n_features_in_ = booster.num_features()

    def predict(self, features):
        import xgboost

        names, types = self.booster.feature_names, self.booster.feature_types
        return self.booster.predict(xgboost.DMatrix(features, feature_names=names, feature_types=types, enable_categorical="c" in (types or ())))


def _methods_of(estimator):
    """The outputs, and the method that computes each."""

    def has(method):
        return callable(getattr(estimator, method, None))

    if not has("predict"):
        found = {"transformed": "transform", "scores": "score_samples"}
        return {output: method for output, method in found.items() if has(method)}
    found = {"probabilities": "predict_proba"} if has("predict_proba") else {"decision": "decision_function", "scores": "score_samples"}
    return {"prediction": "predict", **{output: method for output, method in found.items() if has(method)}}


def _array_of(value):
    if hasattr(value, "toarray"):
        value = value.toarray()
    elif hasattr(value, "to_numpy"):
        value = value.to_numpy()
    return numpy.asarray(value)


def _parts_of(estimator):
    """The estimator, and those in it that get the same input."""
    yield estimator
    if _is_column_transformer(estimator):
        return
    for name in _INNER:
        inner = getattr(estimator, name, None)
        if name == "steps" and inner:
            inner = _first_steps(inner)
        elif name == "transformer_list" and inner:
            inner = [part for _, part in inner if not isinstance(part, str)]
        if inner is None or isinstance(inner, (str, type)):
            continue
        found = inner.ravel().tolist() if isinstance(inner, numpy.ndarray) else inner if isinstance(inner, list) else [inner]
        # A hundred trees of a forest are enough to take thresholds from.
        for part in found[:100]:
            if hasattr(part, "get_params") or hasattr(part, "estimator"):
                yield from _parts_of(part)
        # The others come after the first that was found: an `estimator` that was not fitted says nothing.
        return


def _first_steps(steps):
    """The first step, and those behind it that get the same columns because an imputer is in front of them, or a function."""
    found = []
    for _, step in steps:
        if step is not None and not isinstance(step, str):
            found.append(step)
            if not hasattr(step, "statistics_") and hasattr(step, "n_features_in_"):
                break
    return found


def _is_column_transformer(part):
    return hasattr(part, "transformers_") and hasattr(part, "_columns")


def _columns_of(parts):
    """The inputs by name, if some part looks for columns by their names, or has a DataFrame's categories; otherwise None."""
    found = {}
    for part in parts:
        names = getattr(part, "feature_names_in_", None)
        if names is None:
            continue
        if _is_column_transformer(part):
            selected = [column for _, transformer, column in part.transformers_ if not _is_drop(transformer)]
            if any(_has_names(column) for column in selected):
                found.update(_columns_of_transformer(part, names))
        elif _preprocessor_of(part) is not None:
            found.update(_columns_of_histogram(part, names))
    if not found:
        return None
    # In the order of the training.
    names = next(part.feature_names_in_ for part in parts if getattr(part, "feature_names_in_", None) is not None)
    first = parts[0]
    while hasattr(first, "steps"):
        first = first.steps[0][1]
    if _is_column_transformer(first):
        # What it drops need not be there. Others count the columns.
        names = [name for name in names if name in found]
    return {str(name): found.get(name, Column("float64")) for name in names}


def _is_drop(transformer):
    return isinstance(transformer, str) and transformer == "drop"


def _has_names(column):
    if isinstance(column, slice):
        column = [column.start, column.stop]
    return isinstance(column, str) or (not numpy.isscalar(column) and any(isinstance(name, str) for name in column if name is not None))


def _columns_of_transformer(part, names):
    found = {}
    for (_, transformer, column) in part.transformers_:
        if _is_drop(transformer):
            continue
        places = [names.tolist().index(column)] if isinstance(column, str) else _places(column, names)
        inner = [] if isinstance(transformer, str) else list(_parts_of(transformer))
        known = _categories_of(inner)
        # A name alone is a column; a list of names is a frame.
        words = _words_of(inner) if isinstance(column, str) else None
        numbers = _values_of(inner, len(places)) if known is None and words is None else {}
        for order, place in enumerate(places):
            name = names[place]
            if words is not None:
                made = Column("string", words)
            elif known is not None and order < len(known):
                made = Column(_dtype_of(known[order]), known[order].tolist())
            elif _is_of_texts(inner, order):
                made = Column("string")
            else:
                made = Column("float64", numbers.get(order, ()))
            # A column that several take is a text if any of them takes texts.
            if name not in found or made.dtype == "string" or found[name].dtype != "string" and made.values:
                found[name] = made
    return found


def _places(column, names):
    names = names.tolist()
    if isinstance(column, slice):
        start, stop = (names.index(end) if isinstance(end, str) else end for end in (column.start, column.stop))
        # A slice of names has its end.
        stop = stop + 1 if isinstance(column.stop, str) else stop
        return list(range(len(names)))[start : stop : column.step]
    column = numpy.atleast_1d(numpy.asarray(column))
    if column.dtype == bool:
        return numpy.flatnonzero(column).tolist()
    return [names.index(one) if isinstance(one, str) else int(one) % len(names) for one in column.tolist()]


def _preprocessor_of(part):
    """What turns a DataFrame's categories to codes in estimators of histograms."""
    preprocessor = getattr(part, "_preprocessor", None)
    return preprocessor if getattr(part, "is_categorical_", None) is not None and _is_column_transformer(preprocessor) else None


def _columns_of_histogram(part, names):
    preprocessor = _preprocessor_of(part)
    encoder = next((transformer for name, transformer, _ in preprocessor.transformers_ if hasattr(transformer, "categories_")), None)
    if encoder is None:
        return {}
    found = {}
    by_name = dict(zip(encoder.feature_names_in_, encoder.categories_))
    # Only a part that was trained with a DataFrame's categories needs them; a list of columns can also be of numbers.
    of_frame = isinstance(getattr(part, "categorical_features", None), str)
    for name in names:
        if name in by_name:
            known = [value for value in by_name[name].tolist() if value == value and value is not None]
            found[name] = Column(_dtype_of(by_name[name]), known, known if of_frame else None)
    return found if of_frame or any(column.dtype == "string" for column in found.values()) else {}


def _frame_of(columns, inputs):
    import pandas

    return pandas.DataFrame({name: column.series(name, inputs[name]) for name, column in columns.items()})


def _categories_of(parts):
    """The categories of each column that an encoder knows; None without an encoder."""
    for part in parts:
        if _is_column_transformer(part):
            # By positions. What is known of some columns must hold for all, because they are one matrix.
            names = numpy.array([f"x{place}" for place in range(part.n_features_in_)], object)
            found = _columns_of_transformer(part, names)
            if any(column.dtype == "string" for column in found.values()):
                columns = [found.get(name, Column("float64", [0.5])) for name in names]
                return [numpy.asarray(column.values or ["a", "b"], object) for column in columns]
        known = getattr(part, "categories_", None)
        if isinstance(known, list) and known:
            return [numpy.asarray(values) for values in known]
    return None


def _is_of_texts(parts, place):
    """Whether an imputer fills a column with text."""
    for part in parts:
        filled = getattr(part, "statistics_", None)
        if filled is not None and place < len(filled):
            return isinstance(filled[place], str)
    return False


def _words_of(parts):
    """The words that a vectorizer knows, at most 200; an empty list if it keeps none, and None without a vectorizer."""
    for part in parts:
        if hasattr(part, "build_analyzer"):
            return sorted(str(word) for word in getattr(part, "vocabulary_", None) or ())[:200]
    return None


def _common_dtype(known):
    found = {_dtype_of(values) for values in known}
    if len(found) > 1 and "string" in found:
        raise TypeError("columns of texts and of numbers are not one matrix; write `signature` and `example` in this file")
    return found.pop() if len(found) == 1 else "float64"


def _dtype_of(values):
    """The dtype of an output, or of categories. Objects are texts, or numbers if all are."""
    if values.dtype.kind == "O":
        present = [value for value in values.ravel().tolist() if value is not None and value == value]
        if present and all(isinstance(value, bool) for value in present):
            return "bool"
        if present and all(isinstance(value, int) and not isinstance(value, bool) for value in present):
            return "int64"
        if present and all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in present):
            return "float64"
        return "string"
    return "string" if values.dtype.kind == "U" else values.dtype.name


def _values_of(parts, n_features):
    """For each feature some values that make a difference."""
    found = {}

    def add(feature, values):
        values = numpy.asarray(values, float).ravel()
        found.setdefault(int(feature), []).extend(values[numpy.isfinite(values)].tolist())

    for part in parts:
        tree = getattr(part, "tree_", None)
        if tree is not None and hasattr(tree, "threshold"):
            # The features of an internal tree of float32, and those next to them.
            for feature, threshold in zip(tree.feature.tolist(), tree.threshold.tolist()):
                if 0 <= feature < n_features and len(found.get(feature, ())) < 200:
                    near = numpy.float32(threshold)
                    add(feature, [numpy.nextafter(near, numpy.float32(-numpy.inf)), near, numpy.nextafter(near, numpy.float32(numpy.inf))])
        for feature, threshold in _splits_of(part):
            if feature < n_features and len(found.get(feature, ())) < 200:
                near = numpy.float32(threshold)
                add(feature, [numpy.nextafter(near, numpy.float32(-numpy.inf)), threshold, numpy.nextafter(near, numpy.float32(numpy.inf))])
        for trees in getattr(part, "_predictors", ()):
            for one in trees:
                for node in one.nodes[one.nodes["is_leaf"] == 0]:
                    if len(found.get(int(node["feature_idx"]), ())) < 200:
                        threshold = float(node["num_threshold"])
                        add(node["feature_idx"], [numpy.nextafter(threshold, -numpy.inf), threshold, numpy.nextafter(threshold, numpy.inf)])
        center = _vector(part, ("mean_", "center_", "data_min_", "statistics_", "X_offset_"), n_features)
        # The scale of a range is the inverse of its length.
        scale = _vector(part, ("data_range_", "scale_"), n_features)
        if center is not None:
            scale = numpy.ones(n_features) if scale is None else scale
            for feature in range(n_features):
                add(feature, center[feature] + scale[feature] * numpy.array([-1.5, -0.5, 0.0, 0.25, 0.5, 1.0, 2.0]))
        for name in ("cluster_centers_", "_fit_X", "support_vectors_", "means_", "theta_", "X_train_"):
            rows = getattr(part, name, None)
            if isinstance(rows, numpy.ndarray) and rows.ndim == 2 and rows.shape[1] == n_features and rows.dtype.kind == "f":
                for feature in range(n_features):
                    near = rows[:20, feature]
                    add(feature, numpy.concatenate([near, near + (near.std() or 1.0) / 3]))
                break
    return found


def _vector(part, names, n_features):
    for name in names:
        value = getattr(part, name, None)
        if isinstance(value, numpy.ndarray) and value.shape == (n_features,) and value.dtype.kind in "fiu":
            return value.astype(float)
    return None


def _splits_of(part):
    """The values at which the first trees of a gradient boosting library split, as pairs of a feature and a value."""
    module = type(part).__module__.split(".")[0]
    if module == "catboost":
        return [(feature, value) for feature, values in part.get_borders().items() for value in values]
    if hasattr(part, "get_booster"):
        part = _XGBoost(part.get_booster())
    if isinstance(part, _XGBoost):
        names = {name: place for place, name in enumerate(part.booster.feature_names or [f"f{place}" for place in range(part.n_features_in_)])}
        found = re.findall(r"\[(.+?)<([-+.\de]+)\]", "\n".join(part.booster.get_dump()[:20]))
        return [(names[name], float(value)) for name, value in found if name in names]
    if module != "lightgbm":
        return []
    booster = getattr(part, "booster_", part)
    nodes = [tree["tree_structure"] for tree in booster.dump_model(num_iteration=20)["tree_info"]]
    found = []
    while nodes:
        node = nodes.pop()
        if "split_feature" in node:
            nodes += [node["left_child"], node["right_child"]]
            if node["decision_type"] == "<=":
                found.append((node["split_feature"], float(node["threshold"])))
    return found


def _rows(values, n_features):
    """Rows that go through the values of each feature in an order of its own."""
    n_rows = _N_ROWS if n_features <= 4096 else 4
    rows = numpy.zeros((n_rows, n_features))
    default = [-2.0, -1.0, -0.5, 0.0, 0.3, 0.5, 0.8, 1.0, 1.7, 2.5]
    random = numpy.random.RandomState(0)
    for feature in range(n_features):
        choices = sorted(set(values.get(feature, ()))) or default
        rows[:, feature] = numpy.array(choices)[_places_in(len(choices), n_rows, random)]
    return rows


def _places_in(n_choices, n_rows, random):
    """One place in each part of a list, in some order."""
    return ((random.permutation(n_rows) + random.random_sample(n_rows)) * n_choices / n_rows).astype(int)


def get_model():
    return Model()
