"""What mapping a table costs, beside the same loop written with pyarrow and ONNX Runtime in one process.

    python carton-python/benches/rows.py MODEL.onnx MODEL.carton [ROWS]

MODEL.onnx is the digits model of examples/digits, and MODEL.carton a carton of it. The table has 10 million rows unless ROWS says otherwise,
which need a gigabyte in the folder for temporary files. Needs a wheel that was built with optimization, pyarrow and onnxruntime. Each round
runs all of them, in turn, because machines are noisy.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Callable

import numpy as np
import onnxruntime as ort
import pyarrow as pa
import pyarrow.parquet as pq

import carton

ROUNDS = 3
# The rows of a call, in both.
BATCH = 1024


def write_table(path: str, n_rows: int) -> None:
    """Pictures of 64 pixels with 17 grays, as the digits of scikit-learn have them, and a number for each row."""
    random = np.random.default_rng(0)
    step = 100_000
    image = pa.list_(pa.float32(), 64)
    with pq.ParquetWriter(path, pa.schema([("id", pa.int64()), ("image", image)])) as writer:
        for start in range(0, n_rows, step):
            size = min(step, n_rows - start)
            pixels = random.integers(0, 17, size * 64).astype(np.float32) / 16
            columns = [pa.array(np.arange(start, start + size)), pa.FixedSizeListArray.from_arrays(pa.array(pixels), type=image)]
            writer.write_batch(pa.record_batch(columns, schema=writer.schema))


def loop(model: str, source: str, destination: str) -> None:
    """The loop that a user would write."""
    session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
    probabilities = pa.list_(pa.float32(), 10)
    schema = pa.schema([("id", pa.int64()), ("probabilities", probabilities)])
    with pq.ParquetWriter(destination, schema) as writer:
        for batch in pq.ParquetFile(source).iter_batches(BATCH):
            images = batch.column("image").flatten().to_numpy().reshape(-1, 1, 8, 8)
            (outputs,) = session.run(None, {"image": images})
            column = pa.FixedSizeListArray.from_arrays(pa.array(outputs.reshape(-1)), type=probabilities)
            writer.write_batch(pa.record_batch([batch.column("id"), column], schema=schema))


def command(model: str, source: str, destination: str, workers: int) -> None:
    """The command of the wheel."""
    program = os.environ.get("CARTON_PROGRAM") or os.path.join(os.path.dirname(sys.executable), "carton")
    subprocess.run(
        [program, "run", model, "--rows", source, "--output", destination, "--workers", str(workers), "--batch-size", str(BATCH), "--quiet"],
        check=True,
    )


def compare(first: str, second: str) -> None:
    """Checks that both wrote the same rows."""
    for one, other in zip(pq.ParquetFile(first).iter_batches(100_000), pq.ParquetFile(second).iter_batches(100_000), strict=True):
        assert one.column("id").equals(other.column("id"))
        np.testing.assert_allclose(
            one.column("probabilities").flatten().to_numpy(), other.column("probabilities").flatten().to_numpy(), rtol=1e-4, atol=1e-5
        )


def main() -> None:
    onnx, path = sys.argv[1:3]
    n_rows = int(sys.argv[3]) if len(sys.argv) > 3 else 10_000_000
    with tempfile.TemporaryDirectory() as folder:
        source, theirs, ours = (os.path.join(folder, name) for name in ("rows.parquet", "theirs.parquet", "ours.parquet"))
        write_table(source, n_rows)
        loaded = carton.load(path)
        works: dict[str, Callable[[], object]] = {
            "pyarrow and ONNX Runtime": lambda: loop(onnx, source, theirs),
            "carton run --rows, 1 worker": lambda: command(path, source, ours, 1),
            "carton run --rows, 2 workers": lambda: command(path, source, ours, 2),
            "Model.map_to, 1 worker": lambda: loaded.map_to(ours, source, batch_size=BATCH, progress=False),
            "Model.map_to, 2 workers": lambda: loaded.map_to(ours, source, batch_size=BATCH, workers=2, progress=False),
        }
        durations: dict[str, list[float]] = {name: [] for name in works}
        for _ in range(ROUNDS):
            for name, work in works.items():
                start = time.perf_counter()
                work()
                durations[name].append(time.perf_counter() - start)
                if name != "pyarrow and ONNX Runtime":
                    compare(theirs, ours)
        loaded.close()
        bound = durations["pyarrow and ONNX Runtime"]
        for name, taken in durations.items():
            ratio = statistics.median(their / our for their, our in zip(bound, taken))
            print(f"{name}: {n_rows / statistics.median(taken) / 1e6:.2f} M rows/s, {ratio:.2f} of the speed of the loop")


if __name__ == "__main__":
    main()
