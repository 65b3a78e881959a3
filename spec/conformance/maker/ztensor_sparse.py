"""Sparse tensors in zTensor files (ztensor.md §5.1 to §5.3). What each stands for is computed here, from the entries that it is made of."""

from math import prod

from .elements import PARTS, packed, summed
from .ztensor_case import Object, cannot_be_dense, case, dense_array, file_of

# The values at one place that are added up, and what is nearly too much for the type, by type. Sums of floats are exact.
TWICE = {
    "u8": (200, 100), "i8": (100, 100), "u16": (0xFFFF, 2), "i16": (-0x8000, -1), "u32": (0xFFFFFFFF, 2), "i32": (0x7FFFFFFF, 1),
    "u64": (2**64 - 1, 2), "i64": (-(2**63), -1), "bool": (True, True), "f16": (0.5, 1.25), "bf16": (0.5, 1.25), "f32": (0.5, -0.5),
    "f64": (1e300, 2e300), "complex64": (1 + 2j, 0.5 - 4j), "complex128": (1 + 2j, 0.5 - 4j),
}  # fmt: skip
INDEX_TYPES = "`indices`, `indptr` and `coords` are `u64` from 1.2 on and any integer before"
STORED = {"f8_e5m2": "u8", **PARTS}


def placed(dtype, shape, entries):
    """The bytes of the array in which each value is at its index, and the sum of several at one."""
    values = {}
    for index, value in entries:
        position = 0
        for number, size in zip(index, shape):
            position = position * size + number
        values[position] = summed(dtype, values[position], value) if position in values else value
    return b"".join(packed(dtype, [values.get(position, 0)]) for position in range(prod(shape)))


def part(dtype, values):
    """A component of elements of a storage type or of a logical one."""
    content = packed(dtype, values)
    return (STORED[dtype], content, dtype) if dtype in STORED else (dtype, content)


def csr(shape, entries, dtype="f32", index="u64", dense=None):
    """A matrix of ((row, column), value), by rows in the order given."""
    ends = [sum(row < end for (row, _), _ in entries) for end in range(shape[0] + 1)]
    parts = {
        "values": part(dtype, [value for _, value in entries]),
        "indices": part(index, [column for (_, column), _ in entries]),
        "indptr": part(index, ends),
    }
    return Object("sparse_csr", list(shape), parts, {}, dense or dense_array(dtype, shape, placed(dtype, shape, entries)))


def coo(shape, entries, dtype="f32", index="u64", dense=None):
    """A tensor of (index, value) in the order given."""
    coords = [at[dimension] for dimension in range(len(shape)) for at, _ in entries]
    parts = {"values": part(dtype, [value for _, value in entries]), "coords": part(index, coords)}
    return Object("sparse_coo", list(shape), parts, {}, dense or dense_array(dtype, shape, placed(dtype, shape, entries)))


def cases():
    return [*read(), *not_dense(), *wrong()]


def read():
    two = [((0, 0), 0.5), ((1, 2), 1.5)]
    shuffled = [((0, 2), 1.0), ((0, 0), 2.0), ((1, 1), 3.0), ((1, 0), 4.0)]
    many = [((0, 1), 0.5), ((1, 2), 1.5), ((0, 1), 0.25), ((0, 1), -4.0)]
    by_row = sorted(many, key=lambda entry: entry[0][0])
    sums = {f"{layout.__name__}-{dtype}": layout([2, 3], [((1, 1), one), ((1, 1), other)], dtype) for dtype, (one, other) in TWICE.items() for layout in (csr, coo)}  # fmt: skip
    types = {dtype: csr([2, 3], [((0, 2), one), ((1, 0), other)], dtype) for dtype, (one, other) in {**TWICE, "f8_e5m2": (0x3C, 0xC0)}.items()}  # fmt: skip
    integers = ("u8", "i8", "u16", "i16", "u32", "i32", "i64")
    narrow = {f"{layout.__name__}-{index}": layout([2, 3], two, index=index) for index in integers for layout in (csr, coo)}
    ranks = {
        "scalar": coo([], [((), 0.5)]),
        "vector": coo([4], [((3,), 0.5), ((0,), 1.5)]),
        "cube": coo([2, 3, 4], [((1, 2, 3), 0.5), ((0, 1, 2), 1.5), ((1, 0, 0), 2.5)]),
    }
    nothing = {"csr": csr([2, 3], []), "coo": coo([2, 3], []), "no-rows": csr([0, 3], []), "no-columns": csr([2, 0], [])}
    zeros = [((0, 0), -0.0), ((0, 1), 0.0), ((1, 2), -0.0)]
    pointers = "one more than rows, which must begin with 0, never fall, and end with the number of values"
    any_integer = "any integer type is read, because writers of 1.2 do not keep to it"
    total = "A place that is named twice has the sum of its values"
    order = "Order is free, also within a row"
    coords = "`coords`, first the index of each value in the first dimension, then of each in the second, and so on"
    return [
        case("csr", "a sparse matrix by rows", "5.2", pointers, *file_of(a=csr([2, 3], two))),
        case("coo", "a sparse tensor by coordinates", "5.3", coords, *file_of(a=coo([2, 3], [((0, 2), 0.5), ((1, 0), 1.5)]))),
        case("coo-of-other-ranks", "no dimensions, one, and three", "5.3", "Any number of dimensions", *file_of(**ranks)),
        case("csr-rows-without-values", "rows without values at the start, between and at the end", "5.2", "Row *r* has the values from `indptr[r]` up to `indptr[r + 1]`", *file_of(a=csr([5, 3], [((1, 1), 0.5), ((3, 0), 1.5), ((3, 2), 2.5)]))),
        case("sparse-without-values", "no values", "5.1", "There must be one for each value (and dimension)", *file_of(**nothing)),
        case("sparse-of-every-type", "every type that has a sum, and one that has none", "5.2", "A matrix: exactly two dimensions", *file_of(**types)),
        case("sparse-negative-zeros", "values that are zero, and negative zero", "5.1", "-0.0 is kept", *file_of(csr=csr([2, 3], zeros), coo=coo([2, 3], zeros))),
        case("coo-of-narrow-indices", "indices of another integer type", "5.1", any_integer, *file_of(a=coo([2, 3], [((0, 2), 0.5), ((1, 0), 1.5)], index="i32")), findings=["index-type"]),
        case("sparse-of-every-index-type", "indices of each other integer type", "5.1", any_integer, *file_of(**narrow), findings=["index-type"]),
        case("sparse-of-1-1", "indices of each other integer type, in 1.1", "2.7", "indices of sparse formats that are not `u64` (§5.1)", *file_of("1.1.0", **narrow)),
        case("csr-in-any-order", "columns that fall within a row", "5.1", order, *file_of(a=csr([2, 3], shuffled))),
        case("coo-in-any-order", "coordinates that fall", "5.1", order, *file_of(a=coo([2, 3], shuffled[::-1]))),
        case("coo-twice-at-one-place", "a place that is named twice", "5.1", total, *file_of(a=coo([2, 3], [((1, 2), 0.5), ((1, 2), 1.5)]))),
        case("csr-twice-at-one-place", "a place that is named three times, not one after the other", "5.1", total, *file_of(csr=csr([2, 3], by_row), coo=coo([2, 3], many))),
        case("sums-of-every-type", "two values at one place, in each type that has a sum", "5.1", "wrapping for integers, \"or\" for bools", *file_of(**sums)),
    ]  # fmt: skip


def not_dense():
    """Files whose parts can be read, and of which no array can be made."""
    no_sum = "In types that have no sum (FP8 and smaller) it is an error when the tensor is made dense"
    large = "So a reader makes a sparse tensor dense only up to a size that the caller sets, 4 GiB if it sets none"
    twice = [((1,), 1), ((1,), 2)]
    eight_gib = coo([1 << 31], [((5,), 0.5)], dense=cannot_be_dense("limit"))
    return [
        case("fp8-twice-at-one-place", "a place of FP8 that is named twice", "5.1", no_sum, *file_of(a=coo([4], twice, "f8_e5m2", dense=cannot_be_dense("tensor")))),
        case("coo-of-8-gib", "four bytes that stand for eight GiB", "5.1", large, *file_of(a=eight_gib), by="carton"),
    ]  # fmt: skip


def wrong():
    index = "Each index must be at least 0 and less than the size of its dimension"
    each = "There must be one for each value (and dimension)"
    pointers = "one more than rows, which must begin with 0, never fall, and end with the number of values"
    values = {"values": part("f32", [0.5, 1.5])}

    def by_rows(indices=(0, 2), indptr=(0, 1, 2), shape=(2, 3), dtype="u64"):
        parts = {**values, "indices": part(dtype, indices), "indptr": part(dtype, indptr)}
        return file_of(a=Object("sparse_csr", list(shape), parts, {}, None))[0]

    def by_coordinates(*coords, dtype="u64"):
        return file_of(a=Object("sparse_coo", [2, 3], {**values, "coords": part(dtype, coords)}, {}, None))[0]

    return [
        case("csr-column-too-large", "a column behind the last", "5.1", index, by_rows(indices=(0, 3))),
        case("csr-column-below-zero", "a column below 0", "5.1", index, by_rows(indices=(0, -1), dtype="i64")),
        case("csr-column-of-2-to-the-63", "a column of 2 to the 63", "5.1", index, by_rows(indices=(0, 1 << 63))),
        case("coo-row-too-large", "a row behind the last", "5.1", index, by_coordinates(0, 2, 0, 0)),
        case("coo-column-too-large", "a column behind the last", "5.1", index, by_coordinates(0, 1, 0, 3)),
        case("coo-below-zero", "an index below 0", "5.1", index, by_coordinates(0, -1, 2, 0, dtype="i32")),
        case("coo-of-floats", "coordinates that are floats", "5.1", INDEX_TYPES, by_coordinates(0, 1, 2, 0, dtype="f32")),
        case("coo-of-bools", "coordinates that are bools", "5.1", INDEX_TYPES, by_coordinates(False, True, True, False, dtype="bool")),
        case("coo-too-few", "an index less than there are values and dimensions", "5.1", each, by_coordinates(0, 1, 2)),
        case("coo-too-many", "an index more than there are values and dimensions", "5.1", each, by_coordinates(0, 1, 2, 0, 0)),
        case("csr-too-few", "an index less than there are values", "5.1", each, by_rows(indices=(0,))),
        case("csr-starts-late", "pointers that begin with 1", "5.2", pointers, by_rows(indptr=(1, 1, 2))),
        case("csr-falls", "pointers that fall", "5.2", pointers, by_rows(indptr=(0, 2, 1))),
        case("csr-falls-between", "pointers that fall and rise again", "5.2", pointers, by_rows(indptr=(0, 2, 1, 2), shape=(3, 3))),
        case("csr-ends-early", "pointers that end before the last value", "5.2", pointers, by_rows(indptr=(0, 1, 1))),
        case("csr-ends-late", "pointers that end behind the last value", "5.2", pointers, by_rows(indptr=(0, 1, 3))),
        case("csr-of-other-rows", "a pointer too many", "5.2", pointers, by_rows(indptr=(0, 1, 1, 2))),
        case("csr-of-three-dimensions", "three dimensions", "5.2", "A matrix: exactly two dimensions", by_rows(shape=(2, 3, 1))),
    ]  # fmt: skip
