"""Changes ONNX models at random, and writes what the package `onnx` reads of each: OUT/N.onnx, and OUT/expected.txt with a line for each, which is
`refused` or an object of names and tensors as onnx_files.py describes them, with null for a tensor that the package does not read.

    python onnx_peers.py tests/data/onnx OUT COUNT SEED
"""

import json
import math
import random
import sys
import warnings
from pathlib import Path

import onnx
from onnx import numpy_helper

import onnx_files
from onnx_files import as_line, varint

NUMBERS = [0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 14, 16, 22, 23, 25, 27, 127, 128, 255, 256, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1, 2**64 - 128]
# The fields that tensors have, and some others.
FIELDS = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 14, 15, 22]


def fields(content):
    """The fields of a message, each with its number, kind and content; None if it is no message."""
    found, at = [], 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = content[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    try:
        while at < len(content):
            key = number()
            kind = key & 7
            if kind == 0:
                value = varint(number())
            else:
                length = {1: 8, 2: None, 5: 4}[kind]
                length = number() if length is None else length
                value, at = content[at:at + length], at + length
                if at > len(content):
                    return None
            found.append([key >> 3, kind, value])
    except (IndexError, KeyError):
        return None
    return found


def changed(rng, content, depth=0):
    """Changes a field of a message, or of a message in it."""
    parts = fields(content)
    if not parts or rng.random() < 0.05:
        at = rng.randrange(len(content) + 1)
        return content[:at] + bytes([rng.randrange(256)]) * rng.randrange(3) + content[at + rng.randrange(3):]
    part = rng.choice(parts)
    # The graph of a model, and the tensors of a graph, are what matters.
    if depth < 2:
        part = rng.choice([one for one in parts if one[1] == 2 and len(one[2]) > 10] or [part])
    if part[1] == 2 and (depth < 2 or rng.random() < 0.2):
        part[2] = changed(rng, part[2], depth + 1)
    else:
        kind = rng.randrange(7)
        if kind == 0:
            parts.remove(part)
        elif kind == 1:
            parts.insert(rng.randrange(len(parts) + 1), list(part))
        elif kind == 2:
            part[0] = rng.choice(FIELDS)
        elif kind == 3 and part[1] == 2:
            part[2] = part[2][:rng.randrange(len(part[2]) + 1)] + bytes(rng.randrange(3))
        elif kind == 4 and part[1] == 2:
            part[2] += varint(rng.choice(NUMBERS))
        elif kind == 5:
            parts.insert(rng.randrange(len(parts) + 1), [rng.choice(FIELDS), 0, varint(rng.choice(NUMBERS))])
        elif part[1] == 0:
            part[2] = varint(rng.choice(NUMBERS))
        elif part[2]:
            at = rng.randrange(len(part[2]))
            part[2] = part[2][:at] + bytes([rng.choice([part[2][at] ^ 1 << rng.randrange(8), rng.randrange(256)])]) + part[2][at + 1:]
    return b"".join(onnx_files.field(*one) for one in parts)


def read(content, folder):
    try:
        model = onnx.load_model_from_string(content)
    except Exception:
        return "refused"
    lines = {}
    # What reads a tensor must not end the reading of the others.
    to_array, dense = numpy_helper.to_array, onnx_files.dense

    def caught(function):
        def read_or_none(*arguments):
            try:
                return function(*arguments)
            except Exception:
                return None
        return read_or_none

    def described(name, array):
        line = None if array is None else as_line(name, array)
        # Two tensors of a name refuse the model.
        lines[name] = "twice" if name in lines else line
        return line

    def small(sparse, folder):
        if math.prod(sparse.dims) > 1 << 20:
            raise ValueError("large")
        return dense(sparse, folder)

    onnx_files.numpy_helper.to_array, onnx_files.dense, onnx_files.as_line = caught(to_array), caught(small), described
    try:
        onnx_files.described(model, folder)
    except Exception:
        # Names that are not UTF-8, and constants without an output.
        return "refused"
    finally:
        onnx_files.numpy_helper.to_array, onnx_files.dense, onnx_files.as_line = to_array, dense, as_line
    return json.dumps(lines, separators=(",", ":"))


def main():
    files, folder, count, seed = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    warnings.simplefilter("ignore")
    rng = random.Random(seed)
    models = [path.read_bytes() for path in sorted(files.glob("*.onnx"))]
    with (folder / "expected.txt").open("w") as expected:
        for position in range(count):
            content = rng.choice(models)
            for _ in range(rng.choice([1, 1, 1, 2, 3])):
                content = changed(rng, content)
            (folder / f"{position}.onnx").write_bytes(content)
            expected.write(read(content, str(folder)) + "\n")


if __name__ == "__main__":
    main()
