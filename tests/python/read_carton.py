"""Opens a carton with only Python's standard library and checks every hash, to test that other readers can read our cartons.

    read_carton.py FILE.carton

Prints an object as JSON: `manifest_sha256`, `files` (path to size) and `tensors` (name to dtype and shape). Any difference
from the description of the format is an error that says what and where, and exit status 1.
"""

import hashlib
import json
import math
import posixpath
import re
import stat
import sys
import tomllib
import zipfile

ITEM_SIZES = {
    "int8": 1,
    "uint8": 1,
    "int16": 2,
    "uint16": 2,
    "int32": 4,
    "uint32": 4,
    "float32": 4,
    "int64": 8,
    "uint64": 8,
    "float64": 8,
}


class Malformed(Exception):
    """A fault of the carton."""


def require(condition, problem):
    if not condition:
        raise Malformed(problem)


def read_manifest(data):
    """Parses MANIFEST: path to hash. A path may contain `=`, a hash cannot."""
    text = data.decode("utf-8")
    require(text.endswith("\n"), "MANIFEST does not end in a newline")
    paths = {}
    for line in text.split("\n")[:-1]:
        path, _, digest = line.rpartition("=")
        require(path and re.fullmatch("[0-9a-f]{64}", digest), f"MANIFEST has the line {line!r}")
        require(path not in paths, f"MANIFEST has {path} twice")
        paths[path] = digest
    require(list(paths) == sorted(paths, key=str.encode), "MANIFEST is not sorted")
    return paths


def read_entries(carton):
    """Returns path to bytes; links have the bytes of their target."""
    entries, links = {}, {}
    for info in carton.infolist():
        require(info.filename not in entries and info.filename not in links, f"{info.filename} is there twice")
        if info.is_dir():
            continue
        data = carton.read(info)
        if stat.S_ISLNK(info.external_attr >> 16):
            links[info.filename] = posixpath.normpath(
                posixpath.join(posixpath.dirname(info.filename), data.decode("utf-8"))
            )
        else:
            entries[info.filename] = data
    for path, target in links.items():
        for _ in links:
            target = links.get(target, target)
        require(target in entries, f"the link {path} leads to {target}, which is no file")
        entries[path] = entries[target]
    return entries


def read_tensors(entries):
    """Returns name to dtype and shape, after comparing them with the files."""
    if "tensor_data/index.toml" not in entries:
        require(not any(path.startswith("tensor_data/") for path in entries), "tensor_data has no index.toml")
        return {}
    tensors = {}
    for tensor in tomllib.loads(entries["tensor_data/index.toml"].decode("utf-8")).get("tensor", []):
        name, dtype, shape = tensor["name"], tensor["dtype"], tensor.get("shape")
        require(name not in tensors, f"index.toml has tensor {name} twice")
        tensors[name] = {"dtype": dtype, "shape": shape}
        if dtype == "nested":
            tensors[name]["inner"] = tensor["inner"]
            continue
        path = f"tensor_data/{tensor['file']}"
        require(path in entries, f"tensor {name} is in {path}, which is missing")
        if dtype == "string":
            found, expected = len(tomllib.loads(entries[path].decode("utf-8"))["data"]), math.prod(shape)
        else:
            found, expected = len(entries[path]), math.prod(shape) * ITEM_SIZES[dtype]
        require(found == expected, f"tensor {name} is {dtype} {shape}, which needs {expected}, but {path} has {found}")
    for name, tensor in tensors.items():
        for inner in tensor.get("inner", []):
            require(inner in tensors and "inner" not in tensors[inner], f"tensor {name} refers to {inner}")
    return tensors


def check_references(entries, tensors):
    metadata = tomllib.loads(entries["carton.toml"].decode("utf-8"))
    require(metadata["spec_version"] == 1, f"spec_version is {metadata['spec_version']}")
    require(metadata["runner"]["runner_name"], "there is no runner_name")
    for table in metadata.get("self_test", []) + metadata.get("example", []):
        for key in ("inputs", "expected_out", "sample_out"):
            for name, reference in table.get(key, {}).items():
                folder, _, rest = reference.partition("/")
                found = rest in tensors if folder == "@tensor_data" else f"misc/{rest}" in entries
                require(folder in ("@tensor_data", "@misc") and found, f"{key} {name} refers to {reference}")


def read_carton(path):
    with zipfile.ZipFile(path) as carton:
        require(carton.testzip() is None, "a checksum of the zip file does not match")
        entries = read_entries(carton)
    require("MANIFEST" in entries and "carton.toml" in entries, "MANIFEST or carton.toml is missing")
    manifest_data, links = entries.pop("MANIFEST"), entries.pop("LINKS", None)
    manifest = read_manifest(manifest_data)
    linked = tomllib.loads(links.decode("utf-8"))["urls"] if links is not None else {}
    for name, digest in manifest.items():
        if name in entries:
            found = hashlib.sha256(entries[name]).hexdigest()
            require(found == digest, f"{name} has hash {found}, MANIFEST says {digest}")
        else:
            require(digest in linked, f"{name} is in MANIFEST only")
    require(set(entries) <= set(manifest), f"MANIFEST lacks {sorted(set(entries) - set(manifest))}")
    tensors = read_tensors(entries)
    check_references(entries, tensors)
    return {
        "manifest_sha256": hashlib.sha256(manifest_data).hexdigest(),
        "files": {name: len(data) for name, data in sorted(entries.items())},
        "tensors": tensors,
    }


if __name__ == "__main__":
    try:
        print(json.dumps(read_carton(sys.argv[1]), indent=1))
    except (Malformed, zipfile.BadZipFile, NotImplementedError, KeyError, ValueError) as error:
        sys.exit(f"{sys.argv[1]}: {type(error).__name__}: {error}")
