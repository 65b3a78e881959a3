# Has no wheels. Building it needs a C++ compiler.
# part: slow
# requires: hnswlib==0.8.0 numpy==2.4.6
# allow: build
import hnswlib
import numpy as np


def run():
    vectors = np.random.default_rng(1).normal(size=(1000, 16)).astype("float32")
    index = hnswlib.Index("l2", 16)
    index.init_index(1000, random_seed=1)
    index.add_items(vectors, num_threads=1)
    labels, distances = index.knn_query(vectors[:4], k=1)
    return {"numbers": [*labels.ravel(), *distances.ravel()]}
