# part: quick
# requires: scikit-learn==1.9.1
import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs
from sklearn.ensemble import RandomForestClassifier
from sklearn.neighbors import KNeighborsClassifier
from threadpoolctl import threadpool_info


def run():
    x, y = make_blobs(2000, centers=4, random_state=1)
    # KMeans asks threadpoolctl for the loaded BLAS libraries, and distances are computed by threads of OpenMP.
    clusters = KMeans(4, n_init=2, random_state=1).fit(x)
    near = KNeighborsClassifier().fit(x, y).predict(x[:100])
    forest = RandomForestClassifier(20, n_jobs=2, random_state=1).fit(x, y).predict_proba(x[:50])
    libraries = {library["user_api"] for library in threadpool_info()}
    return {"numbers": [clusters.inertia_, *np.bincount(near), forest[:, 0].sum(), len(libraries)]}
