# part: slow
# requires: scipy==1.17.1
import numpy as np
import scipy.integrate
import scipy.optimize
import scipy.sparse.linalg
import scipy.stats


def run():
    found = scipy.optimize.minimize(scipy.optimize.rosen, [1.3, 0.7, 0.8], method="BFGS")
    area, _ = scipy.integrate.quad(lambda x: np.exp(-(x**2)), -1, 1)
    matrix = scipy.sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(100, 100), format="csc")
    solved = scipy.sparse.linalg.spsolve(matrix, np.ones(100))
    return {"numbers": [*found.x.round(4), area, solved.max(), scipy.stats.norm.ppf(0.975)]}
