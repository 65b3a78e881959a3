# part: quick
# requires: lightgbm==4.7.0
import lightgbm
import numpy as np


def run():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(500, 5))
    y = x[:, 0] * 3 + x[:, 1] ** 2
    data = lightgbm.Dataset(x, y)
    model = lightgbm.train({"objective": "regression", "num_threads": 2, "deterministic": True, "verbose": -1}, data, 20)
    return {"numbers": model.predict(x[:8])}
