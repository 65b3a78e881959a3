"""Writes a carton of examples/digits with only Python's standard library, to test that Carton accepts cartons of other writers.

    make_carton.py OUT.carton [--compression stored|deflate] [--streamed] [--directories]

Written from the description of the format, not from Carton's code. The carton has the model for the runner `onnx`, two
self-tests whose tensors are .bin files, an example with a picture, and a string and a nested tensor that nothing uses.
"""

import argparse
import ast
import hashlib
import io
import json
import struct
import zipfile
from pathlib import Path

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits"

CARTON_TOML = """\
spec_version = 1
model_name = "digits-by-python"
short_description = "The digit classifier of the examples, packed by Python's zipfile"

[[input]]
name = "image"
dtype = "float32"
shape = ["batch", 1, 8, 8]

[[output]]
name = "probabilities"
dtype = "float32"
shape = ["batch", 10]

[[self_test]]
name = "one digit"
inputs = { image = "@tensor_data/one_image" }
expected_out = { probabilities = "@tensor_data/one_answer" }

[[self_test]]
name = "sixteen digits"
inputs = { image = "@tensor_data/sixteen_images" }
expected_out = { probabilities = "@tensor_data/sixteen_answers" }

[[example]]
inputs = { image = "@misc/digit.png" }
sample_out = { probabilities = "@tensor_data/one_answer" }

[runner]
runner_name = "onnx"
required_framework_version = ">=1.12.0, <2"
runner_compat_version = 1
"""


def float32_array(data):
    """Returns shape and little-endian bytes of a version 1 .npy file of float32 in C order."""
    assert data[:8] == b"\x93NUMPY\x01\x00", "not a version 1 .npy file"
    (length,) = struct.unpack("<H", data[8:10])
    header = ast.literal_eval(data[10 : 10 + length].decode("latin1"))
    assert header["descr"] == "<f4" and not header["fortran_order"], header
    return list(header["shape"]), data[10 + length :]


def tensors():
    """Yields name, shape and bytes of each tensor."""
    yield "one_image", *float32_array((DIGITS / "image.npy").read_bytes())
    yield "one_answer", *float32_array((DIGITS / "probabilities.npy").read_bytes())
    with zipfile.ZipFile(DIGITS / "cases.npz") as cases:
        yield "sixteen_images", *float32_array(cases.read("images.npy"))
        yield "sixteen_answers", *float32_array(cases.read("probabilities.npy"))


def contents():
    """Returns every file of the carton except MANIFEST: path to bytes."""
    files = {
        "carton.toml": CARTON_TOML.encode(),
        "model/model.onnx": (DIGITS / "model.onnx").read_bytes(),
        "misc/digit.png": (DIGITS / "digit.png").read_bytes(),
    }
    index = []
    for number, (name, shape, data) in enumerate(tensors()):
        file = f"tensor_{number}.bin"
        files[f"tensor_data/{file}"] = data
        # Lists of numbers and strings have the same syntax in JSON and in TOML.
        index.append(
            f'[[tensor]]\nname = {json.dumps(name)}\ndtype = "float32"\nshape = {json.dumps(shape)}\nfile = "{file}"\n'
        )
    labels = json.dumps("zero one two three four five six seven eight nine".split())
    files["tensor_data/labels.toml"] = f"data = {labels}\n".encode()
    index.append('[[tensor]]\nname = "labels"\ndtype = "string"\nshape = [10]\nfile = "labels.toml"\n')
    index.append('[[tensor]]\nname = "images"\ndtype = "nested"\ninner = ["one_image", "sixteen_images"]\n')
    files["tensor_data/index.toml"] = "\n".join(index).encode()
    return files


class Unseekable(io.RawIOBase):
    """An output without seeking, for which zipfile writes sizes after the data instead of before it."""

    def __init__(self, file):
        self.file = file

    def writable(self):
        return True

    def write(self, data):
        return self.file.write(data)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path)
    parser.add_argument("--compression", choices=["stored", "deflate"], default="deflate")
    parser.add_argument("--streamed", action="store_true", help="write sizes and checksums after the data")
    parser.add_argument("--directories", action="store_true", help="add entries for the folders")
    options = parser.parse_args()

    files = contents()
    lines = [f"{path}={hashlib.sha256(data).hexdigest()}\n" for path, data in sorted(files.items())]
    files["MANIFEST"] = "".join(lines).encode()
    method = {"stored": zipfile.ZIP_STORED, "deflate": zipfile.ZIP_DEFLATED}[options.compression]
    with open(options.output, "wb") as file:
        output = Unseekable(file) if options.streamed else file
        with zipfile.ZipFile(output, "w", method) as carton:
            if options.directories:
                for folder in ("model/", "misc/", "tensor_data/"):
                    carton.writestr(folder, b"")
            for path, data in files.items():
                carton.writestr(path, data)
    print(hashlib.sha256(files["MANIFEST"]).hexdigest())


if __name__ == "__main__":
    main()
