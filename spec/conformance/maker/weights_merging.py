"""The tensors of several files in one (weights.md §5)."""

import hashlib

from .elements import packed
from .tensor_bytes import dense, manifest, ztensor
from .weights_case import case, described, file_of, floats, tensor
from .ztensor_case import file_of as ztensor_of
from .ztensor_sparse import csr

ONE, TWO = "1.safetensors", "2.safetensors"


def cases():
    return [*to_safetensors(), *to_ztensor()]


def to_safetensors():
    twice = "A name that two files have is an error, and so is a key of metadata with two values"
    order = "Safetensors files are in the order that their library writes"
    lost = "What would be lost in a safetensors file is an error: attributes that are no text, attributes and further components of objects, a logical type that is not known"
    a, b, c = floats([2], 0.5, 1.5), tensor("u8", [2], [1, 2]), tensor("f64", [1], [0.25])

    def merged(name, about, words, files, reads=None):
        options = {"into": "safetensors"}
        return case(f"merged-{name}", about, "5", words, "merged", files, reads, None if reads else "weights", **options)

    def of_object(entry, content, attributes=None):
        fields = {"attributes": attributes} if attributes else {}
        return ztensor(manifest({"x": entry}, **fields), content)

    def tensors_of(*tensors, metadata=None):
        return {"tensors": [described(name, *value) for name, value in tensors], "metadata": metadata or {}}

    plain = dense([2], "u8", 64, 2)
    further = {**plain, "components": {**plain["components"], "more": {"dtype": "u8", "offset": 64, "length": 2}}}
    with_more = csr([2, 2], [((0, 1), 0.5), ((1, 0), -2.0)])
    with_more.parts["more"] = ("u8", b"\x01\x02")
    sparse = ztensor_of(s=csr([2, 2], [((0, 1), 0.5), ((1, 0), -2.0)]))[0]
    return [
        merged("order", "tensors of several dtypes, which are sorted by them", order, {ONE: file_of(b=b, a=a), TWO: file_of(c=c)}, tensors_of(("c", c), ("a", a), ("b", b))),
        merged("metadata", "metadata of which one key is in both files, with the same value", twice, {ONE: file_of({"k": "v", "one": "1"}, a=a), TWO: file_of({"k": "v", "two": "2"}, c=c)}, tensors_of(("c", c), ("a", a), metadata={"k": "v", "one": "1", "two": "2"})),
        merged("attributes-of-text", "attributes of a zTensor file that are text", "The tensors of several files become one file", {ONE: file_of(a=a), "2.zt": of_object(plain, b[2], {"k": "v"})}, tensors_of(("a", a), ("x", b), metadata={"k": "v"})),
        merged("sparse", "a sparse object, which becomes dense", "A sparse object becomes dense there", {ONE: file_of(a=a), "2.zt": sparse}, tensors_of(("a", a), ("s", floats([2, 2], 0.0, 0.5, -2.0, 0.0)))),
        merged("name-twice", "a name in two files", twice, {ONE: file_of(a=a), TWO: file_of(a=a)}),
        merged("metadata-differs", "a key of metadata with two values", twice, {ONE: file_of({"k": "v"}, a=a), TWO: file_of({"k": "w"}, c=c)}),
        merged("attribute-of-a-number", "an attribute that is a number", lost, {ONE: file_of(a=a), "2.zt": of_object(plain, b[2], {"k": 1})}),
        merged("attribute-of-an-object", "an attribute of an object", lost, {ONE: file_of(a=a), "2.zt": of_object({**plain, "attributes": {"k": "v"}}, b[2])}),
        merged("further-component", "an object with a further component", lost, {ONE: file_of(a=a), "2.zt": of_object(further, b[2])}),
        merged("further-component-of-a-sparse-object", "a sparse object with a further component", lost, {ONE: file_of(a=a), "2.zt": ztensor_of(s=with_more)[0]}),
        merged("unknown-type", "a logical type that is not known", lost, {ONE: file_of(a=a), "2.zt": of_object(dense([2], "u8", 64, 2, type="posit8"), b[2])}),
        merged("nothing", "files without tensors", "The tensors of several files become one file", {ONE: file_of(), TWO: file_of()}),
    ]  # fmt: skip


def to_ztensor():
    whole = "zTensor files have whole objects with their attributes, and what components are compressed and hashed with: the objects by name"
    a, c = floats([2], 0.5, 1.5), tensor("f64", [1], [0.25])
    content = b"\x01\x02"
    digest = "sha256:" + hashlib.sha256(content).hexdigest()
    one = dense([2], "u8", 64, 2, digest=digest)
    two = {"shape": [2], "format": "theirs", "attributes": {"k": [1, None]}, "components": {"p": {"dtype": "u8", "offset": 64, "length": 2}}}
    files = {ONE: file_of({"k": "v"}, b=a, a=c), "2.zt": ztensor(manifest({"n": two, "m": one}, attributes={"n": 7}), content)}

    def of_bytes(**components):
        return {role: {"sha256": hashlib.sha256(part).hexdigest()} for role, part in components.items()}

    objects = [
        {"name": "a", "shape": [1], "format": "dense", "attributes": 0, "digests": 0, "components": of_bytes(data=c[2])},
        {"name": "b", "shape": [2], "format": "dense", "attributes": 0, "digests": 0, "components": of_bytes(data=packed("f32", [0.5, 1.5]))},
        {"name": "m", "shape": [2], "format": "dense", "attributes": 0, "digests": 1, "components": of_bytes(data=content)},
        {"name": "n", "shape": [2], "format": "theirs", "attributes": 1, "digests": 0, "components": of_bytes(p=content)},
    ]
    reads = {"objects": objects, "attributes": {"k": "v", "n": 7}}
    twice = {ONE: file_of(a=a), "2.zt": ztensor_of(a=csr([2, 2], []))[0]}
    return [
        case("merged-into-ztensor", "whole objects, one of a format that is not known", "5", whole, "merged", files, reads, into="zt"),
        case("merged-name-twice-into-ztensor", "a name in two files of other formats", "5", "A name that two files have is an error", "merged", twice, refused="weights", into="zt"),
    ]  # fmt: skip
