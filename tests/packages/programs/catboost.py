# part: slow
# requires: catboost==1.2.10
import numpy as np
from catboost import CatBoostRegressor


def run():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(500, 5))
    y = x[:, 0] * 3 + x[:, 1] ** 2
    # Without allow_writing_files=False CatBoost keeps a log of its training in the current folder, which a model cannot write to.
    model = CatBoostRegressor(iterations=20, thread_count=2, random_seed=1, verbose=False, allow_writing_files=False)
    return {"numbers": model.fit(x, y).predict(x[:8])}
