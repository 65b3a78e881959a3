"""The template of exported programs beside the module that PyTorch makes of them."""

import numpy
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
