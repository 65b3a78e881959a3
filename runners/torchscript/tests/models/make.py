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
    """Smaller elements than those of the input."""

    def forward(self, inputs: Dict[str, Tensor]) -> Dict[str, Tensor]:
        x = inputs["x"]
        return {"half": x.half(), "bfloat": x.to(torch.bfloat16), "positive": x > 0, "transposed": x.t()}


class Complex(nn.Module):
    """Complex numbers out."""

    def forward(self, x: Tensor) -> Dict[str, Tensor]:
        return {"spectrum": torch.fft.fft(x)}


class Sparse(nn.Module):
    """Outputs that Carton's tensors cannot hold."""

    def forward(self, x: Tensor, quantize: bool = False) -> Dict[str, Tensor]:
        return {"y": torch.quantize_per_tensor(x, 0.1, 0, torch.quint8) if quantize else x.to_sparse()}


class State(nn.Module):
    """A tuple in a tuple out, and an optional one in."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 3)

    def forward(
        self, x: Tensor, state: Optional[Tuple[Tensor, Tensor]] = None
    ) -> Tuple[Tensor, Tuple[Tensor, Tensor]]:
        return self.lstm(x, state)


class Detect(nn.Module):
    """Lists of dictionaries out, as detection models return them: one for each image, after losses that evaluation has none of."""

    def forward(self, images: List[Tensor]) -> Tuple[Dict[str, Tensor], List[Dict[str, Tensor]]]:
        losses: Dict[str, Tensor] = {}
        found: List[Dict[str, Tensor]] = []
        for image in images:
            found.append({"boxes": image * 2, "labels": (image[:, 0] > 0).to(torch.int64)})
        return losses, found


class Mixed(nn.Module):
    """Arguments of many types."""

    def forward(
        self,
        x: Tensor,
        parts: Dict[str, Tensor],
        sizes: List[int],
        weights: List[float],
        words: List[List[str]],
        pairs: List[Tuple[Tensor, Tensor]],
        rows: List[List[Tensor]],
        by_number: Dict[int, Tensor],
        bias: Optional[Tensor] = None,
    ) -> Dict[str, Any]:
        x = x.reshape(sizes) * weights[0]
        for key in sorted(parts.keys()):
            x = x + parts[key]
        totals: List[Tensor] = []
        for first, second in pairs:
            totals.append(first + second)
        lengths: List[int] = []
        for row in rows:
            lengths.append(len(row))
        texts: List[str] = []
        for word in words:
            texts.append("-".join(word))
        if bias is not None:
            x = x + bias
        return {
            "x": x, "totals": totals, "lengths": lengths, "texts": texts, "swapped": {2: by_number[1], 1: by_number[2]},
            "rows": rows, "flags": [True, False], "none": None, "number": 0.5, "point": (1, True),
        }


class Echoes(NamedTuple):
    mask: Tensor
    rest: Dict[str, List[Tensor]]
    none: Optional[Tensor]


class Kinds(nn.Module):
    """What comes in, by its elements, and a named tuple with parts out."""

    def forward(self, mask: Tensor, half: Tensor, bfloat: Tensor, single: Tensor, double: Tensor) -> Echoes:
        assert mask.dtype == torch.bool and half.dtype == torch.half and bfloat.dtype == torch.bfloat16
        return Echoes(~mask, {"floats": [half + 1, half], "complex": [single * 2], "wide": [double.conj()]}, None)


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


def to_json(value):
    """Describes a tensor by its dtype, shape and elements; numbers and texts, and lists of them, as tensors."""
    if isinstance(value, Tensor):
        names = {torch.half: "float16", torch.cfloat: "complex64", torch.cdouble: "complex128"}
        dtype = names.get(value.dtype, str(value.dtype).removeprefix("torch."))
        plain = value.detach().resolve_conj().reshape(-1)
        if value.is_complex():
            plain = torch.view_as_real(plain)
        return {"dtype": dtype, "shape": list(value.shape), "data": plain.tolist()}
    if isinstance(value, str):
        return {"dtype": "string", "shape": [], "data": [value]}
    if isinstance(value, bool):
        return {"dtype": "bool", "shape": [], "data": [value]}
    if isinstance(value, int):
        return {"dtype": "int64", "shape": [], "data": [value]}
    if isinstance(value, float):
        return {"dtype": "float64", "shape": [], "data": [value]}
    if isinstance(value, list) and value and isinstance(value[0], (str, bool, int, float)):
        return {**to_json(value[0]), "shape": [len(value)], "data": value}
    if isinstance(value, list):
        return {"nested": [to_json(element) for element in value]}
    raise TypeError(f"{type(value)}")


def is_one(value):
    """Whether a value is one tensor that is not nested."""
    return not isinstance(value, (tuple, dict, list)) or (
        isinstance(value, list) and bool(value) and isinstance(value[0], (str, bool, int, float)))


def leaves(name, value):
    """The tensors of a value by their names (spec/structured-values.md)."""
    if value is None:
        return {}
    if is_one(value):
        return {name: to_json(value)}
    if isinstance(value, list):
        if all(is_one(element) for element in value):
            return {name: to_json(value)}
        found = [leaves(name + "[]", element) for element in value]
        joined = {}
        for leaf in found[0]:
            parts = [element[leaf] for element in found]
            if "nested" in parts[0]:
                lengths = [len(part["nested"]) for part in parts]
                joined[leaf + "[]"] = {"nested": [tensor for part in parts for tensor in part["nested"]]}
                joined[leaf + ".#"] = {"dtype": "int64", "shape": [len(lengths)], "data": lengths}
            else:
                joined[leaf] = {"nested": parts}
        return joined
    if hasattr(value, "_fields"):
        value = value._asdict()
    entries = value.items() if isinstance(value, dict) else enumerate(value)
    return {leaf: tensor for key, part in entries for leaf, tensor in leaves(f"{name}.{key}", part).items()}


def all_leaves(values):
    return {leaf: tensor for name, value in values.items() for leaf, tensor in leaves(name, value).items()}


def outputs_to_json(value):
    """Outputs by the names that the runner gives them where the carton declares none."""
    if hasattr(value, "_fields"):
        value = value._asdict()
    if isinstance(value, dict):
        return all_leaves(value)
    if isinstance(value, tuple):
        return all_leaves({f"output_{index}": element for index, element in enumerate(value)})
    return all_leaves({"output": value})


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
        takes_dictionary = str(schema.arguments[1].type).startswith("Dict")
        # Recorded before the call, because the runner gets the inputs as they are before a model changes them.
        recorded = all_leaves(inputs)
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
    case("complex", save("complex", script(Complex())), {"x": ramp(4)})
    save("sparse", script(Sparse()))
    case("total", save("total", script(Total())), {"x": ramp(7)})
    case("forked", save("forked", script(Forked())), {"x": ramp(3)})
    flags = torch.tensor([True, False, True, True])
    case("masks", save("masks", script(Masks())), {"x": ramp(4), "mask": flags})
    case("masks_in_dictionary", save("masks_in_dictionary", script(MasksInDictionary())), {"x": ramp(4), "mask": flags})
    listed = save("masks_in_list", script(MasksInList()))
    case("masks_in_list", listed, {"x": ramp(4), "masks": [flags, flags.flip(0)], "invert": True})
    case("attention", save("attention", script(Attention().eval())), {"x": ramp(1, 4, 4), "mask": ~flags[None]})
    state = save("state", script(State().eval()))
    case("state", state, {"x": ramp(2, 1, 4)})
    case("state", state, {"x": ramp(2, 1, 4), "state": (ramp(1, 1, 3), ramp(1, 1, 3))})
    case("detect", save("detect", script(Detect())), {"images": [ramp(2, 4), ramp(3, 4)]})
    case("mixed", save("mixed", script(Mixed())), {
        "x": ramp(6), "parts": {"a": ramp(2, 3), "b.c": torch.ones(3)}, "sizes": [2, 3], "weights": [2.0, 0.5],
        "words": [["ab"], ["x", "y"]], "pairs": [(ramp(2), torch.ones(2)), (ramp(3), torch.ones(1))],
        "rows": [[ramp(1)], [], [ramp(2), ramp(3)]], "by_number": {1: ramp(2), 2: ramp(3)},
    })
    case("kinds", save("kinds", script(Kinds())), {
        "mask": torch.tensor([True, False]), "half": ramp(3).half(), "bfloat": ramp(3).bfloat16(),
        "single": torch.tensor([1 + 2j, -0.5j]), "double": torch.tensor([1 + 2j], dtype=torch.cdouble),
    })
    # Not TorchScript, but another kind of file that is saved as .pt.
    torch.save(Mlp().state_dict(), folder / "weights.pt")

    text = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
    (folder / "cases.json").write_text(f"[\n{text}\n]\n")
    print(f"torch {torch.__version__}: {len(cases)} cases")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
