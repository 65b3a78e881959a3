"""A good little carton to start from, of which a case changes what it is about, with what a reader must say of it."""

import hashlib
import struct
from copy import deepcopy

from .case import Link
from .zip_records import LINK, Entry, archive

LEAST_TOML = b"""spec_version = 1

[runner]
runner_name = "noop"
required_framework_version = "=1.0.0"
"""
LEAST_METADATA = {
    "spec_version": 1,
    "runner": {"runner_name": "noop", "required_framework_version": "=1.0.0", "runner_compat_version": 1},
}

WHOLE_TOML = """spec_version = 1
model_name = "digits"
short_description = "Reads digits"
model_description = "Looks at ![this](@misc/seven.png)."
license = "Apache-2.0"
repository = "https://example.com/digits.git"
homepage = "https://example.com"
required_platforms = ["x86_64-unknown-linux-gnu", "aarch64-apple-darwin"]

[runner]
runner_name = "vendor/onnx"
required_framework_version = ">=1.12, <2"
runner_compat_version = 3
[runner.opts]
num_threads = 4
names = ["a", "b"]

[[input]]
name = "image"
dtype = "float32"
shape = ["batch", 3, "*"]
description = "RGB"
internal_name = "graph/image:0"

[[input]]
name = "words"
dtype = "string"
shape = "*"

[[output]]
name = "digit"
dtype = "int64"
shape = "batch_shape"

[[self_test]]
name = "two digits"
description = "both of them"
inputs = { image = "@tensor_data/image", words = "@tensor_data/words" }
expected_out = { digit = "@tensor_data/digit" }

[[example]]
inputs = { image = "@misc/seven.png", words = "@tensor_data/words" }
sample_out = { digit = "@tensor_data/digit" }
""".encode()
WHOLE_METADATA = {
    "spec_version": 1,
    "model_name": "digits",
    "short_description": "Reads digits",
    "model_description": "Looks at ![this](@misc/seven.png).",
    "license": "Apache-2.0",
    "repository": "https://example.com/digits.git",
    "homepage": "https://example.com",
    "required_platforms": ["x86_64-unknown-linux-gnu", "aarch64-apple-darwin"],
    "runner": {
        "runner_name": "vendor/onnx",
        "required_framework_version": ">=1.12, <2",
        "runner_compat_version": 3,
        "opts": {"num_threads": 4, "names": ["a", "b"]},
    },
    "inputs": [
        {
            "name": "image",
            "dtype": "float32",
            "shape": ["batch", 3, "*"],
            "description": "RGB",
            "internal_name": "graph/image:0",
        },
        {"name": "words", "dtype": "string", "shape": "*"},
    ],
    "outputs": [{"name": "digit", "dtype": "int64", "shape": "batch_shape"}],
    "self_tests": [
        {
            "name": "two digits",
            "description": "both of them",
            "inputs": {"image": "@tensor_data/image", "words": "@tensor_data/words"},
            "expected_out": {"digit": "@tensor_data/digit"},
        }
    ],
    "examples": [
        {
            "inputs": {"image": "@misc/seven.png", "words": "@tensor_data/words"},
            "sample_out": {"digit": "@tensor_data/digit"},
        }
    ],
}
IMAGE = struct.pack("<12f", *[n / 4 for n in range(12)])
DIGIT = struct.pack("<2q", 7, -(2**40))
INDEX = """[[tensor]]
name = "image"
dtype = "float32"
shape = [2, 3, 2]
file = "tensor_0.bin"
inner = []

[[tensor]]
name = "words"
dtype = "string"
shape = [2, 1]
file = "tensor_1.toml"
inner = []

[[tensor]]
name = "digit"
dtype = "int64"
shape = [2]
file = "tensor_2.bin"
inner = []

[[tensor]]
name = "ragged"
dtype = "nested"
inner = ["image", "image"]
""".encode()
STRINGS = 'data = ["a", "b ü\\n"]\n'.encode()
TENSORS = [
    {"name": "image", "dtype": "float32", "shape": [2, 3, 2], "sha256": hashlib.sha256(IMAGE).hexdigest()},
    {"name": "words", "dtype": "string", "shape": [2, 1], "values": ["a", "b ü\n"]},
    {"name": "digit", "dtype": "int64", "shape": [2], "sha256": hashlib.sha256(DIGIT).hexdigest()},
    {"name": "ragged", "dtype": "nested", "inner": ["image", "image"]},
]


def sha256(data):
    return hashlib.sha256(data).hexdigest()


class Little:
    """A carton to be.

    `entries` are its zip entries by name, without MANIFEST. MANIFEST lists the digest of each but LINKS; `digests` replaces some, and adds
    files that are not in the carton. Everything is stored, unless a case says otherwise.
    """

    def __init__(self, files, metadata, tensors=()):
        self.entries = [Entry(name, data) for name, data in files.items()]
        self.metadata, self.tensors = deepcopy(metadata), deepcopy(list(tensors))
        self.optional_inputs = []
        self.digests = {}
        self.sizes = {}
        self.urls = {}
        self.manifest = None
        self.manifest_entry = {}
        self.zip = {}

    def entry(self, name):
        return next(entry for entry in self.entries if entry.name == name.encode())

    def add(self, name, data=b"", **fields):
        entry = Entry(name, data, **fields)
        self.entries.append(entry)
        return entry

    def add_link(self, name, target, leads_to=b""):
        """A symbolic link. `leads_to` is the data of the file at the end of it, whose digest MANIFEST gives."""
        entry = self.add(name, target.encode() if isinstance(target, str) else target, mode=LINK)
        self.digests[entry.name.decode()] = sha256(leads_to)
        return entry

    def replace(self, name, **fields):
        """The same entry, with other fields."""
        at = self.entries.index(self.entry(name))
        old = self.entries[at]
        kept = {"name": old.name, "data": old.data, "method": old.method, "mode": old.mode}
        self.entries[at] = Entry(**{**kept, **fields})
        return self.entries[at]

    def edit(self, name, old, new):
        """Replaces one piece of text of a file."""
        data = self.entry(name).data
        if data.count(old.encode()) != 1:
            raise ValueError(f"{old!r} is not there once")
        return self.replace(name, data=data.replace(old.encode(), new.encode()))

    def link_away(self, name, urls, size=None):
        """Takes a file out, and notes what LINKS will have for it."""
        entry = self.entry(name)
        self.entries.remove(entry)
        self.digests[name] = sha256(entry.data)
        self.urls[name] = urls
        self.sizes[name] = size

    def listed(self):
        """The digest of each file that MANIFEST lists, by raw name."""
        digests = {e.name: sha256(e.data) for e in self.entries if e.name != b"LINKS" and not e.name.endswith(b"/")}
        digests.update({name.encode(): digest for name, digest in self.digests.items()})
        return digests

    def manifest_bytes(self):
        lines = [name + b"=" + digest.encode() + b"\n" for name, digest in sorted(self.listed().items())]
        right = b"".join(lines)
        return right if self.manifest is None else self.manifest(right)

    def packed(self):
        manifest = self.manifest_bytes()
        entries = list(self.entries)
        if manifest is not None:
            entries.append(Entry("MANIFEST", manifest, **self.manifest_entry))
        return archive(entries, **self.zip)

    def unpacked(self):
        folder = {}
        for entry in self.entries:
            name = entry.name.decode()
            folder[name] = Link(entry.data.decode()) if entry.mode == LINK else entry.data
        folder["MANIFEST"] = self.manifest_bytes()
        return {name: content for name, content in folder.items() if content is not None}

    def reads(self):
        """What a reader must say of it."""
        data = {entry.name.decode(): entry.data for entry in self.entries if not entry.name.endswith(b"/")}
        sizes = {sha256(entry.data): len(entry.data) for entry in self.entries if entry.mode != LINK}
        files = []
        for raw_name, digest in sorted(self.listed().items()):
            name = raw_name.decode()
            if name in self.urls:
                files.append({"path": name, "size": self.sizes[name], "sha256": digest, "urls": self.urls[name]})
            else:
                is_link = self.entry(name).mode == LINK
                files.append({"path": name, "size": sizes[digest] if is_link else len(data[name]), "sha256": digest})
        return {
            "hash": sha256(self.manifest_bytes()),
            "metadata": self.metadata,
            "optional_inputs": self.optional_inputs,
            "files": files,
            "tensors": self.tensors,
        }


def least():
    """The least that is a carton."""
    return Little({"model/weights.bin": bytes(range(40)), "carton.toml": LEAST_TOML}, LEAST_METADATA)


def whole():
    """A carton with something of everything."""
    files = {
        "model/digits.onnx": b"weights" * 9,
        "model/config/a=b.json": b"{}",
        "misc/seven.png": b"\x89PNG\r\n\x1a\n",
        "tensor_data/index.toml": INDEX,
        "tensor_data/tensor_0.bin": IMAGE,
        "tensor_data/tensor_1.toml": STRINGS,
        "tensor_data/tensor_2.bin": DIGIT,
        "carton.toml": WHOLE_TOML,
    }
    return Little(files, WHOLE_METADATA, TENSORS)
