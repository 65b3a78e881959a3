"""Datasets of safetensors files (dataset.md §1 to §3 and §7)."""

import hashlib
import json

from .case import Case, Link
from .tensor_bytes import safetensors

PAGE = "dataset.md"
MANIFEST = "dataset_manifest.json"
ID = "550e8400-e29b-41d4-a716-446655440000"
FIRST, SECOND = f"part-00000-0000-{ID}.safetensors", f"part-00001-0000-{ID}.safetensors"
ROWS = [b"\x01\x02", b"\x03\x04", b"\x05\x06"]
SCHEMA = {"x": {"dtype": "U8", "shape": [2, 2]}}
BATCH_HINTS = {"dataset.mode": "batch"}


def shard(tensors, metadata=None):
    """A shard of tensors: (dtype, shape, bytes) by name."""
    header, data = {"__metadata__": metadata} if metadata is not None else {}, b""
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    return safetensors(header, data)


def rows(*contents, hints=True):
    """A shard in batch mode, of rows of two bytes."""
    metadata = {**BATCH_HINTS, "dataset.samples": str(len(contents))} if hints else None
    return shard({"x": ("U8", [len(contents), 2], b"".join(contents))}, metadata)


def listed(samples, **files):
    """The manifest's entry of each shard, in the order given."""
    return [{"shard_path": path, "samples_count": samples[path], "bytes": len(content)} for path, content in files.items()]


def manifest_of(shards, schema=None, **fields):
    return {
        "format_version": "1.0",
        "safetensors_version": "1.0",
        "total_samples": sum(s["samples_count"] for s in shards),
        "total_bytes": sum(s["bytes"] for s in shards),
        "shards": shards,
        "schema": SCHEMA if schema is None else schema,
        **fields,
    }


def sample(name, **columns):
    described = [
        {"column": column, "dtype": dtype, "shape": shape, "sha256": hashlib.sha256(content).hexdigest()}
        for column, (dtype, shape, content) in sorted(columns.items())
    ]
    return {"name": name, "tensors": described}


def row_samples(*contents):
    return {"samples": [sample(None, x=("U8", [2], content)) for content in contents]}


def two(**changes):
    """Two shards in batch mode: two rows and one."""
    files = {FIRST: rows(*ROWS[:2]), SECOND: rows(ROWS[2])}
    shards = listed({FIRST: 2, SECOND: 1}, **files)
    manifest = manifest_of(shards)
    manifest.update(changes)
    return {MANIFEST: json.dumps(manifest).encode(), **files}


def case(name, about, section, words, content, reads=None, refused=None):
    return Case(name, about, [(PAGE, section, words)], content, refused=refused, reads=reads)


# Sentences that cases show beside the one that they are about.
ALSO = {
    "batch": ("2.2", "**§2.2** Writers of this project say in a shard's `__metadata__` what it is"),
    "other-names": ("3.3", "**§3.3** `shard_path` leads from the dataset's folder to a shard"),
    "shard-unreadable": ("2", "**§2** A shard is a safetensors file"),
    "connector-slash": ("2.3", "**§2.3** Shards of the connector have no such metadata, and its manifest does not name the separator."),
    "samples-differ": ("3.4", "**§3.4** `samples_count` are the samples of a shard"),
}


def cases():
    all_cases = [*read(), *manifests(), *found()]
    for one in all_cases:
        if one.file in ALSO:
            one.shows.append((PAGE, *ALSO[one.file]))
    return all_cases


def read():
    key_value = {"dataset.mode": "key-value", "dataset.samples": "2", "dataset.columns": '["x"]'}
    names = {"a__x": ("U8", [2], ROWS[0]), "b__x": ("U8", [1], b"\x07")}
    named = {"samples": [sample("a", x=names["a__x"]), sample("b", x=names["b__x"])]}
    schema = {name: {"dtype": dtype, "shape": shape} for name, (dtype, shape, _) in names.items()}

    def of_names(metadata):
        content = shard(names, metadata)
        return {MANIFEST: json.dumps(manifest_of(listed({FIRST: 2}, **{FIRST: content}), schema)).encode(), FIRST: content}

    def of_connector(samples, tensors, metadata=None, **fields):
        """One shard, as the connector has it: its manifest counts rows and names no separator."""
        content = shard(tensors, metadata)
        described = {name: {"dtype": dtype, "shape": shape} for name, (dtype, shape, _) in tensors.items()}
        manifest = manifest_of(listed({FIRST: samples}, **{FIRST: content}), described, **fields)
        return {MANIFEST: json.dumps(manifest).encode(), FIRST: content}

    def joined(separator, *columns):
        """Two samples with these columns, each of two bytes, which cannot be two rows of a batch."""
        values = {name: ("U8", [1, 2], row) for name, row in zip(("left", "up"), ROWS)}
        tensors = {f"{name}{separator}{column}": value for name, value in values.items() for column in columns}
        return tensors, {"samples": [sample(name, **dict.fromkeys(columns, value)) for name, value in values.items()]}

    connector = "They are named after samples if they can be taken apart so that all samples have all columns"
    slash, slash_samples = joined("/", "image", "label")
    colons, colons_samples = joined("::", "image", "label")
    inside, inside_samples = joined("__", "image__raw", "label__raw")
    nothing, nothing_samples = joined("", "image", "label")
    ending, ending_samples = joined("_", "mask", "my_mask")

    by_shapes = "unless by their shapes the tensors of the schema are no columns: one is a scalar, or the first dimensions differ"
    image = ("U8", [1, 2], ROWS[0])
    one_name = {"left/image": image, "left/label": image}

    other = {"data/x.safetensors": rows(ROWS[0])}
    other_order = two()
    order = json.loads(other_order[MANIFEST])
    order["shards"].reverse()
    other_order[MANIFEST] = json.dumps(order).encode()
    without_hints = {FIRST: rows(*ROWS, hints=False)}
    wide = {**manifest_of(listed({FIRST: 3}, **without_hints)), "future": 1}
    separate = {**key_value, "dataset.separator": "/"}
    slashed = {name.replace("__", "/"): tensor for name, tensor in names.items()}
    slashed_schema = {name.replace("__", "/"): entry for name, entry in schema.items()}
    slashed_shard = shard(slashed, separate)
    slashed_files = {
        MANIFEST: json.dumps(manifest_of(listed({FIRST: 2}, **{FIRST: slashed_shard}), slashed_schema)).encode(),
        FIRST: slashed_shard,
    }
    return [
        case("batch", "two shards in batch mode", "2.1", "In *batch mode* each tensor of a shard holds one column", two(), row_samples(*ROWS)),
        case("key-value", "a shard in key-value mode", "2.1", "In *key-value mode* each sample has tensors of its own", of_names(key_value), named),
        case("key-value-without-hints", "the same without hints, as the connector writes it", "2.3", "Of several ways the one with `__` is taken", of_names(None), named),
        case("key-value-separator", "another separator", "2.1", "the separator is `__` unless another was chosen", slashed_files, named),
        case("batch-without-hints", "batch mode without hints", "2.3", "Without such a way, the samples are the rows", {MANIFEST: json.dumps(wide).encode(), **without_hints}, row_samples(*ROWS)),
        case("connector-slash", "named samples with the separator `/` that nothing names", "2.3", connector, of_connector(2, slash), slash_samples),
        case("connector-colons", "the separator `::`", "2.3", connector, of_connector(2, colons), colons_samples),
        case("connector-no-separator", "no separator", "2.3", "then no separator", of_connector(2, nothing), nothing_samples),
        case("connector-separator-in-columns", "columns with the separator in their names", "2.3", "the longest columns first", of_connector(2, inside), inside_samples),
        case("connector-column-ends-with-column", "a column that ends with the separator and another column", "2.3", connector, of_connector(2, ending), ending_samples),
        case("connector-last-win", "more rows than samples", "2.3", "the connector counts every row, and writes of several rows of one name the last", of_connector(3, slash), slash_samples),
        case("connector-last-win-of-one-name", "rows that all have one name", "2.3", "3. else named samples, if there are fewer of them than the manifest says", of_connector(3, one_name), {"samples": [sample("left", image=image, label=image)]}),
        case("connector-last-win-of-one-name-by-shapes", "rows of one name, with a separator that can be in words, and a scalar, which is no column", "2.3", by_shapes, of_connector(3, {"left_image": image, "left_label": ("U8", [], b"\x07")}), {"samples": [sample("left", image=image, label=("U8", [], b"\x07"))]}),
        case("key-value-in-manifest", "a separator in the manifest", "3.6", "**§3.6** `key_value` may be there for shards in key-value mode that have no metadata (§2.2)", of_connector(2, colons, key_value={"separator": "::", "columns": ["image", "label"]}), colons_samples),
        case("other-names", "a shard in a folder, under a name that writers do not give", "2", "Readers take any name that §3.3 allows", {MANIFEST: json.dumps(manifest_of(listed({"data/x.safetensors": 1}, **other))).encode(), **other}, row_samples(ROWS[0])),
        case("other-order", "shards in another order", "3.1", "Readers take the rows in this order, whatever that of the manifest is", other_order, row_samples(*ROWS)),
        case("no-shards", "a dataset of nothing", "3.1", "is a JSON object of at most 2 GiB with the fields above", {MANIFEST: json.dumps(manifest_of([], {})).encode()}, {"samples": []}),
    ]  # fmt: skip


def manifests():
    def bad(name, about, section, words, **changes):
        return case(name, about, section, words, two(**changes), refused="manifest")

    def renamed(path):
        files = two()
        manifest = json.loads(files[MANIFEST])
        manifest["shards"][1]["shard_path"] = path
        files[MANIFEST] = json.dumps(manifest).encode()
        return files

    name = "No name is empty, `.` or `..`, or has a backslash, a colon or a control character in it; so a path is never absolute"
    version = "A reader of version 1 refuses any other"
    files = two()
    without = {path: content for path, content in files.items() if path != MANIFEST}
    twice = {**files, MANIFEST: b'{"total_samples":3,' + files[MANIFEST][1:]}
    object_ = "is a JSON object of at most 2 GiB with the fields above"
    paths = {
        "upwards": "../x.safetensors",
        "absolute": "/x.safetensors",
        "empty-name": "a//x.safetensors",
        "back-slash": "a\\x.safetensors",
        "colon": "C:x.safetensors",
        "line-feed": "a\nx.safetensors",
    }
    return [
        case("no-manifest", "shards without a manifest", "1", "a folder without it is none, whatever shards are in it", without, refused="manifest"),
        case("manifest-no-json", "a manifest that is no JSON", "3.1", object_, {**files, MANIFEST: b"{"}, refused="manifest"),
        case("manifest-list", "a manifest that is a list", "3.1", object_, {**files, MANIFEST: b"[]"}, refused="manifest"),
        case("field-twice", "a field twice", "3.1", "none may be there twice", twice, refused="manifest"),
        bad("version-2", "version 2.0", "3.2", version, format_version="2.0"),
        bad("version-without-number", "version 1", "3.2", "**§3.2** `format_version` is `1.` and a number", format_version="1"),
        *[case(f"path-{what}", f"the path {path!r}", "3.3", name, renamed(path), refused="manifest") for what, path in paths.items()],
        case("path-twice", "a path twice", "3.3", "No path is there twice", renamed(FIRST), refused="manifest"),
        bad("total-samples", "another sum of samples", "3.4", "`total_samples` and `total_bytes` are the sums of all shards", total_samples=4),
        bad("total-bytes", "another sum of bytes", "3.4", "`total_samples` and `total_bytes` are the sums of all shards", total_bytes=1),
        bad("schema-dtype", "a dtype that there is not", "3.5", "a dtype and at most 64 dimensions as in [safetensors.md](safetensors.md) §4", schema={"x": {"dtype": "U7", "shape": [2, 2]}}),
        bad("schema-of-65-dimensions", "a dimension too many", "3.5", "a dtype and at most 64 dimensions as in [safetensors.md](safetensors.md) §4", schema={"x": {"dtype": "U8", "shape": [1] * 65}}),
    ]  # fmt: skip


def found():
    good = two()
    section = "7"

    def bad(name, about, words, finding, **changes):
        files = {path: content for path, content in {**good, **changes}.items() if content is not None}
        return case(name, about, section, words, files, refused=finding)

    def of_nothing(name, about, tensors, n_samples):
        content = shard(tensors, {**BATCH_HINTS, "dataset.samples": str(n_samples)})
        schema = {column: {"dtype": dtype, "shape": shape} for column, (dtype, shape, _) in tensors.items()}
        files = {MANIFEST: json.dumps(manifest_of(listed({FIRST: n_samples}, **{FIRST: content}), schema)).encode(), FIRST: content}
        words = "A shard in batch mode has at most 2²⁰ samples more than its tensors have bytes, and none if it has no tensors"
        return case(name, about, "3.4", words, files, refused="samples")

    tensor = ("U8", [2], ROWS[0])
    named = shard({"a__x": tensor}, {"dataset.mode": "key-value", "dataset.samples": "1", "dataset.columns": "x"})
    of_columns = {
        MANIFEST: json.dumps(manifest_of(listed({FIRST: 1}, **{FIRST: named}), {"a__x": {"dtype": "U8", "shape": [2]}})).encode(),
        FIRST: named,
    }
    first = good[FIRST]
    other_count = json.loads(good[MANIFEST])
    other_count["shards"][0]["samples_count"] = 3
    other_count["total_samples"] = 4
    wrong_schema = json.loads(good[MANIFEST])
    wrong_schema["schema"] = {"y": SCHEMA["x"]}
    return [
        bad("shard-missing", "a shard that is not there", "a shard of the manifest is not there, or is no file", "missing", **{SECOND: None}),
        bad("shard-extra", "a shard that the manifest does not name", "in the dataset's folder or in another where it has shards, that the manifest does not name", "extra", **{"more.safetensors": first}),
        bad("shard-truncated", "a shard that is shorter", "a shard is shorter, or longer, than the manifest says", "truncated", **{FIRST: first[:-1]}),
        bad("shard-longer", "a shard that is longer", "a shard is shorter, or longer, than the manifest says", "altered", **{FIRST: first + b"!"}),
        bad("shard-unreadable", "a shard that is no safetensors file", "a shard cannot be read, or is no safetensors file", "unreadable", **{FIRST: b"\xff" * len(first)}),
        bad("shard-link-out", "a shard that is a link out of the folder", "a shard is a link that §3.3 forbids", "link", **{FIRST: Link("../batch/" + FIRST)}),
        bad("schema-differs", "a schema of another tensor", "the tensors of a shard are not those of the schema", "schema", **{MANIFEST: json.dumps(wrong_schema).encode()}),
        bad("samples-differ", "another number of samples", "a shard has not as many samples as the manifest says (§2.2, §2.3)", "samples", **{MANIFEST: json.dumps(other_count).encode()}),
        case("columns-malformed", "a list of columns that is none", "7", "or its list of columns is malformed (§2.2)", of_columns, refused="samples"),
        of_nothing("too-many-samples", "a sample more than there may be where a tensor has no bytes", {"x": ("U8", [(1 << 20) + 1, 0], b"")}, (1 << 20) + 1),
        of_nothing("samples-of-no-tensors", "a sample, and no tensors", {}, 1),
        bad("unfinished", "a folder `_tasks`", "there is a folder `_tasks`: a writer was stopped, or is not done yet", "unfinished", **{"_tasks/left": b""}),
    ]  # fmt: skip
