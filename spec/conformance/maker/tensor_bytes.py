"""safetensors and zTensor files by hand, right or wrong (safetensors.md; ztensor.md)."""

import json
import struct


def safetensors(header, data=b"", pad=8):
    """A file with this header: bytes as they are, or an object to be written as JSON."""
    if not isinstance(header, bytes):
        header = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
        header += b" " * (-len(header) % pad)
    return struct.pack("<Q", len(header)) + header + data


def safetensors_of(tensors):
    """A file of tensors: (dtype, shape, bytes) by name, one after the other."""
    header, data = {}, b""
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    return safetensors(header, data)


def cbor(value):
    """RFC 7049: a value in its shortest form. `Raw` is put in as it is, `Pairs` are a map with keys as they come."""
    if isinstance(value, Raw):
        return value.content
    if value is None or isinstance(value, bool):
        return {None: b"\xf6", False: b"\xf4", True: b"\xf5"}[value]
    if isinstance(value, int):
        return _head(0, value) if value >= 0 else _head(1, -1 - value)
    if isinstance(value, bytes):
        return _head(2, len(value)) + value
    if isinstance(value, str):
        content = value.encode()
        return _head(3, len(content)) + content
    if isinstance(value, list):
        return _head(4, len(value)) + b"".join(map(cbor, value))
    pairs = value.pairs if isinstance(value, Pairs) else list(value.items())
    return _head(5, len(pairs)) + b"".join(cbor(key) + cbor(item) for key, item in pairs)


def _head(major, number):
    if number < 24:
        return bytes([major << 5 | number])
    for low, size in ((24, 1), (25, 2), (26, 4), (27, 8)):
        if number < 1 << 8 * size:
            return bytes([major << 5 | low]) + number.to_bytes(size, "big")
    raise ValueError(number)


class Raw:
    """CBOR that is there already."""

    def __init__(self, content):
        self.content = content


class Pairs:
    """A map whose keys come as they are, perhaps twice."""

    def __init__(self, *pairs):
        self.pairs = pairs


MAGIC = b"ZTEN1000"


def ztensor(manifest, blobs=b"", begin=MAGIC, end=MAGIC, size=None):
    """A file of blobs, which begin at byte 64, and a manifest: a value, or the bytes of it."""
    content = manifest if isinstance(manifest, bytes) else cbor(manifest)
    head = begin.ljust(64, b"\0") + blobs if blobs else begin
    return head + content + struct.pack("<Q", len(content) if size is None else size) + end


def dense(shape, dtype, offset, length, **fields):
    """An object of one component."""
    component = {"dtype": dtype, "offset": offset, "length": length, **fields}
    return {"shape": shape, "format": "dense", "components": {"data": component}}


def manifest(objects, version="1.2.0", **fields):
    return {"version": version, **fields, "objects": objects}
