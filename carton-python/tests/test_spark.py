"""Predictions over DataFrames, with real Spark on this machine."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any, Iterator

import numpy as np
import pytest

import carton
from carton import TensorSpec

pyspark = pytest.importorskip("pyspark", reason="PySpark is not installed")
pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")

from pyspark import TaskContext  # noqa: E402
from pyspark.sql import SparkSession, functions  # noqa: E402

from carton import spark as carton_spark  # noqa: E402

N_ROWS = 1000


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    # Without the variable Spark starts the first python3 in PATH.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        # Several batches for each task.
        "spark.sql.execution.arrow.maxRecordsPerBatch": "100",
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    # Two tasks at once, each of which may fail twice.
    builder = SparkSession.builder.master("local[2, 3]").appName("carton-test")
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        spark = builder.getOrCreate()
    except Exception as error:  # noqa: BLE001, Spark needs Java
        pytest.skip(f"Spark does not start: {error}")
    spark.sparkContext.setLogLevel("OFF")
    yield spark
    spark.stop()


@pytest.fixture(scope="module")
def pictures_frame(session: SparkSession) -> Any:
    """Rows with an id, a picture of 64 doubles, and the same picture as floats of shape [1, 8, 8]."""
    frame = session.range(0, N_ROWS, 1, 4)
    flat = functions.transform(functions.sequence(functions.lit(0), functions.lit(63)), lambda i: (functions.col("id") * 7 + i) % 17 / 16)
    frame = frame.withColumn("flat", flat)
    nested = "transform(sequence(0, 0), c -> transform(sequence(0, 7), r -> transform(slice(flat, r * 8 + 1, 8), x -> cast(x as float))))"
    return frame.withColumn("nested", functions.expr(nested))


def expected(model: carton.Model) -> np.ndarray:
    """The probabilities of the pictures, by one call."""
    numbers = np.arange(N_ROWS)[:, None] * 7 + np.arange(64)
    images = (numbers % 17 / 16).astype(np.float32).reshape(-1, 1, 8, 8)
    return model(image=images)["probabilities"]


@pytest.mark.parametrize("column", ["flat", "nested"])
def test_every_row_gets_its_output(pictures_frame: Any, digits_path: Path, digits: carton.Model, column: str) -> None:
    predicted = carton_spark.predict(pictures_frame, digits_path, inputs={"image": column}, outputs={"probabilities": "p"}, batch_size=33)
    assert predicted.columns == ["id", "flat", "nested", "p"]
    assert predicted.schema["p"].dataType.simpleString() == "array<float>"
    rows = sorted(predicted.select("id", "p").collect())
    assert [row["id"] for row in rows] == list(range(N_ROWS))
    np.testing.assert_allclose(np.array([row["p"] for row in rows]), expected(digits), rtol=1e-5, atol=1e-7)


def test_kept_columns_are_unchanged(pictures_frame: Any, digits_path: Path) -> None:
    everything = """id, cast(id as string) as text, nullif(id, 3) as sometimes, timestamp_seconds(id) as time,
        date_add(date'2024-01-01', int(id)) as day, named_struct('a', id) as struct, cast(id as decimal(12, 2)) as money,
        map('k', id) as map, cast('x' as binary) as bytes, array(map(id, named_struct('b', nullif(id, 5)))) as deep, null as nothing,
        make_dt_interval(id) as duration, cast(timestamp_seconds(id) as timestamp_ntz) as local, flat as image"""
    pictures_frame.createOrReplaceTempView("pictures")
    # One task with several batches, whose rows are passed in one call.
    before = pictures_frame.sparkSession.sql(f"select {everything} from pictures where id < 250").coalesce(1)
    after = carton_spark.predict(before, str(digits_path))
    assert after.columns == [*before.columns, "probabilities"]
    rows = [row.asDict() for row in after.orderBy("id").collect()]
    assert [{name: row[name] for name in before.columns} for row in rows] == [row.asDict() for row in before.orderBy("id").collect()]


def test_columns_of_one_name(session: SparkSession, digits_path: Path, digits: carton.Model) -> None:
    """They are kept, unless one of them is an input."""
    text = "select id as a, id + 1 as a, id + 2 as `a'`, flat as A, id + 3 as a, flat as image from pictures where id < 300"
    twice = session.sql(text).coalesce(1)
    predicted = carton_spark.predict(twice, digits_path, outputs={"probabilities": "a''"}, batch_size=7)
    assert predicted.columns == ["a", "a", "a'", "A", "a", "image", "a''"]
    rows = sorted(tuple(row) for row in predicted.collect())
    assert [(first, second, third, fifth) for first, second, third, _, fifth, _, _ in rows] == [(n, n + 1, n + 2, n + 3) for n in range(300)]
    assert all(row[3] == row[5] for row in rows)
    np.testing.assert_allclose([row[6] for row in rows], expected(digits)[:300], rtol=1e-5, atol=1e-7)
    with pytest.raises(carton.InvalidInputError, match="has 3 columns `a`"):
        carton_spark.predict(twice, digits_path, inputs={"image": "a"})


def test_a_job_that_needs_few_rows_ends(pictures_frame: Any, digits_path: Path) -> None:
    """Tasks read more rows than the limit takes, and drop them."""
    predicted = carton_spark.predict(pictures_frame, digits_path, inputs={"image": "flat"}, batch_size=2)
    assert [row["id"] for row in predicted.limit(3).collect()] == [0, 1, 2]


def test_a_worker_loads_the_model_once(session: SparkSession, pictures_frame: Any, digits_path: Path) -> None:
    def models(batches: Iterator[Any]) -> Iterator[Any]:
        # In the workers that made the predictions.
        list(batches)
        from carton import spark

        own = [key for key in spark._models if key[0] == os.getpid() and json.loads(key[2]).get("timeout") == 77]
        yield pa.RecordBatch.from_arrays([pa.array([len(own)])], names=["models"])

    # Of six tasks in two jobs.
    for _ in range(2):
        predicted = carton_spark.predict(pictures_frame.coalesce(3), digits_path, inputs={"image": "flat"}, timeout=77)
        assert predicted.agg(functions.sum("id")).collect()[0][0] == N_ROWS * (N_ROWS - 1) // 2
    found = [row["models"] for row in session.range(0, 2, 1, 2).mapInArrow(models, "models long").collect()]
    # Spark may have started one more worker, which made no prediction.
    assert set(found) <= {0, 1} and 1 in found


def test_models_of_other_options_are_other_models() -> None:
    """A group of options that hides values when it is shown does not hide them from the key of a model."""

    def key(secret: str) -> str:
        sandbox = carton.Sandbox("off", env=[f"KEY={secret}"])
        return json.dumps({"sandbox": sandbox, "trusted_keys": [Path("a.pem")]}, default=carton_spark._plain)

    assert key("a") == key("a") != key("b")


@pytest.fixture(scope="module")
def echo_path(noop_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A carton that returns its inputs."""
    path = tmp_path_factory.mktemp("echo") / "echo.carton"
    signature = [
        TensorSpec("text", "string", ["n"]),
        TensorSpec("bytes", "uint8", ["n", 2]),
        TensorSpec("large", "uint64", ["n"]),
        TensorSpec("words", "string", ["n", "m"]),
        TensorSpec("flag", "bool", ["n"]),
    ]
    carton.pack(noop_folder, path, runner="noop", inputs=signature, outputs=signature, check=False)
    return path


def test_types(session: SparkSession, echo_path: Path) -> None:
    rows = "cast(id as string) as text, array(id, 255 - id) as bytes, id as large, array('ä', cast(id as string)) as words, id > 2 as flag"
    session.range(5).createOrReplaceTempView("ids")
    frame = session.sql(f"select id, {rows} from ids")
    names = ["text", "bytes", "large", "words", "flag"]
    predicted = carton_spark.predict(frame, echo_path, outputs={name: f"{name}_out" for name in names})
    types = [field.dataType.simpleString() for field in predicted.schema.fields[6:]]
    assert types == ["string", "array<smallint>", "decimal(20,0)", "array<string>", "boolean"]
    for row in predicted.collect():
        assert (row["text_out"], row["words_out"], int(row["large_out"])) == (row["text"], row["words"], row["large"])
        assert (row["bytes_out"], row["flag_out"]) == (row["bytes"], row["flag"])


def test_empty_partitions(session: SparkSession, pictures_frame: Any, digits_path: Path) -> None:
    empty = carton_spark.predict(pictures_frame.filter("id < 0"), digits_path, inputs={"image": "flat"})
    assert empty.count() == 0
    assert carton_spark.predict(pictures_frame.filter("id = 5").repartition(3), digits_path, inputs={"image": "flat"}).count() == 1


def test_errors_before_the_job(pictures_frame: Any, digits_path: Path) -> None:
    def check(error: type[Exception], message: str, frame: Any = pictures_frame, **arguments: Any) -> None:
        with pytest.raises(error, match=message):
            carton_spark.predict(frame, digits_path, **{"inputs": {"image": "flat"}, **arguments})

    check(carton.SignatureError, "no input `picture`; it has `image`", inputs={"picture": "flat"})
    check(carton.SignatureError, "input `image` has no column", inputs={})
    check(carton.InvalidInputError, "has no column `pixels`", inputs={"image": "pixels"})
    check(carton.SignatureError, "no output `p`", outputs={"p": "q"})
    check(carton.InvalidInputError, "has a column `flat` already", outputs={"probabilities": "flat"})
    check(carton.InvalidInputError, "has a column `Flat` already", outputs={"probabilities": "Flat"})
    check(carton.InvalidInputError, "at least 1, found 0", batch_size=0)
    check(carton.InvalidInputError, "pack it first", bare=True)
    text = pictures_frame.withColumn("flat", functions.lit("text"))
    check(carton.SignatureError, "`flat` is string, and input `image` takes rows of float32 of shape", text)
    check(carton.IntegrityError, "expected", expect="0" * 64)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("if(id = 7, null, flat)", "row 7 of column `flat`: is null"),
        ("if(id = 7, transform(flat, x -> if(x = 0.5, null, x)), flat)", "row 7 of column `flat`: is null"),
        ("if(id = 7, slice(flat, 1, 3), flat)", r"row 7 of column `flat` has shape \[3\], expected \[1, 8, 8\]"),
    ],
)
def test_rows_that_do_not_fit_fail_the_job(session: SparkSession, pictures_frame: Any, digits_path: Path, change: str, message: str) -> None:
    frame = pictures_frame.filter("id < 10").coalesce(1).withColumn("flat", functions.expr(change))
    predicted = carton_spark.predict(frame, digits_path, inputs={"image": "flat"})
    with pytest.raises(Exception, match=message):
        predicted.collect()


def children(pid: int) -> list[int]:
    return [int(child) for file in Path(f"/proc/{pid}/task").glob("*/children") for child in file.read_text().split()]


def runners_below(pid: int) -> set[int]:
    """The runners below a process of Java: the processes that Python workers have started."""
    found = set()
    for child in children(pid):
        try:
            is_worker = b"pyspark.daemon" in Path(f"/proc/{child}/cmdline").read_bytes()
            # One process forks the workers.
            found |= {runner for worker in children(child) for runner in children(worker)} if is_worker else runners_below(child)
        except OSError:
            continue
    return found


def test_a_crash_of_a_runner_repeats_its_task(session: SparkSession, noop_folder: Path, tmp_path: Path) -> None:
    spec = [TensorSpec("x", "int64", ["n"])]
    carton.pack(noop_folder, tmp_path / "slow.carton", runner="noop", inputs=spec, outputs=spec, check=False)

    def attempt(batches: Iterator[Any]) -> Iterator[Any]:
        task = TaskContext.get()
        assert task is not None
        (tmp_path / f"attempt-{task.partitionId()}-{task.attemptNumber()}").touch()
        yield from batches

    java = session.sparkContext._gateway.proc.pid  # type: ignore[union-attr]
    before = runners_below(java)
    killed: set[int] = set()

    def kill_once() -> None:
        """Kills the runners of the job in the middle of their first calls."""
        end = time.monotonic() + 60
        while not (new := runners_below(java) - before) and time.monotonic() < end:
            time.sleep(0.05)
        time.sleep(0.5)
        for runner in new:
            os.kill(runner, signal.SIGKILL)
            killed.add(runner)

    # Five calls for each of two tasks. By default the model would start another runner, and only the call that was running would fail.
    slow = {"options": {"delay_ms": 1000}, "restart": False}
    frame = session.range(0, N_ROWS, 1, 2).withColumnRenamed("id", "x")
    predicted = carton_spark.predict(frame.mapInArrow(attempt, frame.schema), tmp_path / "slow.carton", outputs={"x": "y"}, **slow)
    killer = threading.Thread(target=kill_once)
    killer.start()
    try:
        rows = predicted.collect()
    finally:
        killer.join()
    assert killed
    attempts = {path.name.rpartition("-")[2] for path in tmp_path.glob("attempt-*")}
    assert attempts > {"0"}, "no task was run again"
    assert sorted((row["x"], row["y"]) for row in rows) == [(number, number) for number in range(N_ROWS)]


def test_a_killed_executor_loses_no_row(run_script: Any, noop_folder: Path, tmp_path: Path) -> None:
    """On a cluster of two executors, one of which is killed in the middle of the job. Its workers and their runners end with it."""
    spec = [TensorSpec("x", "int64", ["n"])]
    carton.pack(noop_folder, tmp_path / "slow.carton", runner="noop", inputs=spec, outputs=spec, check=False)
    ended = run_script(_KILLED_EXECUTOR.format(carton=str(tmp_path / "slow.carton"), folder=str(tmp_path)), seconds=180)
    assert ended.code == 0, ended.stderr[-4000:]
    found = json.loads(ended.stdout.splitlines()[-1])
    assert sorted(map(tuple, found["rows"])) == [(number, number) for number in range(N_ROWS)]
    executors = (tmp_path / "executors").read_text().split()
    assert len(executors) >= 2 and found["killed"] in executors
    # A task that it had begun was run again, by another executor.
    assert found["again"], "no task was run twice"
    assert not Path("/proc", found["killed"]).exists()


#: A script for an interpreter of its own, because a process has one session of Spark.
_KILLED_EXECUTOR = """
import json, pathlib, shutil
import pyspark
from pyspark import TaskContext
from pyspark.sql import SparkSession
from carton import spark as carton_spark

CARTON, FOLDER = {carton!r}, pathlib.Path({folder!r})
N_ROWS, N_TASKS = 1000, 8

def executor():
    # Workers are forked by a process that the executor has started.
    daemon = os.getppid()
    return pathlib.Path(f"/proc/{{daemon}}/stat").read_text().rpartition(")")[2].split()[1]

def kill_once(batches):
    task = TaskContext.get()
    with open(FOLDER / "executors", "a") as file:
        file.write(executor() + "\\n")
    with open(FOLDER / "attempts", "a") as file:
        file.write(f"{{task.partitionId()}} {{executor()}}\\n")
    for number, batch in enumerate(batches):
        yield batch
        # Both executors have tasks, and this one has sent rows on.
        if number == 2 and task.partitionId() >= 2:
            try:
                file = open(FOLDER / "killed", "x")
            except FileExistsError:
                continue
            with file:
                file.write(executor())
            os.kill(int(executor()), signal.SIGKILL)
            time.sleep(60)

settings = {{
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.executor.memory": "512m",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20",
    "spark.executorEnv.PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
}}
os.environ["PYSPARK_PYTHON"] = sys.executable
builder = SparkSession.builder.master("local-cluster[2,1,1024]").appName("carton-test")
for name, value in settings.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("OFF")
frame = spark.range(0, N_ROWS, 1, N_TASKS).withColumnRenamed("id", "x")
predicted = carton_spark.predict(frame, CARTON, outputs={{"x": "y"}}, options={{"delay_ms": 20}})
rows = [list(row) for row in predicted.mapInArrow(kill_once, predicted.schema).collect()]
# Executors have their logs in the folder of Spark.
work = pathlib.Path(pyspark.__file__).parent / "work"
application = spark.sparkContext.applicationId
spark.stop()
shutil.rmtree(work / application)
attempts = [line.split() for line in (FOLDER / "attempts").read_text().splitlines()]
killed = (FOLDER / "killed").read_text()
begun = {{task for task, executor in attempts if executor == killed}}
again = sorted(begun & {{task for task, executor in attempts if executor != killed}})
print(json.dumps({{"rows": rows, "killed": killed, "again": again}}))
"""
