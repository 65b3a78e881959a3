# part: slow
# requires: faiss-cpu==1.15.1
import faiss
import numpy as np


def run():
    vectors = np.random.default_rng(1).normal(size=(5000, 16)).astype("float32")
    exact = faiss.IndexFlatL2(16)
    exact.add(vectors)
    distances, neighbours = exact.search(vectors[:3] + 0.01, 4)
    lists = faiss.index_factory(16, "IVF16,Flat")
    lists.train(vectors)
    lists.add(vectors)
    _, found = lists.search(vectors[:3], 1)
    return {"numbers": [*distances.ravel(), *neighbours.ravel(), *found.ravel()]}
