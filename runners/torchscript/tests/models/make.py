"""Makes the models of the tests and records what Python's torch computes with them.

Run a copy of it, because TorchScript remembers where its source was, with the torch that the files should come from:

    cp make.py /tmp && /usr/bin/python3 /tmp/make.py 1.13            Debian's python3-torch
    cp make.py /tmp && PYTHON-WITH-TORCH-2.13 /tmp/make.py 2.13      PyPI's torch

It writes FOLDER/NAME.pt and FOLDER/cases.json: for each model inputs and the outputs, or the last line of the exception's
message, that torch gave for them.
"""

import json
import sys
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import torch
from torch import Tensor, nn


class Mlp(nn.Module):
    """The original convention: a dictionary of tensors in and out."""

    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(4, 16)
        self.last = nn.Linear(16, 3)

    def forward(self, inputs: Dict[str, Tensor]) -> Dict[str, Tensor]:
        logits = self.last(torch.relu(self.hidden(inputs["x"])))
        return {"probabilities": torch.softmax(logits, 1), "label": torch.argmax(logits, 1)}


class Conv(nn.Module):
    """Traced with a tensor given by position."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(inplace=True), nn.MaxPool2d(2),
            nn.Conv2d(6, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(1),
            nn.Flatten(), nn.Linear(8, 5),
        )

    def forward(self, image: Tensor) -> Tensor:
        return self.layers(image)


class Words(nn.Module):
    """Strings in and out, of rank 0 and 1."""

    def forward(self, inputs: Dict[str, Any]) -> Dict[str, Any]:
        greeting = inputs["greeting"]
        assert isinstance(greeting, str)
        names = inputs["names"]
        assert isinstance(names, List[str])
        out: List[str] = []
        for name in names:
            out.append(greeting + ", " + name + "!")
        lengths: List[int] = []
        for text in out:
            lengths.append(len(text))
        return {"first": out[0], "all": out, "lengths": torch.tensor(lengths)}


class Raises(nn.Module):
    """Refuses negative numbers."""

    def check(self, x: Tensor):
        if bool((x < 0).any()):
            raise ValueError("negative numbers are not welcome: " + str(x.min().item()))

    def forward(self, x: Tensor) -> Tensor:
        self.check(x)
        return torch.sqrt(x)


class Echo(nn.Module):
    """Returns its inputs."""

    def forward(self, inputs: Dict[str, Any]) -> Dict[str, Any]:
        return inputs


class WritesInput(nn.Module):
    """Changes its input in place, through a view."""

    def forward(self, inputs: Dict[str, Tensor]) -> Dict[str, Tensor]:
        x = inputs["x"]
        x.view(-1).add_(1)
        return {"y": x}


class KeepsInput(nn.Module):
    """Returns the sum of all inputs so far, and keeps the last one, to which the next call adds in place."""

    def __init__(self):
        super().__init__()
        self.last = torch.zeros(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        self.last.add_(x)
        total = self.last.clone()
        self.last = x
        return total


class History(nn.Module):
    """Keeps every input, unchanged, and returns the first of them."""

    def __init__(self):
        super().__init__()
        self.history: List[Tensor] = [torch.zeros(1)]

    def forward(self, x: Tensor) -> Tensor:
        self.history.append(x)
        return self.history[1] * 1


class Pair(NamedTuple):
    total: Tensor
    names: List[str]


class Named(nn.Module):
    """Arguments of several kinds, one of them optional, and a named tuple out."""

    def forward(self, a: Tensor, b: Optional[Tensor] = None, scale: float = 2.0, label: str = "none") -> Pair:
        total = a * scale
        if b is not None:
            total = total + b
        return Pair(total, [label, str(a.dim())])


class Parts(nn.Module):
    """A tuple out, with views of the input in it."""

    def forward(self, x: Tensor, n: int) -> Tuple[Tensor, Tensor, int, bool, float]:
        return x[:n].t(), x, n, n > 1, n / 2


class Lists(nn.Module):
    """A list of tensors in and out: nested tensors."""

    def forward(self, parts: List[Tensor]) -> List[Tensor]:
        out: List[Tensor] = []
        for part in parts:
            out.append(part * 2)
        return out


class Halves(nn.Module):
    """Dtypes that Carton's tensors do not have, which travel in others."""

    def forward(self, inputs: Dict[str, Tensor]) -> Dict[str, Tensor]:
        x = inputs["x"]
        return {"half": x.half(), "bfloat": x.to(torch.bfloat16), "positive": x > 0, "transposed": x.t()}


class Complex(nn.Module):
    """An output that Carton's tensors cannot hold."""

    def forward(self, x: Tensor) -> Dict[str, Tensor]:
        return {"spectrum": torch.fft.fft(x)}


class Total(nn.Module):
    """Computes almost nothing, for inputs of any size."""

    def forward(self, x: Tensor) -> Tensor:
        return x.view(-1)[0] + x.view(-1)[-1]


class Forked(nn.Module):
    """Works on its input in another thread."""

    def forward(self, x: Tensor) -> Tensor:
        future = torch.jit.fork(torch.neg, x)
        return torch.jit.wait(future) + x


class Masks(nn.Module):
    """What integers in the place of a boolean mask would compute otherwise."""

    def forward(self, x: Tensor, mask: Tensor) -> Dict[str, Tensor]:
        n = (~mask).sum()
        return {"filled": x.masked_fill(~mask, -1.0), "picked": x[~mask], "n": n, "negated": mask * -1, "mask": ~mask}


class MasksInDictionary(nn.Module):
    """The same in the original convention, and in a list."""

    def forward(self, inputs: Dict[str, Tensor]) -> Dict[str, Tensor]:
        return {"picked": inputs["x"][~inputs["mask"]], "any": inputs["mask"].any()}


class MasksInList(nn.Module):
    def forward(self, x: Tensor, masks: List[Tensor], invert: bool) -> Tensor:
        mask = masks[0] & masks[1]
        return x[~mask if invert else mask]


class Attention(nn.Module):
    """Ignores the keys that a mask names."""

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 1, batch_first=True)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.attention(x, x, x, key_padding_mask=mask)[0]


def tensor(values, shape, dtype):
    return torch.tensor(values, dtype=dtype).reshape(shape)


def ramp(*shape):
    count = 1
    for size in shape:
        count *= size
    return torch.linspace(-1, 1, count).reshape(shape)


def to_json(value, is_input=False):
    """Describes a tensor by its dtype, shape and elements; texts and lists unchanged. An input says what its elements are."""
    if isinstance(value, Tensor):
        names = {torch.bool: "uint8", torch.half: "float32", torch.bfloat16: "float32"}
        dtype = names.get(value.dtype, str(value.dtype).removeprefix("torch."))
        plain = value.detach()
        plain = plain.to(torch.uint8) if value.dtype == torch.bool else plain
        plain = plain.float() if dtype == "float32" else plain
        if is_input and value.dtype == torch.bool:
            return {"dtype": dtype, "element": "bool", "shape": list(value.shape), "data": plain.reshape(-1).tolist()}
        return {"dtype": dtype, "shape": list(value.shape), "data": plain.reshape(-1).tolist()}
    if isinstance(value, str):
        return {"dtype": "string", "shape": [], "data": [value]}
    if isinstance(value, bool):
        return {"dtype": "uint8", **({"element": "bool"} if is_input else {}), "shape": [], "data": [int(value)]}
    if isinstance(value, int):
        return {"dtype": "int64", "shape": [], "data": [value]}
    if isinstance(value, float):
        return {"dtype": "float64", "shape": [], "data": [value]}
    if isinstance(value, list) and value and isinstance(value[0], str):
        return {"dtype": "string", "shape": [len(value)], "data": value}
    if isinstance(value, list):
        nested = [to_json(element, is_input) for element in value]
        return {"nested": nested, **{key: nested[0][key] for key in ("dtype", "element") if "element" in nested[0]}}
    raise TypeError(f"{type(value)}")


def outputs_to_json(value):
    """Outputs by the names that the runner gives them where the carton declares none."""
    if isinstance(value, dict):
        return {name: to_json(element) for name, element in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {name: to_json(getattr(value, name)) for name in value._fields}
    if isinstance(value, tuple):
        return {f"output_{index}": to_json(element) for index, element in enumerate(value)}
    return {"output": to_json(value)}


def main(folder):
    folder.mkdir(exist_ok=True)
    torch.manual_seed(7)
    cases = []

    def save(name, module):
        module.save(str(folder / f"{name}.pt"))
        # The saved file computes the recorded outputs.
        return torch.jit.load(str(folder / f"{name}.pt"))

    def case(name, module, inputs):
        """Runs the saved model: a dictionary in one argument, or arguments by name."""
        schema = module.forward.schema
        takes_dictionary = "Dict" in str(schema.arguments[1].type)
        # Recorded before the call, because the runner gets the inputs as they are before a model changes them.
        recorded = {key: to_json(value, True) for key, value in inputs.items()}
        with torch.no_grad():
            try:
                result = module(inputs) if takes_dictionary else module(**inputs)
                answer = {"outputs": outputs_to_json(result)}
            except Exception as error:  # whatever torch raises is what the runner should say
                answer = {"error": str(error).strip().splitlines()[-1]}
        cases.append({"model": name, "inputs": recorded, **answer})

    script = torch.jit.script
    mlp = save("mlp", script(Mlp().eval()))
    case("mlp", mlp, {"x": ramp(5, 4)})
    case("mlp", mlp, {"y": ramp(5, 4)})
    case("mlp", mlp, {"x": ramp(5, 3)})
    case("mlp", mlp, {"x": ramp(5, 4).to(torch.int64)})

    network = Conv()
    # Statistics other than the initial ones.
    network(torch.randn(8, 3, 6, 5))
    conv = save("conv", torch.jit.trace(network.eval(), torch.randn(2, 3, 6, 5)))
    case("conv", conv, {"image": ramp(1, 3, 6, 5)})
    case("conv", conv, {"image": ramp(4, 3, 5, 4)})
    case("conv", conv, {"image": ramp(4, 2, 5, 4)})
    scripted = save("conv_scripted", script(network.eval()))
    case("conv_scripted", scripted, {"image": ramp(2, 3, 6, 5)})

    words = save("words", script(Words()))
    case("words", words, {"greeting": "Grüß dich", "names": ["Ada", "", "a\0b", "🦀"]})
    case("words", words, {"greeting": "hello", "names": "nobody"})

    raises = save("raises", script(Raises()))
    case("raises", raises, {"x": tensor([1, 4, 9], (3,), torch.float32)})
    case("raises", raises, {"x": tensor([1, -4, 9], (3,), torch.float32)})

    echo = save("echo", script(Echo()))
    kinds = (torch.float32, torch.float64, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)
    case("echo", echo, {str(kind).removeprefix("torch."): tensor([1, 2, 3], (3, 1), kind) for kind in kinds})
    case("echo", echo, {"empty": torch.zeros(0, 3), "scalar": torch.tensor(1.5), "text": "a", "texts": ["b", "c"]})

    case("writes_input", save("writes_input", script(WritesInput())), {"x": ramp(3, 2)})

    keeps = save("keeps_input", script(KeepsInput()))
    case("keeps_input", keeps, {"x": ramp(2, 2)})
    case("keeps_input", keeps, {"x": ramp(2, 2) + 1})
    case("keeps_input", keeps, {"x": ramp(2, 2) + 2})

    history = save("history", script(History()))
    case("history", history, {"x": ramp(2, 2)})
    case("history", history, {"x": ramp(3, 1)})

    named = save("named", script(Named()))
    case("named", named, {"a": ramp(2, 3)})
    case("named", named, {"a": ramp(2, 3), "b": ramp(3), "scale": 0.5, "label": "x"})

    case("parts", save("parts", script(Parts())), {"x": ramp(3, 2), "n": 2})
    case("lists", save("lists", script(Lists())), {"parts": [ramp(2), ramp(3, 1)]})
    case("halves", save("halves", script(Halves())), {"x": ramp(2, 3)})
    save("complex", script(Complex()))
    case("total", save("total", script(Total())), {"x": ramp(7)})
    case("forked", save("forked", script(Forked())), {"x": ramp(3)})
    flags = torch.tensor([True, False, True, True])
    case("masks", save("masks", script(Masks())), {"x": ramp(4), "mask": flags})
    case("masks_in_dictionary", save("masks_in_dictionary", script(MasksInDictionary())), {"x": ramp(4), "mask": flags})
    listed = save("masks_in_list", script(MasksInList()))
    case("masks_in_list", listed, {"x": ramp(4), "masks": [flags, flags.flip(0)], "invert": True})
    case("attention", save("attention", script(Attention().eval())), {"x": ramp(1, 4, 4), "mask": ~flags[None]})
    # Not TorchScript, but another kind of file that is saved as .pt.
    torch.save(Mlp().state_dict(), folder / "weights.pt")

    text = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
    (folder / "cases.json").write_text(f"[\n{text}\n]\n")
    print(f"torch {torch.__version__}: {len(cases)} cases")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
