"""Packing live objects, with the real libraries. Needs the python runner in the folder of runners, and `uv` in PATH."""

from __future__ import annotations

import asyncio
import importlib.metadata
import importlib.util
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Iterator

import numpy as np
import pytest

import carton
from carton import TensorSpec, _live
from carton._structure import Nested

_MINOR = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.fixture
def python_runner(monkeypatch: pytest.MonkeyPatch) -> None:
    """Uses the runners in the folder that CARTON_TEST_RUNNERS names."""
    folder = os.environ.get("CARTON_TEST_RUNNERS")
    if folder is None:
        pytest.skip("CARTON_TEST_RUNNERS names no folder with a python runner")
    monkeypatch.setenv("CARTON_RUNNER_DIR", folder)
    monkeypatch.setenv("CARTON_RUNNER_DATA_DIR", f"{folder}.data")
    versions = [runner.framework_version for runner in carton.runners() if runner.name == "python"]
    if not any(version.startswith(f"{_MINOR}.") for version in versions):
        pytest.skip(f"no runner for Python {_MINOR} is in {folder}")


needs_runner = pytest.mark.usefixtures("python_runner")


def specs(found: list[TensorSpec]) -> list[tuple[str, str, Any]]:
    return [(spec.name, spec.dtype, spec.shape) for spec in found]


def requirements(package: carton.Package) -> set[str]:
    """The names of the packages that the lock of a packed Python model has; each is in the version that is installed here."""
    names = set()
    for line in package.read("model/.carton/requirements.lock").decode().splitlines():
        name, separator, rest = line.partition("==")
        if not separator or line.startswith("#"):
            continue
        assert rest.split()[0] == importlib.metadata.version(name).partition("+")[0], line
        names.add(name)
    return names


@needs_runner
def test_masks(tmp_path: Path) -> None:
    def select(x, mask):
        return {"selected": x[mask], "rest": ~mask}

    x, mask = np.array([5.0, -1.0, 7.0, 2.0]), np.array([True, False, True, False])
    expected = select(x, mask)
    packed = carton.pack(select, tmp_path / "mask.carton", example={"x": x, "mask": mask})
    assert packed.check is not None and packed.check.self_test.passed == 1
    package = carton.open(packed.path)
    assert [spec.dtype for spec in package.inputs] == ["float64", "bool"]
    assert [spec.dtype for spec in package.outputs] == ["float64", "bool"]
    with carton.load(packed.path) as model:
        shared = model.alloc("mask", shape=(4,))
        shared[:] = mask
        for given in (mask, mask.tolist(), mask.astype(np.uint8), shared):
            outputs = model(x=x, mask=given)
            np.testing.assert_array_equal(outputs["selected"], expected["selected"])
            assert outputs["rest"].dtype == bool
            np.testing.assert_array_equal(outputs["rest"], expected["rest"])
        # An output is a mask to NumPy, and can be passed on as one.
        np.testing.assert_array_equal(x[model(x=x, mask=mask)["rest"]], x[~mask])
        np.testing.assert_array_equal(model(x=x, mask=outputs["rest"])["selected"], x[~mask])
        with pytest.raises(carton.SignatureError, match=r"input `mask`, element \[2\]: expected 0 or 1 \(bool\), found 2"):
            model(x=x, mask=np.array([1, 0, 2, 0], np.uint8))
        invalid = np.array([1, 0, 2, 0], np.uint8).view(bool)
        with pytest.raises(carton.InvalidInputError, match=r"element \[2\]: 2 is out of range for bool"):
            model(x=x, mask=invalid)
    numbers = [carton.TensorSpec("x", float, ["n"]), carton.TensorSpec("mask", "uint8", ["n"])]
    outputs = [carton.TensorSpec("selected", float, ["k"]), carton.TensorSpec("rest", "uint8", ["n"])]
    packed = carton.pack(select, tmp_path / "numbers.carton", inputs=numbers, outputs=outputs)
    with carton.load(packed.path) as model:
        with pytest.raises(carton.SignatureError, match="input `mask`: expected uint8, found bool") as caught:
            model(x=x, mask=mask)
        assert 'dtype = "bool"' in (caught.value.hint or "") and "astype" not in str(caught.value)


@needs_runner
def test_a_function(tmp_path: Path) -> None:
    offset = 3

    def add(x, y):
        return {"sum": x + y + offset, "is_large": x > 1}

    x = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)
    packed = carton.pack(add, tmp_path / "add.carton", example={"x": x, "y": np.float32(1)})
    assert packed.check is not None and packed.check.self_test.passed == 1
    package = carton.open(packed.path)
    assert specs(package.inputs) == [("x", "float32", ("batch", 2)), ("y", "float32", ())]
    assert specs(package.outputs) == [("sum", "float32", ("batch", 2)), ("is_large", "bool", ("batch", 2))]
    assert package.self_tests == ["example"]
    assert requirements(package) == {"numpy", "cloudpickle"}
    with carton.load(packed.path) as model:
        outputs = model(x=np.ones((3, 2), np.float32), y=np.float32(0))
    np.testing.assert_array_equal(outputs["sum"], np.full((3, 2), 4, np.float32))


@needs_runner
def test_a_scikit_learn_estimator(tmp_path: Path) -> None:
    datasets = pytest.importorskip("sklearn.datasets")
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    x, y = datasets.load_iris(return_X_y=True)
    estimator = make_pipeline(StandardScaler(), LogisticRegression()).fit(x, np.array(["setosa", "versicolor", "virginica"])[y])
    packed = carton.pack(estimator, tmp_path / "iris.carton", example=x[::50])
    package = carton.open(packed.path)
    assert specs(package.inputs) == [("features", "float64", ("batch", 4))]
    assert specs(package.outputs) == [("prediction", "string", ("batch",)), ("probabilities", "float64", ("batch", 3))]
    # What scikit-learn requires, and nothing else of what is installed here (pytest is).
    assert {"scikit-learn", "scipy", "joblib", "threadpoolctl", "numpy"} <= requirements(package)
    assert not {"pytest", "pandas", "onnx"} & requirements(package)
    assert {line.partition("==")[0] for line in package.read("model/requirements.txt").decode().split("\n")[1:-1]} == {"numpy", "scikit-learn"}
    with carton.load(packed.path) as model:
        outputs = model(x)
    np.testing.assert_array_equal(outputs["prediction"], estimator.predict(x))
    np.testing.assert_allclose(outputs["probabilities"], estimator.predict_proba(x))


@needs_runner
def test_an_xgboost_estimator_and_its_booster(tmp_path: Path) -> None:
    xgboost = pytest.importorskip("xgboost")
    x = np.random.default_rng(1).normal(size=(200, 5)).astype(np.float32)
    estimator = xgboost.XGBRegressor(n_estimators=5).fit(x, x.sum(axis=1))
    # Declared names replace those that are inferred.
    declared = [TensorSpec("x", "float32", ["n", 5])]
    packed = carton.pack(estimator, tmp_path / "xgboost.carton", inputs=declared, example=x[:7])
    package = carton.open(packed.path)
    assert specs(package.inputs) == [("x", "float32", ("n", 5))]
    assert specs(package.outputs) == [("prediction", "float32", ("batch",))]
    assert {"xgboost", "xgboost-cpu"} & requirements(package) and "scikit-learn" in requirements(package)
    with carton.load(packed.path) as model:
        np.testing.assert_allclose(model(x)["prediction"], estimator.predict(x), rtol=1e-6)

    with _live.prepared(estimator.get_booster(), example=x[:7]) as booster:
        assert booster.expected is not None
        np.testing.assert_allclose(booster.expected["prediction"], estimator.predict(x[:7]), rtol=1e-6)
        assert "xgboost" in (Path(booster.path) / "requirements.txt").read_text()


@needs_runner
def test_a_pipeline_over_the_columns_of_a_data_frame(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("sklearn")
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LinearRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    frame = pandas.DataFrame({"age": [20, 30, 40, 50], "city": ["Bern", "Rom", "Bern", "Oslo"]})
    encode = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["city"]), remainder="passthrough")
    estimator = make_pipeline(encode, LinearRegression()).fit(frame, [1.0, 2.0, 3.0, 4.0])
    packed = carton.pack(estimator, tmp_path / "frame.carton", example=frame)
    package = carton.open(packed.path)
    assert specs(package.inputs) == [("age", "int64", ("batch",)), ("city", "string", ("batch",))]
    assert "pandas" in requirements(package)
    with carton.load(packed.path) as model:
        outputs = model(age=np.array([25, 60]), city=np.array(["Rom", "Paris"]))
    expected = estimator.predict(pandas.DataFrame({"age": [25, 60], "city": ["Rom", "Paris"]}))
    np.testing.assert_allclose(outputs["prediction"], expected)


def call(found: _live.Live, inputs: dict[str, Any]) -> dict[str, Any]:
    """What the packed module of an estimator returns, without a runner."""
    spec = importlib.util.spec_from_file_location("packed_estimator", Path(found.path) / "main.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    outputs: dict[str, Any] = module.get_model().infer_with_tensors(inputs)
    return outputs


def of_categories(n: int = 200) -> tuple[Any, Any, dict[str, np.ndarray]]:
    """A DataFrame with categories, labels, and its columns as a model gets them."""
    pandas = pytest.importorskip("pandas")
    random = np.random.default_rng(1)
    city, size = random.choice(["Bern", "Oslo", "Rom"], n), random.choice([1, 5, 9], n)
    frame = pandas.DataFrame({
        "x": random.normal(size=n),
        "city": pandas.Categorical(city, categories=["Rom", "Oslo", "Bern", "Ulm"]),
        "size": pandas.Categorical(size, categories=[1, 5, 9], ordered=True),
        "flag": random.random(n) > 0.5,
    })
    labels = (frame.x + (frame.city == "Rom") + frame.flag > 0.7).astype(int)
    return frame, labels, {"x": frame.x.to_numpy(), "city": city.astype(object), "size": size, "flag": frame.flag.to_numpy()}


@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_categories_of_a_data_frame(library: str) -> None:
    module = pytest.importorskip(library)
    frame, labels, columns = of_categories()
    if library == "xgboost":
        model = module.XGBClassifier(n_estimators=5, enable_categorical=True).fit(frame, labels)
        booster = model.get_booster()
    else:
        model = module.LGBMClassifier(n_estimators=5, min_child_samples=2, verbose=-1).fit(frame, labels)
        booster = model.booster_
    with _live.prepared(model, example=frame[:7]) as found:
        assert found.inputs is not None and found.outputs is not None
        assert specs(found.inputs) == [
            ("x", "float64", ("batch",)), ("city", "string", ("batch",)), ("size", "int64", ("batch",)), ("flag", "bool", ("batch",))
        ]  # fmt: skip
        assert [spec.name for spec in found.outputs] == ["prediction", "probabilities"]
        outputs = call(found, columns)
        np.testing.assert_array_equal(outputs["prediction"], model.predict(frame))
        np.testing.assert_array_equal(outputs["probabilities"], model.predict_proba(frame))
        unknown = {**columns, "city": np.where(np.arange(len(frame)) == 3, "Paris", columns["city"])}
        with pytest.raises(ValueError, match="input `city`: 'Paris' is none of its 4 categories"):
            call(found, unknown)
    with _live.prepared(booster, example=frame[:7]) as found:
        assert found.expected is not None
        np.testing.assert_allclose(found.expected["prediction"], model.predict_proba(frame[:7])[:, 1], rtol=1e-6)
        np.testing.assert_allclose(call(found, columns)["prediction"], model.predict_proba(frame)[:, 1], rtol=1e-6)


@needs_runner
def test_a_packed_model_of_categories(tmp_path: Path) -> None:
    xgboost = pytest.importorskip("xgboost")
    frame, labels, columns = of_categories()
    model = xgboost.XGBClassifier(n_estimators=5, enable_categorical=True).fit(frame, labels)
    packed = carton.pack(model, tmp_path / "categories.carton", example=frame[:7])
    assert packed.check is not None and packed.check.self_test.passed == 1
    with carton.load(packed.path) as loaded:
        np.testing.assert_array_equal(loaded(columns)["prediction"], model.predict(frame))


def test_outputs_of_estimators() -> None:
    pytest.importorskip("sklearn")
    from sklearn.linear_model import LinearRegression, LogisticRegression
    from sklearn.multioutput import MultiOutputClassifier
    from sklearn.neighbors import KernelDensity
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC, OneClassSVM

    x = np.random.default_rng(1).normal(size=(50, 3))
    labels = np.c_[x[:, 0] > 0, (x[:, 1] * 2).astype(int).clip(-1, 1)]

    def check(model: Any, *methods: tuple[str, str]) -> None:
        with _live.prepared(model, example=x[:5]) as found:
            assert found.outputs is not None and [spec.name for spec in found.outputs] == [output for output, _ in methods]
            outputs = call(found, {"features": x})
            for output, method in methods:
                expected = getattr(model, method)(x)
                assert isinstance(outputs[output], list) == isinstance(expected, list)
                pairs = zip(outputs[output], expected) if isinstance(expected, list) else [(outputs[output], expected)]
                for one, other in pairs:
                    np.testing.assert_array_equal(one, other)

    check(SVC().fit(x, labels[:, 0]), ("prediction", "predict"), ("decision", "decision_function"))
    check(OneClassSVM().fit(x), ("prediction", "predict"), ("decision", "decision_function"), ("scores", "score_samples"))
    check(KernelDensity().fit(x), ("scores", "score_samples"))
    check(StandardScaler().fit(x), ("transformed", "transform"))
    check(LinearRegression().fit(x, labels[:, 1]), ("prediction", "predict"))
    several = MultiOutputClassifier(LogisticRegression()).fit(x, labels)
    # A list of arrays: a nested tensor, whose first element has two columns and the second three.
    check(several, ("prediction", "predict"), ("probabilities", "predict_proba"))


@needs_runner
def test_probabilities_of_several_targets(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    from sklearn.linear_model import LogisticRegression
    from sklearn.multioutput import MultiOutputClassifier

    x = np.random.default_rng(1).normal(size=(50, 3))
    for name, labels in (("two", np.c_[x[:, 0] > 0, x[:, 1] > 0]), ("three", np.c_[x[:, 0] > 0, (x[:, 1] * 2).astype(int).clip(-1, 1)])):
        model = MultiOutputClassifier(LogisticRegression()).fit(x, labels)
        packed = carton.pack(model, tmp_path / f"{name}.carton", example=x[:5])
        with carton.load(packed.path) as loaded:
            found = loaded(x)["probabilities"]
        expected = model.predict_proba(x)
        assert len(found) == len(expected)
        for one, other in zip(found, expected):
            np.testing.assert_allclose(one, other)


def test_structured_results_and_inputs_of_functions() -> None:
    def step(x, state):
        h, c = state
        return {"y": x, "state": (h, {"c": c})}

    found = live(step, {"x": np.ones(3), "state": (np.ones(2), np.zeros(3))})
    assert found.inputs is not None and [spec.name for spec in found.inputs] == ["x", "state.0", "state.1"]
    # The packed model tells its outputs.
    assert found.outputs is None and found.expected is None and found.example is not None
    found = live(lambda x: {"y": x, "z": (x, x), "none": None}, np.ones(3))
    assert found.outputs is None and found.expected is None
    found = live(lambda x: {"y": x, "none": None, "pair": [x, x]}, np.ones(3))
    assert found.outputs is not None and specs(found.outputs) == [("y", "float64", ("batch",)), ("pair", "float64", "*")]


def test_nested_tensors_of_one_shape_and_optional_lists() -> None:
    def f(x, state=()):
        return {"y": x}

    found = live(f, {"x": np.ones(3), "state": {"l": [np.ones(2), np.ones(2)]}})
    assert found.example is not None and isinstance(found.example["state.l"], Nested)
    chosen = {"inputs": None, "outputs": None, "runner": None, "framework_version": None, "options": None, "self_tests": [], "record": []}
    assert [(spec.name, spec.optional) for spec in found.completed(chosen)["inputs"]] == [("x", False), ("state.l", True)]


def test_parameters_with_defaults_are_optional() -> None:
    def f(x, scale=2.0, *, bias=0.0):
        return {"y": x * scale + bias}

    chosen = {"inputs": None, "outputs": None, "runner": None, "framework_version": None, "options": None, "self_tests": [], "record": []}
    found = live(f, {"x": np.ones(3), "scale": 1.0})
    assert [(spec.name, spec.optional) for spec in found.completed(chosen)["inputs"]] == [("x", False), ("scale", True)]
    declared = [TensorSpec("x", float), TensorSpec("factor", float, internal_name="scale"), TensorSpec("bias", float, optional=False)]
    given = found.completed({**chosen, "inputs": declared})["inputs"]
    assert [(spec.name, spec.optional) for spec in given] == [("x", False), ("factor", True), ("bias", False)]


class Scaled:
    """A class in the style of the python runner."""

    def __init__(self, factor: float = 2.0) -> None:
        self.factor = factor

    def infer_with_tensors(self, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {"y": inputs["x"] * self.factor}


@needs_runner
def test_a_class_and_an_object_of_a_file(tmp_path: Path) -> None:
    x = np.arange(3.0)
    packed = carton.pack(Scaled, tmp_path / "class.carton", example={"x": x}, options={"model.factor": 2.0})
    with carton.load(packed.path, options={"model.factor": 5.0}) as model:
        np.testing.assert_array_equal(model(x=x)["y"], x * 5)
    packed = carton.pack(Scaled(7.0), tmp_path / "object.carton", example={"x": x})
    with carton.load(packed.path) as model:
        np.testing.assert_array_equal(model(x=x)["y"], x * 7)


@needs_runner
def test_code_of_several_files_comes_with_the_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "first_own_file.py").write_text("import second_own_file\ndef f(x):\n    return second_own_file.g(x)\n")
    (tmp_path / "second_own_file.py").write_text("from html import escape\ndef g(x):\n    return {'n': x * len(escape('<'))}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import first_own_file

    packed = carton.pack(first_own_file.f, tmp_path / "f.carton", example=np.arange(2))
    with carton.load(packed.path) as model:
        np.testing.assert_array_equal(model(x=np.arange(3))["n"], np.arange(3) * 4)


def test_an_onnx_model(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    helper = onnx.helper
    value = helper.make_tensor_value_info
    node = helper.make_node("Mul", ["x", "factor"], ["y"])
    factor = helper.make_tensor("factor", onnx.TensorProto.FLOAT, [], [3.0])
    x, y = (value(name, onnx.TensorProto.FLOAT, ["n", 2]) for name in "xy")
    graph = helper.make_graph([node], "triple", [x], [y], [factor])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    packed = carton.pack(proto, tmp_path / "triple.carton", example=np.ones((2, 2), np.float32))
    package = carton.open(packed.path)
    # The signature is the model's own.
    assert specs(package.inputs) == [("x", "float32", ("n", 2))]
    assert package.self_tests == ["example"]
    with carton.load(packed.path) as model:
        assert model.self_test().ok
        np.testing.assert_array_equal(model(x=np.ones((1, 2), np.float32))["y"], [[3, 3]])


def test_an_example_for_a_path(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    helper = onnx.helper
    value = helper.make_tensor_value_info
    node = helper.make_node("Neg", ["x"], ["y"])
    graph = helper.make_graph([node], "negative", *([value(name, onnx.TensorProto.FLOAT, ["n"])] for name in "xy"))
    path = tmp_path / "model.onnx"
    onnx.save_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    packed = carton.pack(path, tmp_path / "model.carton", example={"x": np.ones(2, np.float32)})
    assert carton.open(packed.path).self_tests == ["example"]
    with pytest.raises(carton.InvalidInputError, match="no names"):
        carton.pack(path, tmp_path / "model.carton", example=np.ones(2, np.float32))


# What needs no runner.


def live(model: Any, example: Any, **arguments: Any) -> _live.Live:
    with _live.prepared(model, example=example, **arguments) as found:
        return found


def test_signatures_of_functions() -> None:
    def check(function: Any, example: Any, inputs: Any, outputs: Any, **arguments: Any) -> None:
        found = live(function, example, **arguments)
        assert found.inputs is not None and found.outputs is not None
        assert (specs(found.inputs), specs(found.outputs)) == (inputs, outputs)

    x = np.zeros((4, 2), np.float32)
    in_x = [("x", "float32", ("batch", 2))]
    check(lambda x: x, x, in_x, [("output", "float32", ("batch", 2))])
    check(lambda x: (x, x.sum()), (x,), in_x, [("output_0", "float32", ("batch", 2)), ("output_1", "float32", ())])
    named = [TensorSpec("y", "float32", "*")]
    found = live(lambda x: x, x, outputs=named)
    assert found.expected is not None and list(found.expected) == ["y"]
    # Dimensions that are not the batch's stay as they are.
    check(lambda x, y: {"n": y}, (x, np.zeros(3)), [*in_x, ("y", "float64", (3,))], [("n", "float64", (3,))])
    check(lambda x: {"s": np.array(["a", "b", "c", "d"])}, x, in_x, [("s", "string", ("batch",))])
    check(lambda s: {"n": len(s[()])}, "text", [("s", "string", ())], [("n", "int64", ())])

    async def later(x):
        await asyncio.sleep(0)
        return {"y": x}

    check(later, x, in_x, [("y", "float32", ("batch", 2))])

    async def in_a_loop() -> None:
        check(later, x, in_x, [("y", "float32", ("batch", 2))])

    asyncio.run(in_a_loop())


def test_streams_have_a_signature_and_no_self_test() -> None:
    def count(n) -> Iterator[dict[str, Any]]:
        for number in range(int(n)):
            yield {"number": number}

    found = live(count, 3)
    assert found.outputs is not None and specs(found.outputs) == [("number", "int64", ())]
    assert (found.example, found.expected) == (None, None)
    one = live(count, 1)
    assert one.expected == {"number": 0}

    def structured(n) -> Iterator[dict[str, Any]]:
        for number in range(int(n)):
            yield {"state": {"number": number}}

    found = live(structured, 3)
    assert (found.inputs, found.outputs, found.example) == (None, None, None)
    with pytest.raises(carton.InvalidInputError, match="no items"):
        live(count, 0)

    async def later(n):
        for number in range(int(n)):
            yield {"number": number}

    assert live(later, 1).expected == {"number": 0}
    assert live(later, 5).expected is None


def test_a_function_does_not_change_the_example() -> None:
    def shift(x):
        x += 1
        return {"y": x}

    found = live(shift, np.zeros(2))
    assert found.example is not None and found.expected is not None
    assert (found.example["x"].tolist(), found.expected["y"].tolist()) == ([0, 0], [1, 1])


def test_what_cannot_be_packed() -> None:
    def check(model: Any, message: str, example: Any = None) -> None:
        with pytest.raises(carton.InvalidInputError, match=message):
            live(model, example)

    check(3, "int is not a model")
    check(dict, "no method `infer_with_tensors`")
    check(lambda x, /: x, "by position only")
    check(lambda x: x, "has 2 inputs, and the model has 1", (1.0, 2.0))
    check(lambda x: {"y": x.astype("datetime64[s]")}, "`y`: cartons have no tensors of dtype datetime64", 1.0)
    check(lambda x: x, "input `x`: .*object", object())
    lock = threading.Lock()
    check(lambda x: lock.acquire(), "cannot be pickled")


def test_only_needed_packages_are_required() -> None:
    def check(function: Any, expected: set[str]) -> None:
        with _live.prepared(function) as found:
            text = (Path(found.path) / "requirements.txt").read_text().splitlines()
            assert {line.partition("==")[0] for line in text[1:]} == expected
            assert text[0] == "-c constraints.txt"
            pins = dict(line.split("==") for line in (Path(found.path) / "constraints.txt").read_text().splitlines())
        assert expected <= set(pins)
        assert all(importlib.metadata.version(name).partition("+")[0] == version for name, version in pins.items())

    def plain(x):
        return x

    def with_import(x):
        import pytest as other

        return other.approx(x)

    def of_module(x):
        return pytest.approx(x)

    check(plain, {"numpy", "cloudpickle"})
    check(with_import, {"numpy", "cloudpickle", "pytest"})
    check(of_module, {"numpy", "cloudpickle", "pytest"})


def test_of_a_main_module(tmp_path: Path) -> None:
    """A script is a module without a name, as a notebook is."""
    script = tmp_path / "script.py"
    script.write_text(
        "from carton import _live\n"
        "import pathlib, pickle\n"
        "def helper(x):\n    return x * 2\n"
        "def f(x):\n    return helper(x)\n"
        "with _live.prepared(f, example=4.0) as live:\n"
        "    code = pathlib.Path(live.path, 'model.pickle').read_bytes()\n"
        "del f, helper\n"
        "print(pickle.loads(code)(5.0), live.outputs)\n"
    )
    answer = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert answer.stdout.startswith("10.0 [TensorSpec(\"output\", \"float64\""), answer.stderr
