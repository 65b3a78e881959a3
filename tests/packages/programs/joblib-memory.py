# Results kept in files, and arrays that processes share by mapping them.
# part: quick
# requires: joblib==1.6.0 numpy==2.4.6
import tempfile

import numpy as np
from joblib import Memory, Parallel, delayed


def column_sum(array, column):
    return float(array[:, column].sum())


def run():
    with tempfile.TemporaryDirectory() as folder:
        cached = Memory(folder, verbose=0).cache(column_sum)
        array = np.arange(600_000.0).reshape(-1, 4)
        first, again = cached(array, 1), cached(array, 1)
        # More than a megabyte: passed as a memory map.
        sums = Parallel(n_jobs=2, max_nbytes="1M")(delayed(column_sum)(array, column) for column in range(4))
        return {"numbers": [first, again, *sums, cached.check_call_in_cache(array, 1)]}
