"""Runs an exported program of PyTorch (`torch.export.save`, `.pt2`)."""

import os

import numpy
import torch
from torch.utils import _pytree

#: The model's file, beside this one.
MODEL = "model.pt2"


class Model:
    def __init__(self):
        program = torch.export.load(os.path.join(os.path.dirname(os.path.abspath(__file__)), MODEL))
        self.program = program
        self.module = program.module()
        self.nodes = {node.name: node for node in program.graph.nodes}
        self.symbols = {}
        # The arguments in the order of the program's own structure. Those that are no tensors are constants.
        self.arguments = [spec.arg for spec in program.graph_signature.input_specs if spec.kind.name == "USER_INPUT"]
        self.results = [spec.arg for spec in program.graph_signature.output_specs if spec.kind.name == "USER_OUTPUT"]
        self.names = output_names(program.call_spec.out_spec, len(self.results))
        # What calls may change, such as counters. Each call begins with the state of the file.
        self.state = [(tensor, tensor.detach().clone()) for tensor in self.module.state_dict().values()] if writes(program) else []
        self.versions = [tensor._version for tensor, _ in self.state]

    def signature(self):
        inputs = [self.described(one.name, one) for one in self.tensors()]
        outputs = [self.described(name, one) for name, one in zip(self.names, self.results) if is_number(one)]
        return {"inputs": inputs, "outputs": outputs}

    def example(self):
        saved = self.program.example_inputs
        values = _pytree.tree_leaves(saved) if saved is not None else []
        if len(values) == len(self.arguments) and all(isinstance(v, torch.Tensor) for v, a in zip(values, self.arguments) if is_tensor(a)):
            return {one.name: plain(value) for one, value in zip(self.arguments, values) if is_tensor(one)}
        return {one.name: self.pattern(one) for one in self.tensors()}

    def infer_with_tensors(self, inputs):
        leaves = [tensor_of(inputs[one.name], self.value(one).dtype) if is_tensor(one) else one.value for one in self.arguments]
        arguments, keywords = _pytree.tree_unflatten(leaves, self.program.call_spec.in_spec)
        with torch.no_grad():
            for (tensor, saved), version in zip(self.state, self.versions):
                if tensor._version != version:
                    tensor.copy_(saved)
            self.versions = [tensor._version for tensor, _ in self.state]
            result = self.module(*arguments, **keywords)
        values = zip(self.names, _pytree.tree_leaves(result))
        return {name: plain(value) for name, value in values if isinstance(value, (torch.Tensor, bool, int, float))}

    def tensors(self):
        for one in self.arguments:
            if is_tensor(one):
                yield one
            elif type(one).__name__ != "ConstantArgument":
                raise TypeError("the argument `%s` is a number that is no constant: export the model with a tensor in its place" % one.name)

    def value(self, one):
        return self.nodes[one.name].meta["val"]

    def described(self, name, one):
        if not is_tensor(one):
            kind = {"SymIntArgument": "int64", "SymFloatArgument": "float64", "SymBoolArgument": "bool"}.get(type(one).__name__)
            kind = kind or {bool: "bool", int: "int64", float: "float64"}[type(one.value)]
            return {"name": name, "dtype": kind, "shape": []}
        value = self.value(one)
        shape = [size if isinstance(size, int) else self.symbol(size, axis) for axis, size in enumerate(value.shape)]
        return {"name": name, "dtype": str(value.dtype).rpartition(".")[2], "shape": shape}

    def symbol(self, size, axis):
        """One symbol for each size that varies. The first of a first dimension is the batch."""
        key = str(size)
        if key not in self.symbols:
            is_batch = axis == 0 and "batch" not in self.symbols.values()
            self.symbols[key] = "batch" if is_batch else "n_%d" % len(self.symbols)
        return self.symbols[key]

    def pattern(self, one):
        value = self.value(one)
        shape = [int(getattr(size, "node", size).hint if not isinstance(size, int) else size) for size in value.shape]
        numbers = torch.arange(int(numpy.prod(shape)), dtype=torch.float64)
        return plain((numbers.sin() if value.dtype.is_floating_point else numbers % 2).to(value.dtype).reshape(shape))


def writes(program):
    """Whether an operation of the program may write to a tensor that it did not make."""
    if program.graph_signature.buffers_to_mutate:
        return True
    graphs = [module.graph for module in program.graph_module.modules() if isinstance(module, torch.fx.GraphModule)]
    targets = [node.target for graph in graphs for node in graph.nodes if node.op == "call_function"]
    return any(getattr(getattr(target, "_schema", None), "is_mutable", False) for target in targets)


def is_tensor(one):
    return type(one).__name__ == "TensorArgument"


def is_number(one):
    if type(one).__name__ == "ConstantArgument":
        return isinstance(one.value, (bool, int, float))
    return True


def output_names(spec, n_results):
    """`output` for one tensor, `output_0` and so on for a tuple, the keys of a dict, with dots between the parts of what is nested."""
    paths, _ = _pytree.tree_flatten_with_path(_pytree.tree_unflatten([0] * n_results, spec))
    return [name_of(path) for path, _ in paths]


def name_of(path):
    parts = [str(getattr(part, "key", getattr(part, "idx", getattr(part, "name", "")))) for part in path]
    if not parts:
        return "output"
    if parts[0].isdigit():
        parts[0] = "output_" + parts[0]
    return ".".join(parts)


def tensor_of(array, dtype):
    """A copy as a tensor, because a program may write to its inputs."""
    if isinstance(array, torch.Tensor):
        return array.clone()
    bits = {1: torch.uint8, 2: torch.int16}
    if array.dtype.kind == "V":
        # A float of `ml_dtypes`, which PyTorch takes by its bits.
        array = array.view({1: numpy.uint8, 2: numpy.int16}[array.dtype.itemsize])
        return torch.tensor(array, dtype=bits[array.dtype.itemsize]).view(dtype)
    return torch.tensor(array)


def plain(value):
    """An array; a tensor for floats that NumPy does not have."""
    if not isinstance(value, torch.Tensor):
        return numpy.asarray(value)
    value = value.detach().cpu()
    name = str(value.dtype).rpartition(".")[2]
    return value if name.startswith(("bfloat", "float8")) else value.numpy()


def get_model():
    return Model()
