"""Sharded checkpoints of safetensors files (safetensors.md §7)."""

import json

from .case import Case, Link
from .safetensors_files import described
from .tensor_bytes import safetensors_of

A, B = ("U8", [2], b"\x01\x02"), ("F32", [1], b"\x00\x00\x80\x3f")
FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
INDEX = "model.safetensors.index.json"
BOTH = {"a": FIRST, "b": SECOND}
EACH = "**§7.5** Each shard has every tensor that `weight_map` says it has, and no other"
AGREE = "Names of the form `PREFIX-00001-of-00004.safetensors` agree with the index"
NAMED = "**§7.2** A file is named without a folder"
OBJECT = "**§7.1** The index is a JSON object of at most 100,000,000 bytes"


def case(name, about, section, words, weight_map=None, index=None, files=None, reads=False):
    """A folder of two shards, with another index or other files. A file that is None is left out."""
    if index is None:
        index = json.dumps({"metadata": {"total_size": 6}, "weight_map": BOTH if weight_map is None else weight_map})
    shards = {FIRST: safetensors_of({"a": A}), SECOND: safetensors_of({"b": B}), **(files or {})}
    folder = {INDEX: index.encode(), **{path: content for path, content in shards.items() if content is not None}}
    what = described({"a": A, "b": B})
    shows = [("safetensors.md", section, words)]
    outcome = {"reads": {"tensors": what["tensors"]}} if reads else {"refused": "tensor"}
    return Case(name, about, shows, folder, **outcome)


def cases():
    twice = '{"weight_map":{"a":"%s","a":"%s","b":"%s"}}' % (FIRST, FIRST, SECOND)
    return [
        case("two-shards", "two shards", "7.5", EACH, reads=True),
        case("other-keys", "keys of the index that a reader does not know", "7.1", "other keys are ignored", index=json.dumps({"x": 1, "weight_map": BOTH}), reads=True),
        case("metadata-null", "metadata that are null", "7.1", "is an object of anything, or null", index=json.dumps({"metadata": None, "weight_map": BOTH}), reads=True),
        case("from-shard-0", "shards that are counted from 0", "7.4", AGREE, {"a": "m-00000-of-00001.safetensors", "b": "m-00001-of-00001.safetensors"}, files={FIRST: None, SECOND: None, "m-00000-of-00001.safetensors": safetensors_of({"a": A}), "m-00001-of-00001.safetensors": safetensors_of({"b": B})}, reads=True),
        case("link-below", "a shard that is a link into a folder below", "7.3", "it leads to a file in that folder or below it", files={FIRST: Link("blobs/x"), "blobs/x": safetensors_of({"a": A})}, reads=True),
        case("byte-order-mark", "an index that begins with a byte order mark", "7.1", "without a byte order mark", index="\ufeff" + json.dumps({"weight_map": BOTH})),
        case("index-list", "an index that is a list", "7.1", OBJECT, index="[]"),
        case("index-tensor-twice", "a tensor twice", "7.1", "No key is there twice, in it or in the index", index=twice),
        case("index-without-map", "no `weight_map`", "7.1", "`weight_map` is an object of strings", index="{}"),
        case("index-number", "a shard that is a number", "7.1", "`weight_map` is an object of strings", index='{"weight_map":{"a":1}}'),
        case("shard-in-a-folder", "a shard in a folder", "7.2", NAMED, {"a": FIRST, "b": "x/b.safetensors"}, files={"x/b.safetensors": safetensors_of({"b": B})}),
        case("shard-upwards", "a shard called `..`", "7.2", NAMED, {"a": FIRST, "b": ".."}),
        case("shard-missing", "a shard that is not there", "7.3", "**§7.3** Every file that `weight_map` names is there", files={SECOND: None}),
        case("shard-is-a-folder", "a folder that has the name of a shard", "7.3", "**§7.3** Every file that `weight_map` names is there, and is a regular file", files={SECOND: None, SECOND + "/x": b""}),
        case("link-out", "a shard that is a link out of the folder", "7.3", "it leads to a file in that folder or below it", files={FIRST: Link("../two-shards/" + FIRST)}),
        case("shard-not-named", "a shard of the same number that the index does not name", "7.4", AGREE, {"a": FIRST}),
        case("tensor-missing", "a shard without a tensor that the index says it has", "7.5", EACH, {"a": FIRST, "b": SECOND, "c": SECOND}),
        case("tensor-not-named", "a tensor that the index does not name", "7.5", EACH, files={SECOND: safetensors_of({"b": B, "c": A})}),
    ]  # fmt: skip
