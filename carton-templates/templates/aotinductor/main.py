"""Runs a package of AOTInductor (`torch._inductor.aoti_compile_and_package`, `.pt2`), which is native code for one kind of CPU.

A package has no names for positional arguments: `input` is the only one, `input_0` and so on are several. A keyword has its own name. There are dots
between the parts of what is nested. A number that the model was exported with is in the code; leave it out.

The dtypes and sizes of inputs are those that the code checks at each call, as its source in the package says. Where the source is missing, or a number is
among the arguments, `carton pack --example NAME=VALUE` says them.

A package that changes its buffers keeps them from call to call, because PyTorch has no means to read them.
"""

import os
import re
import zipfile

import numpy
import torch
from torch.utils import _pytree

# The code checks dtypes, sizes and strides then. Otherwise it reads what lies behind an input that is too small. A size that varies is at least 2,
# because the compiler takes it for that; "0" switches the checks off.
os.environ.setdefault("AOTI_RUNTIME_CHECK_INPUTS", "1")

import torch._inductor  # noqa: E402

#: The model's file, beside this one.
MODEL = "model.pt2"


class Model:
    def __init__(self):
        self.path = os.path.join(os.path.dirname(os.path.abspath(__file__)), MODEL)
        self.package = torch._inductor.aoti_load_package(self.path)
        self.in_spec, out_spec = (_pytree.treespec_loads(spec) for spec in self.package.loader.get_call_spec())
        self.inputs, self.outputs = input_names(self.in_spec), output_names(out_spec)

    def signature(self):
        """Asked when the model is packed. The outputs are those that the example, or the user's self-test, shows."""
        found = self.checks()
        if self.inputs and not found:
            print("the package does not say what its inputs `%s` are: `carton pack --example NAME=VALUE` does" % "`, `".join(self.inputs))
        return {"inputs": [{"name": name, "dtype": dtype, "shape": shape} for name, (dtype, shape, _) in found.items()]}

    def example(self):
        """Asked when the model is packed."""
        return {name: pattern(dtype, sizes) for name, (dtype, _, sizes) in self.checks().items()}

    def checks(self):
        found = checks_of(self.path)
        # If some arguments are numbers, nothing says which.
        return dict(zip(self.inputs, found)) if len(found) == len(self.inputs) else {}

    def infer_with_tensors(self, inputs):
        unknown = sorted(set(inputs) - set(self.inputs))
        if unknown:
            raise ValueError("the package has no input `%s`: it has `%s`" % (unknown[0], "`, `".join(self.inputs)))
        # What is no tensor is left out by the package's caller.
        leaves = [tensor_of(inputs[name]) if name in inputs else None for name in self.inputs]
        arguments, keywords = _pytree.tree_unflatten(leaves, self.in_spec)
        with torch.no_grad():
            result = self.package(*arguments, **keywords)
        values = zip(self.outputs, _pytree.tree_leaves(result))
        return {name: plain(value) for name, value in values if isinstance(value, torch.Tensor)}


def checks_of(path):
    """The dtype, the shape and the sizes of an example of each input, by the checks in the source of the package; nothing without them."""
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if name.partition("/")[2].startswith("data/aotinductor/model/") and name.endswith(".cpp")]
        source = "\n".join(archive.read(name).decode(errors="replace") for name in names)
    found, symbols, least = [], {}, {}
    for check in re.findall(r"static void check_input_\d+\(.*?\n\}", source, re.DOTALL):
        known = re.search(r"(\w+)_expected_dtype = aoti_torch_dtype_(\w+)\(\)", check)
        if known is None:
            return []
        name, dtype = known.groups()
        fixed = {int(axis): int(size) for size, axis in re.findall(r"\((\d+) != \w+_size\[(\d+)\]\)", check)}
        lower = {int(axis): int(size) for axis, size in re.findall(r"_size\[(\d+)\] < (\d+)\)", check)}
        rank = max((int(axis) + 1 for axis in re.findall(r"_(?:size|stride)\[(\d+)\]", check)), default=0)
        sizes = re.search(r"assert_size_stride\(%s, \{([^{}]*)\}" % name, source)
        sizes = [size.strip() for size in sizes.group(1).split(",") if size.strip()] if sizes else []
        shape, keys = [], []
        for axis in range(rank):
            key = sizes[axis] if len(sizes) == rank and re.fullmatch(r"[su]\d+", sizes[axis]) else None
            if axis not in fixed and key is not None and key not in symbols:
                # The first of a first dimension is the batch.
                symbols[key] = "batch" if axis == 0 and "batch" not in symbols.values() else "n_%d" % len(symbols)
            key = key or (name, axis)
            least[key] = max(least.get(key, 2), lower.get(axis, 2))
            shape.append(fixed.get(axis, symbols.get(key, "*")))
            keys.append(key)
        found.append((dtype, shape, keys))
    return [(dtype, shape, [one if isinstance(one, int) else least[key] for one, key in zip(shape, keys)]) for dtype, shape, keys in found]


def pattern(dtype, sizes):
    dtype, numbers = getattr(torch, dtype), torch.arange(int(numpy.prod(sizes)), dtype=torch.float64)
    return plain((numbers.sin() if dtype.is_floating_point else numbers % 2).to(dtype).reshape(sizes))


def input_names(spec):
    """The names of a call's arguments, tensors or not, in their order."""
    places = _pytree.tree_unflatten(range(spec.num_leaves), spec)
    paths, _ = _pytree.tree_flatten_with_path(places)
    is_one = len(places[0]) == 1
    names = []
    for (side, first, *rest), _ in paths:
        start = [part_of(first)] if side.idx else ["input"] if is_one else ["input_" + part_of(first)]
        names.append(".".join(start + [part_of(part) for part in rest]))
    return names


def output_names(spec):
    """`output` for one tensor, `output_0` and so on for a tuple, the keys of a dict, with dots between the parts of what is nested."""
    paths, _ = _pytree.tree_flatten_with_path(_pytree.tree_unflatten(range(spec.num_leaves), spec))
    names = []
    for path, _ in paths:
        parts = [part_of(part) for part in path] or ["output"]
        names.append(".".join(["output_" + parts[0] if parts[0].isdigit() else parts[0], *parts[1:]]))
    return names


def part_of(part):
    return str(getattr(part, "key", getattr(part, "idx", getattr(part, "name", ""))))


def tensor_of(array):
    """A copy as a tensor, because a package may write to its inputs."""
    if isinstance(array, torch.Tensor):
        return array.clone(memory_format=torch.contiguous_format)
    if array.dtype.kind == "V":
        # A float of `ml_dtypes`, which PyTorch takes by its bits.
        bits = numpy.ascontiguousarray(array).view({1: numpy.uint8, 2: numpy.int16}[array.dtype.itemsize])
        return torch.tensor(bits).view(getattr(torch, array.dtype.name))
    return torch.tensor(array)


def plain(value):
    """An array; a tensor for floats that NumPy does not have."""
    name = str(value.dtype).rpartition(".")[2]
    return value if name.startswith(("bfloat", "float8")) else value.numpy()


def get_model():
    return Model()
