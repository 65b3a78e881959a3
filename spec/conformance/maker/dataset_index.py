"""The index of a dataset (dataset.md §6). Its files are made by hand as all others."""

import json

from .case import Case
from .datasets import FIRST, MANIFEST, ROWS, SECOND, listed, manifest_of, row_samples, sample, shard, two
from .parquet import Column, parquet

PAGE = "dataset.md"
INDEX = "_tensor_index.parquet"
COLUMNS = [Column("tensor_key", "string"), Column("file_name", "string"), Column("shape", "int32", is_list=True), Column("dtype", "string")]
# The rows of the index of `two()`.
TABLE = [("x", FIRST, [2, 2], "U8"), ("x", SECOND, [1, 2], "U8")]


def indexed(table):
    """What a reader must say of an index: its rows by key and then by file."""
    return [dict(zip([column.name for column in COLUMNS], row)) for row in sorted(table, key=lambda row: (row[0], row[1]))]


def case(name, about, section, words, index, base=None, reads=None, refused=None, table=TABLE):
    """A dataset with an index: the bytes of a file, or the files of a folder by name."""
    files = index if isinstance(index, dict) else {"": index}
    content = {**(base or two()), **{f"{INDEX}/{path}".rstrip("/"): file for path, file in files.items()}}
    if refused is None:
        reads = {**(reads or row_samples(*ROWS)), "index": indexed(table)}
    return Case(f"index-{name}", about, [(PAGE, section, words)], content, refused=refused, reads=reads)


def cases():
    return [*read(), *wrong(), *differing()]


def read():
    row = "**§6.1** `_tensor_index.parquet` has a row for each tensor of each shard, and these columns; others are ignored"
    folder = "and of a folder all files in it whose names do not begin with `_` or `.`"
    spark = "**§6.3** Spark writes the index as a folder of that name, with a Parquet file for each of its tasks, and reads it only so"
    one = parquet(COLUMNS, TABLE)
    each = [parquet(COLUMNS, [entry]) for entry in reversed(TABLE)]
    left = {"_SUCCESS": b"", ".part-00000.parquet.crc": b"crc", "_part-9.parquet": b"no index", ".part-9.parquet": b"no index"}
    order = [3, 2, 1, 0]
    others = [Column("more", "int64"), *[COLUMNS[n] for n in order]]
    other_rows = [(7, *[entry[n] for n in order]) for entry in reversed(TABLE)]
    wide = [column if column.name != "shape" else Column("shape", "int64", is_list=True) for column in COLUMNS]
    required = [Column(column.name, column.type, column.is_list, optional=False) for column in COLUMNS]
    scalars, table, samples = names_in_two_shards()
    return [
        case("folder", "a folder of one Parquet file", "6.3", spark, {"part-00000.parquet": one}),
        case("file", "a Parquet file", "6.3", "A reader takes a file", one),
        case("two-parts", "a folder of two Parquet files, and files that are no part of it", "6.3", folder, {"part-0.parquet": each[0], "part-1.parquet": each[1], **left}),
        case("other-columns", "columns and rows in another order, and a column more", "6.1", row, parquet(others, other_rows)),
        case("int64", "dimensions of int64", "6.1", "Readers take a list of int64, too", parquet(wide, TABLE)),
        case("required-columns", "columns that cannot have nulls", "6.2", "**§6.2** No value is null", parquet(required, TABLE)),
        case("of-names", "key-value mode: tensors of no dimensions, and a name that two shards have", "6.2", "in key-value mode a key that several shards have is there several times, in batch mode every key is", parquet(COLUMNS, table), scalars, samples, table=table),
    ]  # fmt: skip


def names_in_two_shards():
    """A dataset in key-value mode, the rows of its index, and its samples."""
    metadata = {"dataset.mode": "key-value", "dataset.samples": "2", "dataset.columns": '["x"]', "dataset.duplicates": "last-win"}
    shards = {
        FIRST: {"a__x": ("U8", [], b"\x01"), "b__x": ("U8", [2], ROWS[0])},
        SECOND: {"a__x": ("U8", [], b"\x02"), "c__x": ("U8", [1, 2], ROWS[1])},
    }
    files = {path: shard(tensors, metadata) for path, tensors in shards.items()}
    schema = {name: {"dtype": dtype, "shape": shape} for tensors in shards.values() for name, (dtype, shape, _) in tensors.items()}
    manifest = manifest_of(listed(dict.fromkeys(shards, 2), **files), schema)
    table = [(name, path, shape, dtype) for path, tensors in shards.items() for name, (dtype, shape, _) in tensors.items()]
    samples = [sample(name[: -len("__x")], x=value) for tensors in shards.values() for name, value in tensors.items()]
    return {MANIFEST: json.dumps(manifest).encode(), **files}, table, {"samples": samples}


def wrong():
    """Indexes that are none."""

    def bad(name, about, section, words, index):
        return case(name, about, section, words, index, refused="index")

    def with_value(position, value):
        """The second row has another value in a column."""
        return retyped(position, COLUMNS[position], TABLE[0][position], value)

    def retyped(position, kind, *values):
        """A column is of another type, and has these values."""
        columns = [kind if n == position else column for n, column in enumerate(COLUMNS)]
        return parquet(columns, [(*row[:position], value, *row[position + 1 :]) for row, value in zip(TABLE, values)])

    one = parquet(COLUMNS, TABLE)
    columns = "and these columns; others are ignored"
    null = "**§6.2** No value is null"
    dimensions = "A dimension is not negative, there are at most 64, and `file_name` is a path as in §3.3"
    twice = "No tensor of a shard is there twice"
    unreadable = "the index cannot be read, or has other rows than the shards have tensors"
    paths = {"upwards": "../" + FIRST, "absolute": "/" + FIRST, "back-slash": "a\\" + FIRST, "empty-path": ""}
    return [
        bad("no-parquet", "bytes that are no Parquet", "7", unreadable, b"PAR1 or not"),
        bad("cut-off", "a Parquet file without its last byte", "7", unreadable, one[:-1]),
        bad("of-nothing", "a folder without a Parquet file", "6.3", "A reader takes a file", {"_SUCCESS": b""}),
        *[bad(f"without-{column.name.replace('_', '-')}", f"no column `{column.name}`", "6.1", columns, parquet(COLUMNS[:n] + COLUMNS[n + 1 :], [row[:n] + row[n + 1 :] for row in TABLE])) for n, column in enumerate(COLUMNS)],
        bad("dtype-of-numbers", "dtypes that are numbers", "6.1", columns, retyped(3, Column("dtype", "int32"), 1, 1)),
        bad("shape-of-strings", "dimensions that are strings", "6.1", columns, retyped(2, Column("shape", "string", is_list=True), ["2", "2"], ["1", "2"])),
        bad("shape-of-one-number", "a number in place of dimensions", "6.1", columns, retyped(2, Column("shape", "int32"), 2, 1)),
        *[bad(f"null-{column.name.replace('_', '-')}", f"a null in `{column.name}`", "6.2", null, with_value(n, None)) for n, column in enumerate(COLUMNS)],
        bad("null-dimension", "a dimension that is null", "6.2", null, with_value(2, [1, None])),
        bad("dimension-below-zero", "a dimension below 0", "6.2", dimensions, with_value(2, [-1, 2])),
        bad("of-65-dimensions", "a dimension too many", "6.2", dimensions, with_value(2, [1] * 65)),
        *[bad(name, f"the path {path!r}", "6.2", dimensions, with_value(1, path)) for name, path in paths.items()],
        bad("tensor-twice", "a tensor twice", "6.2", twice, parquet(COLUMNS, [*TABLE, TABLE[0]])),
        bad("tensor-twice-in-parts", "a tensor in two files of a folder", "6.2", twice, {"part-0.parquet": one, "part-1.parquet": parquet(COLUMNS, TABLE[1:])}),
    ]  # fmt: skip


def differing():
    """Indexes that are not those of the shards."""
    words = "the index cannot be read, or has other rows than the shards have tensors"
    row = "**§6.1** `_tensor_index.parquet` has a row for each tensor of each shard"
    first, second = TABLE
    tables = {
        "row-missing": ("a tensor of a shard is not there", [first], row),
        "no-rows": ("no rows", [], row),
        "tensor-unknown": ("a tensor that the shard does not have", [*TABLE, ("y", FIRST, [2, 2], "U8")], words),
        "shard-unknown": ("a shard that the dataset does not have", [*TABLE, ("x", "other.safetensors", [2, 2], "U8")], words),
        "dtype-differs": ("a tensor of another dtype", [first, (*second[:3], "I8")], words),
        "dtype-unknown": ("a dtype that there is not", [first, (*second[:3], "U7")], words),
        "shape-differs": ("a tensor of another shape", [first, ("x", SECOND, [2, 2], "U8")], words),
        "rank-differs": ("a tensor of as many elements and of other dimensions", [first, ("x", SECOND, [2], "U8")], words),
    }
    return [
        case(name, about, "7" if demand == words else "6.1", demand, parquet(COLUMNS, table), refused="index")
        for name, (about, table, demand) in tables.items()
    ]
