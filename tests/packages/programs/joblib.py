# Processes of loky.
# part: quick
# requires: joblib==1.6.0
import math
import os

from joblib import Parallel, delayed


def root(number):
    return math.sqrt(number), os.getpid()


def run():
    results = Parallel(n_jobs=2, backend="loky")(delayed(root)(number) for number in range(40))
    in_processes = os.getpid() not in {pid for _, pid in results}
    return {"numbers": [sum(value for value, _ in results), in_processes]}
