"""Writes datasets with `carton dataset write` and reads them with the Python libraries safetensors, pyarrow and jsonschema; then the other
way round.

    dataset_peers.py CARTON FOLDER

CARTON is the command, FOLDER is empty and for whatever this writes. What is expected comes from NumPy and ml_dtypes. Any difference is an
error, and exit status 1.
"""

import json
import struct
import subprocess
import sys
import uuid
from pathlib import Path

import jsonschema
import ml_dtypes
import numpy as np
import pyarrow as pa
import pyarrow.fs
import pyarrow.ipc
import pyarrow.parquet
import referencing
import safetensors.numpy
from safetensors import safe_open

SPEC = Path(__file__).resolve().parents[2] / "spec"
CARTON, FOLDER = sys.argv[1], Path(sys.argv[2])
INDEX = "_tensor_index.parquet"
N = 150

# Numbers that truncation changes differently from rounding, ties, and numbers that are not finite.
FLOATS = np.concatenate([
    np.random.default_rng(7).standard_normal(N - 8).astype(np.float32),
    np.array([1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-11, 65519, 1e-8, np.inf, -np.inf, -0.0], np.float32),
])
INTEGERS = {
    "int8": np.arange(N).astype(np.int8),
    "uint8": np.arange(N).astype(np.uint8),
    "int16": (np.arange(N) * 200).astype(np.int16),
    "uint16": (np.arange(N) * 400).astype(np.uint16),
    "int32": np.arange(N, dtype=np.int32) - (1 << 30),
    "uint32": np.arange(N, dtype=np.uint32) + (1 << 31),
    # Integers that float64 cannot represent.
    "int64": np.arange(N, dtype=np.int64) - (1 << 62) - 1,
    "uint64": np.arange(N, dtype=np.uint64) + np.uint64((1 << 63) + 1),
}
PICTURES = np.arange(N * 12, dtype=np.float32).reshape(N, 3, 4)


def carton(*arguments, code=0):
    """Runs the command, and returns its JSON output."""
    answer = subprocess.run([CARTON, "dataset", *map(str, arguments), "--json"], stdout=subprocess.PIPE, check=False)
    assert answer.returncode == code, (arguments, answer.returncode, answer.stdout)
    return json.loads(answer.stdout)


def table():
    columns = {name: pa.array(numbers) for name, numbers in INTEGERS.items()}
    columns["float32"] = pa.array(FLOATS)
    columns["float64"] = pa.array(FLOATS.astype(np.float64) / 3)
    columns["half"] = pa.array(FLOATS.astype(np.float16))
    flat = pa.array(PICTURES.reshape(-1))
    columns["fixed"] = pa.FixedSizeListArray.from_arrays(flat, 12)
    columns["variable"] = pa.ListArray.from_arrays(pa.array(np.arange(N + 1, dtype=np.int32) * 12), flat)
    columns["bytes"] = pa.array([row.astype("<u2").tobytes() for row in PICTURES.astype(np.uint16)], pa.binary())
    return pa.table(columns)


SHAPES = json.dumps({"fixed": [3, 4], "variable": [3, 4], "bytes": [12]})


def expected():
    return {
        **INTEGERS,
        "float32": FLOATS,
        "float64": FLOATS.astype(np.float64) / 3,
        "half": FLOATS.astype(np.float16),
        "fixed": PICTURES,
        "variable": PICTURES,
        "bytes": PICTURES.reshape(N, 12).astype(np.uint16),
    }


def write(table, kind):
    path = FOLDER / f"rows.{kind}"
    if kind == "parquet":
        pa.parquet.write_table(table, path, row_group_size=40)
    elif kind == "arrow":
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table, max_chunksize=40)
    else:
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table, max_chunksize=40)
    return path


def schemas():
    """The JSON schemas of the specification, one of which refers to another."""
    found = {path.name: json.loads(path.read_text()) for path in SPEC.glob("*.schema.json")}
    registry = referencing.Registry().with_resources(
        (name, referencing.Resource.from_contents(schema)) for name, schema in found.items()
    )
    for schema in found.values():
        jsonschema.Draft202012Validator.check_schema(schema)
    return {name: jsonschema.Draft202012Validator(schema, registry=registry) for name, schema in found.items()}


SCHEMAS = schemas()


def validate(dataset):
    """Checks headers and manifest against the JSON schemas, and the manifest against the files. Returns the manifest."""
    manifest = json.loads((dataset / "dataset_manifest.json").read_text())
    SCHEMAS["dataset-manifest.schema.json"].validate(manifest)
    names = sorted(path.name for path in dataset.glob("part-*"))
    assert names == [shard["shard_path"] for shard in manifest["shards"]], manifest
    for shard in manifest["shards"]:
        data = (dataset / shard["shard_path"]).read_bytes()
        assert len(data) == shard["bytes"], shard
        (length,) = struct.unpack("<Q", data[:8])
        SCHEMAS["safetensors-header.schema.json"].validate(json.loads(data[8 : 8 + length]))
    assert manifest["total_bytes"] == sum(shard["bytes"] for shard in manifest["shards"])
    assert manifest["total_samples"] == sum(shard["samples_count"] for shard in manifest["shards"])
    return manifest


def shards(dataset, manifest):
    for shard in manifest["shards"]:
        yield shard, safetensors.numpy.load_file(dataset / shard["shard_path"])


def assert_same(found, expected, what):
    assert found.dtype == expected.dtype and found.shape == expected.shape, (what, found.dtype, found.shape, expected.shape)
    # Compared as bytes, because zeros have signs.
    assert found.tobytes() == expected.tobytes(), what


def batches_of_every_type():
    for kind in ("parquet", "arrow", "arrows"):
        dataset = FOLDER / f"batches-{kind}"
        written = carton("write", write(table(), kind), dataset, "--batch-size=64", f"--shapes={SHAPES}", "--dtype=bytes=U16")
        assert (written["samples"], written["n_shards"]) == (N, 3), written
        manifest = validate(dataset)
        assert [shard["samples_count"] for shard in manifest["shards"]] == [64, 64, 22]
        parts = [tensors for _, tensors in shards(dataset, manifest)]
        for name, values in expected().items():
            assert_same(np.concatenate([part[name] for part in parts]), values, name)
        assert set(parts[0]) == set(expected()) == set(manifest["schema"])


def standard_input():
    dataset = FOLDER / "stdin"
    command = [CARTON, "dataset", "write", "-", dataset, "--batch-size=200", "--columns=float32", "--json"]
    with open(write(table(), "arrows"), "rb") as rows:
        answer = json.loads(subprocess.run(command, stdin=rows, stdout=subprocess.PIPE, check=True).stdout)
    assert answer["samples"] == N, answer
    ((_, tensors),) = shards(dataset, validate(dataset))
    assert_same(tensors["float32"], FLOATS, "standard input")


def shorter_floats():
    rows = write(table().select(["float32"]), "parquet")
    for dtype, kind in (("F16", np.float16), ("BF16", ml_dtypes.bfloat16)):
        dataset = FOLDER / dtype
        carton("write", rows, dataset, "--batch-size=200", f"--dtype={dtype}")
        manifest = validate(dataset)
        assert manifest["schema"]["float32"] == {"dtype": dtype, "shape": [N]}
        with np.errstate(over="ignore"):
            assert_same(raw(dataset, manifest, "float32"), FLOATS.astype(kind).view(np.uint16), dtype)
    dataset = FOLDER / "truncated"
    carton("write", rows, dataset, "--batch-size=200", "--dtype=BF16", "--rounding=truncate")
    assert_same(raw(dataset, validate(dataset), "float32"), (FLOATS.view(np.uint32) >> 16).astype(np.uint16), "truncated")


def raw(dataset, manifest, name):
    """Returns the bit patterns of 16-bit numbers in the only shard, as the library reads them."""
    (shard,) = manifest["shards"]
    parsed = dict(safetensors.deserialize((dataset / shard["shard_path"]).read_bytes()))
    return np.frombuffer(parsed[name]["data"], np.uint16)


def tails():
    rows = write(table().select(["int64"]), "parquet")
    for strategy, samples in (("drop", 128), ("pad", 192), ("write", 150)):
        dataset = FOLDER / f"tail-{strategy}"
        carton("write", rows, dataset, "--batch-size=64", f"--tail-strategy={strategy}")
        manifest = validate(dataset)
        assert manifest["total_samples"] == samples, manifest
        found = np.concatenate([tensors["int64"] for _, tensors in shards(dataset, manifest)])
        padded = np.concatenate([INTEGERS["int64"], np.zeros(64, np.int64)])
        assert_same(found, padded[:samples], strategy)


def named_tensors_and_the_index():
    names = [f"sample-{i}/é" for i in range(N)]
    rows = table().select(["float32", "variable"]).append_column("name", pa.array(names))
    dataset = FOLDER / "named"
    options = ["--name-col=name", "--kv-separator=::", f"--shapes={json.dumps({'variable': [3, 4]})}", "--generate-index"]
    carton("write", write(rows, "parquet"), dataset, *options)
    manifest = validate(dataset)
    tensors = {key: value for _, found in shards(dataset, manifest) for key, value in found.items()}
    assert len(tensors) == 2 * N
    index = pa.parquet.read_table(dataset / "_tensor_index.parquet").to_pylist()
    assert sorted(row["tensor_key"] for row in index) == sorted(tensors)
    for row in index:
        with safe_open(dataset / row["file_name"], framework="numpy") as shard:
            tensor = shard.get_slice(row["tensor_key"])
            assert (tensor.get_dtype(), tensor.get_shape()) == (row["dtype"], row["shape"]), row
    for i, name in enumerate(names):
        assert_same(tensors[f"{name}::float32"].reshape(()), FLOATS[i], name)
        assert_same(tensors[f"{name}::variable"], PICTURES[i], name)


def class_of_the_connector(dataset):
    """Reads the index as the connector's Python class `DistributedSafetensorsDataset` does in `from_path`: only from a file, with pyarrow.
    The class is not in a package index, so its behaviour is reproduced here."""
    filesystem = pyarrow.fs.LocalFileSystem()
    path = f"{dataset}/_tensor_index.parquet"
    if not filesystem.get_file_info(path).is_file:
        return None
    with filesystem.open_input_file(path) as file:
        return pyarrow.parquet.read_table(file)


def an_index_for_each_reader():
    rows = write(table().select(["float32", "int64"]), "parquet")
    found = {}
    for layout in ("folder", "file"):
        dataset = FOLDER / f"index-{layout}"
        carton("write", rows, dataset, "--batch-size=64", f"--generate-index={layout}")
        assert carton("verify", dataset)["passed"]
        # pyarrow reads a file and a folder at the same path.
        found[layout] = [{**row, "file_name": row["file_name"][:15]} for row in pa.parquet.read_table(dataset / INDEX).to_pylist()]
        assert len(found[layout]) == 6, found
    assert found["folder"] == found["file"]
    assert found["file"][0] == {"tensor_key": "float32", "file_name": "part-00000-0000", "shape": [64], "dtype": "F32"}
    # The connector itself writes a folder, which its own class does not find.
    assert class_of_the_connector(FOLDER / "index-folder") is None
    assert class_of_the_connector(FOLDER / "index-file").num_rows == 6
    only = list((FOLDER / "index-folder" / INDEX).iterdir())
    assert [path.name for path in only] == ["part-00000.parquet"], only
    assert pa.parquet.ParquetFile(only[0]).metadata.num_rows == 6


def structs():
    values = [PICTURES[i].reshape(-1)[: i % 12 + 1].astype(np.float16 if i % 2 else np.int32) for i in range(N)]
    rows = pa.table({
        "name": [f"row{i}" for i in range(N)],
        "tensor": pa.array(
            [{"data": v.tobytes(), "shape": list(v.shape), "dtype": "F16" if i % 2 else "I32"} for i, v in enumerate(values)],
            pa.struct([("data", pa.binary()), ("shape", pa.list_(pa.int32())), ("dtype", pa.string())]),
        ),
    })
    dataset = FOLDER / "structs"
    carton("write", write(rows, "parquet"), dataset, "--name-col=name")
    tensors = {key: value for _, found in shards(dataset, validate(dataset)) for key, value in found.items()}
    for i, value in enumerate(values):
        assert_same(tensors[f"row{i}__tensor"], value, i)


def what_others_write():
    """Reads a dataset that the Python library wrote in the Spark connector's layout, with an index that is a folder."""
    dataset = FOLDER / "others"
    dataset.mkdir()
    rows, entries = [], []
    for number in range(3):
        tensors = {"x": PICTURES[number * 10 : number * 10 + 10], "label": INTEGERS["int64"][number * 10 : number * 10 + 10]}
        path = dataset / f"part-{number:05}-0000-{uuid.UUID(int=number + 1)}.safetensors"
        safetensors.numpy.save_file(tensors, path)
        entries.append({"shard_path": path.name, "samples_count": 10, "bytes": path.stat().st_size})
        for name, tensor in tensors.items():
            dtype = {"float32": "F32", "int64": "I64"}[str(tensor.dtype)]
            rows.append({"tensor_key": name, "file_name": path.name, "shape": list(tensor.shape), "dtype": dtype})
    manifest = {
        "format_version": "1.0",
        "safetensors_version": "1.0",
        "total_samples": 30,
        "total_bytes": sum(entry["bytes"] for entry in entries),
        "shards": entries,
        "schema": {"x": {"dtype": "F32", "shape": [10, 3, 4]}, "label": {"dtype": "I64", "shape": [10]}},
    }
    (dataset / "dataset_manifest.json").write_text(json.dumps(manifest))
    index = dataset / "_tensor_index.parquet"
    index.mkdir()
    fields = pa.schema([("tensor_key", pa.string()), ("file_name", pa.string()), ("shape", pa.list_(pa.int32())), ("dtype", pa.string())])
    for number in range(2):
        name = index / f"part-{number:05}-{uuid.uuid4()}-c000.snappy.parquet"
        pa.parquet.write_table(pa.Table.from_pylist(rows[number::2], fields), name, compression="snappy")
    (index / "_SUCCESS").touch()

    listed = carton("ls", dataset)
    assert (listed["samples"], len(listed["shards"])) == (30, 3), listed
    verified = carton("verify", dataset)
    assert verified["passed"], verified
    printed = carton("cat", dataset, "x", f"--shard={entries[1]['shard_path']}", "--slice=2")
    assert printed["tensor"]["data"] == PICTURES[12].tolist(), printed

    # A shard without its last byte, and a missing shard.
    whole = (dataset / entries[2]["shard_path"]).read_bytes()
    (dataset / entries[2]["shard_path"]).write_bytes(whole[:-1])
    (dataset / entries[0]["shard_path"]).rename(FOLDER / "away")
    verified = carton("verify", dataset, code=4)
    assert not verified["passed"], verified
    for entry in (entries[0], entries[2]):
        assert any(entry["shard_path"] in json.dumps(finding) for finding in verified["findings"]), verified


def connector(name, separator, columns, shards, count=len):
    """Writes a dataset as the connector does in key-value mode: only names show which tensors belong together. The manifest has the
    `count` of the rows of a shard."""
    dataset = FOLDER / name
    dataset.mkdir()
    entries, schema = [], {}
    for number, rows in enumerate(shards):
        path = dataset / f"part-{number:05}-0000-{uuid.UUID(int=number + 1)}.safetensors"
        tensors = {f"{row}{separator}{column}": np.full(768, i, np.float32) for i, row in enumerate(rows) for column in columns}
        safetensors.numpy.save_file(tensors, path)
        entries.append({"shard_path": path.name, "samples_count": count(rows), "bytes": path.stat().st_size})
        schema |= {key: {"dtype": "F32", "shape": [768]} for key in tensors}
    sums = {field: sum(entry[of] for entry in entries) for field, of in (("total_samples", "samples_count"), ("total_bytes", "bytes"))}
    manifest = {"format_version": "1.0", "safetensors_version": "1.0", **sums, "shards": entries, "schema": schema}
    (dataset / "dataset_manifest.json").write_text(json.dumps(manifest))
    return dataset


def whatever_the_separator_is():
    for number, separator in enumerate(("__", "/", "::", "")):
        for columns in (["emb"], ["input__ids", "label"]):
            name = f"connector-{number}-{len(columns)}"
            dataset = connector(name, separator, columns, [["ada", "bob", "eve"], ["joe"]])
            verified = carton("verify", dataset)
            assert verified["passed"] and verified["samples"] == 4, (separator, columns, verified)
            # `lastWin` also counts the rows whose names come again.
            dataset = connector(f"{name}-last-win", separator, columns, [["ada", "bob", "eve"], ["joe"]], lambda rows: 2 * len(rows))
            verified = carton("verify", dataset)
            assert verified["passed"] and verified["samples"] == 8, (separator, columns, verified)
            # Without the manifest the separator has to be given, so that the 768 numbers are not taken for rows.
            (dataset / "dataset_manifest.json").unlink()
            refused = carton("merge", dataset, code=2)
            assert "--kv-separator" in refused["error"]["hint"], refused
            merged = carton("merge", dataset, f"--kv-separator={separator}", f"--columns={','.join(columns)}")
            assert merged["samples"] == 4, merged
            assert carton("verify", dataset)["passed"]
            validate(dataset)
    # One row in each shard.
    dataset = connector("connector-single", "__", ["emb"], [["ada"], ["bob"], ["eve"]])
    assert carton("verify", dataset)["passed"]
    (dataset / "dataset_manifest.json").unlink()
    assert "--kv-separator" in carton("merge", dataset, code=2)["error"]["hint"]
    assert carton("merge", dataset, "--kv-separator=__")["samples"] == 3


def main():
    for check in (
        batches_of_every_type,
        standard_input,
        shorter_floats,
        tails,
        named_tensors_and_the_index,
        structs,
        an_index_for_each_reader,
        whatever_the_separator_is,
        what_others_write,
    ):
        check()
        print(check.__name__, "passed")


if __name__ == "__main__":
    main()
