"""The other side of tests/ztensor2/peers.rs: files of PyPI's ztensor 2.1.2, which is in a folder of its own, and what it reads from files.

    ztensor2_peers.py make FOLDER     writes peer-*.zt, of random tensors in all ways of storing them
    ztensor2_peers.py again FOLDER    writes what is in each ours-*.zt to again-*.zt, in canonical form
    ztensor2_peers.py read FOLDER     writes what the library reads from each *.zt to a JSON file beside it, or the rule that the file breaks
"""

import hashlib
import json
import os
import random
import sys
from pathlib import Path

command, folder = sys.argv[1:]
sys.path.insert(0, os.path.join(sys.prefix, "ztensor-2"))
import ztensor

assert hasattr(ztensor, "convert"), f"this is not ztensor 2: {ztensor.__file__}"

WIDTHS = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2, "i64": 8, "i32": 4, "i16": 2, "i8": 1, "u64": 8, "u32": 4, "u16": 2, "u8": 1}
BYTES = ["f8_e4m3fn", "f8_e5m2", "f8_e4m3fnuz", "f8_e5m2fnuz", "f8_e8m0"]


def elements(rng, dtype, logical, count):
    """Random bytes, or long runs of one byte, which are compressed well."""
    n_bytes = {"f4_e2m1": (count + 1) // 2, "complex64": 8 * count, "complex128": 16 * count}.get(logical, WIDTHS[dtype] * count)
    data = bytearray(rng.randbytes(n_bytes) if rng.random() < 0.5 else bytes([rng.randrange(256)]) * n_bytes)
    if logical == "bool":
        data = bytearray(byte & 1 for byte in data)
    if logical == "f4_e2m1" and count % 2:
        data[-1] &= 0x0F
    return bytes(data)


def types():
    return [(dtype, None) for dtype in WIDTHS] + [("u8", name) for name in [*BYTES, "bool", "f4_e2m1"]] + [("f32", "complex64"), ("f64", "complex128")]


def make(path, seed):
    rng = random.Random(seed)
    canonical = seed % 4 == 0
    options = {"canonical": canonical}
    if not canonical:
        options["align"] = rng.choice([4096, 8192, 65536])
    with ztensor.Writer(str(path), **options) as file:
        file.set_attributes({"seed": seed, "text": "é", "nested": [1, -2, 0.5, {"a": None, "b": [True]}]})
        names = sorted({rng.choice(["", "ü", "layer.", "x/"]) + str(number) for number in range(12)})
        for name in names if canonical else rng.sample(names, len(names)):
            dtype, logical = rng.choice(types())
            shape = [rng.choice([0, 1, 2, 3, 7, 30]) for _ in range(rng.randrange(4))]
            if rng.random() < 0.1:
                shape = [rng.choice([400_000, 1 << 20, (1 << 20) + 1])]
            count = 1
            for size in shape:
                count *= size
            encoding = None if canonical or rng.random() < 0.5 else "zt.zstd-seekable/1"
            data = elements(rng, dtype, logical, count)
            if rng.random() < 0.2 and encoding is None and data:
                parts = {"data": {"dtype": dtype, "nbytes": len(data)} | ({"logical": logical} if logical else {})}
                with file.stream(name, shape, parts) as sink:
                    for start in range(0, len(data), 1000):
                        sink.write(data[start : start + 1000])
            else:
                file.add(name, data, shape, dtype, logical=logical, encoding=encoding)
        file.finish()


def text(value):
    return value.hex() if len(value) <= 64 else "sha256:" + hashlib.sha256(value).hexdigest()


def read(path):
    try:
        with ztensor.open(str(path)) as file:
            objects = {}
            for tensor in file.values():
                parts = {}
                for name in tensor.parts:
                    part = tensor[name]
                    part.verify()
                    parts[name] = {"dtype": part.dtype, "type": part.logical, "bytes": text(part.tobytes())}
                objects[tensor.name] = {"shape": tensor.shape, "layout": tensor.layout, "parts": parts}
            return {"objects": objects}
    except Exception as error:
        return {"error": str(error)}


folder = Path(folder)
if command == "make":
    for seed in range(24):
        make(folder / f"peer-{seed:02}.zt", seed)
elif command == "again":
    for path in sorted(folder.glob("ours-*.zt")):
        ztensor.convert(str(path), str(folder / path.name.replace("ours-", "again-")))
else:
    for path in sorted(folder.glob("*.zt")):
        path.with_suffix(".json").write_text(json.dumps(read(path)))
