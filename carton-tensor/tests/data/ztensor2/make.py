"""Makes the files of zTensor 2 in this folder with the library of the format, and writes what the library reads from them to expected.json.

    python -m venv venv && venv/bin/pip install ztensor==2.1.2 numpy==2.4.6 && venv/bin/python make.py

Files are placed at multiples of 4096 bytes where their format allows it, so that they are small.
"""

import hashlib
import json
from pathlib import Path

import numpy as np
import ztensor
import ztensor.numpy

HERE = Path(__file__).resolve().parent
ZSTD = "zt.zstd-seekable/1"
WIDTHS = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2, "i64": 8, "i32": 4, "i16": 2, "i8": 1, "u64": 8, "u32": 4, "u16": 2, "u8": 1}
LOGICAL = {
    "bool": ("u8", bytes([0, 1, 1, 0, 1, 0])),
    "f8_e4m3fn": ("u8", bytes([0x00, 0x38, 0x7E, 0x7F, 0x80, 0xFF])),
    "f8_e5m2": ("u8", bytes([0x00, 0x3C, 0x7B, 0x7C, 0x7F, 0xFC])),
    "f8_e4m3fnuz": ("u8", bytes([0x00, 0x40, 0x7F, 0x80, 0x01, 0xFF])),
    "f8_e5m2fnuz": ("u8", bytes([0x00, 0x40, 0x7F, 0x80, 0x01, 0xFF])),
    "f8_e8m0": ("u8", bytes([0x00, 0x7F, 0x80, 0xFE, 0xFF, 0x01])),
    "f4_e2m1": ("u8", bytes([0x10, 0x32, 0xFE])),
    "complex64": ("f32", np.arange(12, dtype="f4").tobytes()),
    "complex128": ("f64", np.arange(12, dtype="f8").tobytes()),
}


def part(dtype, data, **fields):
    return {"dtype": dtype, "data": data, **fields}


def of(dtype, count):
    """The bytes of some elements, none of which is a NaN."""
    return bytes((7 * position + 1) % 120 for position in range(WIDTHS[dtype] * count))


def writer(name, **options):
    return ztensor.Writer(str(HERE / name), **{"canonical": False, "align": 4096, **options})


def types():
    with writer("types.zt") as file:
        for dtype in WIDTHS:
            file.add(dtype, of(dtype, 6), [2, 3], dtype)
        for logical, (dtype, data) in LOGICAL.items():
            file.add(logical, data, [2, 3], dtype, logical=logical)
        file.add("scalar", of("f32", 1), [], "f32")
        file.add("nothing", b"", [3, 0], "f64")
        file.add("ünïcode\u2028", of("i8", 3), [3], "i8")
        file.finish()


def canonical():
    """Two tensors with the same bytes share a blob, and so do those with none."""
    weights = np.arange(5, dtype="f4")
    with ztensor.Writer(str(HERE / "canonical.zt")) as file:
        file.set_attributes({"framework": "none", "epochs": 3, "rate": 0.1, "flags": [True, None], "more": {"a": -1, "b": [1.5, "x"]}})
        file.add("a", weights.tobytes(), [5], "f32")
        file.add("b", weights.tobytes(), [5, 1], "f32")
        file.finish()


def saved():
    """What the layer that is shaped like safetensors writes."""
    ztensor.numpy.save_file({"x": np.arange(6, dtype="i2").reshape(2, 3), "mask": np.array([True, False])}, str(HERE / "saved.zt"), align=4096)


def compressed():
    long = (np.arange(700_000, dtype="u4") // 5000).tobytes()
    with writer("compressed.zt") as file:
        file.add("short", of("f32", 8), [8], "f32", encoding=ZSTD)
        file.add("long", long, [700, 1000], "u32", encoding=ZSTD)
        file.add("exact", bytes(1 << 20), [1 << 20], "u8", encoding=ZSTD)
        file.add("nothing", b"", [0], "u8", encoding=ZSTD)
        file.add("flags", bytes([1, 0, 1]), [3], "u8", logical="bool", encoding=ZSTD)
        file.finish()


def sparse():
    def numbers(dtype, *values):
        return np.array(values, dtype).tobytes()

    with writer("sparse.zt") as file:
        parts = {"values": part("f32", numbers("f4", 1, 2, 3)), "indices": part("u32", numbers("u4", 0, 3, 1)), "indptr": part("u32", numbers("u4", 0, 2, 2, 3))}
        file.add_object("csr", [3, 4], parts, layout="zt.sparse_csr/1")
        parts = {"values": part("u8", bytes([0x38, 0x40]), logical="f8_e4m3fn"), "indices": part("u64", numbers("u8", 1, 0)), "indptr": part("u64", numbers("u8", 0, 1, 2))}
        file.add_object("csr64", [2, 2], parts, layout="zt.sparse_csr/1", attributes={"note": "two"})
        parts = {"values": part("i16", numbers("i2", -5, 6)), "coords": part("u32", numbers("u4", 1, 0, 2, 1, 0, 3))}
        file.add_object("coo", [2, 3, 4], parts, layout="zt.sparse_coo/1")
        file.finish()


def others():
    """Objects that the library reads part by part."""
    with writer("others.zt") as file:
        parts = {"data": part("u8", bytes(range(16)), logical="f4_e2m1"), "scales": part("u8", bytes([127]), logical="f8_e8m0")}
        file.add_object("mx", [32], parts, layout="zt.mx/1", attributes={"block_size": 32, "scale_form": "e8m0_exponent"})
        parts = {"data": part("u32", of("u32", 4)), "scales": part("f16", of("f16", 1))}
        attributes = {
            "bits": 4,
            "group_size": 32,
            "axis": 0,
            "packing": {"word": "u32", "order": "lsb_first", "per_word": 8},
            "scale_form": "f16_factors",
            "zero_point": {"form": "implied", "value": 8},
        }
        file.add_object("group", [32], parts, layout="zt.quant_group/1", attributes=attributes)
        file.add_object("type", [4], {"data": part("u8", bytes([1, 2, 3]), logical="vendor.u6")})
        file.add_object("half", [3], {"data": part("u8", bytes([0x21, 0x03]), logical="f4_e2m1")})
        file.add("plain", of("u16", 2), [2], "u16")
        file.finish()


def appended():
    """The manifest of the first version is still in the file."""
    with writer("appended.zt") as file:
        file.add("first", of("u8", 3), [3], "u8")
        file.finish()
    with ztensor.Writer(str(HERE / "appended.zt"), canonical=False, append=True) as file:
        file.add("second", of("i32", 2), [2], "i32")
        file.finish()


def empty():
    with writer("empty.zt") as file:
        file.finish()


def head(major, number):
    for information, size in ((24, 1), (25, 2), (26, 4), (27, 8)):
        if number < 24:
            return bytes([major << 5 | number])
        if number < 256**size:
            return bytes([major << 5 | information]) + number.to_bytes(size, "big")
    raise ValueError(number)


def cbor(value):
    match value:
        case int():
            return head(0, value)
        case str():
            return head(3, len(value.encode())) + value.encode()
        case list():
            return head(4, len(value)) + b"".join(map(cbor, value))
        case dict():
            return head(5, len(value)) + b"".join(sorted(cbor(key) + cbor(item) for key, item in value.items()))
    raise TypeError(value)


def xxh3(data):
    """The XXH3 of bytes, from a file of the library that has them."""
    path = HERE / "hash.zt"
    with writer(path.name) as file:
        file.add("x", data, [len(data)], "u8")
        file.finish()
    digest = path.read_bytes().split(b"xxh3:")[-1][:16]
    path.unlink()
    return int(digest, 16)


def sharded():
    """A root of two shards, which the library only writes from Rust: one with a manifest of its own, and one without."""
    with writer("sharded-one.zt") as file:
        file.add("whatever", of("f32", 4), [4], "f32")
        file.finish()
    magic = bytes.fromhex("895a54320d0a1a0a")
    two = magic + bytes(4088) + of("i16", 3) + bytes(24) + (2).to_bytes(4, "little") + bytes(4) + magic
    (HERE / "sharded-two.zt").write_bytes(two)
    one = (HERE / "sharded-one.zt").read_bytes()

    def dense(shape, dtype, count, **fields):
        data = {"dtype": dtype, "blob": [4096, WIDTHS[dtype] * count], "digest": f"xxh3:{xxh3(of(dtype, count)):016x}", **fields}
        return {"shape": shape, "layout": "dense", "parts": {"data": data}}

    manifest = cbor(
        {
            "shards": {
                "one": {"size": len(one), "digest": "sha256:" + hashlib.sha256(one).hexdigest()},
                "two": {"size": len(two), "digest": f"xxh3:{xxh3(two):016x}"},
            },
            "objects": {
                "a": dense([2, 2], "f32", 4, shard="one"),
                "b": dense([3], "i16", 3, shard="two"),
                "c": dense([5], "u8", 5),
            },
        }
    )
    root = magic + bytes(4088) + of("u8", 5)
    root += bytes(8192 - len(root)) + manifest
    root += b"".join(number.to_bytes(8, "little") for number in (8192, len(manifest), xxh3(manifest)))
    root += (2).to_bytes(4, "little") + bytes(4) + magic
    (HERE / "sharded.zt").write_bytes(root)


def text(value):
    """The bytes in hexadecimal digits, or their SHA-256 if they are many."""
    return value.hex() if len(value) <= 64 else "sha256:" + hashlib.sha256(value).hexdigest()


def expected(path):
    with ztensor.open(str(path)) as file:
        objects = {}
        for tensor in file.values():
            parts = {}
            for name in tensor.parts:
                of_part = tensor[name]
                parts[name] = {"dtype": of_part.dtype, "type": of_part.logical, "bytes": text(of_part.tobytes())}
                assert of_part.verify()
            objects[tensor.name] = {"shape": tensor.shape, "layout": tensor.layout, "parts": parts}
        checked, without = file.verify(deep=True)
        return {"objects": objects, "digests": checked, "without": without}


def main():
    for make in (types, canonical, saved, compressed, sparse, others, appended, empty, sharded):
        make()
    found = {path.name: expected(path) for path in sorted(HERE.glob("*.zt")) if path.name != "sharded-two.zt"}
    (HERE / "expected.json").write_text(json.dumps(found, indent=1, ensure_ascii=True) + "\n")


if __name__ == "__main__":
    main()
