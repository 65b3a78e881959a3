import numpy


def predict(x):
    return {"norm": numpy.float64(numpy.linalg.norm(x))}
