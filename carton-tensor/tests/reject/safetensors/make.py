"""Writes the files in this folder, and cases.txt: the file, the rule that it breaks (a variant of HeaderError), and what
version 0.8 of the `safetensors` library says of it.

    python3 make.py
"""

import json
import struct
from pathlib import Path

HERE = Path(__file__).parent
CAP = 100_000_000
MAX = 2**64 - 1


def framed(header, data=b"", length=None):
    header = header if isinstance(header, bytes) else header.encode()
    return struct.pack("<Q", len(header) if length is None else length) + header + data


def tensor(dtype="U8", shape=(1,), offsets=(0, 1)):
    return f'{{"dtype":"{dtype}","shape":{json.dumps(list(shape))},"data_offsets":{json.dumps(list(offsets))}}}'


def tensors(*entries):
    return "{" + ",".join(f'"{name}":{entry}' for name, entry in entries) + "}"


def one(**fields):
    return tensors(("a", tensor(**fields)))


def cases():
    """Name, rule, whether the library accepts it, bytes."""
    valid = one()
    # 1: the length of the header
    yield "empty", "TooShort", False, b""
    yield "seven-bytes", "TooShort", False, b"\x02\0\0\0\0\0\0"
    yield "length-over-cap", "TooLong", False, framed(valid, b"\0", CAP + 1)
    yield "length-all-ones", "TooLong", False, framed(valid, b"\0", MAX)
    yield "length-past-the-end", "PastTheEnd", False, framed(valid, length=len(valid) + 1)
    yield "header-cut-off", "PastTheEnd", False, framed(valid)[:-1]
    # 2.1 to 2.4: the JSON
    yield "header-empty", "FirstByte", False, framed("")
    yield "header-of-spaces", "FirstByte", False, framed(" " * 8)
    yield "header-is-a-list", "FirstByte", False, framed("[]")
    yield "header-is-a-number", "FirstByte", False, framed("1")
    yield "header-is-null", "FirstByte", False, framed("null")
    yield "leading-space", "FirstByte", True, framed(" " + valid, b"\0")
    yield "leading-newline", "FirstByte", True, framed("\n" + valid, b"\0")
    yield "byte-order-mark", "FirstByte", False, framed("\ufeff" + valid, b"\0")
    yield "not-utf8", "NotUtf8", False, framed(b'{"\xff":' + tensor().encode() + b"}", b"\0")
    yield "utf8-surrogate", "NotUtf8", False, framed(b'{"\xed\xa0\x80":' + tensor().encode() + b"}", b"\0")
    yield "utf8-overlong", "NotUtf8", False, framed(b'{"\xc0\xaf":' + tensor().encode() + b"}", b"\0")
    yield "padded-with-newline", "LastByte", True, framed(valid + "\n", b"\0")
    yield "padded-with-tab-and-spaces", "LastByte", True, framed(valid + "\t  ", b"\0")
    yield "padded-with-nul", "LastByte", False, framed(valid + "\0\0", b"\0")
    yield "unfinished", "LastByte", False, framed(valid[:-2], b"\0")
    yield "two-objects", "Json", False, framed(valid + "{}", b"\0")
    yield "space-then-object", "Json", False, framed(valid + "  }", b"\0")
    yield "trailing-comma", "Json", False, framed(valid[:-1] + ",}", b"\0")
    yield "trailing-comma-in-shape", "Json", False, framed(valid.replace("[1]", "[1,]"), b"\0")
    yield "single-quotes", "Json", False, framed(valid.replace('"', "'"), b"\0")
    yield "comment", "Json", False, framed(valid.replace("{", "{/**/", 1), b"\0")
    yield "control-character-in-name", "Json", False, framed(valid.replace("a", "\n", 1), b"\0")
    yield "lone-surrogate-in-name", "Json", False, framed(valid.replace('"a"', '"\\ud800"'), b"\0")
    yield "unknown-escape-in-name", "Json", False, framed(valid.replace('"a"', '"\\x41"'), b"\0")
    yield "leading-zero", "Json", False, framed(valid.replace("[1]", "[01]"), b"\0")
    yield "plus-sign", "Json", False, framed(valid.replace("[1]", "[+1]"), b"\0")
    yield "deep-nesting", "NotATensor", False, framed('{"a":' + "[" * 10_000 + "]" * 10_000 + "}")
    # 2.5: nothing twice
    twice = tensors(("a", tensor()), ("a", tensor()))
    yield "tensor-twice", "DuplicateTensor", True, framed(twice, b"\0")
    escaped = tensors(("a", tensor()), ("\\u0061", tensor()))
    yield "tensor-twice-escaped", "DuplicateTensor", True, framed(escaped, b"\0")
    hidden = tensors(("a", tensor("F32", (9,), (0, 36))), ("a", tensor()))
    yield "tensor-twice-other-values", "DuplicateTensor", True, framed(hidden, b"\0")
    yield "tensor-twice-empty", "DuplicateTensor", True, framed(
        tensors(("a", tensor("U8", (0,), (0, 0))), ("b", tensor()), ("a", tensor("U8", (0,), (0, 0)))), b"\0"
    )
    for field, value in [("dtype", '"U8"'), ("shape", "[1]"), ("data_offsets", "[0,1]")]:
        doubled = valid.replace('{"dtype"', f'{{"{field}":{value},"dtype"', 1)
        yield f"{field.replace('_', '-')}-twice", "DuplicateField", False, framed(doubled, b"\0")
    metadata = '"__metadata__":{"k":"v"}'
    yield "metadata-twice", "DuplicateMetadata", False, framed("{" + metadata + "," + metadata + "}")
    yield "metadata-twice-escaped", "DuplicateMetadata", False, framed(
        "{" + metadata + "," + metadata.replace("__m", "_\\u005fm") + "}"
    )
    yield "metadata-key-twice", "DuplicateMetadataKey", True, framed('{"__metadata__":{"k":"v","k":"w"}}')
    # 3: metadata
    yield "metadata-null", "NotMetadata", True, framed('{"__metadata__":null}')
    yield "metadata-list", "NotMetadata", False, framed('{"__metadata__":[]}')
    yield "metadata-of-numbers", "NotMetadata", False, framed('{"__metadata__":{"k":1}}')
    yield "metadata-nested", "NotMetadata", False, framed('{"__metadata__":{"k":{}}}')
    yield "metadata-value-null", "NotMetadata", False, framed('{"__metadata__":{"k":null}}')
    yield "metadata-is-a-tensor", "NotMetadata", False, framed(tensors(("__metadata__", tensor())), b"\0")
    # 4: a tensor's entry
    yield "entry-null", "NotATensor", False, framed('{"a":null}')
    yield "entry-number", "NotATensor", False, framed('{"a":1}')
    yield "entry-string", "NotATensor", False, framed('{"a":"U8"}')
    yield "entry-list", "NotATensor", True, framed('{"a":["U8",[1],[0,1]]}', b"\0")
    yield "entry-empty", "MissingField", False, framed('{"a":{}}')
    yield "no-dtype", "MissingField", False, framed('{"a":{"shape":[1],"data_offsets":[0,1]}}', b"\0")
    yield "no-shape", "MissingField", False, framed('{"a":{"dtype":"U8","data_offsets":[0,1]}}', b"\0")
    yield "no-data-offsets", "MissingField", False, framed('{"a":{"dtype":"U8","shape":[1]}}', b"\0")
    yield "unknown-field", "UnknownField", True, framed(valid.replace('{"dtype"', '{"strides":[1],"dtype"'), b"\0")
    yield "unknown-field-case", "UnknownField", False, framed(valid.replace("shape", "Shape"), b"\0")
    yield "dtype-unknown", "UnknownDtype", False, framed(one(dtype="F128", offsets=(0, 16)), bytes(16))
    yield "dtype-lower-case", "UnknownDtype", False, framed(one(dtype="u8"), b"\0")
    yield "dtype-empty", "UnknownDtype", False, framed(one(dtype=""), b"\0")
    yield "dtype-number", "NotATensor", False, framed(valid.replace('"U8"', "8"), b"\0")
    yield "dtype-null", "NotATensor", False, framed(valid.replace('"U8"', "null"), b"\0")
    yield "dtype-object", "NotATensor", True, framed(valid.replace('"U8"', '{"U8":null}'), b"\0")
    yield "shape-number", "NotATensor", False, framed(valid.replace("[1]", "1"), b"\0")
    yield "shape-null", "NotATensor", False, framed(valid.replace("[1]", "null"), b"\0")
    yield "shape-negative", "NotATensor", False, framed(one(shape=(-1,)), b"\0")
    yield "shape-minus-zero", "NotATensor", False, framed(valid.replace("[1]", "[-0]").replace("[0, 1]", "[0, 0]"))
    yield "shape-float", "NotATensor", False, framed(valid.replace("[1]", "[1.0]"), b"\0")
    yield "shape-exponent", "NotATensor", False, framed(valid.replace("[1]", "[1e0]"), b"\0")
    yield "shape-string", "NotATensor", False, framed(valid.replace("[1]", '["1"]'), b"\0")
    yield "shape-over-64-bits", "NotATensor", False, framed(one(shape=(MAX + 1,)), b"\0")
    yield "shape-nested", "NotATensor", False, framed(one(shape=((1,),)), b"\0")
    yield "shape-of-65", "TooManyDimensions", True, framed(one(shape=(1,) * 65), b"\0")
    yield "shape-of-10000", "TooManyDimensions", True, framed(one(shape=(1,) * 10_000), b"\0")
    yield "offsets-number", "NotATensor", False, framed(valid.replace("[0, 1]", "0"), b"\0")
    yield "offsets-of-one", "NotATensor", False, framed(valid.replace("[0, 1]", "[0]"), b"\0")
    yield "offsets-of-three", "NotATensor", False, framed(valid.replace("[0, 1]", "[0,1,2]"), b"\0")
    yield "offsets-object", "NotATensor", False, framed(valid.replace("[0, 1]", '{"0":0,"1":1}'), b"\0")
    yield "offsets-negative", "NotATensor", False, framed(one(offsets=(-1, 0)), b"\0")
    yield "offsets-float", "NotATensor", False, framed(one(offsets=(0.0, 1.0)), b"\0")
    yield "offsets-over-64-bits", "NotATensor", False, framed(one(offsets=(0, MAX + 1)), b"\0")
    # 4.3: sizes
    yield "overflow-of-elements", "Overflow", False, framed(one(shape=(2, MAX)), b"\0")
    yield "overflow-of-bits", "Overflow", False, framed(one(dtype="F64", shape=(2**58,)), b"\0")
    yield "overflow-to-the-right-size", "Overflow", False, framed(one(shape=(2**61, 8)), b"")
    yield "overflow-before-a-zero", "Overflow", False, framed(one(shape=(MAX, MAX, 0), offsets=(0, 0)))
    yield "half-a-byte", "PartialByte", False, framed(one(dtype="F4", shape=(3,), offsets=(0, 2)), bytes(2))
    yield "six-bits", "PartialByte", False, framed(one(dtype="F6_E2M3", shape=(1,)), b"\0")
    yield "size-too-small", "SizeMismatch", False, framed(one(dtype="F32"), b"\0")
    yield "size-too-large", "SizeMismatch", False, framed(one(offsets=(0, 2)), bytes(2))
    yield "size-of-a-scalar", "SizeMismatch", False, framed(one(shape=(), offsets=(0, 0)))
    yield "size-of-no-elements", "SizeMismatch", False, framed(one(shape=(0,)), b"\0")
    yield "offsets-backward", "SizeMismatch", False, framed(one(offsets=(1, 0)), b"\0")
    yield "offsets-backward-wrapping", "SizeMismatch", False, framed(one(offsets=(MAX, 0)), b"\0")
    # 5: the data
    yield "hole-at-the-start", "Hole", False, framed(one(offsets=(1, 2)), bytes(2))
    gap = tensors(("a", tensor()), ("b", tensor(offsets=(2, 3))))
    yield "hole-between", "Hole", False, framed(gap, bytes(3))
    same = tensors(("a", tensor()), ("b", tensor()))
    yield "overlap-of-equals", "Overlap", False, framed(same, b"\0")
    overlap = tensors(("a", tensor(shape=(2,), offsets=(0, 2))), ("b", tensor(shape=(2,), offsets=(1, 3))))
    yield "overlap", "Overlap", False, framed(overlap, bytes(3))
    inside = tensors(("a", tensor(shape=(4,), offsets=(0, 4))), ("b", tensor(shape=(0,), offsets=(2, 2))))
    yield "overlap-of-nothing-inside", "Overlap", False, framed(inside, bytes(4))
    far = tensors(("a", tensor()), ("b", tensor(offsets=(MAX - 1, MAX))))
    yield "hole-to-the-last-byte", "Hole", False, framed(far, b"\0")
    yield "data-cut-off", "Truncated", False, framed(one(dtype="F32", offsets=(0, 4)), bytes(3))
    yield "no-data", "Truncated", False, framed(valid)
    yield "terabytes-claimed", "Truncated", False, framed(one(shape=(2**42,), offsets=(0, 2**42)), b"\0")
    yield "exabytes-claimed", "Truncated", False, framed(one(shape=(2**60,), offsets=(0, 2**60)), b"\0")
    yield "trailing-byte", "TrailingBytes", False, framed(valid, bytes(2))
    yield "trailing-without-tensors", "TrailingBytes", False, framed("{}", b"\0")


def main():
    for old in HERE.glob("*.safetensors"):
        old.unlink()
    with open(HERE / "cases.txt", "w", encoding="ascii") as table:
        table.write("# file, rule, the safetensors library; written by make.py\n")
        for name, rule, accepted, content in cases():
            path = HERE / f"{name}.safetensors"
            assert not path.exists(), name
            path.write_bytes(content)
            table.write(f"{name} {rule} {'accepts' if accepted else 'rejects'}\n")


if __name__ == "__main__":
    main()
