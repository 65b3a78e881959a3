# part: quick
# requires: numpy==2.4.6
import numpy as np


def run():
    rng = np.random.default_rng(1)
    a = rng.normal(size=(200, 200))
    x = np.linalg.solve(a, a.sum(axis=1))
    singular = np.linalg.svd(a, compute_uv=False)
    spectrum = np.fft.rfft(a[0])
    return {"numbers": [x.sum(), *singular[:3], abs(spectrum[5]), (a @ a).trace()]}
