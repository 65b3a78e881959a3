# part: slow
# requires: statsmodels==0.15.0
import numpy as np
import statsmodels.api as sm
from statsmodels.tsa.arima.model import ARIMA


def run():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(200, 2))
    y = 1 + x @ [2, -3] + rng.normal(size=200) / 10
    fitted = sm.OLS(y, sm.add_constant(x)).fit()
    forecast = ARIMA(np.cumsum(rng.normal(size=100)) / 5, order=(1, 0, 0)).fit().forecast(3)
    return {"numbers": [*fitted.params, fitted.rsquared, *forecast.round(4)]}
