# part: slow
# requires: xgboost==3.2.0
import numpy as np
import xgboost


def run():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(500, 5))
    y = (x[:, 0] + x[:, 1] ** 2 > 0.5).astype(int)
    options = {"objective": "binary:logistic", "max_depth": 3, "nthread": 2}
    model = xgboost.train(options, xgboost.DMatrix(x, y), num_boost_round=20)
    return {"numbers": model.predict(xgboost.DMatrix(x[:8])).tolist()}
