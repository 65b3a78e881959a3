"""The tests of the data source, with real Spark.

    CARTON=path/to/carton python -m unittest -v test_dataset.Local       in one process
    CARTON=path/to/carton python -m unittest -v test_dataset.Cluster     a master and two workers; takes minutes, and two cores at least
"""

import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import numpy as np
import pandas
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

import carton_dataset
from carton_dataset import CartonDataset, Part, Shard, Writer

HERE = Path(__file__).resolve().parent
# Without this variable Spark starts the first python3 in PATH.
os.environ["PYSPARK_PYTHON"] = sys.executable
CARTON = os.environ.get("CARTON") or shutil.which("carton")
N = 1000
N_PARTITIONS = 4
SAMPLES = f"""
    select id,
           cast(id * 0.25 as float) as quarter,
           transform(sequence(0, 5), i -> cast(id * 6 + i as float)) as picture
    from range(0, {N}, 1, {N_PARTITIONS})
"""
BATCHES = {"batch_size": "64", "shapes": '{"picture": [2, 3]}', "carton": CARTON}


def session(master, **settings):
    # Spark would reuse an existing session on another master.
    active = SparkSession.getActiveSession()
    if active:
        active.stop()
    builder = SparkSession.builder.master(master).appName("carton-dataset-test")
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        # Several Arrow batches per task.
        "spark.sql.execution.arrow.maxRecordsPerBatch": "50",
        "spark.executorEnv.PYTHONPATH": str(HERE),
        **settings,
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    carton_dataset.register(spark)
    return spark


def carton(*arguments):
    """Runs the command, and returns its JSON output."""
    answer = subprocess.run([CARTON, "dataset", *map(str, arguments), "--json"], stdout=subprocess.PIPE, check=False)
    return {"code": answer.returncode, **json.loads(answer.stdout)}


def wait_for_port(port):
    deadline = time.monotonic() + 120
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def tensors_of(file):
    """Returns bytes, shape and dtype of the tensors in a file, read by the format's definition and independently of the data source."""
    content = file.read_bytes()
    (length,) = struct.unpack_from("<Q", content)
    header = json.loads(content[8 : 8 + length])
    header.pop("__metadata__", None)
    data = content[8 + length :]
    return {
        name: (data[slice(*tensor["data_offsets"])], tensor["shape"], tensor["dtype"]) for name, tensor in sorted(header.items())
    }


class Base(unittest.TestCase):
    def setUp(self):
        if not CARTON:
            self.skipTest("there is no carton; CARTON may say where it is")
        self.folder = Path(tempfile.mkdtemp(prefix="carton-spark-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.out = self.folder / "dataset"

    def check_samples(self, spark, shards):
        """Checks that every sample is read once, with the written numbers, and that there is a partition per shard."""
        manifest = json.loads((self.out / "dataset_manifest.json").read_text())
        self.assertEqual((manifest["total_samples"], len(manifest["shards"])), (N, shards))
        self.assertEqual(manifest["schema"]["picture"]["dtype"], "F32")
        self.assertEqual(manifest["schema"]["picture"]["shape"][1:], [2, 3])
        found = spark.read.format("carton").load(str(self.out))
        self.assertEqual(found.rdd.getNumPartitions(), shards)
        self.assertEqual(dict(found.dtypes), {"id": "bigint", "quarter": "float", "picture": "array<array<float>>"})
        rows = sorted(found.select("id", "quarter", "picture").collect())
        self.assertEqual([row["id"] for row in rows], list(range(N)))
        self.assertEqual([row["quarter"] for row in rows], [number * 0.25 for number in range(N)])
        expected = np.arange(N * 6, dtype=np.float64).reshape(N, 2, 3).tolist()
        self.assertEqual([row["picture"] for row in rows], expected)
        verified = carton("verify", self.out)
        self.assertEqual((verified["code"], verified["passed"]), (0, True), verified)

    def names(self):
        """Returns the names in the dataset's folder, except its shards."""
        return sorted(path.name for path in self.out.iterdir() if not path.name.startswith("part-"))


class Local(Base):
    """Tests in one process. `Cluster` tests parallel writing."""

    @classmethod
    def setUpClass(cls):
        cls.spark = session("local[1]")

    @classmethod
    def tearDownClass(cls):
        cls.spark.stop()

    def write(self, query, mode="append", **options):
        self.spark.sql(query).write.format("carton").mode(mode).options(**{"carton": CARTON, **options}).save(str(self.out))

    def test_samples_come_back(self):
        self.write(SAMPLES, **BATCHES | {"generate_index": "true"})
        # 250 rows per task: three full batches and the rest.
        self.check_samples(self.spark, 16)
        self.assertEqual(self.names(), ["_tensor_index.parquet", "dataset_manifest.json"])

    def test_spark_reads_the_index_and_writes_one(self):
        self.write(SAMPLES, **BATCHES | {"generate_index": "true"})
        path = str(self.out / "_tensor_index.parquet")
        index = self.spark.read.parquet(path)
        self.assertEqual(dict(index.dtypes), {"tensor_key": "string", "file_name": "string", "shape": "array<int>", "dtype": "string"})
        rows = index.collect()
        names = sorted(file.name for file in self.out.glob("part-*"))
        self.assertEqual(sorted({row["file_name"] for row in rows}), names)
        self.assertEqual(len(rows), 3 * 16)
        pictures = {tuple(row["shape"]) for row in rows if row["tensor_key"] == "picture"}
        self.assertEqual(pictures, {(64, 2, 3), (250 - 3 * 64, 2, 3)})
        self.assertEqual(len(pandas.read_parquet(path)), 3 * 16)
        # As the connector writes it, with a file for each task.
        shutil.rmtree(path)
        self.spark.createDataFrame(rows, index.schema).repartition(3).write.parquet(path)
        self.assertGreater(len(list(Path(path).glob("part-*.parquet"))), 1)
        verified = carton("verify", self.out)
        self.assertEqual((verified["code"], verified["passed"]), (0, True), verified)
        # An index that is a file is for other readers: Spark ignores it.
        self.write(SAMPLES, mode="overwrite", **BATCHES | {"generate_index": "file"})
        self.assertTrue(Path(path).is_file())
        with self.assertRaisesRegex(Exception, "UNABLE_TO_INFER_SCHEMA"):
            self.spark.read.parquet(path)

    def test_options_as_the_connector_has_them(self):
        options = BATCHES | {"columns": " id, picture ,", "kv_separator": "/", "duplicatesStrategy": "lastWin", "name_col": ""}
        self.write(SAMPLES, **options, tail_strategy="DROP")
        found = self.spark.read.format("carton").load(str(self.out))
        self.assertEqual((sorted(found.columns), found.count()), (["id", "picture"], 4 * 3 * 64))
        shutil.rmtree(self.out)
        twice = "select 'a' as name, array(id) as x from range(0, 4, 1, 1)"
        self.write(twice, name_col="name", duplicatesStrategy="lastWin", kv_separator="", tail_strategy="pad")
        (row,) = self.spark.read.format("carton").load(str(self.out)).collect()
        self.assertEqual((row["tensor_key"], bytes(row["data"])), ("ax", struct.pack("<q", 3)))

    def test_shards_are_a_row_each(self):
        self.write(SAMPLES, **BATCHES)
        expected = {}
        for file in self.out.glob("part-*"):
            expected[file.name] = tensors_of(file)

        def check(found, names):
            self.assertEqual(found.rdd.getNumPartitions(), len(names))
            kind = "struct<data:binary,shape:array<int>,dtype:string>"
            self.assertEqual(found.dtypes, [("id", kind), ("picture", kind), ("quarter", kind)])
            rows = [{name: (bytes(cell["data"]), cell["shape"], cell["dtype"]) for name, cell in row.asDict().items()} for row in found.collect()]
            self.assertEqual(sorted(map(str, rows)), sorted(str(expected[name]) for name in names))

        def read(*paths, **options):
            return self.spark.read.format("carton").options(**options).load(*paths)

        check(read(str(self.out), layout="shards"), expected)
        # The layout `samples` with a manifest, and without one the connector's.
        self.check_samples(self.spark, 16)
        (self.out / "dataset_manifest.json").unlink()
        check(read(str(self.out)), expected)
        one, two, *_ = sorted(expected)
        check(read(str(self.out / one)), [one])
        check(read([str(self.out / one), str(self.out / two)]), [one, two])
        # Read with NumPy, which has the same numbers.
        pictures = [np.frombuffer(row["picture"]["data"], "<f4") for row in read(str(self.out / one)).collect()]
        self.assertEqual(pictures[0].tolist(), list(map(float, range(64 * 6))))
        samples = read(str(self.out), layout="samples")
        self.assertEqual(sorted(row["id"] for row in samples.select("id").collect()), list(range(N)))
        # The rows that were read can be written again.
        again = self.folder / "again"
        rows = read(str(self.out / one)).selectExpr("'first' as name", "*")
        rows.coalesce(1).write.format("carton").mode("append").options(name_col="name", carton=CARTON).save(str(again))
        (file,) = again.glob("part-*")
        self.assertEqual(tensors_of(file), {f"first__{name}": tensor for name, tensor in expected[one].items()})

    def test_files_without_a_manifest(self):
        with self.assertRaisesRegex(Exception, "is not there"):
            self.spark.read.format("carton").load(str(self.out)).collect()
        self.out.mkdir()
        with self.assertRaisesRegex(Exception, "no dataset_manifest.json, and no file"):
            self.spark.read.format("carton").load(str(self.out)).collect()
        # Tensors that are named after rows, as the connector leaves them.
        for number, name in enumerate(["a::emb", "b::emb"]):
            header = json.dumps({name: {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
            content = struct.pack("<Q", len(header)) + header + struct.pack("<2f", number, 0.5)
            (self.out / f"{number}.safetensors").write_bytes(content)
        found = self.spark.read.format("carton").load(str(self.out)).collect()
        tensors = {row["tensor_key"]: (row["file_name"], struct.unpack("<2f", row["data"])) for row in found}
        self.assertEqual(tensors, {"a::emb": ("0.safetensors", (0.0, 0.5)), "b::emb": ("1.safetensors", (1.0, 0.5))})
        wide = self.spark.read.format("carton").option("layout", "shards").load(str(self.out)).collect()
        self.assertEqual(sorted([row["a::emb"] is None, row["b::emb"] is None] for row in wide), [[False, True], [True, False]])

    def test_named_tensors_come_back(self):
        # The first of four tasks has no rows.
        query = "select cast(id as string) as name, array(id - 10, 10 - id) as pair from range(0, 40, 1, 4) where id >= 10"
        self.write(query, name_col="name", dtype="I64")
        found = self.spark.read.format("carton").load(str(self.out)).collect()
        numbers = {row["tensor_key"]: np.frombuffer(row["data"], "<i8").tolist() for row in found}
        pairs = {row["tensor_key"]: (row["dtype"], row["shape"], numbers[row["tensor_key"]]) for row in found}
        self.assertEqual(pairs, {f"{i + 10}__pair": ("I64", [2], [i, -i]) for i in range(30)})

    def test_what_cannot_be_written_is_told_and_leaves_no_dataset(self):
        ragged = "select id, if(id = 7, array(1.0f), array(1.0f, 2.0f)) as numbers from range(0, 10, 1, 2)"
        with self.assertRaisesRegex(Exception, "(?s)row 2 of column `numbers`"):
            self.write(ragged, batch_size="4")
        self.assertEqual([name for name in self.names() if name != "_tasks"], [])
        self.assertEqual(list(self.out.glob("part-*")), [])
        # Files that it left behind do not become part of the next dataset.
        self.write(SAMPLES, **BATCHES)
        self.check_samples(self.spark, 16)
        self.assertEqual(self.names(), ["dataset_manifest.json"])

    def test_a_dataset_is_replaced_on_request_only(self):
        self.write("select id from range(0, 10, 1, 1)", batch_size="5")
        with self.assertRaisesRegex(Exception, "has a dataset already"):
            self.write(SAMPLES, **BATCHES)
        self.write(SAMPLES, mode="overwrite", **BATCHES)
        self.check_samples(self.spark, 16)


    def test_a_header_that_is_wrong_is_told(self):
        self.out.mkdir()

        def open_shard(header, size=8):
            header = header if isinstance(header, bytes) else json.dumps(header).encode()
            content = struct.pack("<Q", len(header)) + header + bytes(size)
            (self.out / "part-0").write_bytes(content)
            return Shard(self.out, Part("part-0", 1, len(content)))

        def tensor(**changes):
            return {"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]} | changes}

        with open_shard(tensor()) as shard:
            self.assertEqual(shard.array("x").tolist(), [0.0, 0.0])
        for header, size, expected in [
            (tensor(data_offsets=[0, 16], shape=[4]), 8, "tensor 'x' is at 0 to 16 of 8 bytes"),
            (tensor(data_offsets=[8, 0]), 8, "tensor 'x' is at 8 to 0 of 8 bytes"),
            (tensor(data_offsets=[-8, 0]), 8, r"tensor 'x' has the offsets \[-8, 0\]"),
            (tensor(data_offsets=[8]), 8, r"tensor 'x' has the offsets \[8\]"),
            (tensor(shape=[3]), 8, r"tensor 'x' has 8 bytes, expected 12 for F32 of shape \[3\]"),
            (tensor(shape=[True, 2]), 8, r"tensor 'x' has the shape \[True, 2\]"),
            (tensor(shape=[1] * 65), 8, "tensor 'x' has the shape"),
            (tensor(dtype=None), 8, "tensor 'x' has the dtype None"),
            ({"x": []}, 8, "tensor 'x' is described by no JSON object"),
            ([], 8, "is no JSON object"),
            (b"{", 8, "cannot be read"),
            (b"\xff{}", 8, "cannot be read"),
            (b'{"x": 1, "x": 2}', 8, "a name is there twice"),
            (b"[" * 200_000, 0, "cannot be read"),
        ]:
            with self.assertRaisesRegex(ValueError, f"part-0:? .*{expected}|part-0 {expected}"):
                open_shard(header, size)
        for content, expected in [(b"", "too few"), (b"1234567", "too few"), (b"\xff" * 8, "expected at most 0")]:
            (self.out / "part-0").write_bytes(content)
            with self.assertRaisesRegex(ValueError, expected):
                Shard(self.out, Part("part-0", 1, len(content)))


class FaultyDataset(CartonDataset):
    """Writes with failures, each of which happens once."""

    @classmethod
    def name(cls):
        return "faulty"

    def writer(self, schema, overwrite):
        options = dict(self.options)
        marks = Path(options.pop("marks"))
        return FaultyWriter(options, schema, overwrite, marks)


class FaultyWriter(Writer):
    def __init__(self, options, schema, overwrite, marks):
        super().__init__(options, schema, overwrite)
        self.marks = marks

    def write(self, batches):
        task = TaskContext.get()
        (self.marks / f"task-{task.partitionId()}-{task.taskAttemptId()}").touch()
        return super().write(self.with_accidents(task.partitionId(), batches))

    def with_accidents(self, partition, batches):
        for number, batch in enumerate(batches):
            if number == 2 and partition == 1 and self.once("killed"):
                # The process above the one that forks Python workers is the executor.
                daemon = os.getppid()
                executor = int(Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1])
                os.kill(executor, signal.SIGKILL)
            if number == 2 and partition == 2 and self.once("slow"):
                time.sleep(600)
            yield batch

    def once(self, name):
        try:
            (self.marks / name).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


class Cluster(Base):
    """A master, and two workers that look like two machines, because Spark starts the duplicate of a task on another machine."""

    def start(self, *arguments):
        spark = Path(sys.modules["pyspark"].__file__).parent
        log = open(self.folder / f"{arguments[0].rpartition('.')[2]}-{time.monotonic_ns()}.log", "wb")
        self.addCleanup(log.close)
        environment = {**os.environ, "SPARK_HOME": str(spark)}
        command = [spark / "bin" / "spark-class", *arguments]
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
        # The script replaces itself by Java; the executors are its children, and end with it.
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)

    def cluster(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        master = ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
        self.start(*master)
        # A worker that does not reach the master tries again only after 20 seconds.
        wait_for_port(port)
        for host in ("127.0.0.2", "127.0.0.3"):
            worker = ["org.apache.spark.deploy.worker.Worker", "--host", host, "--cores", "2", "--memory", "1g"]
            work = ["--work-dir", str(self.folder / host), "--webui-port", "0"]
            self.start(*worker, *work, f"spark://127.0.0.1:{port}")
        return f"spark://127.0.0.1:{port}"

    def test_a_killed_executor_and_duplicates(self):
        marks = self.folder / "marks"
        marks.mkdir()
        spark = session(
            self.cluster(),
            **{
                "spark.executor.memory": "512m",
                "spark.executor.cores": "2",
                "spark.speculation": "true",
                "spark.speculation.interval": "200ms",
                "spark.speculation.multiplier": "1.5",
                "spark.speculation.quantile": "0.5",
            },
        )
        self.addCleanup(spark.stop)
        spark.dataSource.register(FaultyDataset)

        # An abandoned job had finished task 3, with other rows.
        table = pa.table({"id": pa.array([7] * 9), "quarter": pa.array([0.0] * 9, pa.float32()),
                          "picture": pa.array([[0.0] * 6] * 9, pa.list_(pa.float32()))})
        with pa.OSFile(str(self.folder / "old.arrows"), "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
            stream.write_table(table)
        options = ["--task=3", "--batch-size=64", f"--shapes={BATCHES['shapes']}"]
        old = carton("write", self.folder / "old.arrows", self.out, *options)
        self.assertEqual((old["code"], old["task"]), (0, 3))

        begun = time.monotonic()
        options = BATCHES | {"marks": str(marks), "generate_index": "true"}
        spark.sql(SAMPLES).write.format("faulty").mode("append").options(**options).save(str(self.out))
        self.assertLess(time.monotonic() - begun, 500, "it waited for the slow attempt")

        # Both failures happened, and their tasks were attempted again.
        self.assertTrue((marks / "killed").exists() and (marks / "slow").exists())
        attempts = [sum(1 for _ in marks.glob(f"task-{task}-*")) for task in range(N_PARTITIONS)]
        self.assertGreaterEqual(min(attempts[1:3]), 2, attempts)
        self.check_samples(spark, 16)
        spark.stop()
        # Nothing of the losing attempts is left, even after the last of them has ended.
        self.assertEqual(self.names(), ["_tensor_index.parquet", "dataset_manifest.json"])
        parts = {tuple(path.name.split("-", 3)[1:2] + path.name.split("-", 3)[3:]) for path in self.out.glob("part-*")}
        self.assertEqual(len(parts), N_PARTITIONS, "one attempt of each task")
        self.assertNotIn(("00003", f"{old['attempt']}.safetensors"), parts)


if __name__ == "__main__":
    unittest.main(verbosity=2)
