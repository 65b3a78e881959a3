# part: slow
# requires: ray==2.60.0
import ray


def run():
    ray.init(num_cpus=2, include_dashboard=False, object_store_memory=100_000_000, log_to_driver=False)
    square = ray.remote(lambda number: number**2)
    squares = ray.get([square.remote(number) for number in range(10)])
    ray.shutdown()
    return {"numbers": squares}
