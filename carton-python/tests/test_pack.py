"""Packing and what is done with cartons: opening, verifying, unpacking, shrinking, resolving, and what the machine keeps."""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import json
import os
import pickle
import re
import zipfile
from pathlib import Path
from typing import Any, Callable

import numpy as np
import pytest

import carton
from carton import Example, Files, Metadata, SelfTest, TensorSpec
from conftest import RunScript

Pictures = tuple[np.ndarray, np.ndarray]
INPUTS = [TensorSpec("image", "float32", ["batch", 1, 8, 8], description="Brightness of the ink")]
OUTPUTS = [TensorSpec("probabilities", np.float32, ("batch", 10))]


@pytest.fixture(scope="session")
def model_file(digits_folder: Path) -> Path:
    return digits_folder / "model.onnx"


@pytest.fixture(scope="session")
def full(tmp_path_factory: pytest.TempPathFactory, model_file: Path, digits_folder: Path, pictures: Pictures) -> Path:
    """A carton with everything that `pack` can add."""
    path = tmp_path_factory.mktemp("full") / "full.carton"
    images, expected = pictures
    packed = carton.pack(
        model_file,
        path,
        metadata=Metadata(
            model_name="digits",
            short_description="Tells digits",
            model_description="*Digits*, and what they are.",
            license="Apache-2.0",
            repository="https://example.org/repository",
            homepage="https://example.org",
        ),
        inputs=INPUTS,
        outputs=OUTPUTS,
        example={"image": images[:2]},
        tests=[
            SelfTest({"image": images}, {"probabilities": expected}, name="all", description="sixteen"),
            SelfTest({"image": images[:1]}, name="runs"),
            Example({"image": images[:1]}, {"probabilities": expected[:1]}, name="a two", description="**2**"),
            SelfTest({"image": images[2:3]}, expected="record", name="recorded", description="as it is now"),
        ],
        files=Files(
            misc={"picture.png": digits_folder / "digit.png", "deep/er.txt": digits_folder / "requirements.txt"},
            tensors={"labels": ["zero", "one"], "numbers": np.arange(6, dtype=np.int16).reshape(2, 3)[:, ::-1]},
        ),
    )
    assert packed.path == str(path) and packed.check is not None and packed.check.runner.startswith("onnx ")
    assert packed.check.self_test.ok and packed.check.self_test.passed == 3 and packed.check.zeros is None
    assert dataclasses.asdict(packed)["check"]["self_test"]["ran"] == 1
    assert packed.manifest_sha256 == carton.open(path).manifest_sha256
    return path


def test_what_was_packed(full: Path, pictures: Pictures, digits_folder: Path, model_file: Path) -> None:
    package = carton.open(full)
    assert (package.model_name, package.short_description, package.license) == ("digits", "Tells digits", "Apache-2.0")
    assert package.model_description == "*Digits*, and what they are."
    assert package.inputs == INPUTS and package.outputs == OUTPUTS
    assert package.inputs[0].description == "Brightness of the ink"
    assert sorted(package.self_tests) == ["all", "example", "recorded", "runs"]
    assert b"as it is now" in package.read("carton.toml") and b"sixteen" in package.read("carton.toml")
    assert package.examples == ["a two"]
    assert {"labels", "numbers"} <= set(package.tensors)
    assert package.tensor("labels").tolist() == ["zero", "one"]
    numbers = package.tensor("numbers")
    assert numbers.dtype == np.int16 and numbers.tolist() == [[2, 1, 0], [5, 4, 3]]
    inputs, outputs = package.example("a two")
    assert np.array_equal(inputs["image"], pictures[0][:1])
    assert np.array_equal(outputs["probabilities"], pictures[1][:1])
    inputs, expected = package.self_test("all")
    assert np.array_equal(inputs["image"], pictures[0]) and expected is not None
    assert np.array_equal(expected["probabilities"], pictures[1])
    assert package.self_test("runs")[1] is None
    with pytest.raises(carton.InvalidInputError, match="there is no self-test `a two`, there are"):
        package.self_test("a two")
    assert package.read("misc/picture.png") == (digits_folder / "digit.png").read_bytes()
    assert package.read("misc/deep/er.txt") == (digits_folder / "requirements.txt").read_bytes()
    assert package.read("model/model.onnx") == model_file.read_bytes()
    info = package.info()
    assert info.homepage == "https://example.org" and info.runner.name == "onnx" and info.runner.framework_version
    assert info.manifest_sha256 == package.manifest_sha256 and "digits" in repr(package)
    assert info.self_tests == package.self_tests and info.signing == package.signing and not info.sandbox.network
    assert [(spec.name, spec.dtype, spec.shape, spec.optional) for spec in info.inputs] == [("image", "float32", ["batch", 1, 8, 8], False)]
    assert info.inputs[0].description == "Brightness of the ink" and info.outputs[0].name == "probabilities"
    (file,) = [file for file in info.files if file.path == "model/model.onnx"]
    assert (file.sha256, file.size) == (hashlib.sha256(model_file.read_bytes()).hexdigest(), model_file.stat().st_size)
    assert json.loads(json.dumps(dataclasses.asdict(info)))["runner"]["name"] == "onnx"
    # A notebook shows it whole.
    assert len(repr(info)) < 250 and "model_name='digits'" in repr(info)
    report = package.verify()
    assert report.ok and not report.bad and not report.not_fetched and report.files > 5


def test_the_packed_model_runs(full: Path, pictures: Pictures) -> None:
    with carton.load(full, expect=carton.open(full).manifest_sha256) as model:
        np.testing.assert_allclose(model(pictures[0])["probabilities"], pictures[1], rtol=1e-5, atol=1e-6)
        outcomes = {test.name: test.outcome for test in model.self_test().tests}
        assert outcomes["all"] == "passed" and outcomes["recorded"] == "passed" and outcomes["runs"] == "ran"


def test_the_least_that_can_be_packed(model_file: Path, tmp_path: Path) -> None:
    packed = carton.pack(model_file, tmp_path / "a.carton")
    package = carton.open(packed.path)
    assert package.inputs == [TensorSpec("image", "float32", ["batch", 1, 8, 8])]
    assert package.model_name is None and package.self_tests == [] and "unnamed" in repr(package)
    # The same files give the same hash.
    assert carton.pack(model_file, tmp_path / "b.carton").manifest_sha256 == packed.manifest_sha256


def test_metadata_from_a_file_and_from_arguments(model_file: Path, digits_folder: Path, tmp_path: Path) -> None:
    packed = carton.pack(
        model_file, tmp_path / "a.carton", metadata=Metadata(model_name="other", license="MIT", file=digits_folder / "carton.toml")
    )
    package = carton.open(packed.path)
    assert (package.model_name, package.license) == ("other", "MIT")
    assert package.self_tests == ["one digit", "sixteen digits"] and package.inputs[0].description


def test_inputs_of_other_names(model_file: Path, pictures: Pictures, tmp_path: Path) -> None:
    inputs = [TensorSpec("picture", "float32", ["n", 1, 8, 8], internal_name="image")]
    carton.pack(model_file, tmp_path / "a.carton", inputs=inputs, outputs=OUTPUTS, example={"picture": pictures[0]})
    with carton.load(tmp_path / "a.carton") as model:
        assert model.inputs == inputs and model.inputs[0].internal_name == "image"
        found = model(picture=pictures[0])["probabilities"]
        np.testing.assert_allclose(found, pictures[1], rtol=1e-5, atol=1e-6)
        assert model.alloc("picture", n=3).shape == (3, 1, 8, 8)


@pytest.mark.parametrize("tensor_format", ["bin", "safetensors", "ztensor"])
@pytest.mark.parametrize("compression", ["auto", "stored", "zstd", "deflate"])
def test_formats_and_compressions(
    model_file: Path, pictures: Pictures, tmp_path: Path, tensor_format: str, compression: str
) -> None:
    path = tmp_path / "a.carton"
    carton.pack(
        model_file, path, example={"image": pictures[0]}, check=True,
        files=Files(tensors={"zeros": np.zeros(50_000), "words": ["a", "b"]}, tensor_format=tensor_format, compression=compression),  # type: ignore[arg-type]
    )  # fmt: skip
    package = carton.open(path)
    assert package.verify().ok and package.tensor("zeros").shape == (50_000,)
    assert package.tensor("words").tolist() == ["a", "b"]
    # Files of tensors are stored, so that they can be mapped.
    if compression == "stored" or tensor_format != "bin":
        assert os.path.getsize(path) > 400_000
    else:
        assert os.path.getsize(path) < 100_000


def test_one_side_is_declared(model_file: Path, tmp_path: Path, pictures: Pictures) -> None:
    images, expected = pictures
    image = TensorSpec("image", "float32", ["rows", 1, 8, 8])
    tests = [SelfTest({"image": images}, {"probabilities": expected})]
    packed = carton.pack(model_file, tmp_path / "a.carton", inputs=[image], tests=tests)
    package = carton.open(packed.path)
    # The model has the outputs; its symbol is the one that is declared.
    assert package.inputs == [image] and package.outputs == [TensorSpec("probabilities", "float32", ["rows", 10])]
    with carton.load(packed.path) as model:
        np.testing.assert_allclose(model(images)["probabilities"], expected, rtol=1e-5)
    # It has the inputs, too.
    carton.pack(model_file, tmp_path / "a.carton", outputs=[TensorSpec("probabilities", "float32", ["rows", 10])])
    assert carton.open(tmp_path / "a.carton").inputs == [image]


def test_outputs_that_only_calls_show(noop_folder: Path, tmp_path: Path) -> None:
    """The runner cannot read this model, which returns its inputs."""
    path, x = tmp_path / "a.carton", np.ones((2, 3), np.float32)
    inputs = [TensorSpec("x", "float32", ["n", 3])]
    shown = [TensorSpec("x", "float32", ["*", "*"])]
    ways: list[dict[str, Any]] = [
        {"tests": [SelfTest({"x": x}, {"x": x})]},
        {"tests": [SelfTest({"x": x}, "record")]},
        {"example": x},
        {"tests": [Example({"x": x}, {"x": x})]},
    ]
    for way in ways:
        carton.pack(noop_folder, path, runner="noop", inputs=inputs, **way)
        assert carton.open(path).outputs == shown, way
        with carton.load(path) as model:
            assert model(np.zeros((5, 3), np.float32))["x"].shape == (5, 3)
        path.unlink()
    for way in [{}, {"tests": [SelfTest({"x": x})]}]:
        with pytest.raises(carton.InvalidInputError, match="neither the model nor a self-test") as caught:
            carton.pack(noop_folder, path, runner="noop", inputs=inputs, **way)
        assert caught.value.hint is not None and "record" in caught.value.hint
        assert not path.exists()


# What packing refuses


def test_a_self_test_that_fails(model_file: Path, pictures: Pictures, tmp_path: Path) -> None:
    wrong = SelfTest({"image": pictures[0][:1]}, {"probabilities": np.zeros((1, 10), np.float32)}, name="wrong one")
    path = tmp_path / "a.carton"
    with pytest.raises(carton.SelfTestError, match="wrong one") as caught:
        carton.pack(model_file, path, tests=[wrong])
    assert isinstance(caught.value, AssertionError) and "expected 0" in str(caught.value)
    assert list(tmp_path.iterdir()) == []
    # An existing carton stays as it is.
    carton.pack(model_file, path)
    before = path.read_bytes()
    with pytest.raises(carton.SelfTestError):
        carton.pack(model_file, path, tests=[wrong])
    assert path.read_bytes() == before
    # Without the check nothing runs.
    carton.pack(model_file, path, tests=[wrong], check=False)
    with carton.load(path) as model:
        report = model.self_test()
        assert not report.ok and report.failed == 1
        ((test,), ((output,),)) = report.tests, [test.outputs for test in report.tests]
        assert (test.outcome, output.ok) == ("failed", False) and output.detail and "expected 0" in output.detail


def test_what_packing_refuses(model_file: Path, pictures: Pictures, tmp_path: Path) -> None:
    image, output = pictures[0][:1], tmp_path / "a.carton"

    def check(kind: type[Exception], text: str, **options: Any) -> None:
        with pytest.raises(kind, match=text):
            carton.pack(model_file, output, **options)
        assert not output.exists(), options

    check(
        carton.SignatureMismatchError,
        "declared float64",
        inputs=[TensorSpec("image", "float64", ["b", 1, 8, 8])],
        outputs=[TensorSpec("probabilities", "float32", ["b", 10])],
    )
    check(carton.InvalidInputError, "`picture`", inputs=[TensorSpec("picture", "float32")], outputs=[TensorSpec("probabilities", "float32")])
    check(carton.Error, "`picture`", example={"picture": image})
    check(carton.Error, "expected 8, found 7", tests=[SelfTest({"image": image[..., :7]}, "record")])
    check(carton.InvalidInputError, "bool", tests=[SelfTest({"image": image > 0}, "record")])
    check(carton.InvalidInputError, "complex256|clongdouble", files=Files(tensors={"a": np.clongdouble(1)}))
    check(carton.InvalidInputError, "compression", files=Files(compression="best"))  # type: ignore[arg-type]
    check(carton.InvalidInputError, "tensor format", files=Files(tensor_format="npz"))  # type: ignore[arg-type]
    check(carton.InvalidInputError, "version requirement", framework_version="latest")
    check(carton.NoRunnerError, ">99", framework_version=">99")
    check(carton.NoRunnerError, "`nope`", runner="nope")
    check(carton.InvalidInputError, "metadata", metadata=tmp_path / "missing.toml")
    check(carton.InvalidInputError, "not allowed", files=Files(misc={"../out": model_file}))
    check(carton.Error, "missing", files=Files(misc={"a": tmp_path / "missing"}))
    check(carton.InvalidInputError, "64 hexadecimal", files=Files(links={"zz": ["https://example.org"]}))
    check(carton.Error, "riscv64gc-unknown-linux-gnu only", metadata=Metadata(required_platforms=["riscv64gc-unknown-linux-gnu"]))
    check(carton.InvalidInputError, "`pdp-11` is no known target triple", metadata=Metadata(required_platforms=["pdp-11"], strict=True))
    check(carton.InvalidInputError, "@misc/gone.png", metadata=Metadata(model_description="![x](@misc/gone.png)", strict=True))
    check(TypeError, "unexpected keyword", colour="red")
    with pytest.raises(carton.MachineError, match="missing.onnx"):
        carton.pack(tmp_path / "missing.onnx", output)
    with pytest.raises(carton.Error, match="nowhere"):
        carton.pack(model_file, tmp_path / "nowhere" / "a.carton")
    # No half-written file is left.
    assert list(tmp_path.iterdir()) == []


def test_values_of_the_wrong_type_are_named(model_file: Path, tmp_path: Path) -> None:
    def check(text: str, make: Callable[[], object]) -> None:
        with pytest.raises(carton.InvalidInputError, match=re.escape(text)) as caught:
            make()
        assert isinstance(caught.value, ValueError)

    wrong: Any = 5
    check("`metadata.model_name`: expected a text, found a value of type int", lambda: Metadata(model_name=wrong))
    check("`metadata.required_platforms`: expected a list", lambda: Metadata(required_platforms="x86_64-unknown-linux-gnu"))
    check("`metadata.required_platforms[1]`: expected a text", lambda: Metadata(required_platforms=["a", wrong]))
    check("`metadata.file`: expected a path", lambda: Metadata(file=wrong))
    check("`metadata.strict`: expected True or False", lambda: Metadata(strict=wrong))
    check("`files.misc`: expected a dict", lambda: Files(misc=["a.png"]))  # type: ignore[arg-type]
    check("`files.misc['a']`: expected a path", lambda: Files(misc={"a": wrong}))
    check("`files.tensors`: expected texts as the keys", lambda: Files(tensors={wrong: 1}))
    check("`files.compression`: expected a text, found None", lambda: Files(compression=None))  # type: ignore[arg-type]
    check("`files.links['00']`: expected a list", lambda: Files(links={"00": "https://example.org"}))
    check("`SelfTest.inputs`: expected a dict", lambda: SelfTest(wrong))
    check("`SelfTest.expected`: expected a dict, the text `record` or None", lambda: SelfTest({}, "recorded"))  # type: ignore[arg-type]
    check("`SelfTest.expected`: expected a dict", lambda: SelfTest({}, np.zeros(3)))  # type: ignore[arg-type]
    check("`Example.outputs`: expected a dict", lambda: Example({}, wrong))
    check("`Example.name`: expected a text", lambda: Example({}, {}, name=wrong))

    def packing(**options: Any) -> Callable[[], object]:
        return lambda: carton.pack(model_file, tmp_path / "a.carton", **options)

    check("`metadata`: expected a Metadata or the path of a carton.toml", packing(metadata={"model_name": "a"}))
    check("`files`: expected a Files", packing(files={"misc": {}}))
    check("`tests`: expected a list", packing(tests=SelfTest({})))
    check("`tests[1]`: expected a SelfTest or an Example", packing(tests=[SelfTest({}), {"image": 1}]))
    check("`inputs[0]`: expected a TensorSpec", packing(inputs=["image"]))
    check("`runner`: expected a text", packing(runner=wrong))
    check("`options`: expected a dict", packing(options=["a"]))
    check("`options`: Object of type set is not JSON", packing(options={"a": set()}))
    check("`check`: expected True or False", packing(check="no"))
    assert list(tmp_path.iterdir()) == []


def test_pack_has_few_keywords() -> None:
    parameters = inspect.signature(carton.pack).parameters.values()
    assert sum(parameter.kind is parameter.KEYWORD_ONLY for parameter in parameters) <= 14


def test_warnings(model_file: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    packed = carton.pack(model_file, tmp_path / "a.carton", metadata=Metadata(model_description="![x](@misc/gone.png)"))
    expected = "`model_description` refers to `@misc/gone.png`, which is not in the carton"
    assert packed.warnings == [expected]
    assert expected in [record.getMessage() for record in caplog.records]
    assert packed.check is not None and packed.check.zeros == carton.ZeroRun(True, None)
    assert carton.pack(model_file, tmp_path / "a.carton", metadata=Metadata(strict=True)).warnings == []


def test_specs() -> None:
    spec = TensorSpec("x", np.dtype(">f4"), ("n", 3, None, "*"), optional=True)
    assert (spec.dtype, spec.shape, spec.optional) == ("float32", ("n", 3, "*", "*"), True)
    assert TensorSpec("x", "float32").shape == "*" and TensorSpec("x", "float32", "shape").shape == "shape"
    assert TensorSpec("x", "float32", []).shape == () and not TensorSpec("x", "float32").optional
    assert [TensorSpec("x", dtype).dtype for dtype in (str, "U", "string", object)] == ["string"] * 4
    assert TensorSpec("x", int).dtype == "int64" and TensorSpec("x", float).dtype == "float64"
    assert TensorSpec("x", "f4") == TensorSpec("x", "float32") != TensorSpec("y", "f4")
    assert TensorSpec("x", "f4") != "x" and "float32" in repr(TensorSpec("x", "f4"))
    for dtype in (bool, "bool", np.bool_):
        mask = TensorSpec("x", dtype)
        assert mask == TensorSpec("x", "bool") != TensorSpec("x", "uint8") and mask.dtype == "bool"
        assert "bool" in repr(mask) and pickle.loads(pickle.dumps(mask)) == mask
    assert [TensorSpec("x", dtype).dtype for dtype in (complex, "f2")] == ["complex128", "float16"]
    for refused in (np.clongdouble, "M8[s]"):
        with pytest.raises(ValueError, match="no tensors of dtype"):
            TensorSpec("x", refused)
    for shape in ([-1], [1.5], [2**70], 5):
        with pytest.raises((TypeError, ValueError, OverflowError)):
            TensorSpec("x", "f4", shape)  # type: ignore[arg-type]


def test_progress(model_file: Path, tmp_path: Path, pictures: Pictures) -> None:
    stages: list[str] = []

    def progress(*, stage: str, done: int, total: int | None, unit: str) -> None:
        assert isinstance(done, int) and (total is None or done <= total) and isinstance(unit, str)
        stages.append(stage)

    tensors = {"a": np.random.default_rng(0).standard_normal(1_000_000)}
    carton.pack(model_file, tmp_path / "a.carton", files=Files(tensors=tensors), progress=progress)
    assert stages
    stages.clear()
    carton.open(tmp_path / "a.carton").verify(progress=progress)
    assert stages
    with pytest.raises(KeyError):
        carton.pack(model_file, tmp_path / "b.carton", files=Files(tensors=tensors), progress=lambda **_: {}["stop"])
    # The callback may see the last event when the carton is complete.
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"a.carton"} or (left == {"a.carton", "b.carton"} and carton.open(tmp_path / "b.carton").verify().ok)


# Reading


def test_what_a_carton_does_not_have(full: Path) -> None:
    package = carton.open(full)
    asks: list[tuple[Callable[[str], object], str]] = [
        (package.tensor, "`nope`"), (package.example, "`nope`"), (package.read, "`nope`"),
    ]  # fmt: skip
    for ask, text in asks:
        with pytest.raises(carton.InvalidInputError, match=text):
            ask("nope")
    with pytest.raises(carton.InvalidInputError, match="expected at most 3"):
        package.read("carton.toml", limit=3)
    for path in ("../full.carton", "/etc/passwd", ""):
        with pytest.raises(carton.Error):
            package.read(path)


def test_unpack_and_open_the_folder(full: Path, pictures: Pictures, tmp_path: Path) -> None:
    package = carton.open(full)
    package.unpack(tmp_path / "folder")
    assert (tmp_path / "folder" / "misc" / "deep" / "er.txt").is_file()
    folder = carton.open(tmp_path / "folder")
    assert folder.manifest_sha256 == package.manifest_sha256 and folder.verify().ok
    with carton.load(tmp_path / "folder") as model:
        np.testing.assert_allclose(model(pictures[0])["probabilities"], pictures[1], rtol=1e-5, atol=1e-6)
    with pytest.raises(carton.Error):
        package.unpack(tmp_path / "folder")
    with zipfile.ZipFile(full) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
    unpacked = {str(path.relative_to(tmp_path / "folder")) for path in (tmp_path / "folder").rglob("*") if path.is_file()}
    assert unpacked == names


def test_paths_of_every_kind(full: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Somewhere:
        def __fspath__(self) -> str:
            return str(full)

    for location in (full, str(full), os.fsencode(full), Somewhere()):
        assert carton.open(location).model_name == "digits"  # type: ignore[arg-type]
    strange = tmp_path / "a b#c:ü.carton"
    strange.write_bytes(full.read_bytes())
    assert carton.open(strange).model_name == "digits"
    monkeypatch.chdir(tmp_path)
    assert carton.open(Path("a b#c:ü.carton")).model_name == "digits"
    sha = carton.open(full).manifest_sha256
    assert carton.open(f"{full}#sha256={sha}").manifest_sha256 == sha
    with pytest.raises(carton.IntegrityError):
        carton.open(f"{full}#sha256={'0' * 64}")
    with pytest.raises(carton.IntegrityError):
        carton.open(full, expect="0" * 64)


def test_a_damaged_carton(full: Path, tmp_path: Path) -> None:
    data = full.read_bytes()
    with zipfile.ZipFile(full) as archive:
        entry = archive.getinfo("model/model.onnx")
    damaged = bytearray(data)
    damaged[entry.header_offset + 200] ^= 0xFF
    path = tmp_path / "damaged.carton"
    path.write_bytes(damaged)
    with pytest.raises(carton.IntegrityError, match="model/model.onnx"):
        carton.load(path)
    report = carton.open(path).verify()
    ((bad, why),) = report.bad
    assert not report.ok and bad == "model/model.onnx"
    # The reason is told, not only the name.
    assert "CRC" in why or "mismatch" in why or "zstd" in why.lower()
    with pytest.raises(carton.IntegrityError):
        carton.open(path).read("model/model.onnx")
    with pytest.raises(carton.IntegrityError):
        carton.open(path).unpack(tmp_path / "out")
    for cut in (0, 10, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:cut])
        with pytest.raises(carton.IntegrityError):
            carton.open(path)
    path.write_bytes(data + b"more")
    with pytest.raises(carton.Error):
        carton.load(path, expect="0" * 64)


# Shrinking and resolving


def test_shrink_and_resolve(full: Path, model_file: Path, pictures: Pictures, tmp_path: Path) -> None:
    digest = hashlib.sha256(model_file.read_bytes()).hexdigest()
    small, files = tmp_path / "small.carton", tmp_path / "files"
    shrunk = carton.shrink(full, small, links={digest: [(files / digest).as_uri()]}, save_files=files)
    assert shrunk.manifest_sha256 == carton.open(full).manifest_sha256
    (left_out,) = shrunk.left_out
    assert (left_out.path, left_out.sha256, left_out.size) == ("model/model.onnx", digest, model_file.stat().st_size)
    assert left_out.saved == str(files / digest) and (files / digest).read_bytes() == model_file.read_bytes()
    with zipfile.ZipFile(small) as archive:
        assert "model/model.onnx" not in archive.namelist()
    # Local files are read only if that is allowed.
    with pytest.raises(carton.Error) as caught:
        carton.load(small)
    assert "allow" in (caught.value.hint or str(caught.value))
    with carton.load(small, allow_file_links=True) as model:
        np.testing.assert_allclose(model(pictures[0])["probabilities"], pictures[1], rtol=1e-5, atol=1e-6)
    whole = tmp_path / "whole.carton"
    resolved = carton.resolve(small, whole, allow_file_links=True)
    assert resolved.manifest_sha256 == shrunk.manifest_sha256 and Path(resolved.path) == whole
    assert carton.open(whole).verify().ok
    with zipfile.ZipFile(whole) as archive:
        assert "model/model.onnx" in archive.namelist()


def test_shrink_by_prefix_and_size(full: Path, tmp_path: Path) -> None:
    shrunk = carton.shrink(full, tmp_path / "a.carton", url_prefix="https://example.org/files", min_size=1000)
    assert [file.path for file in shrunk.left_out] == ["model/model.onnx"]
    assert shrunk.left_out[0].saved is None
    with pytest.raises(carton.InvalidInputError, match="one of the two"):
        carton.shrink(full, tmp_path / "b.carton")
    with pytest.raises(carton.InvalidInputError, match="one of the two"):
        carton.shrink(full, tmp_path / "b.carton", url_prefix="https://example.org", links={"00" * 32: ["https://a/"]})
    with pytest.raises(carton.InvalidInputError, match="no file"):
        carton.shrink(full, tmp_path / "b.carton", links={"00" * 32: ["https://example.org/"]})
    assert not (tmp_path / "b.carton").exists()


def test_files_that_cannot_be_fetched(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "weights").write_bytes(os.urandom(100_000))
    (tmp_path / "model" / "words").write_text("few")
    carton.pack(tmp_path / "model", tmp_path / "a.carton", runner="noop", check=False)
    prefix = "https://example.org/files"
    shrunk = carton.shrink(tmp_path / "a.carton", tmp_path / "b.carton", url_prefix=prefix, min_size=90_000)
    package = carton.open(tmp_path / "b.carton", offline=True)
    assert package.read("model/words") == b"few"
    with pytest.raises(carton.NetworkError, match="network is not to be used") as caught:
        package.read("model/weights")
    assert isinstance(caught.value, ConnectionError) and shrunk.left_out[0].sha256 in str(caught.value)
    with pytest.raises(carton.NetworkError):
        carton.load(tmp_path / "b.carton", offline=True)
    report = package.verify()
    assert report.not_fetched == ["model/weights"] and not report.bad


# Runners and the cache


def test_runners(model_file: Path, noop_folder: Path, tmp_path: Path) -> None:
    found = {runner.name: runner for runner in carton.runners()}
    assert set(found) == {"noop", "onnx"}
    for runner in found.values():
        assert runner.folder is None and runner.framework_version and runner.compat_version >= 1
    assert carton.recognize(model_file).runner == "onnx"
    assert carton.recognize(noop_folder) is None
    with pytest.raises(carton.MachineError):
        carton.recognize(tmp_path / "missing.onnx")
    with pytest.raises(carton.InvalidInputError, match="index="):
        carton.install_runner("onnx")
    with pytest.raises(carton.MachineError):
        carton.install_runner("onnx", index=str(tmp_path / "missing"))


def test_the_cache(full: Path) -> None:
    listing = carton.cache.list()
    assert Path(listing.path) == Path(os.environ["CARTON_CACHE_DIR"])
    with carton.load(full):
        listing = carton.cache.list()
        for cached in listing.cartons:
            assert cached.bytes >= 0 and cached.last_used > 1e9 and isinstance(cached.in_use, bool)
    before = carton.cache.prune(dry_run=True)
    assert before.freed >= 0 and before.remaining >= 0
    assert carton.cache.list().bytes == listing.bytes
    carton.cache.prune(older_than=1e9)
    carton.cache.prune(max_size=0)
    assert all(cached.in_use for cached in carton.cache.list().cartons)
    with pytest.raises(carton.Error):
        carton.cache.remove("nothing-of-that-name")
    with pytest.raises(carton.InvalidInputError, match="seconds"):
        carton.cache.prune(older_than=-1)


def test_a_broken_configuration_is_told(run_script: RunScript) -> None:
    ended = run_script(
        """
path = os.path.join(os.path.dirname(__file__), "broken.toml")
open(path, "w").write("cache_dir = [")
os.environ["CARTON_CONFIG_PATH"] = path
try:
    carton.runners()
except carton.Error as error:
    print("broken.toml" in str(error))
"""
    )
    assert (ended.code, ended.stdout) == (0, "True\n"), ended.stderr
