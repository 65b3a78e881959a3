"""Makes the files of models in `fixtures/tabular/`, each by the framework itself, for tabular.rs.

Run twice: `python make_tabular_fixtures.py new` in an environment of requirements-tabular.txt, and with `old` in one of
requirements-tabular-old.txt, for formats that newer versions do not write.
"""

import json
import pickle
import sys
import warnings
import zipfile
from pathlib import Path

import joblib
import numpy
import xgboost
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

warnings.simplefilter("ignore")
FOLDER = Path(__file__).parent / "fixtures" / "tabular"
RANDOM = numpy.random.RandomState(0)
X = RANDOM.rand(40, 3)
Y = (X[:, 0] + X[:, 1] > 1).astype(int)


class OfScript(StandardScaler):
    """A class that exists only where the pickle was made."""


def old():
    booster = xgboost.train({"objective": "binary:logistic", "max_depth": 1}, xgboost.DMatrix(X, Y), 1)
    booster.save_model(FOLDER / "xgboost.deprecated")
    pickle_of("xgboost-old.pickle", xgboost.XGBClassifier(n_estimators=1, max_depth=1).fit(X, Y), 4)
    joblib.dump(DecisionTreeClassifier(max_depth=1).fit(X, Y), FOLDER / "tree-old.joblib")


def new():
    import catboost
    import lightgbm
    import skops.io

    matrix = xgboost.DMatrix(X, Y)
    booster = xgboost.train({"objective": "binary:logistic", "max_depth": 1}, matrix, 1)
    booster.save_model(FOLDER / "xgboost.json")
    booster.save_model(FOLDER / "xgboost.ubj")
    # As other programs write the same JSON.
    (FOLDER / "xgboost-indented.json").write_text(json.dumps(json.loads((FOLDER / "xgboost.json").read_text()), indent=1))
    early = xgboost.train({"max_depth": 1, "eta": 1}, matrix, 9, evals=[(matrix, "v")], early_stopping_rounds=1, verbose_eval=False)
    early.save_model(FOLDER / "xgboost-early.json")
    for name, estimator in (("classifier", xgboost.XGBClassifier), ("regressor", xgboost.XGBRegressor)):
        estimator = estimator(n_estimators=2, max_depth=1, early_stopping_rounds=1).fit(X, Y, eval_set=[(X, Y)], verbose=False)
        estimator.save_model(FOLDER / f"xgboost-{name}.ubj")
    booster = lightgbm.train({"objective": "binary", "num_leaves": 2, "verbose": -1}, lightgbm.Dataset(X, Y), 1)
    booster.save_model(FOLDER / "lightgbm.txt")
    (FOLDER / "lightgbm-dump.json").write_text(json.dumps(booster.dump_model()))
    fitted = catboost.CatBoostClassifier(iterations=1, depth=1, verbose=0, allow_writing_files=False).fit(X, Y)
    fitted.save_model(str(FOLDER / "catboost.cbm"))
    fitted.save_model(str(FOLDER / "catboost.json"), format="json")
    estimator = LogisticRegression().fit(X, Y)
    skops.io.dump(estimator, FOLDER / "logistic.skops", compression=zipfile.ZIP_DEFLATED)
    tree = DecisionTreeClassifier(max_depth=1).fit(X, Y)
    skops.io.dump(make_pipeline(FunctionTransformer(json.dumps)), FOLDER / "function.skops", compression=zipfile.ZIP_DEFLATED)
    skops.io.dump(make_pipeline(FunctionTransformer(numpy.cbrt), tree), FOLDER / "tree.skops", compression=zipfile.ZIP_DEFLATED)
    for protocol in range(6):
        pickle_of(f"logistic-{protocol}.pickle", estimator, protocol)
    joblib.dump(tree, FOLDER / "tree.joblib")
    joblib.dump(tree, FOLDER / "tree-zlib.joblib", compress=3)
    joblib.dump(tree, FOLDER / "tree-gzip.joblib", compress=("gzip", 3))
    joblib.dump(tree, FOLDER / "tree-xz.joblib", compress=("xz", 3))
    # The estimator behind the array of objects is the last, and found only if that is left out.
    texts = numpy.array([["a", "b"], ["c", "d"]], object)
    columns = ColumnTransformer([("places", OneHotEncoder(), [0, 1])]).fit(texts)
    joblib.dump(make_pipeline(columns, tree), FOLDER / "columns.joblib")
    pickle_of("xgboost.pickle", make_pipeline(StandardScaler(), xgboost.XGBClassifier(n_estimators=1, max_depth=1)).fit(X, Y), 5)
    pickle_of("of-script.pickle", OfScript().fit(X), 5)
    pickle_of("array.pickle", X[:1], 5)


def pickle_of(name, value, protocol):
    (FOLDER / name).write_bytes(pickle.dumps(value, protocol))


FOLDER.mkdir(parents=True, exist_ok=True)
{"old": old, "new": new}[sys.argv[1]]()
