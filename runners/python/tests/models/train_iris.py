"""Trains the model in iris/ and records what it predicts. With the packages of iris/requirements.txt:

uv run --no-project --with-requirements iris/requirements.txt python train_iris.py
"""

import json
import pickle
from pathlib import Path

from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

HERE = Path(__file__).parent

iris = load_iris()
classifier = make_pipeline(StandardScaler(), LogisticRegression()).fit(iris.data, iris.target)
names = [str(name) for name in iris.target_names]
(HERE / "iris/iris.pickle").write_bytes(pickle.dumps({"classifier": classifier, "names": names}, protocol=4))

features = iris.data[::37]
recorded = {
    "features": features.tolist(),
    "species": [names[index] for index in classifier.predict(features)],
    "probabilities": classifier.predict_proba(features).tolist(),
}
(HERE / "iris.json").write_text(json.dumps(recorded, indent=1) + "\n")
