"""Quantized groups in zTensor files (ztensor.md §5.4). What each stands for is computed here, from the integers that it is made of."""

from .elements import float32, packed
from .ztensor_case import PAGE, Object, cannot_be_dense, case, dense_array, file_of

PACKINGS = {2: "16_per_i32", 4: "8_per_i32", 8: "4_per_i32"}


def words(fields, bits):
    """Integers of so many bits in words of 32, the first in the lowest bits."""
    each = 32 // bits
    return [sum(field << bits * n for n, field in enumerate(fields[start : start + each])) for start in range(0, len(fields), each)]


def packed_rows(integers, bits):
    """Words of as many rows as fit, for each column."""
    each = 32 // bits
    return [
        words([row[column] for row in integers[start : start + each]], bits)[0]
        for start in range(0, len(integers), each)
        for column in range(len(integers[0]))
    ]


def integers_of(rows, columns, bits):
    """Integers of all bits, in no regular order."""
    return [[(7 * row + 5 * column + row * column) % (1 << bits) for column in range(columns)] for row in range(rows)]


def group(
    integers, scales, zeros, bits=4, group_size=8, groups=None, word="i32", scale="f32", zero="f32", packed_zeros=None, index="i32", more=None
):
    """An object of integers by row and column, and of scales and zero points by group and column. `packed_zeros` says how the zero points
    are packed: less by so many; `groups` is the group of each row."""
    rows, columns = len(integers), len(integers[0])
    of_row = groups or [row // (rows if group_size == -1 else group_size) for row in range(rows)]
    flat_scales, flat_zeros = ([value for row in values for value in row] for values in (scales, zeros))
    parts = {
        # Words are the same bytes as signed and as unsigned numbers.
        "packed_weight": (word, packed("u32", packed_rows(integers, bits))),
        "scales": (scale, packed(scale, flat_scales)),
        "zeros": (zero, packed(zero, flat_zeros)),
    }
    if packed_zeros is not None:
        lessened = [[(value - packed_zeros) % (1 << bits) for value in row] for row in zeros]
        parts["zeros"] = (word, packed("u32", [value for row in lessened for value in words(row, bits)]))
    if groups:
        parts["g_idx"] = (index, packed(index, groups))
    attributes = {"bits": bits, "group_size": group_size, "packing": PACKINGS.get(bits, "8_per_i32"), **(more or {})}
    weights = [
        float32(float32(scales[of_row[row]][column]) * float32(integers[row][column] - float32(zeros[of_row[row]][column])))
        for row in range(rows)
        for column in range(columns)
    ]
    dense = dense_array("f32", [rows, columns], packed("f32", weights))
    return Object("quantized_group", [rows, columns], parts, attributes, dense)


def changed(one, shape=None, **changes):
    """An object with another shape, or with components or attributes replaced, or left out by None."""
    parts, attributes = dict(one.parts), dict(one.attributes)
    for name, change in changes.items():
        values = attributes if name in ("bits", "group_size", "packing") else parts
        values[name] = change
        if change is None:
            del values[name]
    return Object(one.format, one.shape if shape is None else list(shape), parts, attributes, one.dense)


def cases():
    return [*read(), *not_dense(), *wrong()]


def least():
    """Eight rows and two columns of four bits, in one group."""
    return group(integers_of(8, 2, 4), [[0.5, 2.0]], [[0.0, 1.0]])


def read():
    bits = {
        f"bits-{n}": group(integers_of(64 // n, 3, n), [[0.5, 2.0, -1.0]], [[0.0, 1.0, 2.0]], bits=n, group_size=64 // n)
        for n in (2, 4, 8)
    }
    two_groups = ([[0.5, 2.0], [0.25, -4.0]], [[7.0, 8.0], [1.5, 0.0]])
    eight = [[0, 1, 2, 7, 8, 14, 15, 5]]
    eight_scales = [[0.5, 1.0, 2.0, 4.0, 0.25, -1.0, 8.0, 0.125]]
    rounding = ([[0.1, 1 / 3]], [[0.3, 1e-9]])
    floats = {scale: group(integers_of(8, 2, 4), [[0.5, -2.0]], [[3.0, 4.5]], scale=scale, zero=scale) for scale in ("f64", "f32", "f16", "bf16")}  # fmt: skip
    integer_zeros = {zero: group(integers_of(8, 2, 4), [[0.5, -2.0]], [[3, 12]], zero=zero) for zero in ("u8", "i8", "u16", "i16", "i32", "u64", "i64")}  # fmt: skip
    below = group(integers_of(8, 2, 4), [[0.5, -2.0]], [[-3, -128]], zero="i8")
    of_rows = [1, 0, 0, 1, 1, 1, 0, 1] * 2
    by_index = {
        index: group(integers_of(16, 2, 4), *two_groups, groups=of_rows, index=index) for index in ("u8", "i16", "i32", "i64", "u64")
    }
    packing = "packed along *N*, and one less than the zero point modulo 2^`bits`, as in files of AutoGPTQ: the greatest stands for 0"
    weight = "*P* per word. Row *k* is in word *k / P*, from bit *bits · (k mod P)* on"
    return [
        case("quantized", "weights of 4 bits", "5.4", "*K* must be a multiple of *P*", *file_of(a=least())),
        case("quantized-bits", "weights of 2, 4 and 8 bits, two words of each column", "5.4", weight, *file_of(**bits)),
        case("quantized-unsigned-words", "words that are unsigned", "5.4", "`i32` or `u32`, *[K / P, N]*", *file_of(a=group(integers_of(8, 2, 4), [[0.5, 2.0]], [[0.0, 1.0]], word="u32"))),
        case("quantized-two-groups", "16 rows in groups of 8", "5.4", "the rows of a group, or -1", *file_of(a=group(integers_of(16, 2, 4), *two_groups))),
        case("quantized-last-group-shorter", "24 rows in groups of 16", "5.4", "*G* = *K / group_size*, rounded up", *file_of(a=group(integers_of(24, 2, 4), *two_groups, group_size=16))),
        case("quantized-group-of-more-rows", "8 rows in groups of 128", "5.4", "*G* = *K / group_size*, rounded up", *file_of(a=group(integers_of(8, 2, 4), [[0.5, 2.0]], [[0.0, 1.0]], group_size=128))),
        case("quantized-one-group", "a group of all rows", "5.4", "-1: one group of all rows", *file_of(a=group(integers_of(16, 2, 4), [[0.5, 2.0]], [[0.0, 1.0]], group_size=-1))),
        case("quantized-scales-of-floats", "scales and zero points of each float", "5.4", "any float, *[G, N]*", *file_of(**floats)),
        case("quantized-zeros-of-integers", "zero points that are integers, also below 0", "5.4", "the zero point itself", *file_of(**integer_zeros, below=below)),
        case("quantized-packed-zeros", "packed zero points, one of them 0 and so stored as 15", "5.4", packing, *file_of(a=group(integers_of(8, 8, 4), eight_scales, eight, packed_zeros=1))),
        case("quantized-packed-zeros-of-two-bits", "packed zero points of 2 bits in two groups", "5.4", packing, *file_of(a=group(integers_of(32, 16, 2), [[0.5] * 16, [2.0] * 16], [[n % 4 for n in range(16)], [3 - n // 4 for n in range(16)]], bits=2, group_size=16, packed_zeros=1))),
        case("quantized-packed-zeros-of-v2", "the same as AutoGPTQ's later files have them", "5.4", "with the attribute `checkpoint_format` = `gptq_v2` the zero point itself", *file_of(a=group(integers_of(8, 8, 4), eight_scales, eight, packed_zeros=0, more={"checkpoint_format": "gptq_v2"}))),
        case("quantized-zeros-of-v2", "the attribute of later files where zero points are not packed", "5.4", "the zero point itself", *file_of(a=group(integers_of(8, 2, 4), [[0.5, 2.0]], [[0.0, 1.0]], more={"checkpoint_format": "gptq_v2"}))),
        case("quantized-g-idx", "the group of each row, of several integer types", "5.4", "the group of each row; without it row *k* is in group *k / group_size*", *file_of(**by_index)),
        case("quantized-rounding", "numbers that are rounded at each step", "5.4", "*G* = *K / group_size*, rounded up", *file_of(a=group(integers_of(8, 2, 8), *rounding, bits=8))),
        case("quantized-more-components", "a component and an attribute that the format does not need", "2.4", "It may have more", *file_of(a=changed(group(integers_of(8, 2, 4), [[0.5, 2.0]], [[0.0, 1.0]], more={"sym": False}), bias=("f32", bytes(8))))),
        case("quantized-of-1-1", "weights of 4 bits, in 1.1", "2.7", "a `quantized_group` without one of the attributes `bits`, `group_size` and `packing` (§5.4)", *file_of("1.1.0", a=least())),
    ]  # fmt: skip


def not_dense():
    """Files whose parts can be read, and of which no array can be made."""

    def unknown(name, about, version="1.2.0", findings=(), **changes):
        one = changed(least(), **changes)
        one.dense = cannot_be_dense("tensor")
        unknown = case(name, about, "5.4", "Any other `packing` is an error when it is to be dequantized", *file_of(version, a=one), findings=findings)
        if "packing" not in one.attributes:
            unknown.shows.append((PAGE, "2.7", "a `quantized_group` without one of the attributes `bits`, `group_size` and `packing` (§5.4)"))
        return unknown

    return [
        unknown("quantized-packing-unknown", "a packing that there is not", packing="3_per_i32"),
        unknown("quantized-without-packing", "no packing", packing=None, findings=["group-attributes"]),
        unknown("quantized-without-packing-in-1-1", "no packing, in 1.1", "1.1.0", packing=None),
    ]  # fmt: skip


def wrong():
    def bad(name, about, words, one):
        return case(name, about, "5.4", words, file_of(a=one)[0])

    def bad_index(name, about, one):
        index = bad(name, about, "optional, any integer, *[K]*", one)
        index.shows.append((PAGE, "5.1", "Each index must be at least 0 and less than the size of its dimension"))
        return index

    good = least()
    eight = group(integers_of(8, 8, 4), [[1.0] * 8], [[1] * 8], packed_zeros=1)
    rows = group(integers_of(8, 2, 4), [[0.5, 2.0]], [[0.0, 1.0]], groups=[0] * 8)
    fit = "must fit `bits`"
    multiple = "*K* must be a multiple of *P*"
    a_verifier = "A verifier checks the attributes of objects with one of these three"
    scales = "any float, *[G, N]*"
    zeros = "any float or integer, *[G, N]*"
    return [
        bad("quantized-packing-of-other-bits", "a packing that does not fit the bits", fit, changed(good, bits=8)),
        bad("quantized-of-three-bits", "three bits", "2, 4 or 8", changed(good, bits=3)),
        bad("quantized-bits-as-text", "bits that are a text", "2, 4 or 8", changed(good, bits="4")),
        bad("quantized-without-bits", "no bits", a_verifier, changed(good, bits=None)),
        bad("quantized-without-group-size", "no size of groups", a_verifier, changed(good, group_size=None)),
        bad("quantized-groups-of-nothing", "groups of 0 rows", "the rows of a group, or -1", changed(good, group_size=0)),
        bad("quantized-groups-below-nothing", "groups of -2 rows", "the rows of a group, or -1", changed(good, group_size=-2)),
        bad("quantized-rows", "rows that fill no words", multiple, changed(good, shape=[7, 2])),
        bad("quantized-without-rows", "no rows", multiple, changed(good, [0, 2], **{role: (dtype, b"") for role, (dtype, _) in good.parts.items()}, more=("u8", b"x"))),
        bad("quantized-vector", "one dimension", "for an object of shape *[K, N]*", changed(good, shape=[16])),
        bad("quantized-more-words", "a word more than the shape asks for", "`i32` or `u32`, *[K / P, N]*", changed(good, packed_weight=("i32", bytes(12)))),
        bad("quantized-words-of-floats", "words that are floats", "`i32` or `u32`, *[K / P, N]*", changed(good, packed_weight=("f32", bytes(8)))),
        bad("quantized-too-few-scales", "a scale too few", scales, changed(good, scales=("f32", bytes(4)))),
        bad("quantized-scales-of-integers", "scales that are integers", scales, changed(good, scales=("i32", bytes(8)))),
        bad("quantized-too-many-zeros", "a zero point too many", zeros, changed(good, zeros=("f32", bytes(12)))),
        bad("quantized-zeros-of-bools", "zero points that are bools", zeros, changed(good, zeros=("bool", bytes(2)))),
        bad("quantized-packed-zeros-of-floats", "packed zero points that are floats", "packed along *N*", changed(eight, zeros=("f32", bytes(4)))),
        bad("quantized-packed-zeros-of-other-columns", "packed zero points where the columns fill no words", "and *N* a multiple of it too if `zeros` is packed", changed(good, zeros=("i32", bytes(4)))),
        bad("quantized-g-idx-too-few", "a row too few", "optional, any integer, *[K]*", changed(rows, g_idx=("i32", bytes(28)))),
        bad_index("quantized-g-idx-too-large", "a group behind the last", changed(rows, g_idx=("i32", packed("i32", [0, 0, 0, 0, 0, 0, 0, 1])))),
        bad_index("quantized-g-idx-below-zero", "a group below 0", changed(rows, g_idx=("i32", packed("i32", [-1] * 8)))),
        bad_index("quantized-g-idx-of-floats", "groups that are floats", changed(rows, g_idx=("f32", bytes(32)))),
    ]  # fmt: skip
