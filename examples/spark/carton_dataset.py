"""A Spark data source for sharded safetensors datasets: `spark.read.format("carton")` and `df.write.format("carton")`.

Executors write in parallel. Each task pipes its rows, as an Arrow stream, into a process of the `carton` command, which writes the
task's shards into a folder of that attempt. When all tasks are done, the driver commits one attempt of each with `carton dataset
merge`: only then do shards appear under their final names, and a manifest that says that the dataset is whole. Attempts that
failed, and duplicates that Spark started in case one is faster, are never part of it.

Every shard is one partition when a dataset is read. So is every file of a folder without a manifest, and every file that is named.

Needs Spark 4, PyArrow and NumPy; for writing also the `carton` command on every machine, and a folder that all of them share.
"""

import contextlib
import json
import math
import mmap
import struct
import subprocess
import uuid
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)

MANIFEST = "dataset_manifest.json"

# Options of `df.write` that are options of `carton dataset write`, and of `carton dataset merge`.
WRITE_OPTIONS = {
    "batch_size",
    "name_col",
    "columns",
    "dtype",
    "shapes",
    "tail_strategy",
    "kv_separator",
    "target_shard_size_mb",
    "duplicates",
    "rounding",
}
# The Spark connector's name for one of them. Spark passes options in lower case.
ALIASES = {"duplicatesstrategy": "duplicates"}
# The approximate size in bytes of Arrow batches that are passed to Spark.
BATCH_BYTES = 16 << 20

# The element types of safetensors: in NumPy, and in Spark, which has no unsigned and no short floating-point numbers.
DTYPES = {
    "BOOL": ("?", "boolean"),
    "I8": ("i1", "tinyint"),
    "U8": ("u1", "smallint"),
    "I16": ("<i2", "smallint"),
    "U16": ("<u2", "int"),
    "I32": ("<i4", "int"),
    "U32": ("<u4", "bigint"),
    "I64": ("<i8", "bigint"),
    "U64": ("<u8", "decimal(20,0)"),
    "F16": ("<f2", "float"),
    # Converted to float32 here, because NumPy does not have BF16.
    "BF16": ("<u2", "float"),
    "F32": ("<f4", "float"),
    "F64": ("<f8", "double"),
}
ARROW_TYPES = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "decimal(20,0)": pa.decimal128(20, 0),
    "float": pa.float32(),
    "double": pa.float64(),
}
# The limits of a safetensors file: bytes of its header, and dimensions of a tensor.
MAX_HEADER = 100_000_000
MAX_RANK = 64
# The type of a tensor in a row of the Spark connector, which `carton dataset write` accepts too.
TENSOR = "struct<data: binary, shape: array<int>, dtype: string>"
TENSOR_TYPE = pa.struct([("data", pa.binary()), ("shape", pa.list_(pa.int32())), ("dtype", pa.string())])
LAYOUTS = ("samples", "shards", "tensors")
TENSOR_COLUMNS = "tensor_key string, file_name string, dtype string, shape array<bigint>, data binary"


def register(spark):
    """Registers the format with a session, and sends this file to its executors."""
    spark.sparkContext.addPyFile(__file__)
    spark.dataSource.register(CartonDataset)


class CartonDataset(DataSource):
    """A folder of shards with `dataset_manifest.json` and perhaps `_tensor_index.parquet`. Reading also accepts a folder of safetensors
    files without a manifest, or such files.

    Options: `path`; for writing those of `carton dataset write`, with underscores (`batch_size`, `name_col`, …), `generate_index`,
    and `carton`, where the command is if it is not in PATH; for reading `layout`, which is `samples` (a row for each sample),
    `shards` (a row for each shard, a column for each tensor) or `tensors` (a row for each tensor).
    """

    @classmethod
    def name(cls):
        return "carton"

    def schema(self):
        return Reader(self.options).columns()

    def reader(self, schema):
        return Reader(self.options)

    def writer(self, schema, overwrite):
        return Writer(dict(self.options), schema, overwrite)


# Writing


@dataclass
class Attempt(WriterCommitMessage):
    """The message of one attempt at a task to the driver. `attempt` is the id in the names of its shards."""

    task: int
    attempt: str


class Writer(DataSourceArrowWriter):
    def __init__(self, options, schema, overwrite):
        self.path = options.pop("path")
        self.schema = to_arrow_schema(schema)
        self.carton = options.pop("carton", "carton")
        overwrite = ["--overwrite"] if overwrite else []
        self.merge = [*overwrite]
        index = options.pop("generate_index", "false").lower()
        if index not in ("true", "false", "folder", "file"):
            raise ValueError(f"generate_index is true, false, folder or file, not {index}")
        if index != "false":
            self.merge.append(f"--generate-index={'folder' if index == 'true' else index}")
        # Names of options are case-insensitive in Spark.
        for alias, name in ALIASES.items():
            if alias in options:
                options.setdefault(name, options.pop(alias))
        # As in the connector, an empty `name_col` means none.
        if not options.get("name_col", "name"):
            del options["name_col"]
        unknown = set(options) - WRITE_OPTIONS
        if unknown:
            raise ValueError(f"unknown options {sorted(unknown)}; there are {sorted(WRITE_OPTIONS)}")
        # Distinguishes the attempts of this job from those of an earlier failed one.
        self.write_options = [*overwrite, f"--job={uuid.uuid4()}"]
        self.write_options += [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]

    def write(self, batches) -> WriterCommitMessage:
        """Runs on an executor, once for each attempt at a task."""
        batch = next(batches, None)
        # A task without rows makes an attempt too, because a missing task is an error.
        schema = self.schema if batch is None else batch.schema
        task = TaskContext.get().partitionId()
        command = [self.carton, "dataset", "write", "-", self.path, f"--task={task}", "--json", *self.write_options]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            try:
                stream = pa.ipc.new_stream(process.stdin, schema)
                while batch is not None:
                    stream.write_batch(batch)
                    batch = next(batches, None)
                # Closed only on success: the command treats a stream without its end marker as an error.
                stream.close()
            except BrokenPipeError:
                # The command has ended early, and reports the reason.
                pass
            except BaseException:
                process.kill()
                raise
            report = answer(process)
        return Attempt(report["task"], report["attempt"])

    def commit(self, messages):
        """Runs on the driver, when one attempt of every task has succeeded."""
        attempts = "\n".join(message.attempt for message in messages)
        command = [self.carton, "dataset", "merge", self.path, f"--tasks={len(messages)}", "--attempts=-", "--json", *self.merge]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(attempts.encode())
            answer(process)

    def abort(self, messages):
        """Runs on the driver when a task has finally failed. The written files stay in `_tasks` until the next write into this folder."""


def answer(process):
    """Returns the object that the command prints once its input has ended, or raises its error."""
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
    printed, code = process.stdout.read(), process.wait()
    try:
        result = json.loads(printed)
    except ValueError:
        raise RuntimeError(f"{process.args[0]} ended with {code} and printed {printed[:1000]!r}") from None
    if code != 0:
        error = result["error"]
        hint = f" (hint: {error['hint']})" if error["hint"] else ""
        raise RuntimeError(": ".join([error["message"], *error["causes"]]) + hint)
    return result


# Reading


@dataclass
class Part(InputPartition):
    """One shard with its entry in the manifest, and its folder. Without a manifest the number of samples may be unknown."""

    name: str
    samples: int | None
    size: int
    folder: str = ""


class Reader(DataSourceReader):
    def __init__(self, options):
        paths = [Path(path) for path in json.loads(options["paths"])] if "paths" in options else [Path(options["path"])]
        if len(paths) == 1 and (paths[0] / MANIFEST).is_file():
            default = self.open_manifest(paths[0])
        else:
            default = self.open_files(paths)
        self.layout = options.get("layout", "").lower() or default
        if self.layout not in LAYOUTS:
            raise ValueError(f"the layout is one of {', '.join(LAYOUTS)}, not {self.layout}")
        if self.layout == "samples":
            for part in self.parts:
                if part.samples is None:
                    raise ValueError(f"the first dimensions of the tensors in {part.folder}/{part.name} are no number of samples")

    def open_manifest(self, folder):
        """Reads the manifest. Returns the layout that fits."""
        manifest = json.loads((folder / MANIFEST).read_bytes())
        self.schema = manifest["schema"]
        self.parts = [Part(s["shard_path"], s["samples_count"], s["bytes"], str(folder)) for s in manifest["shards"]]
        return "samples" if "key_value" not in manifest and self.has_samples() else "tensors"

    def open_files(self, paths):
        """Reads the headers of files without a manifest. Returns the layout that fits: as in the connector a row for each file, or a row
        for each tensor if the files have different tensors."""
        files = []
        for path in paths:
            if not path.exists():
                raise ValueError(f"{path} is not there")
            files += sorted(path.glob("*.safetensors")) if path.is_dir() else [path]
        if not files:
            raise ValueError(f"{', '.join(map(str, paths))} is no dataset: there is no {MANIFEST}, and no file *.safetensors")
        self.parts, tensors, names = [], {}, set()
        for file in files:
            part = Part(file.name, None, file.stat().st_size, str(file.parent))
            with Shard(file.parent, part) as shard:
                lengths = {tuple(tensor["shape"][:1]) for tensor in shard.tensors.values()}
                if len(lengths) == 1 and lengths != {()}:
                    ((part.samples,),) = lengths
                names.add(frozenset(shard.tensors))
                for name, tensor in shard.tensors.items():
                    tensors.setdefault(name, tensor)
            self.parts.append(part)
        self.schema = {name: {"dtype": tensors[name]["dtype"], "shape": tensors[name]["shape"]} for name in sorted(tensors)}
        return "shards" if len(names) == 1 else "tensors"

    def has_samples(self):
        """Whether the first dimension of every tensor counts samples."""
        if not self.parts:
            return True
        with self.open(self.parts[0]) as shard:
            if isinstance(shard.metadata, dict) and "dataset.mode" in shard.metadata:
                return shard.metadata["dataset.mode"] == "batch"
            lengths = {tuple(tensor["shape"][:1]) for tensor in shard.tensors.values()}
            return set(shard.tensors) == set(self.schema) and lengths == {(self.parts[0].samples,)}

    def open(self, part):
        return Shard(Path(part.folder), part)

    def columns(self):
        """Returns the schema of a row, in Spark's syntax."""
        if self.layout == "tensors":
            return TENSOR_COLUMNS
        columns = []
        for name, tensor in self.schema.items():
            kind = TENSOR
            if self.layout == "samples":
                kind = DTYPES[tensor["dtype"]][1]
                for _ in tensor["shape"][1:]:
                    kind = f"array<{kind}>"
            columns.append(f"`{name.replace('`', '``')}` {kind}")
        return ", ".join(columns)

    def partitions(self):
        return self.parts

    def read(self, part):
        """Runs on an executor, once for each shard."""
        rows = {"samples": self.sample_rows, "shards": self.shard_row, "tensors": self.tensor_rows}[self.layout]
        with self.open(part) as shard:
            yield from rows(shard)

    def sample_rows(self, shard):
        schema = self.schema
        for name, tensor in schema.items():
            found = shard.tensors.get(name)
            expected = (tensor["dtype"], [shard.part.samples, *tensor["shape"][1:]])
            if found is None or (found["dtype"], found["shape"]) != expected:
                raise ValueError(f"{shard.path} has no tensor {name} of {expected}")
        arrays = {name: shard.array(name) for name in schema}
        sample_bytes = sum(array[:1].nbytes for array in arrays.values())
        rows = max(1, BATCH_BYTES // max(1, sample_bytes))
        for start in range(0, shard.part.samples, rows):
            columns = [column(array[start : start + rows], schema[name]["dtype"]) for name, array in arrays.items()]
            yield pa.RecordBatch.from_arrays(columns, names=list(arrays))

    def shard_row(self, shard):
        """Yields all tensors of a shard in one row. A tensor that the shard does not have is null."""

        def cell(name):
            tensor = shard.tensors.get(name)
            return tensor and {"data": shard.bytes(name), "shape": tensor["shape"], "dtype": tensor["dtype"]}

        columns = [pa.array([cell(name)], TENSOR_TYPE) for name in self.schema]
        yield pa.RecordBatch.from_arrays(columns, names=list(self.schema))

    def tensor_rows(self, shard):
        for name, tensor in shard.tensors.items():
            row = {
                "tensor_key": [name],
                "file_name": [shard.part.name],
                "dtype": [tensor["dtype"]],
                "shape": pa.array([tensor["shape"]], pa.list_(pa.int64())),
                "data": pa.array([shard.bytes(name)], pa.binary()),
            }
            yield pa.RecordBatch.from_pydict(row)


class Shard:
    """A mapped safetensors file: 8 bytes with the length of the header, the header as JSON, and the numbers.

    The header's statements are compared with the file before any numbers are read.
    """

    def __init__(self, folder, part):
        if Path(part.name).name != part.name:
            raise ValueError(f"{part.name!r} is no name of a shard")
        self.part = part
        self.path = folder / part.name
        size = self.path.stat().st_size
        if size != part.size:
            raise ValueError(f"{self.path} has {size} bytes, and {part.size} in the manifest")
        if size < 8:
            raise ValueError(f"{self.path} has {size} bytes, too few for a safetensors file")
        with open(self.path, "rb") as file:
            self.map = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
        (length,) = struct.unpack_from("<Q", self.map)
        if length > min(size - 8, MAX_HEADER):
            raise ValueError(f"{self.path} claims a header of {length} bytes, expected at most {min(size - 8, MAX_HEADER)}")
        self.data = 8 + length
        try:
            self.tensors = json.loads(self.map[8 : self.data], object_pairs_hook=unique)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"the header of {self.path} cannot be read: {error}") from None
        if not isinstance(self.tensors, dict):
            raise ValueError(f"the header of {self.path} is no JSON object")
        self.metadata = self.tensors.pop("__metadata__", None)
        for name, tensor in self.tensors.items():
            problem = wrong_with(tensor, size - self.data)
            if problem:
                raise ValueError(f"{self.path}: tensor {name!r} {problem}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        # The file is unmapped when the last array over it is gone.
        del self.map

    def range(self, name):
        begin, end = self.tensors[name]["data_offsets"]
        return self.data + begin, self.data + end

    def bytes(self, name):
        begin, end = self.range(name)
        return self.map[begin:end]

    def array(self, name):
        """Returns the numbers of a tensor without copying them."""
        tensor = self.tensors[name]
        begin, _ = self.range(name)
        dtype = np.dtype(DTYPES[tensor["dtype"]][0])
        return np.frombuffer(self.map, dtype, math.prod(tensor["shape"]), begin).reshape(tensor["shape"])


def unique(pairs):
    """Returns a JSON object, and refuses duplicate names."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name is there twice")
    return found


def wrong_with(tensor, size):
    """Returns the reason why a header's entry for a tensor cannot be true, if all tensors together have `size` bytes; None if it can."""

    def are_counts(numbers):
        return isinstance(numbers, list) and all(type(number) is int and number >= 0 for number in numbers)

    if not isinstance(tensor, dict):
        return "is described by no JSON object"
    dtype, shape, offsets = (tensor.get(field) for field in ("dtype", "shape", "data_offsets"))
    if not isinstance(dtype, str):
        return f"has the dtype {dtype!r}"
    if not are_counts(shape) or len(shape) > MAX_RANK:
        return f"has the shape {shape!r}"
    if not are_counts(offsets) or len(offsets) != 2:
        return f"has the offsets {offsets!r}"
    begin, end = offsets
    if not begin <= end <= size:
        return f"is at {begin} to {end} of {size} bytes"
    # For other element types only the bytes are read.
    if dtype in DTYPES:
        expected = math.prod(shape) * np.dtype(DTYPES[dtype][0]).itemsize
        if end - begin != expected:
            return f"has {end - begin} bytes, expected {expected} for {dtype} of shape {shape}"
    return None


def column(array, dtype):
    """Converts samples into an Arrow array for Spark: numbers, or nested lists of numbers."""
    numbers = np.ascontiguousarray(array).reshape(-1)
    if dtype == "BF16":
        numbers = (numbers.astype("<u4") << 16).view("<f4")
    kind = ARROW_TYPES[DTYPES[dtype][1]]
    result = pa.array(numbers).cast(kind) if dtype == "U64" else pa.array(numbers.astype(kind.to_pandas_dtype()), kind)
    for depth in range(array.ndim - 1, 0, -1):
        # A dimension of a million rows has a million and one offsets; one of length 0 has as many, all 0.
        n_lists, length = math.prod(array.shape[:depth]), array.shape[depth]
        result = pa.ListArray.from_arrays(pa.array(np.arange(n_lists + 1, dtype="i4") * length, pa.int32()), result)
    return result
