"""The templates of XGBoost, LightGBM, CatBoost and scikit-learn, beside these frameworks: the same arrays give the same bits.

Run in an environment of requirements-tabular.txt: `python -m pytest carton-templates/tests/test_tabular.py`.
"""

import importlib.util
import itertools
import pickle
import re
import warnings
from pathlib import Path

import catboost
import joblib
import lightgbm
import numpy
import pandas
import pytest
import skops.io
import xgboost
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, SGDClassifier
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV
from sklearn.multioutput import MultiOutputClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KernelDensity, KNeighborsClassifier, LocalOutlierFactor
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.svm import SVC, OneClassSVM

TEMPLATES = Path(__file__).parent.parent / "templates"
_COUNTER = itertools.count()

RANDOM = numpy.random.RandomState(7)
X = RANDOM.normal(size=(160, 4)) * [1, 3, 10, 0.1] + [0, 5, -20, 1]
#: Some are missing.
HOLES = numpy.where(RANDOM.rand(*X.shape) < 0.1, numpy.nan, X)
BINARY = (X[:, 0] + X[:, 1] / 3 > 1.7).astype(int)
CLASSES = numpy.digitize(X[:, 1], [4, 6])
NAMES = numpy.array(["red", "green", "deep blue"])[CLASSES]
TARGET = X[:, 0] * 2 + numpy.sin(X[:, 1])
TARGETS = numpy.stack([TARGET, X[:, 2]], axis=1)
NEW = numpy.concatenate([RANDOM.normal(size=(37, 4)) * [1, 3, 10, 0.1] + [0, 5, -20, 1], [[numpy.nan] * 4, [1e30] * 4, [0] * 4]])
FRAME = pandas.DataFrame(
    {
        "age": X[:, 1] * 10,
        "city": pandas.Series(RANDOM.choice(["Rome", "Oslo", "Győr"], 160), dtype=object),
        "rooms": RANDOM.randint(1, 6, 160),
        "height": HOLES[:, 0],
        "note": pandas.Series(RANDOM.choice(["good and old", "new", "old"], 160), dtype=object),
    }
)
NEW_FRAME = FRAME.iloc[40:70].reset_index(drop=True)


def run(folder, template, **constants):
    """Returns the model of a template, with its constants replaced as Rust replaces them."""
    lines = (TEMPLATES / template / "main.py").read_text().splitlines()
    for name, value in constants.items():
        places = [place for place, line in enumerate(lines) if line.startswith(f"{name} = ")]
        assert len(places) == 1, name
        lines[places[0]] = f"{name} = {value!r}"
    path = folder / "main.py"
    path.write_text("\n".join(lines) + "\n")
    spec = importlib.util.spec_from_file_location(f"model_{next(_COUNTER)}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.get_model()


def is_same(found, expected):
    if found.dtype != expected.dtype or found.shape != expected.shape:
        return False
    return found.tolist() == expected.tolist() if found.dtype.kind in "OU" else found.tobytes() == expected.tobytes()


def check(model, inputs, expected_of, n_distinct=3):
    """Compares outputs for `inputs` and the model's own example with what `expected_of(inputs)` returns, and the signature with both."""
    signature = model.signature()
    example = model.example()
    declared = {one["name"]: one for one in signature["inputs"]}
    assert set(declared) == set(example) == set(inputs)
    for name, values in example.items():
        assert ("string" if values.dtype == object else values.dtype.name) == declared[name]["dtype"], name
        shape = declared[name]["shape"]
        assert shape[0] == "batch" and list(values.shape[1:]) == shape[1:], name
    again = model.example()
    assert all(is_same(again[name], example[name]) for name in example)
    inputs = {name: values if declared[name]["dtype"] == "string" else values.astype(declared[name]["dtype"]) for name, values in inputs.items()}
    for given in (example, inputs):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = expected_of(given)
        found = model.infer_with_tensors(given)
        assert list(found) == list(expected)
        for name in expected:
            assert is_same(found[name], numpy.asarray(expected[name])), (name, found[name], expected[name])
        n = len(next(iter(given.values())))
        outputs = {one["name"]: one for one in signature["outputs"]}
        assert list(outputs) == list(found)
        for name, values in found.items():
            assert ["batch", *values.shape[1:]] == outputs[name]["shape"] and len(values) == n
            assert ("string" if values.dtype.kind in "OU" else values.dtype.name) == outputs[name]["dtype"]
    # The example tells rows apart.
    rows = {str([numpy.asarray(values)[row].tolist() for values in model.infer_with_tensors(example).values()]) for row in range(len(next(iter(example.values()))))}
    assert len(rows) >= n_distinct, rows


# XGBoost


def xgboost_matrix(booster, features):
    types = booster.feature_types
    return xgboost.DMatrix(features, feature_names=booster.feature_names, feature_types=types, enable_categorical="c" in (types or ()))


@pytest.mark.parametrize("suffix", ["json", "ubj"])
@pytest.mark.parametrize(
    "parameters, labels",
    [
        ({"objective": "binary:logistic"}, BINARY),
        ({"objective": "multi:softprob", "num_class": 3}, CLASSES),
        ({"objective": "multi:softmax", "num_class": 3}, CLASSES),
        ({"objective": "reg:squarederror"}, TARGET),
        ({"objective": "reg:squarederror", "booster": "dart", "rate_drop": 0.2}, TARGET),
        ({"objective": "count:poisson"}, CLASSES),
        ({"objective": "reg:squarederror"}, TARGETS),
        ({"objective": "reg:squarederror", "multi_strategy": "multi_output_tree"}, TARGETS),
        ({"objective": "binary:logistic", "num_parallel_tree": 3}, BINARY),
    ],
)
def test_xgboost_booster(tmp_path, parameters, labels, suffix):
    booster = xgboost.train({"max_depth": 3, **parameters}, xgboost.DMatrix(HOLES, labels), 25)
    booster.save_model(tmp_path / f"model.{suffix}")
    model = run(tmp_path, "xgboost", MODEL=f"model.{suffix}")
    check(model, {"features": NEW}, lambda given: {"prediction": booster.predict(xgboost_matrix(booster, given["features"]))})


def test_xgboost_linear(tmp_path):
    booster = xgboost.train({"booster": "gblinear"}, xgboost.DMatrix(X, TARGET), 5)
    booster.save_model(tmp_path / "model.json")
    model = run(tmp_path, "xgboost")
    check(model, {"features": NEW[:30]}, lambda given: {"prediction": booster.predict(xgboost_matrix(booster, given["features"]))}, 1)


def test_xgboost_names_and_categories(tmp_path):
    frame = pandas.DataFrame({"a [b]": X[:, 0], "kind": pandas.Categorical(NAMES)}).rename(columns={"a [b]": "a b"})
    booster = xgboost.train({"max_depth": 3}, xgboost.DMatrix(frame, TARGET, enable_categorical=True), 8)
    booster.save_model(tmp_path / "model.json")
    model = run(tmp_path, "xgboost")
    given = {"features": numpy.stack([NEW[:, 0], numpy.arange(len(NEW)) % 3], axis=1)}
    check(model, given, lambda given: {"prediction": booster.predict(xgboost_matrix(booster, given["features"]))})
    # A column of categories of pandas has the same codes.
    by_frame = pandas.DataFrame({"a b": given["features"][:, 0], "kind": pandas.Categorical.from_codes(given["features"][:, 1].astype(int), sorted(set(NAMES)))})
    expected = booster.predict(xgboost.DMatrix(by_frame, enable_categorical=True))
    assert is_same(model.infer_with_tensors({"features": given["features"].astype("float32")})["prediction"], expected)


@pytest.mark.parametrize("frame", [False, True])
@pytest.mark.parametrize(
    "name, labels, parameters",
    [
        ("XGBClassifier", BINARY, {}),
        ("XGBClassifier", CLASSES, {}),
        ("XGBRegressor", TARGET, {}),
        ("XGBRegressor", TARGETS, {}),
        ("XGBClassifier", numpy.stack([BINARY, 1 - BINARY], axis=1), {}),
        ("XGBRegressor", TARGET, {"booster": "gblinear"}),
    ],
)
def test_xgboost_estimator(tmp_path, name, labels, parameters, frame):
    data = pandas.DataFrame(HOLES, columns=list("abcd")) if frame else HOLES
    data = data if not parameters else numpy.nan_to_num(HOLES) if not frame else data.fillna(0)
    estimator = getattr(xgboost, name)(n_estimators=30, max_depth=3, learning_rate=0.9, **parameters)
    if not parameters:
        estimator.set_params(early_stopping_rounds=2)
    estimator.fit(data[:120], labels[:120], eval_set=[(data[120:], labels[120:])], verbose=False)
    estimator.save_model(tmp_path / "model.ubj")
    model = run(tmp_path, "xgboost", MODEL="model.ubj", ESTIMATOR=name)

    def expected(given):
        features = pandas.DataFrame(given["features"], columns=list("abcd")) if frame else given["features"]
        outputs = {"prediction": estimator.predict(features)}
        return {**outputs, "probabilities": estimator.predict_proba(features)} if name == "XGBClassifier" else outputs

    new = numpy.nan_to_num(NEW) if parameters else NEW
    check(model, {"features": new}, expected, 1 if parameters else 3)
    if not parameters:
        # Otherwise the best round would not matter here.
        assert estimator.best_iteration + 1 < estimator.get_booster().num_boosted_rounds()


def test_xgboost_stopped_early_booster(tmp_path):
    train, valid = xgboost.DMatrix(X[:120], TARGET[:120]), xgboost.DMatrix(X[120:], TARGET[120:])
    booster = xgboost.train({"eta": 1.0}, train, 60, evals=[(valid, "v")], early_stopping_rounds=2, verbose_eval=False)
    booster.save_model(tmp_path / "model.json")
    rounds = (0, booster.best_iteration + 1)
    assert rounds[1] < booster.num_boosted_rounds()
    matrix = xgboost.DMatrix(NEW.astype("float32")[:30])
    given = {"features": NEW.astype("float32")[:30]}
    every = run(tmp_path, "xgboost").infer_with_tensors(given)["prediction"]
    best = run(tmp_path, "xgboost", ITERATIONS=rounds).infer_with_tensors(given)["prediction"]
    assert is_same(every, booster.predict(matrix)) and is_same(best, booster.predict(matrix, iteration_range=rounds))
    assert not is_same(every, best)


def test_xgboost_ranker(tmp_path):
    ranker = xgboost.XGBRanker(n_estimators=8, max_depth=3).fit(X, CLASSES, qid=numpy.repeat(numpy.arange(16), 10))
    ranker.save_model(tmp_path / "model.json")
    check(run(tmp_path, "xgboost", ESTIMATOR="XGBRanker"), {"features": NEW}, lambda given: {"prediction": ranker.predict(given["features"])})


def test_xgboost_refuses_other_shapes(tmp_path):
    xgboost.train({}, xgboost.DMatrix(X, TARGET), 2).save_model(tmp_path / "model.json")
    with pytest.raises(ValueError, match=r"shape \[3, 5\]"):
        run(tmp_path, "xgboost").infer_with_tensors({"features": numpy.zeros((3, 5), "float32")})


# LightGBM


@pytest.mark.parametrize(
    "parameters, labels",
    [
        ({"objective": "binary"}, BINARY),
        ({"objective": "multiclass", "num_class": 3}, CLASSES),
        ({"objective": "regression"}, TARGET),
        ({"objective": "poisson"}, CLASSES),
        ({"objective": "binary", "boosting": "dart"}, BINARY),
        ({"objective": "binary", "boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.7}, BINARY),
        ({"objective": "regression", "linear_tree": True}, TARGET),
        ({"objective": "regression", "zero_as_missing": True}, TARGET),
    ],
)
def test_lightgbm(tmp_path, parameters, labels):
    data = lightgbm.Dataset(HOLES, labels, params={"min_data_in_leaf": 5, "verbose": -1, **parameters})
    booster = lightgbm.train({"min_data_in_leaf": 5, "verbose": -1, **parameters}, data, 25)
    booster.save_model(tmp_path / "model.txt")
    loaded = lightgbm.Booster(model_file=str(tmp_path / "model.txt"))
    model = run(tmp_path, "lightgbm")
    check(model, {"features": NEW}, lambda given: {"prediction": loaded.predict(given["features"])})
    if not parameters.get("linear_tree"):
        # Nor does the file change anything.
        assert is_same(model.infer_with_tensors({"features": NEW})["prediction"], booster.predict(NEW))


def test_lightgbm_ranker_and_best_round(tmp_path):
    ranker = lightgbm.LGBMRanker(n_estimators=8, min_child_samples=3, verbose=-1).fit(X, CLASSES, group=[10] * 16)
    ranker.booster_.save_model(tmp_path / "model.txt")
    check(run(tmp_path, "lightgbm"), {"features": NEW}, lambda given: {"prediction": ranker.booster_.predict(given["features"])})
    classifier = lightgbm.LGBMClassifier(n_estimators=60, learning_rate=0.9, min_child_samples=3, verbose=-1)
    classifier.fit(X[:120], BINARY[:120], eval_set=[(X[120:], BINARY[120:])], callbacks=[lightgbm.early_stopping(2, verbose=False)])
    assert classifier.best_iteration_ < 58
    classifier.booster_.save_model(tmp_path / "model.txt")
    expected = classifier.predict_proba(NEW)[:, 1]
    assert is_same(run(tmp_path, "lightgbm").infer_with_tensors({"features": NEW})["prediction"], numpy.ascontiguousarray(expected))


def test_lightgbm_categories_of_pandas(tmp_path):
    frame = pandas.DataFrame({"a": X[:, 0], "kind": pandas.Categorical(NAMES)})
    booster = lightgbm.train({"verbose": -1, "min_data_in_leaf": 3, "min_data_per_group": 3}, lightgbm.Dataset(frame, CLASSES), 8)
    booster.save_model(tmp_path / "model.txt")
    model = run(tmp_path, "lightgbm")
    codes = numpy.arange(len(NEW)) % 3
    given = {"features": numpy.stack([NEW[:, 0], codes], axis=1)}
    by_frame = pandas.DataFrame({"a": NEW[:, 0], "kind": pandas.Categorical.from_codes(codes, sorted(set(NAMES)))})
    check(model, given, lambda given: {"prediction": booster.predict(given["features"])})
    assert is_same(model.infer_with_tensors(given)["prediction"], booster.predict(by_frame))


# CatBoost


def catboost_fit(kind, labels, data=HOLES, **parameters):
    return kind(iterations=25, depth=3, verbose=0, allow_writing_files=False, **parameters).fit(data, labels)


@pytest.mark.parametrize("form", ["cbm", "json"])
@pytest.mark.parametrize(
    "kind, labels, parameters",
    [
        (catboost.CatBoostClassifier, BINARY, {}),
        (catboost.CatBoostClassifier, CLASSES, {}),
        (catboost.CatBoostClassifier, NAMES, {}),
        (catboost.CatBoostClassifier, NAMES == "red", {}),
        (catboost.CatBoostClassifier, CLASSES, {"loss_function": "MultiClassOneVsAll"}),
        (catboost.CatBoostClassifier, numpy.stack([BINARY, 1 - CLASSES // 2], axis=1), {"loss_function": "MultiLogloss"}),
        (catboost.CatBoostRegressor, TARGET, {}),
        (catboost.CatBoostRegressor, CLASSES, {"loss_function": "Poisson"}),
        (catboost.CatBoostRegressor, TARGETS, {"loss_function": "MultiRMSE"}),
        (catboost.CatBoostRegressor, TARGET, {"loss_function": "RMSEWithUncertainty"}),
        (catboost.CatBoostRegressor, TARGET, {"loss_function": "MultiQuantile:alpha=0.2,0.8"}),
    ],
)
def test_catboost(tmp_path, kind, labels, parameters, form):
    fitted = catboost_fit(kind, labels, **parameters)
    fitted.save_model(str(tmp_path / "model"), format=form)
    loaded = kind()
    loaded.load_model(str(tmp_path / "model"), format=form)

    def expected(given):
        outputs = {"prediction": loaded.predict(given["features"])}
        return {**outputs, "probabilities": loaded.predict_proba(given["features"])} if kind is catboost.CatBoostClassifier else outputs

    model = run(tmp_path, "catboost", MODEL="model", FORMAT=form)
    check(model, {"features": NEW}, expected)
    if form == "cbm":
        assert is_same(model.infer_with_tensors({"features": NEW.astype("float32")})["prediction"], fitted.predict(NEW.astype("float32")))


def test_catboost_ranker(tmp_path):
    fitted = catboost.CatBoostRanker(iterations=8, depth=3, verbose=0, allow_writing_files=False)
    fitted.fit(X, CLASSES, group_id=numpy.repeat(numpy.arange(16), 10))
    fitted.save_model(str(tmp_path / "model.cbm"))
    check(run(tmp_path, "catboost"), {"features": NEW}, lambda given: {"prediction": fitted.predict(given["features"])})


def test_catboost_columns(tmp_path):
    fitted = catboost.CatBoostClassifier(iterations=10, depth=3, verbose=0, allow_writing_files=False, cat_features=["city", "rooms"], text_features=["note"])
    fitted.fit(FRAME, NAMES)
    fitted.save_model(str(tmp_path / "model.cbm"))
    model = run(tmp_path, "catboost")
    given = {name: NEW_FRAME[name].to_numpy() for name in NEW_FRAME}
    given["rooms"] = given["rooms"].astype(str).astype(object)
    expected = lambda given: {"prediction": fitted.predict(pandas.DataFrame(given)), "probabilities": fitted.predict_proba(pandas.DataFrame(given))}
    check(model, given, expected)
    # As in the training, where the rooms were integers.
    given["age"], given["height"] = given["age"].astype("float32"), given["height"].astype("float32")
    assert is_same(model.infer_with_tensors(given)["probabilities"], fitted.predict_proba(NEW_FRAME))


def test_catboost_embedding_has_no_example(tmp_path):
    frame = pandas.DataFrame({"a": X[:, 0], "e": [row.tolist() for row in X]})
    fitted = catboost.CatBoostClassifier(iterations=4, verbose=0, allow_writing_files=False, embedding_features=["e"]).fit(frame, BINARY)
    fitted.save_model(str(tmp_path / "model.cbm"))
    model = run(tmp_path, "catboost")
    assert model.example() is None and "outputs" not in model.signature()
    found = model.infer_with_tensors({"a": X[:, 0].astype("float32"), "e": X.astype("float32")})
    assert is_same(found["probabilities"], fitted.predict_proba(pandas.DataFrame({"a": X[:, 0].astype("float32"), "e": list(X.astype("float32"))})))


def test_catboost_sum(tmp_path):
    summed = catboost.sum_models([catboost_fit(catboost.CatBoostClassifier, BINARY), catboost_fit(catboost.CatBoostClassifier, 1 - CLASSES // 2)])
    summed.save_model(str(tmp_path / "model.cbm"))
    check(run(tmp_path, "catboost"), {"features": NEW}, lambda given: {"prediction": summed.predict(given["features"])})


# scikit-learn

METHODS = {
    "prediction": "predict",
    "probabilities": "predict_proba",
    "decision": "decision_function",
    "scores": "score_samples",
    "transformed": "transform",
}


def expected_by(estimator, names, as_features=lambda given: given["features"]):
    def expected(given):
        found = {}
        for name in names.split():
            value = getattr(estimator, METHODS[name])(as_features(given))
            if isinstance(value, list):
                found.update({f"{name}.{place}": one for place, one in enumerate(value)})
            else:
                found[name] = value.toarray() if hasattr(value, "toarray") else numpy.asarray(value)
        return found

    return expected


def save(estimator, folder, form):
    path = folder / f"model.{form}"
    constants = {"MODEL": path.name, "FORMAT": "joblib" if form == "joblib.gz" else form}
    if form == "joblib":
        joblib.dump(estimator, path)
    elif form == "joblib.gz":
        joblib.dump(estimator, path, compress=("gzip", 3))
    elif form == "pickle":
        path.write_bytes(pickle.dumps(estimator))
    else:
        skops.io.dump(estimator, path)
        constants["TRUSTED"] = skops.io.get_untrusted_types(file=path)
    return constants


FINITE = NEW[:30]
ESTIMATORS = [
    (LogisticRegression(), BINARY, "prediction probabilities", 3),
    (make_pipeline(StandardScaler(), LogisticRegression()), NAMES, "prediction probabilities", 3),
    (RandomForestClassifier(5, max_depth=4), NAMES, "prediction probabilities", 3),
    (RandomForestClassifier(3, max_depth=3), numpy.stack([BINARY, CLASSES], axis=1), "prediction probabilities", 3),
    (MultiOutputClassifier(LogisticRegression()), numpy.stack([BINARY, CLASSES], axis=1), "prediction probabilities", 3),
    (RandomForestRegressor(5, max_depth=4), TARGETS, "prediction", 3),
    (GradientBoostingClassifier(n_estimators=5), CLASSES, "prediction probabilities", 3),
    (HistGradientBoostingRegressor(max_iter=5, min_samples_leaf=4), TARGET, "prediction", 3),
    (LinearRegression(), TARGET, "prediction", 3),
    (SVC(), NAMES, "prediction decision", 3),
    (SGDClassifier(), CLASSES, "prediction decision", 3),
    (GaussianNB(), BINARY, "prediction probabilities", 3),
    (KNeighborsClassifier(3), NAMES, "prediction probabilities", 2),
    (make_pipeline(MinMaxScaler(), MLPRegressor(hidden_layer_sizes=(3,), max_iter=5)), TARGET, "prediction", 3),
    (KMeans(3, n_init=1), None, "prediction", 2),
    (GaussianMixture(2), None, "prediction probabilities", 2),
    (IsolationForest(n_estimators=5), None, "prediction decision scores", 3),
    (OneClassSVM(), None, "prediction decision scores", 2),
    (LocalOutlierFactor(5, novelty=True), None, "prediction decision scores", 2),
    (KernelDensity(), None, "scores", 2),
    (PCA(2), None, "transformed scores", 3),
    (make_pipeline(StandardScaler(), PCA(2)), None, "transformed scores", 3),
    (StandardScaler(), None, "transformed", 3),
    (FeatureUnion([("a", StandardScaler()), ("b", PCA(1))]), None, "transformed", 3),
    (GridSearchCV(make_pipeline(StandardScaler(), SVC()), {"svc__C": [0.1, 1]}, cv=2), NAMES, "prediction decision", 3),
    (CalibratedClassifierCV(LogisticRegression(), cv=2), BINARY, "prediction probabilities", 3),
    (VotingClassifier([("a", LogisticRegression()), ("b", GaussianNB())], voting="soft"), NAMES, "prediction probabilities", 2),
    (StackingClassifier([("a", LogisticRegression()), ("b", GaussianNB())], cv=2), NAMES, "prediction probabilities", 3),
    (GaussianProcessRegressor(), TARGET, "prediction", 3),
    (make_pipeline(FunctionTransformer(numpy.cbrt), LogisticRegression()), BINARY, "prediction probabilities", 2),
]


@pytest.mark.parametrize("form", ["joblib", "joblib.gz", "pickle", "skops"])
@pytest.mark.parametrize("estimator, labels, names, n_distinct", ESTIMATORS, ids=lambda value: re.sub(r"\W+", "_", str(value))[:40])
def test_estimator(tmp_path, estimator, labels, names, n_distinct, form):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator.fit(X, labels)
    model = run(tmp_path, "sklearn", **save(estimator, tmp_path, form))
    check(model, {"features": FINITE}, expected_by(estimator, names), n_distinct)


@pytest.mark.parametrize("estimator", [HistGradientBoostingClassifier(max_iter=5), make_pipeline(SimpleImputer(), LogisticRegression())])
def test_missing_numbers(tmp_path, estimator):
    estimator.fit(HOLES, NAMES)
    model = run(tmp_path, "sklearn", **save(estimator, tmp_path, "joblib"))
    check(model, {"features": numpy.concatenate([FINITE, [[numpy.nan] * 4]])}, expected_by(estimator, "prediction probabilities"))


def test_trained_on_a_frame_without_needing_names(tmp_path):
    frame = pandas.DataFrame(X, columns=["a", "b", "c", "d"])
    estimator = make_pipeline(StandardScaler(), LogisticRegression()).fit(frame, NAMES)
    model = run(tmp_path, "sklearn", **save(estimator, tmp_path, "joblib"))
    assert model.signature()["inputs"][0]["description"] == "Columns: a, b, c, d"
    check(model, {"features": FINITE}, expected_by(estimator, "prediction probabilities", lambda given: pandas.DataFrame(given["features"], columns=frame.columns)))


TRANSFORMERS = [
    ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), ["age", "height"]),
    ("places", OneHotEncoder(handle_unknown="ignore"), ["city", "rooms"]),
    ("words", CountVectorizer(), "note"),
]


@pytest.mark.parametrize("form", ["joblib", "skops"])
@pytest.mark.parametrize(
    "transformer",
    [
        ColumnTransformer(TRANSFORMERS),
        ColumnTransformer([*TRANSFORMERS[1:2], ("words", "drop", ["note"])], remainder="passthrough"),
        ColumnTransformer([("t", OrdinalEncoder(), slice("city", "rooms")), ("n", SimpleImputer(), make_column_selector(dtype_include="float"))]),
        ColumnTransformer([("t", make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder()), ["city"]), ("n", "passthrough", ["rooms"])]),
        make_pipeline(ColumnTransformer(TRANSFORMERS), FunctionTransformer(numpy.abs)),
        FeatureUnion([("a", ColumnTransformer(TRANSFORMERS[:1])), ("b", ColumnTransformer(TRANSFORMERS[1:]))]),
    ],
    ids=range(6),
)
def test_columns(tmp_path, transformer, form):
    final = make_pipeline(SimpleImputer(), LogisticRegression(max_iter=50)) if isinstance(transformer, ColumnTransformer) else LogisticRegression(max_iter=50)
    estimator = Pipeline([("columns", transformer), ("final", final)]).fit(FRAME, NAMES)
    model = run(tmp_path, "sklearn", **save(estimator, tmp_path, form))
    dtypes = {"age": "float64", "city": "string", "rooms": "int64", "height": "float64", "note": "string"}
    declared = {one["name"]: one["dtype"] for one in model.signature()["inputs"]}
    for name, dtype in declared.items():
        # Integers without an encoder that knows them are numbers as others are.
        assert dtype == dtypes[name] or name == "rooms" and dtype == "float64", name
    given = {name: NEW_FRAME[name].to_numpy() for name in declared}
    given["city"] = numpy.where(given["city"] == "Rome", "Rome", "Oslo").astype(object)

    def frame(given):
        return pandas.DataFrame({name: given[name] for name in declared})

    check(model, given, expected_by(estimator, "prediction probabilities", frame))
    # As with the whole frame, as it was trained.
    whole = pandas.DataFrame({**NEW_FRAME, **{name: values for name, values in given.items()}})[list(FRAME)]
    assert is_same(model.infer_with_tensors({name: given[name].astype(declared[name]) if declared[name] != "string" else given[name] for name in given})["probabilities"], estimator.predict_proba(whole))


def test_categories_of_pandas(tmp_path):
    frame = pandas.DataFrame({"a": X[:, 0], "kind": pandas.Categorical(FRAME["city"])})
    estimator = HistGradientBoostingClassifier(max_iter=5, categorical_features="from_dtype", min_samples_leaf=3).fit(frame, NAMES)
    model = run(tmp_path, "sklearn", **save(estimator, tmp_path, "joblib"))
    kinds = frame["kind"].cat.categories

    def as_frame(given):
        return pandas.DataFrame({"a": given["a"], "kind": pandas.Categorical(given["kind"], categories=kinds)})

    check(model, {"a": FINITE[:, 0], "kind": NEW_FRAME["city"].to_numpy()}, expected_by(estimator, "prediction probabilities", as_frame))
    with pytest.raises(ValueError, match="'Paris' is none of its 3 categories"):
        model.infer_with_tensors({"a": FINITE[:1, 0], "kind": numpy.array(["Paris"], object)})


@pytest.mark.parametrize("vectorizer", [TfidfVectorizer(), HashingVectorizer(n_features=16)])
def test_texts(tmp_path, vectorizer):
    texts = FRAME["note"].to_numpy()
    estimator = make_pipeline(vectorizer, LogisticRegression()).fit(texts, NAMES)
    model = run(tmp_path, "sklearn", **save(estimator, tmp_path, "joblib"))
    check(model, {"features": texts[:9]}, expected_by(estimator, "prediction probabilities"), 2)
    transformer = run(tmp_path, "sklearn", **save(estimator[0], tmp_path, "pickle"))
    check(transformer, {"features": texts[:9]}, expected_by(estimator[0], "transformed"), 2)


def test_matrix_of_texts(tmp_path):
    texts = FRAME[["city", "note"]].to_numpy()
    estimator = OneHotEncoder().fit(texts)
    model = run(tmp_path, "sklearn", **save(estimator, tmp_path, "joblib"))
    check(model, {"features": texts[:9]}, expected_by(estimator, "transformed"))


def test_positions_of_texts(tmp_path):
    texts = FRAME[["city", "note"]].to_numpy()
    columns = ColumnTransformer([("places", OneHotEncoder(handle_unknown="ignore"), [0, 1])])
    estimator = make_pipeline(columns, LogisticRegression()).fit(texts, NAMES)
    check(run(tmp_path, "sklearn", **save(estimator, tmp_path, "joblib")), {"features": texts[:9]}, expected_by(estimator, "prediction probabilities"))
    # Texts and numbers are not one matrix.
    mixed = FRAME[["city", "age"]].to_numpy()
    columns = ColumnTransformer([("places", OneHotEncoder(), [0]), ("numbers", StandardScaler(), [1])])
    estimator = make_pipeline(columns, LogisticRegression()).fit(mixed, NAMES)
    with pytest.raises(TypeError, match="are not one matrix"):
        run(tmp_path, "sklearn", **save(estimator, tmp_path, "joblib")).signature()


@pytest.mark.parametrize("form", ["joblib", "pickle"])
def test_other_libraries(tmp_path, form):
    for estimator in (xgboost.XGBClassifier(n_estimators=5), lightgbm.LGBMClassifier(n_estimators=5, min_child_samples=3, verbose=-1)):
        estimator.fit(HOLES, CLASSES)
        check(run(tmp_path, "sklearn", **save(estimator, tmp_path, form)), {"features": NEW}, expected_by(estimator, "prediction probabilities"), 2)
    pipeline = make_pipeline(StandardScaler(), xgboost.XGBRegressor(n_estimators=5)).fit(HOLES, TARGET)
    check(run(tmp_path, "sklearn", **save(pipeline, tmp_path, form)), {"features": FINITE}, expected_by(pipeline, "prediction"))
    fitted = catboost_fit(catboost.CatBoostRegressor, TARGET)
    check(run(tmp_path, "sklearn", **save(fitted, tmp_path, form)), {"features": NEW}, expected_by(fitted, "prediction"), 1)
    booster = xgboost.train({}, xgboost.DMatrix(HOLES, TARGET), 5)
    expected = lambda given: {"prediction": booster.predict(xgboost.DMatrix(given["features"]))}
    check(run(tmp_path, "sklearn", **save(booster, tmp_path, form)), {"features": NEW}, expected, 1)
    booster = lightgbm.train({"verbose": -1, "min_data_in_leaf": 5}, lightgbm.Dataset(HOLES, TARGET), 5)
    check(run(tmp_path, "sklearn", **save(booster, tmp_path, form)), {"features": NEW}, expected_by(booster, "prediction"), 1)


def test_what_is_no_estimator(tmp_path):
    with pytest.raises(TypeError, match="builtins.dict, which has none of the methods"):
        run(tmp_path, "sklearn", **save({"model": 1}, tmp_path, "pickle"))


def test_skops_loads_no_other_types(tmp_path):
    constants = save(make_pipeline(FunctionTransformer(re.escape), LogisticRegression()), tmp_path, "skops")
    assert constants["TRUSTED"]
    with pytest.raises(Exception, match="[Uu]ntrusted types"):
        run(tmp_path, "sklearn", **{**constants, "TRUSTED": []})
