"""Runs `carton run --rows` on tables of pyarrow, and compares the results with those of a loop over ONNX Runtime.

    rows_peers.py CARTON FOLDER MODEL

CARTON is the command. FOLDER has digits.carton, and is for whatever this writes. MODEL is the ONNX file in that carton. Any difference is an
error, and exit status 1.
"""

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet

CARTON, FOLDER, MODEL = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
N_ROWS = 2345


def table():
    """Rows with an image, and columns of other types that are kept."""
    random = np.random.default_rng(5)
    pixels = random.random(N_ROWS * 64, dtype=np.float32)
    names = [None if row % 7 == 0 else f"row {row}" for row in range(N_ROWS)]
    return pa.table(
        {
            "id": pa.array(range(N_ROWS), pa.int64()),
            "image": pa.FixedSizeListArray.from_arrays(pixels, 64),
            "name": pa.array(names, pa.string()),
            "kind": pa.array([f"kind {row % 5}" for row in range(N_ROWS)]).dictionary_encode(),
            "time": pa.array(range(N_ROWS), pa.timestamp("ms", "UTC")),
            "parts": pa.array([[{"a": row}] * (row % 3) for row in range(N_ROWS)]),
        }
    )


def expected(rows):
    """What a loop over record batches makes of the rows."""
    session = onnxruntime.InferenceSession(MODEL, providers=["CPUExecutionProvider"])
    outputs = []
    for batch in rows.to_batches(max_chunksize=100):
        images = batch.column("image").flatten().to_numpy().reshape(-1, 1, 8, 8)
        outputs.append(session.run(["probabilities"], {"image": images})[0])
    return np.concatenate(outputs)


def write(rows, path):
    if path.suffix == ".parquet":
        pa.parquet.write_table(rows, path, row_group_size=1000)
        return
    new = pa.ipc.new_file if path.suffix == ".arrow" else pa.ipc.new_stream
    with new(path, rows.schema) as writer:
        writer.write_table(rows, max_chunksize=700)


def read(path):
    if path.suffix == ".parquet":
        return pa.parquet.read_table(path)
    return (pa.ipc.open_file if path.suffix == ".arrow" else pa.ipc.open_stream)(path).read_all()


def same(found, rows, outputs):
    assert found.num_rows == N_ROWS
    assert found.column_names == [name for name in rows.column_names if name != "image"] + ["probabilities"]
    column = found.column("probabilities")
    assert column.type == pa.list_(pa.float32(), 10), column.type
    values = np.concatenate([chunk.flatten().to_numpy() for chunk in column.chunks]).reshape(-1, 10)
    np.testing.assert_allclose(values, outputs, rtol=1e-4, atol=1e-6)
    for name in ["id", "name", "kind", "time", "parts"]:
        assert found.column(name).to_pylist() == rows.column(name).to_pylist(), name
    found.validate(full=True)


def main():
    rows = table()
    outputs = expected(rows)
    n_tables = 0
    # Rows in one record batch, and slices of it that share its memory.
    variants = {"whole": rows, "slices": pa.concat_tables([rows.slice(0, 999), rows.slice(999, 1), rows.slice(1000)])}
    # The same images for pyarrow, as tensors whose elements lie column by column.
    images = rows.column("image").combine_chunks().flatten().to_numpy().reshape(-1, 1, 8, 8)
    turned = np.ascontiguousarray(images.transpose(0, 1, 3, 2)).transpose(0, 1, 3, 2)
    tensors = pa.FixedShapeTensorArray.from_numpy_ndarray(turned)
    assert "permutation" in str(tensors.type) and np.array_equal(tensors.to_numpy_ndarray(), images)
    variants["turned"] = rows.set_column(rows.column_names.index("image"), "image", tensors)
    for name, variant in variants.items():
        for extension in ["parquet", "arrow", "arrows"]:
            source = FOLDER / f"{name}.{extension}"
            write(variant, source)
            for other, options in [("parquet", ["--workers", "2"]), ("arrow", ["--batch-size", "77"])]:
                target = FOLDER / f"out.{other if extension != 'arrows' else other + 's' if other == 'arrow' else other}"
                command = [CARTON, "run", "digits.carton", "--rows", source.name, "-o", target.name, "-q", *options]
                subprocess.run(command, cwd=FOLDER, check=True)
                same(read(target), rows, outputs)
                target.unlink()
                n_tables += 1
    print(f"{n_tables} tables are the same")


main()
