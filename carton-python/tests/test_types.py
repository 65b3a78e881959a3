"""The types and the documents: the stub beside the module, strict checking of the package, and examples that run."""

from __future__ import annotations

import contextlib
import dataclasses
import doctest
import importlib
import importlib.util
import inspect
import os
import pkgutil
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Iterator

import numpy as np
import pytest

import carton
from carton import _carton, _paths

PACKAGE = Path(carton.__file__).resolve().parent
MODULES = ["carton", *(f"carton.{module.name}" for module in pkgutil.iter_modules([str(PACKAGE)]))]

# Examples that need the runner `python`, and others that have a test of their own: test_live.py.
ELSEWHERE = {"carton.pack", "carton._pack.pack"}

needs_mypy = pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="mypy is not installed")


@pytest.fixture(scope="module")
def mypy_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mypy")


def run(*arguments: str, folder: Path, cache: Path) -> None:
    environment = dict(os.environ, MYPY_CACHE_DIR=str(cache))
    # mypy finds an installed package by itself.
    if PACKAGE.parent.name != "site-packages":
        environment["MYPYPATH"] = str(PACKAGE.parent)
    # Optional packages may be missing, or have no types.
    config = cache / "mypy.ini"
    config.write_text("[mypy]\nignore_missing_imports = True\n")
    option = "--mypy-config-file" if arguments[0] == "mypy.stubtest" else "--config-file"
    command = [sys.executable, "-m", *arguments, option, str(config)]
    ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=200)
    assert ended.returncode == 0, ended.stdout + ended.stderr


@needs_mypy
def test_the_package_is_typed(tmp_path: Path, mypy_cache: Path) -> None:
    run("mypy", "--strict", "--ignore-missing-imports", "-p", "carton", folder=tmp_path, cache=mypy_cache)


@needs_mypy
def test_a_program_that_uses_the_package_is_typed(tmp_path: Path, mypy_cache: Path) -> None:
    """What a type checker says of the calls that the documents show."""
    program = tmp_path / "program.py"
    program.write_text(
        """
import numpy as np
import carton

def main() -> None:
    with carton.load("digits.carton", timeout=3, options={"threads": 1}) as model:
        outputs = model(image=np.zeros((1, 1, 8, 8), np.float32))
        outputs = model({"image": np.zeros(3)}, timeout=1.5)
        print(outputs["probabilities"].shape)
        for item in model.stream(prompt="a"):
            print(item["text"])
        array = model.alloc("image", batch=32)
        array[...] = 0
        with model.seal(image=array) as sealed:
            model.infer(sealed)
        report: carton.SelfTestReport = model.self_test()
        differences = [output.max_abs_diff for test in report.tests for output in test.outputs]
        rows: carton.MappedRows = model.map("rows.parquet", workers=2)
        written: carton.MapReport = model.map_to("out.parquet", rows, batch_size=5)
        print(report.ok, differences, written.rows)
    packed = carton.pack(
        "model.onnx",
        "digits.carton",
        example={"image": 1},
        metadata=carton.Metadata(model_name="digits"),
        tests=[carton.SelfTest({"image": 1}, expected="record"), carton.Example({"image": 1}, name="one")],
        files=carton.Files(misc={"a.png": "a.png"}, compression="zstd"),
        sandbox=carton.Sandbox("strict", limits={"memory": 1 << 30}),
    )
    if packed.check is not None and packed.check.zeros is not None:
        print(packed.check.zeros.ok, packed.check.self_test.failed)
    pushed: carton.Pushed = carton.push(packed.path, "oci://example.org/a:1", min_size=1)
    info: carton.Info = carton.open(pushed.artifact, bundle="a.sig", require_signed=True).info()
    print(info.runner.name, [file.size for file in info.files], [found.tag for found in carton.tags("oci://example.org/a")])
    try:
        carton.load("digits.carton", sandbox="off")
    except carton.TimedOutError as error:
        print(error.hint)
    names: list[str] = [spec.name for spec in carton.open("digits.carton").inputs]
    print(names, carton.tensors.open("a.safetensors")["w"].shape)

async def awaited(model: carton.Model) -> None:
    outputs = await model.infer_async(image=1)
    print(outputs["probabilities"])
    async for item in model.stream(image=1):
        print(item["probabilities"])
"""
    )
    run("mypy", "--strict", str(program), folder=tmp_path, cache=mypy_cache)
    for wrong in (
        "carton.load(5)",
        "carton.pack('a', 'b', metadata={'model_name': 'a'})",
        "carton.SelfTest({}, expected='recorded')",
        "carton.Sandbox('tight')",
        "carton.pack('a', 'b', tests=[{'x': 1}])",
    ):
        program.write_text(f"import carton\n{wrong}\n")
        with pytest.raises(AssertionError, match="incompatible type"):
            run("mypy", "--strict", str(program), folder=tmp_path, cache=mypy_cache)


@needs_mypy
def test_the_stub_is_the_module(tmp_path: Path, mypy_cache: Path) -> None:
    run("mypy.stubtest", "carton._carton", folder=tmp_path, cache=mypy_cache)


def test_the_package_says_that_it_is_typed() -> None:
    assert (PACKAGE / "py.typed").is_file() and (PACKAGE / "_carton.pyi").is_file()


def test_awaitable_functions_are_what_the_stub_says() -> None:
    """`asyncio.create_task` and `TaskGroup.create_task` take coroutines alone."""
    assert inspect.iscoroutinefunction(carton.load_async)


# Documents


def test_everything_public_is_documented() -> None:
    missing = [name for name in carton.__all__ if name != "__version__" and not inspect.getdoc(getattr(carton, name))]
    for class_ in (carton.Model, carton.Package, carton.Sealed, carton.Stream, carton.TensorSpec, carton.tensors.TensorFile):
        for name, member in vars(class_).items():
            if not name.startswith("_") and not inspect.getdoc(member):
                missing.append(f"{class_.__name__}.{name}")
    for module in (carton.tensors, carton.cache):
        missing += [f"{module.__name__}.{name}" for name in module.__all__ if not inspect.getdoc(getattr(module, name))]
    assert missing == []


def test_every_function_has_an_example() -> None:
    """An example that runs: see `test_examples_in_docstrings`. Functions of the faces to Spark, Ray and MLflow are tested with them."""
    functions = {f"carton.{name}": getattr(carton, name) for name in carton.__all__}
    for module in (carton.tensors, carton.cache):
        functions |= {f"{module.__name__}.{name}": getattr(module, name) for name in module.__all__}
    for class_ in (carton.Model, carton.Package, carton.Sealed, carton.Stream, carton.tensors.TensorFile):
        functions |= {f"{class_.__name__}.{name}": member for name, member in vars(class_).items() if not name.startswith("_")}
    missing = [name for name, member in functions.items() if inspect.isroutine(member) and ">>>" not in (inspect.getdoc(member) or "")]
    assert missing == []


def test_every_kind_of_place_is_named() -> None:
    """Where a function takes the place of a carton, its documentation has the same words, and they are true."""
    functions = {name: value for name in carton.__all__ if inspect.isroutine(value := getattr(carton, name))}
    taking = {name: value for name, value in functions.items() if "location" in inspect.signature(value).parameters}
    assert set(taking) == {"load", "load_async", "open", "push", "resolve", "shrink", "sign"}
    faces = {"predict": carton.spark.predict, "Predictor": carton.ray.Predictor, "save_model": carton.mlflow.save_model, "log_model": carton.mlflow.log_model}
    for name, value in {**taking, **faces}.items():
        assert f"The carton: {_paths.PLACES}." in " ".join((inspect.getdoc(value) or "").split()), name
    for name in ("push", "pull", "tag", "tags"):
        assert "`oci://HOST/REPOSITORY" in (inspect.getdoc(functions[name]) or ""), name
    schemes = re.findall(r"`(\w+)://`", _paths.PLACES)
    assert schemes == ["https", "http", "oci", "hf", "s3", "gs", "az"]
    for scheme in schemes:
        assert f"{scheme}://" in (carton.__doc__ or "")
        with pytest.raises(carton.NetworkError, match="the network is not to be used"):
            carton.open(f"{scheme}://example.org/team/digits", offline=True)
    with pytest.raises(carton.InvalidInputError, match="only `http`"):
        carton.open("ftp://example.org/digits", offline=True)


def test_a_signature_is_what_a_carton_declares() -> None:
    """What cryptography does is called signing, in every name."""
    names = [*carton.__all__, *inspect.signature(carton.load).parameters, *inspect.signature(carton.open).parameters]
    for value in (getattr(carton, name) for name in carton.__all__):
        if dataclasses.is_dataclass(value):
            names += [field.name for field in dataclasses.fields(value)]
    names += [name for value in (carton.Package, carton.Model) for name in dir(value)]
    found = {name for name in names if "signature" in name.lower() and not name.startswith("__")}
    assert found == {"SignatureError", "SignatureMismatchError", "signature"}


def test_results_are_frozen_and_documented() -> None:
    classes = [value for name in carton.__all__ if dataclasses.is_dataclass(value := getattr(carton, name))]
    assert len(classes) > 20
    for value in classes:
        assert value.__dataclass_params__.frozen  # type: ignore[attr-defined]
        for field in dataclasses.fields(value):
            assert re.search(rf"^ *{field.name}: ", value.__doc__ or "", re.M), f"{value.__name__}.{field.name}"


def test_options_of_load_are_shown_by_name() -> None:
    for function in (carton.load, carton.load_async):
        parameters = inspect.signature(function).parameters
        assert set(carton.LoadOptions.__annotations__) < set(parameters) and "options" in parameters
        assert parameters["restart"].default is True and parameters["timeout"].default is None
        assert all(name in (inspect.getdoc(carton.load) or "") for name in parameters)
    with pytest.raises(TypeError, match="devise"):
        carton.load("digits.carton", devise="cpu")  # type: ignore[call-arg]


def test_all_is_what_is_there() -> None:
    for name in MODULES:
        module = importlib.import_module(name)
        for public in getattr(module, "__all__", ()):
            assert hasattr(module, public), f"{name}.{public}"
    assert sorted(carton.__all__) == carton.__all__
    assert carton.__version__ == _carton.__version__ and carton.__version__[0].isdigit()


@pytest.fixture
def folder_of_examples(tmp_path: Path, digits_path: Path, digits_folder: Path) -> Iterator[Path]:
    """A folder with the files that examples in docstrings name."""
    safetensors = pytest.importorskip("safetensors.numpy", reason="safetensors is not installed")
    shutil.copy(digits_path, tmp_path / "digits.carton")
    shutil.copy(digits_folder / "model.onnx", tmp_path / "model.onnx")
    safetensors.save_file({"layer.weight": np.zeros((4, 3), np.float32)}, tmp_path / "weights.safetensors")
    with contextlib.chdir(tmp_path) if sys.version_info >= (3, 11) else _chdir(tmp_path):
        yield tmp_path


@contextlib.contextmanager
def _chdir(folder: Path) -> Iterator[None]:
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def documented(module: ModuleType) -> list[doctest.DocTest]:
    # The classes of the extension module are public in `carton`.
    namespace = {**vars(module), "carton": carton, "np": np, "tensors": carton.tensors}
    namespace["model"] = carton.load("digits.carton") if module is carton or module is _carton else None
    finder = doctest.DocTestFinder(exclude_empty=True)
    found = finder.find(module, module.__name__, globs=namespace)
    if module is carton:
        for name in ("Model", "Package", "Sealed", "Stream", "TensorSpec"):
            found += finder.find(getattr(carton, name), f"carton.{name}", module=False, globs=namespace)
    # The classes are found in the module, too.
    return list({test.name: test for test in found if test.examples and test.name not in ELSEWHERE}.values())


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(folder_of_examples: Path, name: str) -> None:
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    said: list[str] = []
    for test in documented(importlib.import_module(name)):
        runner.run(test, out=said.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(said)


def test_there_are_examples(folder_of_examples: Path) -> None:
    names = {test.name for test in documented(carton)} | {test.name for test in documented(carton.tensors)}
    assert {"carton", "carton.open", "carton.tensors", "carton.Model.seal", "carton.Package.verify"} <= names
