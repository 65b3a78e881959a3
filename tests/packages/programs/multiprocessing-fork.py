# part: quick
# requires:
import multiprocessing
import os


def square(number):
    return number**2, os.getpid()


def run():
    with multiprocessing.get_context("fork").Pool(2) as pool:
        results = pool.map(square, range(20), chunksize=1)
    return {"numbers": [value for value, _ in results] + [os.getpid() not in {pid for _, pid in results}]}
