"""Cartons as models of MLflow, and models of MLflow in the Python model that runs them, with real MLflow and its servers on this machine."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import ModuleType
from typing import Any, Callable, Iterator

import numpy as np
import pytest

import carton
from carton import SelfTest, TensorSpec

os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"

mlflow = pytest.importorskip("mlflow.pyfunc", reason="MLflow is not installed") and sys.modules["mlflow"]
pd = pytest.importorskip("pandas", reason="pandas is not installed")

from mlflow.models import ModelSignature, infer_signature  # noqa: E402
from mlflow.types.schema import ColSpec, Schema  # noqa: E402

Pictures = tuple[np.ndarray, np.ndarray]

TEMPLATE = Path(__file__).resolve().parents[2] / "carton-templates/templates/mlflow/main.py"

#: What MLflow says to everyone who saves a model without a type for each argument.
pytestmark = [pytest.mark.filterwarnings("ignore:.*type hints:UserWarning"), pytest.mark.filterwarnings("ignore::FutureWarning")]


def test_the_module_does_not_import_mlflow(run_script: Any) -> None:
    ended = run_script("import carton.mlflow\nprint(sorted({'mlflow', 'pandas'} & set(sys.modules)))")
    assert (ended.stdout, ended.code) == ("[]\n", 0), ended.stderr


def close(found: Any, expected: np.ndarray) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory, digits_path: Path) -> Path:
    """The digits as a model of MLflow."""
    path = tmp_path_factory.mktemp("saved") / "digits"
    carton.mlflow.save_model(digits_path, path, metadata={"team": "letters"})
    return path


@pytest.fixture
def save(noop_folder: Path, tmp_path: Path) -> Callable[..., Any]:
    """Saves a carton that returns its inputs, by default with inputs and outputs of these specs, and loads it by MLflow."""

    def saved(*specs: TensorSpec, outputs: list[TensorSpec] | None = None, tests: list[SelfTest] = [], **options: Any) -> Any:
        path, folder = tmp_path / f"{len(list(tmp_path.iterdir()))}.carton", tmp_path / f"saved-{len(list(tmp_path.iterdir()))}"
        carton.pack(noop_folder, path, runner="noop", inputs=specs, outputs=outputs or list(specs), tests=tests, check=False)
        carton.mlflow.save_model(path, folder, **options)
        return mlflow.pyfunc.load_model(str(folder))

    return saved


# A carton as a model


def test_what_is_saved(saved: Path, digits_path: Path, digits_folder: Path) -> None:
    assert (saved / "data" / digits_path.name).read_bytes() == digits_path.read_bytes()
    model = mlflow.models.Model.load(str(saved))
    sha256 = carton.open(digits_path).manifest_sha256
    assert model.flavors["carton"]["sha256"] == model.metadata["carton"]["sha256"] == sha256
    assert model.metadata["team"] == "letters"
    assert {name: model.metadata["carton"][name] for name in ("model_name", "license", "runner")} == {
        "model_name": "digits",
        "license": "Apache-2.0",
        "runner": "onnx",
    }
    assert f"carton-runtime=={carton.__version__}" in (saved / "requirements.txt").read_text().splitlines()
    (image,), (probabilities,) = model.get_input_schema(), model.get_output_schema()
    assert (image.name, image.type, image.shape) == ("image", np.dtype("float32"), (-1, 1, 8, 8))
    assert (probabilities.name, probabilities.type, probabilities.shape) == ("probabilities", np.dtype("float32"), (-1, 10))
    # The first self-test.
    np.testing.assert_array_equal(model.load_input_example(str(saved))["image"], np.load(digits_folder / "image.npy"))


def test_predictions(saved: Path, pictures: Pictures) -> None:
    images, probabilities = pictures
    model = mlflow.pyfunc.load_model(str(saved))
    flat = images.reshape(len(images), -1)
    for given in (
        {"image": images},
        images,
        pd.DataFrame({"image": list(flat)}),
        pd.DataFrame({"image": flat.tolist(), "id": range(len(flat))}),
    ):
        close(model.predict(given), probabilities)
    assert model.predict(model.input_example).shape == (1, 10)
    for wrong, message in (
        (images.astype(np.float64), "dtype of input float64 does not match expected dtype float32"),
        (images[:, 0], r"Shape of input \(16, 8, 8\) does not match"),
        ({"picture": images}, "missing inputs"),
    ):
        with pytest.raises(mlflow.MlflowException, match=message):
            model.predict(wrong)


def test_the_carton_that_was_saved_is_loaded(saved: Path, digits_path: Path, noop_folder: Path, tmp_path: Path) -> None:
    """Not another one in its place, and not a damaged one."""
    other = shutil.copytree(saved, tmp_path / "other")
    spec = [TensorSpec("image", "float32", ["batch", 1, 8, 8])]
    (other / "data" / digits_path.name).unlink()
    carton.pack(noop_folder, other / "data" / digits_path.name, runner="noop", inputs=spec, outputs=spec, check=False)
    with pytest.raises(carton.IntegrityError, match="expected"):
        mlflow.pyfunc.load_model(str(other))
    for wrong, message in (("", "expected"), (f"data/{digits_path.name}", "does not name a carton in its folder")):
        if wrong:
            text = (other / "MLmodel").read_text()
            (other / "MLmodel").write_text(text.replace(f"data: {wrong}", f"data: ../saved/{wrong}", 1))
        with pytest.raises(carton.IntegrityError, match=message):
            carton.mlflow.pack(str(other), tmp_path / "packed.carton")
        with pytest.raises(carton.IntegrityError, match=message):
            carton.mlflow.load_model(str(other))
    assert not (tmp_path / "packed.carton").exists()


def test_places(digits_path: Path, saved: Path, tmp_path: Path, pictures: Pictures) -> None:
    """A carton with its hash, and one at a URL."""
    sha256 = carton.open(digits_path).manifest_sha256
    carton.mlflow.save_model(f"{digits_path}#sha256={sha256}", tmp_path / "hash")
    with pytest.raises(carton.IntegrityError):
        carton.mlflow.save_model(f"{digits_path}#sha256={'0' * 64}", tmp_path / "other")
    assert not (tmp_path / "other").exists()
    with serving(sys.executable, "-m", "http.server", "{port}", "--bind", "127.0.0.1", ready="/", cwd=digits_path.parent) as url:
        carton.mlflow.save_model(f"{url}/{digits_path.name}", tmp_path / "url")
    for name in ("hash", "url"):
        close(mlflow.pyfunc.load_model(str(tmp_path / name)).predict(pictures[0]), pictures[1])


# Signatures


def test_columns(save: Callable[..., Any]) -> None:
    specs = [TensorSpec("text", "string", ["n"]), TensorSpec("x", "float64", ["n"]), TensorSpec("small", "uint8", ["n"], optional=True)]
    test = SelfTest({"text": ["a", "b"], "x": [1.0, 2.0]})
    model = save(*specs, tests=[test])
    found = [(column.name, column.type.name, column.required) for column in model.metadata.get_input_schema()]
    assert found == [("text", "string", True), ("x", "double", True), ("small", "integer", False)]
    assert [(column.name, column.type.name) for column in model.metadata.get_output_schema()] == [
        ("text", "string"),
        ("x", "double"),
        ("small", "integer"),
    ]
    pd.testing.assert_frame_equal(model.input_example, pd.DataFrame({"text": ["a", "b"], "x": [1.0, 2.0]}), check_dtype=False)
    frame = pd.DataFrame({"x": [1.5, 2.5], "text": ["a", "ä"], "more": [0, 0]}, index=[7, 3])
    answer = model.predict(frame)
    assert isinstance(answer, pd.DataFrame) and answer.index.tolist() == [7, 3]
    assert answer["text"].tolist() == ["a", "ä"] and answer["x"].tolist() == [1.5, 2.5] and "small" not in answer
    assert model.predict({"x": np.array([1.5]), "text": np.array(["a"]), "small": np.array([255], np.int32)})["small"].tolist() == [255]
    with pytest.raises(carton.InvalidInputError, match="256"):
        model.predict(pd.DataFrame({"x": [1.5], "text": ["a"], "small": np.array([256], np.int32)}))
    with pytest.raises(carton.InvalidInputError, match="column `text`: row 1 is missing"):
        model.predict(pd.DataFrame({"x": [1.5, 2.5], "text": ["a", None]}))
    with pytest.raises(mlflow.MlflowException, match="missing inputs"):
        model.predict(pd.DataFrame({"x": [1.5]}))


def test_outputs(save: Callable[..., Any]) -> None:
    """Several outputs are a dict, or a DataFrame where the model got one and each output has its rows."""
    x, words = np.arange(6.0).reshape(2, 3), np.array(["a", "b"])
    specs = [TensorSpec("x", "float64", ["n", 3]), TensorSpec("words", "string", ["n"])]
    model = save(*specs)
    answer = model.predict({"x": x, "words": words})
    assert isinstance(answer, dict) and np.array_equal(answer["x"], x) and answer["words"].tolist() == ["a", "b"]
    frame = pd.DataFrame({"x": x.tolist(), "words": words})
    # MLflow makes a dict of the frame.
    assert isinstance(model.predict(frame), dict)
    free = save(*specs, signature=False)
    answer = free.predict(frame)
    assert isinstance(answer, pd.DataFrame) and np.array_equal(np.stack(answer["x"].tolist()), x) and answer["words"].tolist() == ["a", "b"]
    scalar = save(*specs, TensorSpec("one", "int64", []), signature=False)
    assert isinstance(scalar.predict({"x": x, "words": words, "one": 1}), dict)
    alone = save(*specs, output="words")
    assert [output.name for output in alone.metadata.get_output_schema()] == ["words"]
    assert alone.predict({"x": x, "words": words}).tolist() == ["a", "b"]
    with pytest.raises(carton.InvalidInputError, match="no output `y`; it has `x`, `words`"):
        save(*specs, output="y")


def test_optional_inputs(save: Callable[..., Any]) -> None:
    x = np.ones((2, 3), np.float32)
    specs = [TensorSpec("x", "float32", ["n", 3]), TensorSpec("scale", "float64", [], optional=True)]
    model = save(*specs)
    assert [(param.name, param.dtype.name, param.default) for param in model.metadata.get_params_schema()] == [("scale", "double", None)]
    # A model with one output that it may not return.
    assert list(model.predict(x)) == ["x"]
    assert model.predict(x, params={"scale": 2.5})["scale"] == 2.5
    with pytest.warns(UserWarning, match="leave out the optional input `mask`"):
        model = save(*specs, TensorSpec("mask", "bool", ["n", 3], optional=True))
    assert [spec.name for spec in model.metadata.get_input_schema()] == ["x"]


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (TensorSpec("x", "bytes", ["n", 2]), "no tensors of bytes"),
        (TensorSpec("x", "bfloat16", ["n"]), "no tensors of bfloat16"),
        (TensorSpec("x", "float32", "*"), "number of dimensions is not declared"),
        (TensorSpec("x", "float32", "s"), "number of dimensions is not declared"),
    ],
)
def test_what_mlflow_cannot_declare(save: Callable[..., Any], spec: TensorSpec, reason: str) -> None:
    known = TensorSpec("y", "int64", [2, "*"])
    with pytest.warns(UserWarning, match=f"without a signature of inputs, because MLflow cannot declare `x`: .*{reason}"):
        model = save(spec, known, outputs=[known])
    assert model.metadata.get_input_schema() is None
    assert [(output.name, output.shape) for output in model.metadata.get_output_schema()] == [("y", (2, -1))]
    with pytest.warns(UserWarning, match="without a signature of outputs"):
        model = save(known, outputs=[known, spec])
    assert model.metadata.get_output_schema() is None and len(model.metadata.get_input_schema()) == 1


def test_nothing_to_declare(save: Callable[..., Any]) -> None:
    with pytest.warns(UserWarning):
        model = save(TensorSpec("x", "bytes", ["n", 2]))
    assert model.metadata.signature is None
    assert model.predict({"x": [[b"a\0", b"b"]]}).tolist() == [[b"a\0", b"b"]]
    assert model.predict({"x": [["a", "ä"]]}).tolist() == [[b"a", "ä".encode()]]


def test_texts_and_dtypes(save: Callable[..., Any]) -> None:
    for dtype in ("bool", "int8", "uint64", "float16", "complex64"):
        x = np.ones((2, 2), dtype)
        found = save(TensorSpec("x", dtype, ["n", 2])).predict({"x": x})
        assert found.dtype == dtype and np.array_equal(found, x)
    model = save(TensorSpec("x", "string", ["n"]), tests=[SelfTest({"x": ["ab", "ä"]})])
    assert model.predict(np.array(["ab", "ä"])).tolist() == model.predict(model.input_example).tolist() == ["ab", "ä"]
    assert model.predict(pd.DataFrame({"x": ["ab", "ä"]})).tolist() == ["ab", "ä"]
    assert save(TensorSpec("x", "string", [])).predict({"x": np.array("ä")})[()] == "ä"


def test_without_a_signature(save: Callable[..., Any]) -> None:
    """The model converts what it gets, and changes no value but by rounding to shorter floats."""
    model = save(TensorSpec("x", "float32", ["n", 3]), signature=False)
    expected = np.arange(6, dtype=np.float32).reshape(2, 3)
    frame = pd.DataFrame(expected.astype(np.float64), columns=["a", "b", "c"])
    mixed = frame.assign(a=frame["a"].astype(int), b=frame["b"].astype("Float64"))
    for given in (expected.tolist(), frame, mixed, {"x": expected.tolist()}, frame.rename(columns={"a": "x"}).iloc[:, 1:].assign(x=expected.tolist())):
        found = model.predict(given)
        assert found.dtype == np.float32 and np.array_equal(found, expected)
    scipy = pytest.importorskip("scipy.sparse", reason="SciPy is not installed")
    assert np.array_equal(model.predict(scipy.csr_matrix(expected)), expected)
    whole = save(TensorSpec("x", "int32", ["n", 2]), signature=False)
    assert whole.predict(pd.DataFrame({"a": [1.0], "b": [2]})).tolist() == [[1, 2]]
    for wrong, message in (
        (pd.DataFrame({"a": [1.5], "b": [2]}), "1.5"),
        (pd.DataFrame({"a": [1], "b": pd.array([None], "Int64")}), "NaN is not an integer"),
        (pd.DataFrame({"a": [1], "b": pd.Series([None], dtype=object)}), "column `b`: row 0 is missing"),
        (pd.DataFrame({"x": [[1, 2], [3]]}), "column `x`: its rows have several shapes"),
        (pd.DataFrame([[1, 2]], columns=["x", "x"]), "2 columns `x`"),
        ({"y": [[1, 2]]}, "`y`"),
    ):
        with pytest.raises(carton.InvalidInputError, match=message):
            whole.predict(wrong)
    two = save(TensorSpec("x", "int32", ["n", 2]), TensorSpec("y", "int32", ["n", 2]), signature=False)
    with pytest.raises(carton.InvalidInputError, match="one input, and this one has `x`, `y`"):
        two.predict([[1, 2]])
    with pytest.raises(carton.InvalidInputError, match="no column `y`; its columns are x, z"):
        two.predict(pd.DataFrame({"x": [[1, 2]], "z": [0]}))


def test_a_signature_of_the_users(save: Callable[..., Any]) -> None:
    names = ["a", "b"]
    signature = ModelSignature(inputs=Schema([ColSpec("double", name) for name in names]))
    model = save(TensorSpec("x", "float64", ["n", 2]), signature=signature, input_example=pd.DataFrame({"a": [1.0], "b": [2.0]}))
    assert model.predict(pd.DataFrame({"b": [2.0], "a": [1.0]})).tolist() == [[1.0, 2.0]]
    assert model.predict(model.input_example).tolist() == [[1.0, 2.0]]


def test_a_large_self_test_is_no_example(save: Callable[..., Any]) -> None:
    spec = TensorSpec("x", "float64", ["n"])
    tests = [SelfTest({"x": np.zeros(20_000)}), SelfTest({"x": np.ones(3)})]
    assert save(spec, tests=tests).input_example["x"].tolist() == [1, 1, 1]
    assert save(spec, tests=tests[:1]).input_example is None
    assert save(spec, tests=tests, input_example=False).input_example is None


def test_model_config(save: Callable[..., Any], noop_folder: Path, tmp_path: Path) -> None:
    spec = TensorSpec("x", "float64", ["n"])
    save(spec, model_config={"options": {"delay_ms": 5000}, "sandbox": {"mode": "on", "limits": {"memory": 1 << 30}}})
    path = next(tmp_path.glob("saved-*"))
    slow = mlflow.pyfunc.load_model(str(path), model_config={"timeout": 0.5})
    with pytest.raises(carton.TimedOutError):
        slow.predict(np.zeros(2))
    quick = mlflow.pyfunc.load_model(str(path), model_config={"options": {}})
    assert quick.predict(np.zeros(2)).tolist() == [0, 0]
    for config in (
        {"sandbox": "off"},
        {"sandbox": {"mode": "off"}},
        {"sandbox": {"allow": ["network"]}},
        {"trusted_keys": ["key.pem"]},
        {"require_signed": False},
    ):
        with pytest.raises(carton.InvalidInputError, match="which is up to those who load it\nhint: pass it to mlflow.pyfunc.load_model"):
            save(spec, model_config=config)
    with pytest.raises(carton.InvalidInputError, match="`model_config` has no `devise`, it has `output`, `expect`, `device`"):
        save(spec, model_config={"devise": "cpu"})


# The tracking server, and those that serve models


@contextlib.contextmanager
def serving(*command: str, ready: str, **options: Any) -> Iterator[str]:
    """Runs a server on a free port, which `{port}` stands for, and waits until it answers there. Yields its URL."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    arguments = [argument.replace("{port}", str(port)) for argument in command]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True, text=True, **options)
    try:
        end = time.monotonic() + 120
        while True:
            try:
                urllib.request.urlopen(url + ready, timeout=5).close()
                break
            except OSError as error:
                if process.poll() is not None or time.monotonic() > end:
                    os.killpg(process.pid, signal.SIGKILL) if process.poll() is None else None
                    pytest.fail(f"{command[2]} does not start: {error}\n{process.communicate()[0]}")
                time.sleep(0.2)
        yield url
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


@pytest.fixture(scope="module")
def tracking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A tracking server with SQLite, which keeps the artifacts."""
    folder = tmp_path_factory.mktemp("tracking")
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", "{port}", "--workers", "1"]
    stores = ["--backend-store-uri", f"sqlite:///{folder}/mlflow.db", "--artifacts-destination", str(folder / "artifacts")]
    # Nothing here is a job, and their processes are slow to start.
    environment = dict(os.environ, MLFLOW_SERVER_ENABLE_JOB_EXECUTION="false")
    with serving(*command, *stores, ready="/health", cwd=folder, env=environment) as url:
        before = mlflow.get_tracking_uri()
        mlflow.set_tracking_uri(url)
        # For its command.
        os.environ["MLFLOW_TRACKING_URI"] = url
        yield url
        del os.environ["MLFLOW_TRACKING_URI"]
        mlflow.set_tracking_uri(before)


def test_a_model_that_is_logged(
    tracking: str, digits_path: Path, tmp_path: Path, pictures: Pictures, monkeypatch: pytest.MonkeyPatch
) -> None:
    images, probabilities = pictures
    with mlflow.start_run() as run:
        logged = carton.mlflow.log_model(digits_path, name="digits", registered_model_name="digits", metadata={"team": "letters"})
        mlflow.log_text("nothing", "notes/a.txt")
    assert logged.metadata["team"] == "letters"
    assert logged.metadata["carton"]["sha256"] == carton.open(digits_path).manifest_sha256
    for uri in (logged.model_uri, f"runs:/{run.info.run_id}/digits", "models:/digits/1"):
        close(mlflow.pyfunc.load_model(uri).predict({"image": images}), probabilities)
    with carton.mlflow.load_model("models:/digits/1", timeout=60) as model:
        assert model.package.manifest_sha256 == carton.open(digits_path).manifest_sha256
        close(model(image=images)["probabilities"], probabilities)
    packed = carton.mlflow.pack("models:/digits/1", tmp_path / "again.carton")
    assert (tmp_path / "again.carton").read_bytes() == digits_path.read_bytes()
    assert packed.manifest_sha256 == carton.open(digits_path).manifest_sha256
    with pytest.raises(carton.InvalidInputError, match="a carton already, which is written without `runner`"):
        carton.mlflow.pack("models:/digits/1", tmp_path / "again.carton", runner="onnx")
    with pytest.raises(mlflow.MlflowException, match="not found"):
        carton.mlflow.pack("models:/digits/7", tmp_path / "never.carton")
    # The command `mlflow` is beside the interpreter.
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    with pytest.raises(carton.InvalidInputError, match="it holds a carton already"):
        carton.pack("models:/digits/1", tmp_path / "never.carton")
    with pytest.raises(carton.InvalidInputError, match="cannot fetch `models:/digits/7` from MLflow.*not found"):
        carton.pack("models:/digits/7", tmp_path / "never.carton")
    with pytest.raises(carton.InvalidInputError, match="no file `MLmodel`"):
        carton.pack(f"runs:/{run.info.run_id}/notes", tmp_path / "never.carton")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(carton.InvalidInputError, match="cannot start the command `mlflow`.*\nhint: MLflow fetches it"):
        carton.pack("models:/digits/1", tmp_path / "never.carton")


def test_what_is_no_model(tracking: str, tmp_path: Path) -> None:
    with mlflow.start_run() as run:
        mlflow.log_text("nothing", "notes/a.txt")
    with pytest.raises(carton.InvalidInputError, match="no file `MLmodel`.*\nhint: name the model in the run"):
        carton.mlflow.pack(f"runs:/{run.info.run_id}/notes", tmp_path / "never.carton")
    sklearn = pytest.importorskip("sklearn.dummy", reason="scikit-learn is not installed")
    model = sklearn.DummyClassifier().fit([[0]], [0])
    with mlflow.start_run():
        logged = mlflow.sklearn.log_model(model, name="dummy", serialization_format="cloudpickle", pip_requirements=["scikit-learn"])
    with pytest.raises(carton.InvalidInputError, match="is not a carton; its flavors are python_function, sklearn"):
        carton.mlflow.load_model(logged.model_uri)


def test_serving(saved: Path, pictures: Pictures, tmp_path: Path) -> None:
    """By the command of MLflow, whose processes import the module by its name."""
    images, probabilities = pictures
    command = [sys.executable, "-m", "mlflow", "models", "serve", "--model-uri", str(saved), "--env-manager", "local"]
    # The command looks for the programs of its environment.
    environment = dict(os.environ, PATH=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    with serving(*command, "--host", "127.0.0.1", "--port", "{port}", ready="/ping", cwd=tmp_path, env=environment) as url:

        def predict(body: dict[str, Any]) -> Any:
            data = json.dumps(body).encode()
            request = urllib.request.Request(f"{url}/invocations", data, {"Content-Type": "application/json"})
            return json.load(urllib.request.urlopen(request, timeout=60))["predictions"]

        close(predict({"inputs": {"image": images.tolist()}}), probabilities)
        close(predict({"inputs": images.tolist()}), probabilities)
        close(predict({"instances": [{"image": image.tolist()} for image in images]}), probabilities)
        flat = images.reshape(len(images), -1).tolist()
        close(predict({"dataframe_split": {"columns": ["image"], "data": [[row] for row in flat]}}), probabilities)
        with pytest.raises(urllib.error.HTTPError) as refused:
            predict({"inputs": {"image": [[1]]}})
        assert refused.value.code == 400 and b"does not match expected shape" in refused.value.read()


def test_spark(saved: Path, pictures: Pictures) -> None:
    pyspark = pytest.importorskip("pyspark.sql", reason="PySpark is not installed beside MLflow: .ci/slow does that")
    images, probabilities = pictures
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = pyspark.SparkSession.builder.master("local[2]").config("spark.driver.host", "127.0.0.1").config("spark.ui.enabled", "false")
    session = builder.config("spark.executorEnv.PYTHONPATH", os.pathsep.join(path for path in sys.path if path)).getOrCreate()
    try:
        session.sparkContext.setLogLevel("OFF")
        rows = [(number, image.ravel().tolist()) for number, image in enumerate(images)]
        frame = session.createDataFrame(rows, "id int, image array<float>")
        predict = mlflow.pyfunc.spark_udf(session, str(saved), env_manager="local", result_type="array<float>")
        for call in (predict("image"), predict()):
            found = frame.withColumn("p", call).orderBy("id").collect()
            close([row["p"] for row in found], probabilities)
    finally:
        session.stop()


# A model of MLflow in the Python model that runs it


class Shout(mlflow.pyfunc.PythonModel):
    """Columns, with a parameter; several outputs, one of them a text."""

    def predict(self, context, model_input, params=None):  # type: ignore[no-untyped-def]  # MLflow reads types
        scaled = model_input["x"] * (params or {}).get("scale", 2.0)
        return pd.DataFrame({"loud": model_input["text"].str.upper(), "scaled": scaled, "size": model_input["text"].str.len()})


class Sums(mlflow.pyfunc.PythonModel):
    """Tensors by name."""

    def predict(self, context, model_input, params=None):  # type: ignore[no-untyped-def]  # MLflow reads types
        return {"sum": model_input["a"].sum(axis=(1, 2)), "loud": np.char.upper(model_input["text"])}


class Years(mlflow.pyfunc.PythonModel):
    """Times, and lists in a column."""

    def predict(self, context, model_input, params=None):  # type: ignore[no-untyped-def]  # MLflow reads types
        return model_input["time"].dt.year.to_numpy() * np.array([sum(row) for row in model_input["list"]])


class Backwards(mlflow.pyfunc.PythonModel):
    """A signature from type hints."""

    def predict(self, model_input: list[str]) -> list[str]:
        return [text[::-1] for text in model_input]


def iris() -> tuple[Any, Any]:
    datasets = pytest.importorskip("sklearn.datasets", reason="scikit-learn is not installed")
    return datasets.load_iris(return_X_y=True, as_frame=True)


def sklearn_model(path: str, *, named: bool, labels: bool = False, signature: bool = True, example: bool = True, records: bool = False) -> None:
    """Saves a classifier; what it needs is recorded on request, because MLflow takes seconds to find that out."""
    from sklearn.linear_model import LogisticRegression

    frame, numbers = iris()
    features = frame if named else frame.to_numpy()
    targets = np.array(["setosa", "versicolor", "virginica"])[numbers] if labels else numbers
    model = LogisticRegression(max_iter=500).fit(features, targets)
    options: dict[str, Any] = {"input_example": features[:3] if example else None, "pip_requirements": None if records else ["scikit-learn"]}
    if signature:
        # As many do: the targets stand for what the model returns.
        options["signature"] = infer_signature(features, targets.astype(float) if named and not labels else model.predict(features))
    mlflow.sklearn.save_model(model, path, serialization_format="cloudpickle", **options)


def xgboost_model(path: str) -> None:
    xgboost = pytest.importorskip("xgboost", reason="XGBoost is not installed")
    frame, numbers = iris()
    model = xgboost.XGBClassifier(n_estimators=5).fit(frame, numbers)
    signature = infer_signature(frame, model.predict(frame))
    mlflow.xgboost.save_model(model, path, signature=signature, input_example=frame[:4], pip_requirements=["xgboost-cpu"])


def python_model(path: str, model: Any, example: Any, signature: Any = None) -> None:
    options = {} if signature is None else {"signature": signature}
    mlflow.pyfunc.save_model(path, python_model=model, input_example=example, pip_requirements=["mlflow"], **options)


_WORDS = pd.DataFrame({"text": ["a", "bcß"], "x": [1.5, 2.0]})
_TENSORS = {"a": np.ones((2, 3, 4), np.float32), "text": np.array(["a", "b"])}
_TIMES = pd.DataFrame({"time": pd.to_datetime(["2020-01-02", "2021-03-04"]), "list": [[1.0, 2.0], [3.0, 4.0]]})
_IRIS = [(f"{part} {side} (cm)", "float64", ["batch"]) for part in ("sepal", "petal") for side in ("length", "width")]
_NUMBER, _TEXT = [("prediction", "int64", ["batch"])], [("prediction", "string", ["batch"])]

#: How each model is saved, and the inputs and outputs that it must have.
MODELS: dict[str, tuple[Callable[[str], None], list[Any], list[Any]]] = {
    "columns": (lambda path: sklearn_model(path, named=True), _IRIS, [("target", "int64", ["batch"])]),
    "an array": (lambda path: sklearn_model(path, named=False), [("input", "float64", ["batch", 4])], _NUMBER),
    "texts": (lambda path: sklearn_model(path, named=True, labels=True), _IRIS, _TEXT),
    "an example alone": (lambda path: sklearn_model(path, named=False, signature=False), [("input", "float64", ["batch", 4])], _NUMBER),
    "a signature alone": (lambda path: sklearn_model(path, named=False, example=False), [("input", "float64", ["batch", 4])], _NUMBER),
    "xgboost": (xgboost_model, _IRIS, _NUMBER),
    "parameters": (
        lambda path: python_model(path, Shout(), (_WORDS, {"scale": 3.0}), infer_signature(_WORDS, params={"scale": 2.0})),
        [("text", "string", ["batch"]), ("x", "float64", ["batch"]), ("scale", "float64", [])],
        [("loud", "string", ["batch"]), ("scaled", "float64", ["batch"]), ("size", "int64", ["batch"])],
    ),
    "tensors": (
        lambda path: python_model(path, Sums(), _TENSORS, infer_signature(_TENSORS, Sums().predict(None, _TENSORS))),
        [("a", "float32", ["batch", 3, 4]), ("text", "string", ["batch"])],
        [("sum", "float32", ["batch"]), ("loud", "string", ["batch"])],
    ),
    "times and lists": (
        lambda path: python_model(path, Years(), _TIMES, infer_signature(_TIMES, np.zeros(2))),
        [("time", "string", ["batch"]), ("list", "float64", ["batch", "*"])],
        [("prediction", "float64", ["batch"])],
    ),
    "type hints": (lambda path: python_model(path, Backwards(), ["ab", "cd"]), [("column_0", "string", ["batch"])], _TEXT),
}


def template(folder: Path) -> ModuleType:
    """The module that runs the model of MLflow in `folder/mlmodel`."""
    shutil.copy(TEMPLATE, folder)
    spec = importlib.util.spec_from_file_location("main", folder / "main.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def of_mlflow(folder: Path, data: Any, params: Any = None) -> dict[str, Any]:
    """What MLflow itself returns."""
    found = mlflow.pyfunc.load_model(str(folder / "mlmodel")).predict(data, params=params)
    return {name: np.asarray(found[name]) for name in found} if isinstance(found, (dict, pd.DataFrame)) else {"": np.asarray(found)}


def check_same(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert len(found) == len(expected)
    for (name, array), (other, wanted) in zip(found.items(), expected.items()):
        assert other in ("", name)
        assert array.dtype.kind in "OUS" or array.dtype == wanted.dtype
        np.testing.assert_array_equal(array, wanted)


@pytest.mark.parametrize("name", MODELS)
def test_the_same_as_mlflow(name: str, tmp_path: Path) -> None:
    save, inputs, outputs = MODELS[name]
    save(str(tmp_path / "mlmodel"))
    model = template(tmp_path).get_model()
    signature = model.signature()
    assert [(spec["name"], spec["dtype"], spec["shape"]) for spec in signature["inputs"]] == inputs
    assert [spec["name"] for spec in signature["inputs"] if spec.get("optional")] == (["scale"] if name == "parameters" else [])
    assert [(spec["name"], spec["dtype"], spec["shape"]) for spec in signature["outputs"]] == outputs
    example = model.example()
    if name == "a signature alone":
        assert example is None
        example, shown, params = {"input": np.array([[5.0, 3.0, 1.0, 0.2]])}, np.array([[5.0, 3.0, 1.0, 0.2]]), None
    else:
        about = mlflow.models.Model.load(str(tmp_path / "mlmodel"))
        shown, params = about.load_input_example(str(tmp_path / "mlmodel")), about.load_input_example_params(str(tmp_path / "mlmodel"))
    assert [(spec["name"], spec["dtype"]) for spec in signature["inputs"]] == [
        (found, "string" if array.dtype == object else array.dtype.name) for found, array in example.items()
    ]
    # As a runner passes them.
    for array in example.values():
        array.flags.writeable = False
    check_same(model.infer_with_tensors(example), of_mlflow(tmp_path, shown, params))


def test_examples_that_are_no_tests(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = pd.DataFrame({"text": ["a", None], "x": [1.5, 2.0]})
    python_model(str(tmp_path / "mlmodel"), Shout(), missing, infer_signature(_WORDS, pd.DataFrame({"loud": ["A"]})))
    model = template(tmp_path).get_model()
    assert model.example() is None and "is no test of the model: a value is missing" in capsys.readouterr().out
    assert model.signature()["outputs"] == [{"name": "loud", "dtype": "string", "shape": ["batch"]}]
    given = {"text": np.array(["q"], object), "x": np.array([1.0])}
    check_same(model.infer_with_tensors(given), of_mlflow(tmp_path, pd.DataFrame({"text": ["q"], "x": [1.0]})))


def test_a_model_that_says_nothing(tmp_path: Path) -> None:
    sklearn_model(str(tmp_path / "mlmodel"), named=False, signature=False, example=False)
    model = template(tmp_path).get_model()
    assert model.example() is None
    with pytest.raises(ValueError, match="log it with a signature or an input example.*declare one input, named `input`"):
        model.signature()
    features = np.array([[5.0, 3.0, 1.0, 0.2]])
    check_same(model.infer_with_tensors({"input": features}), of_mlflow(tmp_path, features))


def test_columns_that_are_no_tensors(tmp_path: Path) -> None:
    frame = pd.DataFrame({"x": [{"a": 1}]})
    python_model(str(tmp_path / "mlmodel"), Shout(), None, infer_signature(frame))
    with pytest.raises(ValueError, match="`x` is .*, which no tensor is: change main.py"):
        template(tmp_path).get_model().signature()


def test_in_a_carton(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Confined, in an environment of the packages that MLflow has recorded."""
    runners = os.environ.get("CARTON_TEST_RUNNERS")
    if runners is None:
        pytest.skip("CARTON_TEST_RUNNERS names no folder with a python runner")
    monkeypatch.setenv("CARTON_RUNNER_DIR", runners)
    monkeypatch.setenv("CARTON_RUNNER_DATA_DIR", f"{runners}.data")
    folder = tmp_path / "model"
    folder.mkdir()
    sklearn_model(str(folder / "mlmodel"), named=True, records=True)
    (folder / "mlmodel/.notes").write_text("of the user")
    monkeypatch.chdir(folder)
    packed = carton.pack("mlmodel", tmp_path / "iris.carton")
    assert packed.not_packed == [".notes"]
    assert packed.check is not None and packed.check.self_test.passed == 1
    # And as a model of MLflow again.
    carton.mlflow.save_model(packed.path, tmp_path / "again")
    again = mlflow.pyfunc.load_model(str(tmp_path / "again"))
    plain = mlflow.pyfunc.load_model(str(folder / "mlmodel"))
    np.testing.assert_array_equal(again.predict(iris()[0]), plain.predict(iris()[0]))
