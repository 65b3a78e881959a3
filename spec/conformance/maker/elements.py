"""Elements of tensors as bytes, and what sums and products of them are. Little-endian."""

import struct

# How `struct` spells the storage types; the sizes are those of the format.
FORMATS = {
    "f64": "d", "f32": "f", "f16": "e", "i64": "q", "i32": "i", "i16": "h", "i8": "b", "u64": "Q", "u32": "I", "u16": "H", "u8": "B", "bool": "?",
}  # fmt: skip
# What NumPy and `ml_dtypes` call the types of zTensor.
NUMPY = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16",
    "i64": "int64", "i32": "int32", "i16": "int16", "i8": "int8", "u64": "uint64", "u32": "uint32", "u16": "uint16", "u8": "uint8",
    "bool": "bool", "complex64": "complex64", "complex128": "complex128", "f8_e5m2": "float8_e5m2",
}  # fmt: skip
PARTS = {"complex64": "f32", "complex128": "f64"}


def packed(dtype, values):
    """The bytes of elements. FP8 is written as the integers that its bytes are."""
    if dtype in PARTS:
        return packed(PARTS[dtype], [part for value in values for part in (complex(value).real, complex(value).imag)])
    if dtype == "bf16":
        return b"".join(bfloat16(value) for value in values)
    if dtype.startswith("f8_"):
        return bytes(values)
    values = list(values)
    return struct.pack(f"<{len(values)}{FORMATS[dtype]}", *values)


def bfloat16(value):
    """The upper half of a float32; only for numbers of which that is all."""
    content = struct.pack("<f", value)
    if content[:2] != b"\0\0":
        raise ValueError(f"{value} is no bfloat16")
    return content[2:]


def summed(dtype, one, other):
    """The sum of two elements: integers wrap, bools are or'ed, and floats are sums that need no rounding."""
    if dtype == "bool":
        return one or other
    total = one + other
    if dtype[0] in "iu":
        bits = int(dtype[1:])
        total %= 1 << bits
        if dtype[0] == "i" and total >> (bits - 1):
            total -= 1 << bits
    return total


def float32(value):
    """A number rounded to binary32."""
    return struct.unpack("<f", struct.pack("<f", value))[0]
