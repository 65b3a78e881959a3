"""The side of pyarrow, jsonschema and the safetensors library in the tests of python.rs.

    dataset_interop.py make DIRECTORY             write rows, an index as Spark leaves it, and a dataset as its connector does
    dataset_interop.py check-rows DIRECTORY       compare what the test read of the rows
    dataset_interop.py check-index FILE           read an index that the test wrote
    dataset_interop.py check-schemas DIRECTORY…   validate manifests and headers, and see that the schemas refuse what is wrong
"""

import copy
import decimal
import json
import struct
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.feather
import pyarrow.parquet as pq
from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from safetensors.numpy import save_file

N_ROWS = 1000
UUIDS = ["550e8400-e29b-41d4-a716-446655440000", "6ba7b810-9dad-41d1-80b4-00c04fd430c8"]


def rows():
    numbers = np.arange(N_ROWS)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array((np.arange(N_ROWS * 4) / 3).astype(np.float32)), 4)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "half": pa.array(numbers.astype(np.float16)),
            "vector": vectors,
            "list": pa.array([list(range(row % 5)) if row % 7 else None for row in range(N_ROWS)], pa.list_(pa.int32())),
            "large": pa.array([[row] for row in range(N_ROWS)], pa.large_list(pa.uint64())),
            "name": pa.array([f"row {row:06}" for row in range(N_ROWS)]),
            "bytes": pa.array([bytes([row % 256]) * (row % 9) for row in range(N_ROWS)], pa.binary()),
            "tensor": pa.array([{"data": b"ab", "shape": [2], "dtype": "U8"} for _ in range(N_ROWS)]),
            # Types that cannot become tensors, which a file may have beside others.
            "when": pa.array(numbers, pa.timestamp("us", tz="UTC")),
            "time": pa.array(numbers, pa.time64("us")),
            "price": pa.array([decimal.Decimal(row) / 4 for row in range(N_ROWS)], pa.decimal128(9, 2)),
            "small": pa.array(numbers % 100, pa.uint8()),
            "nothing": pa.nulls(N_ROWS),
            "word": pa.array([["a", "b", None][row % 3] for row in range(N_ROWS)]).dictionary_encode(),
        }
    )


def make(directory):
    table = rows()
    for compression in ["none", "snappy", "gzip", "brotli", "lz4", "zstd"]:
        pq.write_table(table, directory / f"{compression}.rows", compression=compression, row_group_size=300)
    strings = {"name": "DELTA_BYTE_ARRAY", "bytes": "DELTA_LENGTH_BYTE_ARRAY", "id": "DELTA_BINARY_PACKED"}
    for version in ["1.0", "2.0"]:
        pq.write_table(
            table, directory / f"delta{version}.rows", column_encoding=strings, use_dictionary=False, data_page_version=version
        )
    for compression in ["uncompressed", "lz4", "zstd"]:
        pa.feather.write_feather(table, str(directory / f"feather-{compression}.rows"), compression=compression)
        options = pa.ipc.IpcWriteOptions(compression=None if compression == "uncompressed" else compression)
        with pa.ipc.new_stream(str(directory / f"stream-{compression}.rows"), table.schema, options=options) as stream:
            stream.write_table(table, max_chunksize=128)

    # An index as Spark writes it: nullable columns, further files that are not part of it, and a part without rows.
    schema = pa.schema(
        [("tensor_key", pa.string()), ("file_name", pa.string()), ("shape", pa.list_(pa.int32())), ("dtype", pa.string())]
    )
    index = directory / "_tensor_index.parquet"
    index.mkdir()
    for part, keys in enumerate([["b", "a"], [], ["c"]]):
        part_rows = [{"tensor_key": key, "file_name": f"{key}.safetensors", "shape": [1, 2], "dtype": "BF16"} for key in keys]
        pq.write_table(pa.Table.from_pylist(part_rows, schema), index / f"part-{part:05}-{UUIDS[0]}-c000.snappy.parquet")
        (index / f".part-{part:05}-{UUIDS[0]}-c000.snappy.parquet.crc").write_bytes(b"crc\0\0\0\2\0")
    (index / "_SUCCESS").touch()
    (index / "._SUCCESS.crc").write_bytes(b"crc\0\0\0\2\0")

    # A dataset as the connector writes it.
    dataset = directory / "dataset"
    dataset.mkdir()
    shards, schema = [], {}
    for task, (uuid, n_rows) in enumerate(zip(UUIDS, [4, 3])):
        name = f"part-{task:05}-0000-{uuid}.safetensors"
        tensors = {
            "image": np.full((n_rows, 2, 3), task, np.float32),
            "label": np.arange(n_rows, dtype=np.int64) + 10 * task,
        }
        save_file(tensors, dataset / name)
        shards.append({"shard_path": name, "samples_count": n_rows, "bytes": (dataset / name).stat().st_size})
        for key, tensor in tensors.items():
            schema.setdefault(key, {"dtype": {"f": "F32", "i": "I64"}[tensor.dtype.kind], "shape": list(tensor.shape)})
    manifest = {
        "format_version": "1.0",
        "safetensors_version": "1.0",
        "total_samples": sum(shard["samples_count"] for shard in shards),
        "total_bytes": sum(shard["bytes"] for shard in shards),
        "shards": shards,
        "schema": schema,
    }
    (dataset / "dataset_manifest.json").write_text(json.dumps(manifest))


def check_rows(directory):
    expected = rows()
    found = sorted(directory.glob("*.read"))
    assert len(found) == 14, found
    for path in found:
        table = pa.ipc.open_stream(str(path)).read_all()
        for column in expected.column_names:
            # Parquet may keep a dictionary of its own; its values count.
            both = [pc.cast(each[column], pa.string()) if column == "word" else each[column] for each in (table, expected)]
            assert both[0].to_pylist() == both[1].to_pylist(), (path, column)
            assert both[0].type == both[1].type, (path, both[0].type, both[1].type)


def check_index(path):
    schema = pq.read_schema(path)
    assert schema.names == ["tensor_key", "file_name", "shape", "dtype"], schema
    assert schema.types == [pa.string(), pa.string(), pa.list_(pa.field("element", pa.int32(), False)), pa.string()], schema.types
    physical = pq.ParquetFile(path).schema
    assert [physical.column(i).path for i in range(4)] == ["tensor_key", "file_name", "shape.list.element", "dtype"], physical
    found = pq.read_table(path).to_pylist()
    assert found == [
        {"tensor_key": "scalar", "file_name": "a.safetensors", "shape": [], "dtype": "F8_E4M3"},
        {"tensor_key": "x", "file_name": "a.safetensors", "shape": [2, 3], "dtype": "BF16"},
        {"tensor_key": "x", "file_name": "b.safetensors", "shape": [2147483647], "dtype": "F32"},
        {"tensor_key": "é", "file_name": "a.safetensors", "shape": [0], "dtype": "I64"},
    ], found
    one = pq.read_table(path, filters=[("tensor_key", "=", "x"), ("file_name", "=", "b.safetensors")])
    assert one.to_pylist() == found[2:3]
    by_key = {row["tensor_key"]: row["file_name"] for row in found}
    assert by_key["é"] == "a.safetensors"


def header(path):
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    return json.loads(data[8 : 8 + length])


def validators():
    spec = Path(__file__).parents[2] / "spec"
    schemas = [json.loads((spec / f"{name}.schema.json").read_text()) for name in ("dataset-manifest", "safetensors-header")]
    registry = Registry().with_resources((schema["$id"], Resource.from_contents(schema)) for schema in schemas)
    for schema in schemas:
        Draft202012Validator.check_schema(schema)
    return [Draft202012Validator(schema, registry=registry) for schema in schemas]


def refuses(validator, document, path, value):
    changed = copy.deepcopy(document)
    parent = changed
    for key in path[:-1]:
        parent = parent[key]
    if value is None:
        del parent[path[-1]]
    else:
        parent[path[-1]] = value
    assert not validator.is_valid(changed), (path, value)


def check_schemas(directories):
    manifest_schema, header_schema = validators()
    dtypes = set()
    for directory in directories:
        manifest = json.loads((directory / "dataset_manifest.json").read_text())
        manifest_schema.validate(manifest)
        assert [shard["shard_path"] for shard in manifest["shards"]] == sorted(path.name for path in directory.glob("*.safetensors"))
        for shard in manifest["shards"]:
            tensors = header(directory / shard["shard_path"])
            header_schema.validate(tensors)
            dtypes |= {tensor["dtype"] for name, tensor in tensors.items() if name != "__metadata__"}
        name = next(iter(manifest["schema"]))
        for field in ("format_version", "total_samples", "shards", "schema"):
            refuses(manifest_schema, manifest, [field], None)
        for value in ("2.0", "1", 1.0):
            refuses(manifest_schema, manifest, ["format_version"], value)
        for value in (-1, 1.5, "1"):
            refuses(manifest_schema, manifest, ["shards", 0, "bytes"], value)
        for value in ("../a", "/a", "a//b", "a/..", "", ".", "C:a", "a\\b", "a\n"):
            refuses(manifest_schema, manifest, ["shards", 0, "shard_path"], value)
        refuses(manifest_schema, manifest, ["schema", name, "dtype"], "bfloat16")
        refuses(manifest_schema, manifest, ["schema", name, "shape"], [-1])
        tensors = header(directory / manifest["shards"][0]["shard_path"])
        name = next(name for name in tensors if name != "__metadata__")
        refuses(header_schema, tensors, [name, "dtype"], "F128")
        refuses(header_schema, tensors, [name, "data_offsets"], [0])
        refuses(header_schema, tensors, [name, "more"], 1)
        refuses(header_schema, tensors, [name, "shape"], None)
        refuses(header_schema, tensors, ["__metadata__"], {"a": 1})
    # Every dtype of the library, listed by the test: none of its files may be refused.
    assert len(dtypes) == 22, dtypes


task, *arguments = sys.argv[1:]
places = [Path(argument) for argument in arguments]
if task == "check-schemas":
    check_schemas(places)
else:
    {"make": make, "check-rows": check_rows, "check-index": check_index}[task](*places)
