# Processes of its own scheduler.
# part: slow
# requires: dask==2026.8.0 numpy==2.4.6
import dask
import dask.array


@dask.delayed
def square(number):
    return number**2


def run():
    squares = dask.compute(*[square(number) for number in range(10)], scheduler="processes", num_workers=2)
    mean = dask.array.arange(100_000, chunks=10_000).mean().compute(scheduler="threads")
    return {"numbers": [sum(squares), mean]}
