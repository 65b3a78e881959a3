"""The templates of exported programs and of packages of AOTInductor beside what PyTorch makes of them."""

import shutil

import numpy
import pytest
import torch
from torch.export import Dim
from written import check_signature, written


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 2)

    def forward(self, x, scale, state=None, *, mask):
        y = self.linear(x) * scale
        if state is not None:
            y = y + state["h"] + state["c"][0]
        return {"y": y, "state": (y.sum(0), y.masked_fill(mask, 0)), "rows": x.shape[0], "nothing": None}


class Counter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("n", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        self.n.add_(1)
        x.add_(1)
        return x + self.n


class Half(torch.nn.Module):
    def forward(self, x):
        return x * 2, x.float().cos()


def exported(folder, net, arguments, keywords=None, **options):
    torch.manual_seed(1)
    program = torch.export.export(net.eval(), arguments, keywords, **options)
    torch.export.save(program, folder / "model.pt2")
    return written(folder, "torch_export", MODEL="model.pt2"), torch.export.load(folder / "model.pt2").module()


def test_structured_arguments_have_names(tmp_path):
    torch.manual_seed(1)
    state = {"h": torch.randn(3, 2), "c": [torch.randn(2)]}
    arguments, keywords = (torch.randn(3, 4), 2.5, state), {"mask": torch.tensor([True, False])}
    batch = Dim("batch", min=2, max=64)
    shapes = {"x": {0: batch}, "scale": None, "state": {"h": {0: batch}, "c": [None]}, "mask": None}
    ours, theirs = exported(tmp_path, Net(), arguments, keywords, dynamic_shapes=shapes)
    inputs = ours.example()
    assert sorted(inputs) == ["mask", "state_c_0", "state_h", "x"]
    numpy.testing.assert_array_equal(inputs["x"], arguments[0].numpy())
    found = ours.infer_with_tensors(inputs)
    check_signature(ours, inputs, found)
    described = {one["name"]: one for one in ours.signature()["inputs"] + ours.signature()["outputs"]}
    assert described["x"] == {"name": "x", "dtype": "float32", "shape": ["batch", 4]}
    assert described["mask"] == {"name": "mask", "dtype": "bool", "shape": [2]}
    assert described["state.1"]["shape"] == ["batch", 2] and described["rows"]["dtype"] == "int64"
    x, h = torch.randn(5, 4), torch.randn(5, 2)
    expected = theirs(x, 2.5, {"h": h, "c": state["c"]}, **keywords)
    found = ours.infer_with_tensors({**inputs, "x": x.numpy(), "state_h": h.numpy()})
    numpy.testing.assert_array_equal(found["y"], expected["y"].detach().numpy())
    numpy.testing.assert_array_equal(found["state.0"], expected["state"][0].detach().numpy())
    numpy.testing.assert_array_equal(found["state.1"], expected["state"][1].detach().numpy())
    assert found["rows"] == 5 and "nothing" not in found


def test_calls_do_not_change_the_model_or_their_inputs(tmp_path):
    ours, theirs = exported(tmp_path, Counter(), (torch.arange(3.0),))
    x = numpy.array([1, 2, 3], "float32")
    x.flags.writeable = False
    first, second = (ours.infer_with_tensors({"x": x})["output"] for _ in range(2))
    assert first.tolist() == second.tolist() == theirs(torch.tensor(x)).tolist() == [3, 4, 5]
    assert x.tolist() == [1, 2, 3]


def test_floats_that_numpy_has_not(tmp_path):
    ours, theirs = exported(tmp_path, Half(), (torch.arange(3.0).bfloat16(),))
    found = ours.infer_with_tensors(ours.example())
    check_signature(ours, ours.example(), found)
    assert torch.equal(found["output_0"], theirs(torch.arange(3.0).bfloat16())[0])
    bits = torch.arange(3.0).bfloat16()
    numpy.testing.assert_array_equal(found["output_1"], theirs(bits)[1].numpy())


def test_without_saved_inputs_the_example_is_a_pattern(tmp_path):
    ours, theirs = exported(tmp_path, torch.nn.Linear(4, 2), (torch.zeros(3, 4),), dynamic_shapes=({0: Dim("rows")},))
    ours.program._example_inputs = None
    inputs = ours.example()
    assert inputs["input"].shape == (3, 4) and len(numpy.unique(inputs["input"])) == 12
    numpy.testing.assert_array_equal(ours.infer_with_tensors(inputs)["output"], theirs(torch.tensor(inputs["input"])).detach().numpy())


def compiled(folder, net, arguments, keywords=None, **options):
    if not shutil.which("g++"):
        pytest.skip("AOTInductor compiles with g++, which is not in PATH")
    torch.manual_seed(1)
    program = torch.export.export(net.eval(), arguments, keywords, **options)
    torch._inductor.aoti_compile_and_package(program, package_path=str(folder / "model.pt2"))
    return written(folder, "aotinductor", MODEL="model.pt2"), torch._inductor.aoti_load_package(str(folder / "model.pt2"))


def test_a_compiled_package_has_names_for_the_arguments(tmp_path):
    torch.manual_seed(1)
    state = {"h": torch.randn(3, 2), "c": [torch.randn(2)]}
    keywords, batch = {"mask": torch.tensor([True, False])}, Dim("batch", min=2, max=64)
    shapes = {"x": {0: batch}, "scale": None, "state": {"h": {0: batch}, "c": [None]}, "mask": None}
    ours, theirs = compiled(tmp_path, Net(), (torch.randn(3, 4), 2.5, state), keywords, dynamic_shapes=shapes)
    x, h = torch.randn(5, 4), torch.randn(5, 2)
    expected = theirs(x, 2.5, {"h": h, "c": state["c"]}, **keywords)
    # The number 2.5 is in the code.
    inputs = {"input_0": x, "input_2.h": h, "input_2.c.0": state["c"][0], "mask": keywords["mask"]}
    found = ours.infer_with_tensors({name: value.numpy() for name, value in inputs.items()})
    assert sorted(found) == ["rows", "state.0", "state.1", "y"] and found["rows"] == 5
    numpy.testing.assert_array_equal(found["y"], expected["y"].numpy())
    numpy.testing.assert_array_equal(found["state.0"], expected["state"][0].numpy())
    numpy.testing.assert_array_equal(found["state.1"], expected["state"][1].numpy())
    assert found["state.1"].any(axis=0).tolist() == [False, True]
    assert ours.signature()["inputs"] == []
    with pytest.raises(ValueError, match="has no input `x`: it has `input_0`, `input_1`, `input_2.h`, `input_2.c.0`, `mask`"):
        ours.infer_with_tensors({"x": x.numpy()})


class Pair(torch.nn.Module):
    def forward(self, x, keys, *, weight):
        return x * weight + keys.sum(), keys


def test_the_source_of_a_compiled_package_has_its_signature(tmp_path):
    rows, columns = Dim("rows", min=3, max=64), Dim("columns")
    shapes = {"x": {0: rows, 1: columns}, "keys": {0: rows}, "weight": None}
    ours, theirs = compiled(tmp_path, Pair(), (torch.zeros(4, 6), torch.zeros(4, 2, dtype=torch.int64)), {"weight": torch.tensor(1.5)}, dynamic_shapes=shapes)
    inputs = ours.example()
    # The source that PyTorch 2.8 writes does not say which sizes are the same.
    first, second = ["*", "*"] if torch.__version__.startswith("2.8.") else ["batch", "n_1"]
    assert ours.signature()["inputs"] == [
        {"name": "input_0", "dtype": "float32", "shape": [first, second]},
        {"name": "input_1", "dtype": "int64", "shape": [first, 2]},
        {"name": "weight", "dtype": "float32", "shape": []},
    ]
    assert inputs["input_0"].shape == (3, 2) and inputs["input_1"].shape == (3, 2) and inputs["input_1"].any()
    found = ours.infer_with_tensors(inputs)
    x, keys, weight = (torch.tensor(inputs[name]) for name in ("input_0", "input_1", "weight"))
    for name, expected in zip(("output_0", "output_1"), theirs(x, keys, weight=weight)):
        numpy.testing.assert_array_equal(found[name], expected.numpy())


def test_a_compiled_package_refuses_what_it_was_not_compiled_for(tmp_path, capfd):
    ours, theirs = compiled(tmp_path, Half(), (torch.arange(3.0).bfloat16(),))
    x = torch.tensor([0.5, 1, 2]).bfloat16()
    found, expected = ours.infer_with_tensors({"input": x}), theirs(x)
    assert torch.equal(found["output_0"], expected[0])
    numpy.testing.assert_array_equal(found["output_1"], expected[1].numpy())
    for inputs, problem in [
        ({"input": x.float()}, "unmatched dtype, expected: 15(at::kBFloat16), but got: 6"),
        ({"input": x[:2]}, "unmatched dim value at 0, expected: 3, but got: 2"),
        ({}, "expected inputs vector size to be 1, but got 0"),
    ]:
        with pytest.raises(RuntimeError) as raised:
            ours.infer_with_tensors(inputs)
        # PyTorch 2.8 only prints what the code finds.
        assert problem in str(raised.value) + capfd.readouterr().err
