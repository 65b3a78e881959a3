"""PyTorch: packing modules as TorchScript and as ONNX, tensors as inputs, and outputs as tensors.

The tests of TorchScript need a torchscript runner for this torch in the folder of runners that CARTON_TEST_RUNNERS names.
"""

from __future__ import annotations

import gc
import math
import os
import warnings
from pathlib import Path
from typing import Any, Dict, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import carton
from carton import TensorSpec
from conftest import RunScript

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch import nn  # noqa: E402


@pytest.fixture
def torchscript_runner(monkeypatch: pytest.MonkeyPatch) -> None:
    """Uses the runners in the folder that CARTON_TEST_RUNNERS names."""
    folder = os.environ.get("CARTON_TEST_RUNNERS")
    if folder is None:
        pytest.skip("CARTON_TEST_RUNNERS names no folder with a torchscript runner")
    monkeypatch.setenv("CARTON_RUNNER_DIR", folder)
    monkeypatch.setenv("CARTON_RUNNER_DATA_DIR", f"{folder}.data")
    series = ".".join(torch.__version__.split(".")[:2])
    versions = [runner.framework_version for runner in carton.runners() if runner.name == "torchscript"]
    if not any(version.startswith(f"{series}.") for version in versions):
        pytest.skip(f"no torchscript runner for libtorch {series} is in {folder}")


@pytest.fixture(params=["torchscript", "onnx"])
def runner(request: pytest.FixtureRequest) -> str:
    """Each of the two formats."""
    if request.param == "torchscript":
        request.getfixturevalue("torchscript_runner")
    else:
        pytest.importorskip("onnxscript", reason="onnxscript is not installed")
    name: str = request.param
    return name


def specs(found: Any) -> list[tuple[str, str, Any]]:
    return [(spec.name, spec.dtype, spec.shape) for spec in found]


def check_packed(module: Any, example: Any, runner: str | None, path: Path, **options: Any) -> carton.Package:
    """Packs a module, and checks the self-test that was recorded."""
    packed = carton.pack(module, path, example=example, runner=runner, **options)
    assert packed.check is not None and (packed.check.self_test.passed, packed.check.self_test.ran) == (1, 0)
    package = carton.open(packed.path)
    assert package.self_tests == ["example"]
    if runner is not None:
        assert package.info().runner.name == runner
    return package


def small_net() -> Any:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Dropout(), nn.Linear(8 * 6 * 6, 5))


def test_a_module(runner: str, tmp_path: Path) -> None:
    net = small_net()
    x = torch.randn(4, 3, 8, 8)
    package = check_packed(net, x, runner, tmp_path / "net.carton")
    assert specs(package.inputs) == [("input", "float32", ("batch", 3, 8, 8))]
    assert specs(package.outputs) == [("output", "float32", ("batch", 5))]
    other = torch.randn(7, 3, 8, 8)
    net.eval()
    with carton.load(tmp_path / "net.carton") as model, torch.no_grad():
        assert model.self_test().ok
        np.testing.assert_allclose(model(other)["output"], net(other).numpy(), rtol=1e-4, atol=1e-5)


def test_the_module_stays_as_it_was(runner: str, tmp_path: Path) -> None:
    net = small_net().train()
    # Frozen, as in transfer learning.
    net[1].eval()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    check_packed(net, torch.randn(2, 3, 8, 8), runner, tmp_path / "net.carton")
    assert [part.training for part in net] == [True, False, True, True, True, True]
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


class Writing(nn.Module):
    def forward(self, x):
        return x.add_(1)


def test_the_example_stays_as_it_was(runner: str, tmp_path: Path) -> None:
    for x in (np.zeros((2, 3), np.float32), torch.zeros(2, 3)):
        check_packed(Writing(), x, runner, tmp_path / "writing.carton")
        assert not x.any()
        with carton.load(tmp_path / "writing.carton") as model:
            assert model.self_test().ok and model(x)["output"].tolist() == [[1, 1, 1]] * 2


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cells = nn.LSTM(4, 6, 2, batch_first=True)

    def forward(self, x):
        y, (hidden, cell) = self.cells(x)
        return {"y": y, "hidden": hidden, "cell": cell}


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_the_batch_is_found_in_any_dimension(runner: str, tmp_path: Path) -> None:
    package = check_packed(Recurrent(), torch.randn(3, 5, 4), runner, tmp_path / "recurrent.carton")
    assert specs(package.inputs) == [("x", "float32", ("batch", 5, 4))]
    hidden = [(name, "float32", (2, "batch", 6)) for name in ("hidden", "cell")]
    assert specs(package.outputs) == [("y", "float32", ("batch", 5, 6)), *hidden]
    with carton.load(tmp_path / "recurrent.carton") as model:
        assert model(x=np.zeros((8, 5, 4), np.float32))["cell"].shape == (2, 8, 6)


class Fixed(nn.Module):
    def forward(self, x):
        return x.reshape(5, 2).sum(1)


def test_a_module_for_one_number_of_rows(runner: str, tmp_path: Path) -> None:
    package = check_packed(Fixed(), torch.randn(5, 2), runner, tmp_path / "fixed.carton")
    assert (specs(package.inputs), specs(package.outputs)) == ([("x", "float32", (5, 2))], [("output", "float32", (5,))])


class Pair(NamedTuple):
    total: torch.Tensor
    is_large: torch.Tensor


class Several(nn.Module):
    def __init__(self, form: type = tuple) -> None:
        super().__init__()
        self.form = form

    def forward(self, x, y):
        total, is_large = x.sum(1) + y, x > 0
        if self.form is dict:
            return {"total": total, "is_large": is_large}
        return Pair(total, is_large) if self.form is Pair else (total, is_large)


@pytest.mark.parametrize("form", [tuple, Pair, dict])
def test_names_of_inputs_and_outputs(runner: str, tmp_path: Path, form: type) -> None:
    path = tmp_path / "several.carton"
    example = {"y": torch.arange(3.0), "x": torch.ones(3, 2)}
    names = ["output_0", "output_1"] if form is tuple else ["total", "is_large"]
    package = check_packed(Several(form), example, runner, path)
    assert specs(package.inputs) == [("y", "float32", ("batch",)), ("x", "float32", ("batch", 2))]
    assert specs(package.outputs) == [(names[0], "float32", ("batch",)), (names[1], "bool", ("batch", 2))]
    # By position, in the order of the parameters.
    package = check_packed(Several(form), (example["x"], example["y"]), runner, path)
    assert [spec.name for spec in package.inputs] == ["x", "y"]
    with carton.load(path) as model:
        outputs = model(x=np.ones((1, 2), np.float32), y=np.ones(1, np.float32))
    assert {name: array.tolist() for name, array in outputs.items()} == {names[0]: [3.0], names[1]: [[1, 1]]}


def test_declared_names(runner: str, tmp_path: Path) -> None:
    """Inputs and outputs are matched in order where their names are not the module's."""
    inputs = [TensorSpec("image", "float32", ["n", 2]), TensorSpec("offset", "float32", ["n"])]
    outputs = [TensorSpec("sum", "float32", ["n"]), TensorSpec("flags", "bool", ["n", 2])]
    example = {"image": torch.ones(3, 2), "offset": torch.zeros(3)}
    package = check_packed(Several(), example, runner, tmp_path / "named.carton", inputs=inputs, outputs=outputs)
    assert specs(package.inputs) == specs(inputs) and specs(package.outputs) == specs(outputs)
    with carton.load(tmp_path / "named.carton") as model:
        assert model(image=np.ones((1, 2), np.float32), offset=np.ones(1, np.float32))["sum"].tolist() == [3.0]


class OfDict(nn.Module):
    def forward(self, inputs: Dict[str, torch.Tensor]) -> Dict[str, torch.Tensor]:
        return {"sum": inputs["a"] + inputs["b"], "a2": inputs["a"] * 2}


def test_a_module_that_takes_a_dict(runner: str, tmp_path: Path) -> None:
    package = check_packed(OfDict(), {"a": torch.ones(2), "b": torch.ones(2)}, runner, tmp_path / "dict.carton")
    assert [spec.name for spec in package.inputs] == ["a", "b"]
    assert specs(package.outputs) == [("sum", "float32", ("batch",)), ("a2", "float32", ("batch",))]


@pytest.mark.usefixtures("torchscript_runner")
def test_scripts(tmp_path: Path) -> None:
    class Branching(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if bool(x.sum() > 0):
                return x
            return -x

    x = np.array([-1.0, -2.0], np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        script = torch.jit.script(Branching())
    # Already scripted, with and without an example; and scripted here, because there is no example to trace with.
    for module, example in ((script, x), (script, None), (Branching(), None)):
        packed = carton.pack(module, tmp_path / "script.carton", example=example, runner="torchscript")
        assert len(carton.open(packed.path).self_tests) == (example is not None)
        with carton.load(packed.path) as model:
            (up,), (down,) = model(x=-x).values(), model(x=x).values()
        assert up.tolist() == [1, 2] and down.tolist() == [1, 2]


@pytest.mark.usefixtures("torchscript_runner")
def test_halves_stay_halves(tmp_path: Path) -> None:
    class Halves(nn.Module):
        def forward(self, x):
            return x.half(), x.bfloat16()

    package = check_packed(Halves(), torch.ones(2), "torchscript", tmp_path / "halves.carton")
    assert [spec.dtype for spec in package.outputs] == ["float16", "bfloat16"]


def test_the_default_is_what_runs_here(
    torchscript_runner: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def packed_for() -> str:
        package = check_packed(small_net(), torch.randn(2, 3, 8, 8), None, tmp_path / "net.carton")
        name: str = package.info().runner.name
        return name

    assert packed_for() == "torchscript"
    monkeypatch.setenv("CARTON_RUNNER_DIR", str(tmp_path / "none"))
    pytest.importorskip("onnxscript", reason="onnxscript is not installed")
    assert packed_for() == "onnx"


def test_an_onnx_carton_needs_no_torch(tmp_path: Path, run_script: RunScript) -> None:
    pytest.importorskip("onnxscript", reason="onnxscript is not installed")
    check_packed(small_net(), torch.randn(2, 3, 8, 8), "onnx", tmp_path / "net.carton")
    ended = run_script(
        f"sys.modules['torch'] = None\n"
        f"with carton.load({str(tmp_path / 'net.carton')!r}) as model:\n"
        f"    print(model.self_test().ok, model.runner)\n"
    )
    assert ended.stdout.startswith("True onnx"), ended.stderr


def test_an_export_says_nothing_of_this_machine(tmp_path: Path) -> None:
    """Only what a caller must know is printed, and no path of a source file is in the model."""
    pytest.importorskip("onnxscript", reason="onnxscript is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_packed(Recurrent(), torch.randn(3, 5, 4), "onnx", tmp_path / "net.carton")
    content = carton.open(tmp_path / "net.carton").read("model/model.onnx")
    assert b"test_torch" not in content and b"site-packages" not in content


def test_large_weights_are_in_a_file_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As those above 2 GiB, which is the limit of an ONNX file."""
    pytest.importorskip("onnxscript", reason="onnxscript is not installed")
    monkeypatch.setattr("carton._live.torch_export.MAX_PROTOBUF_BYTES", 1)
    package = check_packed(small_net(), torch.randn(2, 3, 8, 8), "onnx", tmp_path / "net.carton")
    sizes = {file.path: file.size for file in package.info().files if file.path.startswith("model/")}
    assert sizes["model/model.onnx.data"] >= 4 * 8 * 6 * 6 * 5 > sizes["model/model.onnx"] / 2
    with carton.load(tmp_path / "net.carton") as model:
        assert model.self_test().ok


def test_modules_that_cannot_be_packed(tmp_path: Path) -> None:
    def check(module: Any, message: str, example: Any = None, *, hint: str = "", **options: Any) -> None:
        with pytest.raises(carton.InvalidInputError, match=message) as raised:
            carton.pack(module, tmp_path / "net.carton", example=example, **options)
        assert hint in (raised.value.hint or "")
        assert not (tmp_path / "net.carton").exists()

    class Branching(nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else -x

    class Nested(nn.Module):
        def forward(self, x):
            return x, (x, x)

    class Echo(nn.Module):
        def forward(self, x):
            return {"x": x + 1}

    class Noise(nn.Module):
        def forward(self, x):
            return x + torch.rand(3) * 100

    net, x = Writing(), torch.ones(2)
    check(net, "for the runner `torchscript` or `onnx`, found `python`", x, runner="python")
    check(net, "takes a call of it", runner="onnx")
    check(net, "has an input `z`, and the module takes x", {"z": x})
    check(net, "input `x` of the example cannot be a tensor", "text")
    check(small_net(), "the module fails with the example: RuntimeError", torch.ones(2, 2))
    check(Nested(), "output `output_1` of the module is a tuple", x, hint="a dict of tensors")
    check(Several(), "returned 2 outputs, and 1 are declared", (torch.ones(2, 2), x), outputs=[TensorSpec("y", "float32", "*")])
    pytest.importorskip("onnxscript", reason="onnxscript is not installed")
    check(Branching(), r"cannot be exported to ONNX: \w+: .+", x, runner="onnx", hint="runner='torchscript'")
    check(Echo(), "an input and an output `x`", x, runner="onnx", hint="another name")
    check(Noise(), "output `output` of the exported model is not what", torch.ones(3), runner="onnx")


# Tensors as inputs, and outputs as tensors.

#: Elements of outputs that are copied at once, copied into memory of their own, and mapped.
SIZES = [1, 512, 100_000, 5_000_000]


@pytest.fixture(params=["echo", "copying"])
def model(request: pytest.FixtureRequest) -> carton.Model:
    """A model whose outputs are the host's memory, and one whose outputs are the runner's."""
    found: carton.Model = request.getfixturevalue(request.param)
    return found


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
@pytest.mark.parametrize("size", SIZES)
def test_tensors_of_outputs_can_be_written(model: carton.Model, size: int) -> None:
    """PyTorch does not know that an array is read-only. What it writes is seen in this output alone."""
    sent = torch.arange(size, dtype=torch.float32)
    for take in (torch.from_dlpack, torch.from_numpy, torch.as_tensor):
        outputs, others = model(x=sent, y=sent), model(x=sent)
        taken = take(outputs["x"])
        assert taken.data_ptr() == outputs["x"].ctypes.data
        taken.add_(1)
        del outputs["x"]
        gc.collect()
        assert torch.equal(taken, sent + 1)
        assert np.array_equal(outputs["y"], sent) and np.array_equal(others["x"], sent)
        assert torch.equal(sent, torch.arange(size, dtype=torch.float32))


@pytest.mark.parametrize("size", SIZES)
def test_tensors_outlive_the_model(noop_folder: Path, size: int) -> None:
    sent = torch.arange(size, dtype=torch.float64)
    with carton.load(noop_folder, runner="noop", bare=True, options={"copy": True}) as model:
        taken = torch.from_dlpack(model(x=sent)["x"])
    gc.collect()
    taken *= 2
    assert torch.equal(taken, sent * 2)


@pytest.mark.parametrize("size", SIZES)
def test_tensors_of_outputs_are_inputs(model: carton.Model, digits: carton.Model, size: int) -> None:
    sent = torch.arange(size, dtype=torch.float32)
    # As a module between two models: in memory of PyTorch's own, and a view of the output.
    taken = torch.from_dlpack(model(x=sent)["x"])
    assert np.array_equal(model(x=taken * 2)["x"], sent * 2)
    assert np.array_equal(model(x=taken[::2])["x"], sent[::2])
    for number in range(10):
        # What was written to an output is passed on with its tensor.
        taken = torch.from_dlpack(model(x=taken)["x"]).add_(1)
    assert torch.equal(taken, sent + 10)
    pictures = model(x=torch.rand(3, 1, 8, 8))["x"]
    assert np.array_equal(digits(image=torch.from_dlpack(pictures))["probabilities"], digits(image=pictures)["probabilities"])


def test_tensors_of_any_layout(echo: carton.Model) -> None:
    base = torch.arange(24, dtype=torch.float32).reshape(2, 3, 4)
    views = [base, base.mT, base[:, ::2], base.permute(2, 0, 1), base[1:], base.expand(5, 2, 3, 4), base[0, 0, 0], base[:0]]
    for view in [*views, base[0].T, torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last)]:
        found = echo(x=view)["x"]
        assert found.shape == tuple(view.shape) and np.array_equal(found, view.numpy())
    for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float64, torch.uint16, torch.uint32, torch.uint64):
        found = echo(x=torch.ones(3).to(dtype))["x"]
        assert (str(found.dtype), found.tolist()) == (str(dtype).partition(".")[2], [1, 1, 1])


#: The element types that both PyTorch, in any release, and Carton have.
ELEMENT_TYPES = [
    *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"),
    *("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "complex64", "complex128"),
]
DTYPES = [getattr(torch, name) for name in ELEMENT_TYPES if hasattr(torch, name)]


@st.composite
def tensors(draw: st.DrawFn, dtypes: st.SearchStrategy[Any] = st.sampled_from(DTYPES)) -> Any:
    """A tensor of any bits, and a view of it in any layout."""
    dtype = draw(dtypes)
    shape = draw(st.lists(st.integers(0, 4), max_size=4))
    n_elements = math.prod(shape)
    if dtype == torch.bool:
        base = torch.tensor(draw(st.lists(st.booleans(), min_size=n_elements, max_size=n_elements)), dtype=dtype)
    else:
        n_bytes = n_elements * torch.empty(0, dtype=dtype).element_size()
        bits = bytearray(draw(st.binary(min_size=n_bytes, max_size=n_bytes)))
        base = torch.frombuffer(bits, dtype=dtype) if bits else torch.empty(0, dtype=dtype)
    view = base.reshape(shape)
    if shape:
        view = view.permute(draw(st.permutations(range(len(shape)))))
        dim, length = draw(st.integers(0, len(shape) - 1)), view.shape
        view = view[(slice(None),) * dim + (slice(draw(st.integers(0, length[dim])), None, draw(st.integers(1, 3))),)]
    if draw(st.booleans()):
        view = view.expand(draw(st.integers(0, 3)), *view.shape)
    return view


def check_same(found: Any, expected: Any) -> None:
    """That an output is a tensor, with NaN where it has NaN, as PyTorch reads both."""
    assert (str(found.dtype), found.shape) == (str(expected.dtype).removeprefix("torch."), tuple(expected.shape))
    taken = torch.from_dlpack(found)
    assert taken.dtype == expected.dtype
    # PyTorch compares no floats of 8 bits; a float of 32 bits has each of them.
    if taken.element_size() == 1 and taken.is_floating_point():
        taken, expected = taken.float(), expected.float()
    assert bool(((taken == expected) | (taken != taken) & (expected != expected)).all())


many = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True)


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
@many
@given(sent=tensors())
def test_tensors_of_every_type_and_layout(model: carton.Model, sent: Any) -> None:
    before = sent.clone()
    output = model(x=sent)["x"]
    check_same(output, sent)
    # An output as PyTorch takes it is an input again.
    check_same(model(x=torch.from_dlpack(output))["x"], sent)
    check_same(output, before)


#: Structures of tensors: a dtype, or tuples, dictionaries and lists of structures. The elements of a list have one structure.
STRUCTURES = st.recursive(
    st.sampled_from(DTYPES),
    lambda inner: st.one_of(
        st.tuples(st.just("tuple"), st.lists(inner, min_size=1, max_size=3)),
        st.tuples(st.just("record"), st.lists(inner, min_size=1, max_size=3)),
        st.tuples(st.just("list"), inner),
    ),
    max_leaves=6,
)


def value_of(draw: st.DrawFn, structure: Any) -> Any:
    """A value of a structure. The tensors of a list differ in their shapes."""
    if isinstance(structure, torch.dtype):
        return draw(tensors(st.just(structure)))
    form, parts = structure
    if form == "list":
        return [value_of(draw, parts) for _ in range(draw(st.integers(1, 3)))]
    values = [value_of(draw, part) for part in parts]
    return tuple(values) if form == "tuple" else dict(zip("abc", values))


def check_same_structure(found: Any, expected: Any) -> None:
    if isinstance(expected, torch.Tensor):
        check_same(found, expected)
    elif isinstance(expected, dict):
        assert list(found) == list(expected)
        for key, value in expected.items():
            check_same_structure(found[key], value)
    else:
        assert isinstance(found, type(expected)) and len(found) == len(expected)
        for one, value in zip(found, expected):
            check_same_structure(one, value)


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
@many
@given(data=st.data())
def test_structures_of_tensors(echo: carton.Model, data: st.DataObject) -> None:
    sent = value_of(data.draw, data.draw(STRUCTURES))
    check_same_structure(carton.structured(echo(carton.leaves(sent, "v")))["v"], sent)


def test_tensors_that_are_refused(echo: carton.Model) -> None:
    def check(value: Any, message: str, hint: str = "") -> None:
        with pytest.raises(carton.InvalidInputError, match=f"input `x`.*{message}") as raised:
            echo(x=value)
        assert hint in (raised.value.hint or "")

    check(torch.zeros(3, requires_grad=True), r"detach\(\)")
    check(nn.Parameter(torch.zeros(3)), r"detach\(\)")
    check(torch.zeros(3, dtype=torch.bfloat16, requires_grad=True), r"BFloat16|detach\(\)")
    check(torch.zeros(3, device="meta"), "meta")
    check(torch.eye(3).to_sparse(), "to_dense")
