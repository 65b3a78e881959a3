"""Reads the tensors of a carton (carton-format.md, "tensor_data"; carton-format-extensions.md, "Tensor files")."""

import hashlib

import elements
import tensor_files
from carton_toml import DTYPES, Table, parse_toml
from refusal import Refused

INDEX = "tensor_data/index.toml"
MAX_INDEX = 8 << 20
MAX_STRINGS = 32 << 20
SIZES = {dtype: int(dtype.lstrip("uintfloa")) // 8 for dtype in DTYPES if dtype != "string"}
IN_SAFETENSORS = {dtype: dtype.replace("float", "f").replace("uint", "u").replace("int", "i").upper() for dtype in SIZES}


def parse_index(content):
    """index.toml as the corpus has it, in its order, with where each tensor is."""
    root = Table(parse_toml(content, INDEX, "tensor", MAX_INDEX), INDEX, "tensor")
    tensors = {}
    for table in root.tables("tensor") or []:
        name = table.take("name", str, required=True)
        if name == "" or name in tensors:
            raise table.refusal(f"the name {name!r} is empty or there twice")
        dtype = table.take("dtype", str, required=True)
        tensor = {"name": name, "dtype": dtype}
        element = elements.of(dtype, table.take("element", object))
        if element is not None:
            tensor["element"] = element
        if dtype == "nested":
            tensor["inner"] = table.take("inner", list) or []
        elif dtype in DTYPES:
            if table.take("inner", list):
                raise table.refusal("`inner` of a tensor that is not nested")
            tensor["shape"] = _shape(table)
            if elements.is_complex(element) and tensor["shape"][-1:] != [2]:
                raise table.refusal(f"{element} needs a last dimension of 2")
            tensor["file"] = table.take("file", str, required=True)
            tensor["format"] = table.take("file_format", str)
            tensor["name_in_file"] = table.take("name_in_file", str)
            if tensor["format"] is not None:
                if tensor["format"] not in ("safetensors", "ztensor"):
                    raise table.refusal(f"{tensor['format']!r} is no format of tensor files")
                if dtype == "string":
                    raise table.refusal("strings are not in tensor files")
        else:
            raise table.refusal(f"{dtype!r} is not a dtype")
        tensors[name] = tensor
    for tensor in tensors.values():
        if tensor["dtype"] == "nested":
            _check_inner(tensor, tensors)
    return tensors


def _shape(table):
    shape = table.take("shape", list, required=True)
    if len(shape) > 64 or not all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in shape):
        raise table.refusal("`shape` is not a list of at most 64 sizes")
    return shape


def _check_inner(tensor, tensors):
    inner = [tensors.get(name) if isinstance(name, str) else None for name in tensor["inner"]]
    if any(part is None or part["dtype"] == "nested" for part in inner):
        raise Refused("tensor", f"{tensor['name']!r} is made of something else than tensors that are not nested")
    if len({(part["dtype"], part.get("element")) for part in inner}) > 1:
        raise Refused("tensor", f"{tensor['name']!r} is made of tensors of several dtypes")


def read(tensor, read_file):
    """A tensor as the corpus has it. `read_file` gives the verified bytes of a file of the carton, or None if it is linked only."""
    described = {key: tensor[key] for key in ("name", "dtype", "element", "shape", "inner") if key in tensor}
    if tensor["dtype"] == "nested":
        return described
    content = read_file("tensor_data/" + tensor["file"])
    if content is None:
        return described
    if tensor["dtype"] == "string":
        described["values"] = _strings(tensor, content)
        _check_elements(tensor, described["values"])
        return described
    data = content if tensor["format"] is None else _in_file(tensor, content)
    n_bytes = _n_elements(tensor) * SIZES[tensor["dtype"]]
    if len(data) != n_bytes:
        raise Refused("tensor", f"{tensor['name']!r} has {len(data)} bytes where its shape needs {n_bytes}")
    _check_elements(tensor, data)
    described["sha256"] = hashlib.sha256(data).hexdigest()
    return described


def _check_elements(tensor, content):
    problem = elements.problem(tensor.get("element"), content)
    if problem is not None:
        raise Refused("tensor", f"{tensor['name']!r}: {problem}")


def _n_elements(tensor):
    n_elements = 1
    for size in tensor["shape"]:
        n_elements *= size
    return n_elements


def _strings(tensor, content):
    table = Table(parse_toml(content, tensor["file"], "tensor", MAX_STRINGS), tensor["file"], "tensor")
    values = table.take("data", list, required=True)
    if not all(isinstance(value, str) for value in values) or len(values) != _n_elements(tensor):
        raise table.refusal("`data` does not have as many strings as the shape has elements")
    return values


def _in_file(tensor, content):
    wanted = tensor["name_in_file"] if tensor["name_in_file"] is not None else tensor["name"]
    if tensor["format"] == "safetensors":
        found = tensor_files.read_safetensors(content).get(wanted)
        dtype = IN_SAFETENSORS[tensor["dtype"]]
    else:
        found = tensor_files.read_ztensor(content).get(wanted)
        dtype = IN_SAFETENSORS[tensor["dtype"]].lower()
    if found is None or found[:2] != (dtype, tensor["shape"]):
        raise Refused("tensor", f"the file of {tensor['name']!r} does not have it as it is declared")
    return found[2]
