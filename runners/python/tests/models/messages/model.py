"""Reads messages with the compiled part of msgpack."""

import numpy
from msgpack import _cmsgpack


class Reader:
    def infer_with_tensors(self, tensors):
        numbers = [_cmsgpack.unpackb(message.astype("u1").tobytes()) for message in tensors["messages"]]
        return {"sums": numpy.array([sum(message) for message in numbers])}


def get_model():
    return Reader()
