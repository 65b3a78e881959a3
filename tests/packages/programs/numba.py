# Compiled code, kept in files, and threads.
# part: slow
# requires: numba==0.68.1
import numba
import numpy as np


@numba.njit(cache=True)
def collatz(number):
    steps = 0
    while number != 1:
        number = number // 2 if number % 2 == 0 else 3 * number + 1
        steps += 1
    return steps


@numba.njit(parallel=True)
def total(values):
    result = 0.0
    for position in numba.prange(len(values)):
        result += values[position] ** 2
    return result


def run():
    return {"numbers": [collatz(27), total(np.arange(1000.0))]}
