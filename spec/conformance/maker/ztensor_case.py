"""What zTensor cases are made of: files of few objects, and what a reader must say of them (ztensor.md)."""

import hashlib
from dataclasses import dataclass

from .case import Case
from .elements import NUMPY
from .tensor_bytes import dense, manifest, ztensor

PAGE = "ztensor.md"
PAIR = b"\x01\x02"


def case(name, about, section, words, content, reads=None, refused="tensor", findings=(), by="format"):
    """A file that is read, and contradicts its version by `findings` (§2.7), or one that is refused."""
    shows = [(PAGE, section, words)]
    if reads is None:
        return Case(f"{name}.zt", about, shows, content, refused=refused, by=by)
    if findings:
        reads = {**reads, "findings": sorted(findings)}
    return Case(f"{name}.zt", about, shows, content, reads=reads, by=by)


def described(objects, contents, dense_of=None):
    """What a reader must say of objects of a manifest, whose components have these bytes, by object and role. `dense_of` tells by object
    what those that are not dense stand for."""
    listed = []
    for name, entry in sorted(objects.items(), key=lambda item: item[0].encode()):
        components = {role: {"sha256": hashlib.sha256(contents[name][role]).hexdigest()} for role in sorted(entry["components"])}
        one = {"name": name, "shape": entry["shape"], "format": entry["format"], "components": components}
        if dense_of and name in dense_of:
            one["dense"] = dense_of[name]
        listed.append(one)
    return {"objects": listed}


def pair(**fields):
    """A file of one object of two bytes, with fields of its component replaced or added, or left out by None."""
    entry = dense([2], "u8", 64, 2)
    component = {**entry["components"]["data"], **fields}
    entry["components"]["data"] = {key: value for key, value in component.items() if value is not None}
    return ztensor(manifest({"a": entry}), PAIR)


def with_object(**fields):
    entry = {**dense([2], "u8", 64, 2), **fields}
    return ztensor(manifest({"a": {key: value for key, value in entry.items() if value is not None}}), PAIR)


def pair_reads(shape=(2,), content=PAIR):
    return described({"a": dense(list(shape), "u8", 64, len(content))}, {"a": {"data": content}})


def blobs_of(contents):
    """Blobs at multiples of 64, and the offset of each."""
    blobs, offsets = b"", []
    for content in contents:
        blobs += bytes(-len(blobs) % 64)
        offsets.append(64 + len(blobs))
        blobs += content
    return blobs, offsets


@dataclass
class Object:
    """An object of several components: (dtype, bytes), or (dtype, bytes, type), by role. `dense` is what it stands for."""

    format: str
    shape: list
    parts: dict
    attributes: dict
    dense: dict


def dense_array(dtype, shape, content):
    """What an object stands for. `dtype` is the logical type where there is one."""
    return {"dtype": NUMPY[dtype], "shape": list(shape), "sha256": hashlib.sha256(content).hexdigest()}


def cannot_be_dense(reason):
    """That the parts of an object can be read, and no array can be made of them."""
    return {"refused": reason}


def file_of(version="1.2.0", **objects):
    """A file of objects by name, and what a reader must say of it."""
    names = [(name, role) for name, one in objects.items() for role in one.parts]
    blobs, offsets = blobs_of([objects[name].parts[role][1] for name, role in names])
    entries = {}
    for (name, role), offset in zip(names, offsets):
        one = objects[name]
        empty = {"shape": one.shape, "format": one.format, **({"attributes": one.attributes} if one.attributes else {}), "components": {}}
        dtype, content, *logical = one.parts[role]
        component = {"dtype": dtype, **({"type": logical[0]} if logical else {}), "offset": offset, "length": len(content)}
        entries.setdefault(name, empty)["components"][role] = component
    contents = {name: {role: part[1] for role, part in one.parts.items()} for name, one in objects.items()}
    reads = described(entries, contents, {name: one.dense for name, one in objects.items()})
    return ztensor(manifest(entries, version), blobs), reads
