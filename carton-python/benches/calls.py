"""What the Python module costs, each figure beside a bound measured in the same run.

    python carton-python/benches/calls.py digits.carton [PROGRAM]

Needs a wheel that was built with optimization, and numpy, safetensors and onnxruntime. PROGRAM is the benchmark `calls` of the workspace
(`cargo bench --no-run -p carton-tests --bench calls` prints its path); it runs in between, for the cost of the same call from Rust.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any, Callable

import numpy as np

import carton


def median(work: Callable[[], Any], count: int) -> float:
    """The median duration of `work` in microseconds."""
    durations = []
    for _ in range(count):
        start = time.perf_counter()
        work()
        durations.append(time.perf_counter() - start)
    return statistics.median(durations) * 1e6


def noop_model(folder: str) -> carton.Model:
    path = os.path.join(folder, "noop")
    os.mkdir(path)
    with open(os.path.join(path, "nothing"), "wb"):
        pass
    return carton.load(path, runner="noop", bare=True)


def empty_calls(model: carton.Model) -> None:
    async def awaited() -> float:
        durations = []
        for _ in range(5000):
            start = time.perf_counter()
            await model.infer_async()
            durations.append(time.perf_counter() - start)
        return statistics.median(durations) * 1e6

    median(model, 1000)
    print(f"empty call: {median(model, 5000):.1f} us, awaited {asyncio.run(awaited()):.1f} us")


def large_inputs(folder: str) -> None:
    path = os.path.join(folder, "sink.onnx")
    import onnx
    from onnx import TensorProto, helper

    # An output of one element: only the input is large.
    node = helper.make_node("Gather", ["x", "first"], ["y"], axis=0)
    first = helper.make_tensor("first", TensorProto.INT64, [1], [0])
    graph = helper.make_graph(
        [node],
        "sink",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])],
        [first],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    with carton.load(path, runner="onnx", bare=True, pool_bytes=1 << 30) as model:
        small, large = (model.alloc(shape=[n], dtype="float32") for n in (4, 16 << 20))
        for array in (small, large):
            array[...] = 1
        plain = np.ones(16 << 20, np.float32)
        for array in (small, large, plain):
            model(x=array)
        figures = [median(lambda array=array: model(x=array), 200) for array in (small, large, plain)]
    copy = median(lambda: plain.copy(), 20)
    print(
        f"16 B from alloc: {figures[0]:.1f} us; 64 MB from alloc: {figures[1]:.1f} us ({figures[1] / figures[0]:.2f} of it); "
        f"64 MB of NumPy: {figures[2]:.0f} us, a copy alone {copy:.0f} us"
    )


def beside_onnxruntime(path: str) -> None:
    import onnxruntime

    with carton.load(path) as model, tempfile.NamedTemporaryFile(suffix=".onnx") as file:
        file.write(carton.open(path).read("model/model.onnx"))
        file.flush()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(file.name, options)
        x = np.zeros((1, 1, 8, 8), np.float32)
        ours, theirs = median(lambda: model(image=x), 3000), median(lambda: session.run(None, {"image": x}), 3000)
        runner = model.runner
    print(f"digits, one image: {ours:.1f} us on {runner}; ONNX Runtime in this process {theirs:.1f} us")


def tensor_files(folder: str) -> None:
    import safetensors
    import safetensors.numpy

    path = os.path.join(folder, "weights.safetensors")
    tensors = {f"layer.{n}": np.full((1024, 1024, 16), n, np.float32) for n in range(16)}
    safetensors.numpy.save_file(tensors, path)
    del tensors

    def ours() -> None:
        with carton.tensors.open(path) as file:
            for name in file:
                file[name]

    def one() -> None:
        with carton.tensors.open(path) as file:
            file["layer.7"]

    def their_one() -> None:
        with safetensors.safe_open(path, "numpy") as file:
            file.get_tensor("layer.7")

    load = median(lambda: safetensors.numpy.load_file(path), 5)
    views, view, get = median(ours, 50), median(one, 200), median(their_one, 10)
    print(f"1 GB of safetensors: open and view all {views:.0f} us, load_file {load:.0f} us ({load / views:.0f} times)")
    print(f"one tensor of 64 MB: {view:.0f} us, safe_open {get:.0f} us")

    def sums() -> None:
        with carton.tensors.open(path) as file:
            for name in file:
                file[name].sum()

    read, loaded = median(sums, 3), median(lambda: [x.sum() for x in safetensors.numpy.load_file(path).values()], 3)
    print(f"and every element summed: {read / 1e6:.2f} s, after load_file {loaded / 1e6:.2f} s")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        with noop_model(folder) as model:
            for _ in range(2):
                empty_calls(model)
                if len(sys.argv) > 2:
                    subprocess.run([sys.argv[2], "--bench"], check=True)
        beside_onnxruntime(sys.argv[1])
        large_inputs(folder)
        tensor_files(folder)


if __name__ == "__main__":
    main()
