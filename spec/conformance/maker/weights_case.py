"""What the cases about the weights of models are made of: folders with a file of tensors, and what is asked of it (weights.md)."""

import hashlib

from .case import Case
from .elements import NUMPY, packed
from .tensor_bytes import safetensors

PAGE = "weights.md"
MODEL = "model.safetensors"
# What safetensors calls the types.
DTYPES = {
    "f64": "F64", "f32": "F32", "f16": "F16", "bf16": "BF16", "i64": "I64", "i32": "I32", "i16": "I16", "i8": "I8",
    "u64": "U64", "u32": "U32", "u16": "U16", "u8": "U8", "bool": "BOOL", "complex64": "C64",
    "f8_e5m2": "F8_E5M2", "f8_e4m3fn": "F8_E4M3",
}  # fmt: skip


def tensor(dtype, shape, values):
    """A tensor of a file: (dtype, shape, bytes)."""
    return dtype, list(shape), packed(dtype, values)


def floats(shape, *values):
    return tensor("f32", shape, values)


def file_of(metadata=None, **tensors):
    """A safetensors file. In names `__` stands for a dot."""
    header, data = {"__metadata__": metadata} if metadata else {}, b""
    for name, (dtype, shape, content) in tensors.items():
        offsets = [len(data), len(data) + len(content)]
        header[name.replace("__", ".")] = {"dtype": DTYPES[dtype], "shape": shape, "data_offsets": offsets}
        data += content
    return safetensors(header, data)


def described(name, dtype, shape, content):
    return {"name": name, "dtype": NUMPY[dtype], "shape": list(shape), "sha256": hashlib.sha256(content).hexdigest()}


def case(name, about, section, words, asks, files, reads=None, refused=None, **options):
    """A folder. `asks` is what is to be done with it, and `options` how."""
    content = {path: text.encode() if isinstance(text, str) else text for path, text in files.items()}
    extra = {"asks": asks, **({"options": options} if options else {})}
    return Case(name, about, [(PAGE, section, words)], content, reads=reads, refused=refused, extra=extra)
