"""Numbers of weights: what is loaded, statistics, and quantization by the formulas of weights.md §2, in Python's numbers, which are binary64."""

import decimal
import math
import struct

from .elements import float32, packed
from .tensor_bytes import dense, manifest, ztensor
from .weights_case import MODEL, case, described, file_of, floats, tensor
from .ztensor_case import file_of as ztensor_of
from .ztensor_groups import group, integers_of
from .ztensor_sparse import csr

NAN, INFINITY = math.nan, math.inf
TINY = 2.0**-130
LARGEST = struct.unpack("<d", b"\xff\xff\xff\xff\xff\xff\xef\x7f")[0]


def cases():
    return [*loaded(), *statistics(), *quantized(), *files(), *groups()]


def loaded():
    numbers = floats([2], 0.5, 1.5)
    content = file_of(a=numbers, b=tensor("bf16", [], [2.0]))
    both = {"tensors": [described("a", *numbers), described("b", *tensor("bf16", [], [2.0]))]}
    matrix = [[0.0, 0.5, 0.0], [0.0, 0.0, 1.5]]
    integers = integers_of(8, 2, 4)
    objects, _ = ztensor_of(sparse=csr([2, 3], [((0, 1), 0.5), ((1, 2), 1.5)]), group=group(integers, [[0.5, 2.0]], [[0.0, 1.0]]))
    made_dense = [
        described("group", "f32", [8, 2], packed("f32", [scale * (row[n] - n) for row in integers for n, scale in enumerate((0.5, 2.0))])),
        described("sparse", "f32", [2, 3], packed("f32", [value for row in matrix for value in row])),
    ]
    none = "- **1.3** A file without tensors is an error when it is loaded, and so is a filter that no tensor passes"
    return [
        case("load", "two tensors", "1", "- **1.1** A tensor is loaded with the dtype, the shape and the bytes that its file has", "tensors", {MODEL: content}, both),
        case("load-not-dense", "a sparse object and a quantized group", "1", "Sparse objects of zTensor become dense", "tensors", {"model.zt": objects}, {"tensors": made_dense}),
        case("load-filtered", "a filter that one tensor passes", "1", none, "tensors", {MODEL: content}, {"tensors": both["tensors"][:1]}, filter="a"),
        case("load-nothing", "no tensors", "1", none, "tensors", {MODEL: file_of()}, refused="weights"),
        case("load-nothing-filtered", "a filter that no tensor passes", "1", none, "tensors", {MODEL: content}, refused="weights", filter="c*"),
    ]  # fmt: skip


def statistics():
    over = "Over numbers of every type but the complex ones, which have no order"
    none = "Without a finite number there are none of the four"
    population = "The standard deviation is that of a population (divided by n)"

    def one(name, about, words, content, numbers, n_nan=0, n_infinite=0):
        lowest, highest, mean, deviation = (None if number is None else float(number) for number in numbers)
        found = {"min": lowest, "max": highest, "mean": mean, "standard_deviation": deviation, "nan": n_nan, "infinite": n_infinite}
        return case(name, about, "2.1", words, "statistics", {MODEL: file_of(a=content)}, {"statistics": {"a": found}})

    eight = [2, 4, 4, 4, 5, 5, 7, 9]
    kinds = ("f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8")
    of_each = {"statistics": {dtype: {"min": 2.0, "max": 9.0, "mean": 5.0, "standard_deviation": 2.0, "nan": 0, "infinite": 0} for dtype in kinds}}
    return [
        case("statistics", "the same numbers in each type", "2.1", population, "statistics", {MODEL: file_of(**{dtype: tensor(dtype, [8], eight) for dtype in kinds})}, of_each),
        one("statistics-of-bools", "bools, which are 0 and 1", over, tensor("bool", [4], [True, False, True, False]), (0, 1, 0.5, 0.5)),
        one("statistics-of-fp8", "FP8", over, tensor("f8_e5m2", [2], [0x3C, 0xC2]), (-3, 1, -1, 2)),
        one("statistics-not-finite", "NaN and both infinities", "of the *finite* numbers", floats([5], 1, NAN, -INFINITY, INFINITY, 3), (1, 3, 2, 1), 1, 2),
        one("statistics-of-no-finite-number", "no finite number", none, floats([2], NAN, INFINITY), (None,) * 4, 1, 1),
        one("statistics-of-nothing", "no numbers", none, floats([0]), (None,) * 4),
        one("statistics-of-large-integers", "64-bit integers that float64 does not hold", "64-bit integers are rounded to float64 first", tensor("u64", [2], [2**63 + 1, 2**64 - 1]), (2.0**63, 2.0**64, 1.5 * 2.0**63, 2.0**62)),
    ]  # fmt: skip


def rounded(value):
    """The nearest integer, halves away from zero, from -128 to 127."""
    whole = math.floor(abs(value))
    return max(-128, min(127, int(math.copysign(whole + (abs(value) - whole >= 0.5), value))))


def int8(values, of_64_bits=False):
    """Integers and their scale by §2.2, and how many numbers were not finite."""

    def number(value):
        # What is beyond float32 is infinite there.
        return value if of_64_bits else INFINITY if abs(value) >= 2.0**128 else float32(value)

    finite = [value for value in values if math.isfinite(value)]
    largest = max((abs(value) for value in finite), default=0.0)
    lift, scale = 1.0, 1.0
    if largest > 0:
        scale = number(127 / largest)
        if math.isinf(scale) and of_64_bits:
            scale = LARGEST
        elif math.isinf(scale):
            lift = 2.0**100
            scale = number(127 / (largest * lift))
    integers = [rounded(number(value * lift * scale)) if math.isfinite(value) else 0 for value in values]
    return integers, lift * scale, len(values) - len(finite)


def by_channel(values, n_channels, of_64_bits=False):
    """The same with a scale for each channel."""
    length = len(values) // n_channels
    all_integers, scales, n_others = [], [], 0
    for start in range(0, len(values), length):
        integers, scale, n_other = int8(values[start : start + length], of_64_bits)
        all_integers += integers
        scales.append(scale)
        n_others += n_other
    return all_integers, scales, n_others


def norm_of(values):
    """The Euclidean norm, rounded once. `math.hypot` rounds differently before Python 3.10, and the corpus has the same bytes everywhere."""
    with decimal.localcontext(decimal.Context(prec=60)):
        return float(sum(decimal.Decimal(value) ** 2 for value in values).sqrt()) if values else 0.0


def error_of(numbers, integers, scale):
    """How far numbers are from what their integers stand for (§2.4)."""
    scales = scale if isinstance(scale, list) else [scale]
    each = len(numbers) // len(scales) or 1
    pairs = [(value, integer / scales[n // each]) for n, (value, integer) in enumerate(zip(numbers, integers)) if math.isfinite(value)]
    differences = [value - found for value, found in pairs]
    norm, norm_of_error = norm_of([value for value, _ in pairs]), norm_of(differences)
    largest = max((abs(difference) for difference in differences), default=0.0)
    return {
        "relative": norm_of_error / norm if norm_of_error else 0.0,
        "norm_of_error": norm_of_error,
        "norm": norm,
        "max_absolute": largest,
    }


def integers_and_scale(name, shape, integers, scale):
    """A quantized tensor and its scales, as a file has them (§2.3)."""
    scales = scale if isinstance(scale, list) else [scale]
    return [
        described(name, "i8", shape, packed("i8", integers)),
        described(name + ".scale", "f64", [len(scales)] if isinstance(scale, list) else [], packed("f64", scales)),
    ]


def quantized():
    largest = "With `m` the largest absolute value among the finite numbers of the tensor, or of the channel"
    channel = "or, where that is asked for, one for each *channel*"
    wide = "Numbers are computed with in float32 if it holds every number of their type (floats up to 32 bits, integers up to 16), else in float64"
    halves = "3. The product is rounded to the nearest integer, halves away from zero"
    other = "5. A number that is not finite becomes 0, and is counted"
    one = "1. `scale = 127 / m`, and `1` if `m` is 0 or there are no finite numbers"
    lifted = "If `127 / m` is beyond float32, the numbers are first multiplied by 2¹⁰⁰, which is exact; if it is beyond float64, it is the largest finite number"
    fewer = "A tensor of fewer dimensions or without elements has one scale in either case"
    example = [-2.0, -1.0, 0.5, 1.5]

    def both(name, about, words, shape, values, dtype="f32", numbers=None):
        """With one scale, or with one for each channel. `numbers` are what the elements stand for, where these are not the numbers."""
        numbers = values if numbers is None else numbers
        if dtype == "f32":
            numbers = [float32(value) for value in numbers]
        files = {MODEL: file_of(a=tensor(dtype, shape, values))}
        is_wide = dtype == "f64"
        has_channels = len(shape) > 1 and len(values) > 0
        results = {"tensor": int8(numbers, is_wide)}
        results["channel"] = by_channel(numbers, shape[0], is_wide) if has_channels else results["tensor"]
        for scales, (integers, scale, n_other) in results.items():
            reads = {"tensors": integers_and_scale("a", shape, integers, scale), "not_finite": n_other}
            reads["error"] = error_of(numbers, integers, scale)
            yield case(f"int8-{name}-by-{scales}", about, "2.2", words, "int8", files, reads, scales=scales)

    # The first product is a half in float32, and less in float64.
    near = near_a_half()
    below = float32(0.5 - 2.0**-25)
    return [
        *both("example", "the example of the page, whose shape is that of a matrix", channel, [2, 2], example),
        *both("vector", "the example of the page", fewer, [4], example),
        *both("scalar", "one number", fewer, [], [0.3]),
        *both("nothing", "no elements", fewer, [3, 0], []),
        *both("cube", "three dimensions", "for each index of axis 0 (the output channels of a layer whose weight is *[outputs, inputs]*) of a tensor that has two dimensions or more, and elements", [2, 1, 3], [0.1, -0.2, 0.3, 40.0, -0.5, 60.0]),
        *both("halves", "products that are halves, and the number below a half", halves, [1, 8], [127.0, 0.5, -0.5, 1.5, 2.5, -2.5, below, -below]),
        *both("in-float32", "a product that is a half in float32 only", wide, [1, 2], near),
        *both("in-float64", "the same numbers in float64", wide, [1, 2], near, "f64"),
        *both("float16", "16-bit floats", wide, [2, 2], [-2.0, -1.0, 0.5, 1.5], "f16"),
        *both("bfloat16", "bfloat16", wide, [2, 2], [-2.0, -1.0, 0.5, 1.5], "bf16"),
        *both("not-finite", "NaN and infinities, also a channel of nothing else", other, [3, 2], [1.0, NAN, -INFINITY, 0.25, NAN, INFINITY]),
        *both("zeros", "zeros, also negative ones", one, [2, 2], [0.0, -0.0, 0.0, 3.0]),
        *both("only-zeros", "nothing but zeros", one, [2, 2], [0.0, -0.0, 0.0, 0.0]),
        *both("tiny", "numbers whose scale is beyond float32", lifted, [2, 2], [TINY, -TINY / 3, TINY / 5, 2.0**-149]),
        *both("tiny-in-float64", "numbers whose scale is beyond float64", lifted, [2, 2], [5e-324, -5e-324, 1e-310, 2e-309], "f64"),
        *both("largest", "the largest numbers of float32", largest, [2, 2], [(2 - 2.0**-23) * 2.0**127, 1.0, -(2 - 2.0**-23) * 2.0**127, 2.0**127]),
    ]  # fmt: skip


def near_a_half():
    """Two float32 numbers, the first of which times the scale of the second is a half in float32, and less in float64."""
    for n in range(1, 1000):
        largest = float32(1 + n / 1000)
        scale = float32(127 / largest)
        value = float32(63.5 / scale)
        if float32(value * scale) == 63.5 and value * (127 / largest) < 63.5:
            return [value, largest]
    raise ValueError("there are no such numbers")


def files():
    """What a quantized file has of a file (§2.3)."""
    left = "Left as they are:"
    already = "- what is quantized already, and what belongs to it (below), with a warning that names the scheme"
    small = "| FP8, MX, NVFP4, `int8` of this page and of others | NAME, small |"
    scales_of = small
    numbers = floats([2], 1.0, 0.5)
    one = integers_and_scale("w", [2], [127, 64], 127.0)

    def left_alone(name, about, words, **tensors):
        """A file whose tensors stay as they are, but for `w`."""
        kept = [described(key.replace("__", "."), *value) for key, value in tensors.items()]
        reads = {"tensors": sorted([*one, *kept], key=lambda entry: entry["name"]), "not_finite": 0}
        return case(name, about, "2.3", words, "int8", {MODEL: file_of(w=numbers, **tensors)}, reads, scales="tensor")

    integers = {dtype: tensor(dtype, [2], [1, 2]) for dtype in ("i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8")}
    matrix = csr([2, 2], [((0, 1), 0.5), ((1, 0), -2.0)])
    unknown = ztensor(manifest({"a": dense([2], "f32", 64, 8, type="posit32")}), packed("f32", [1.0, 0.5]))
    return [
        left_alone("int8-beside-integers", "integers, bools and complex numbers", "- what is no float: integers, bools, complex numbers, elements of a logical type that is not known", **integers, flags=tensor("bool", [2], [True, False]), waves=tensor("complex64", [1], [1 + 2j])),
        left_alone("int8-of-quantized", "a tensor that is quantized already", scales_of, q=tensor("i8", [2, 2], [1, 2, 3, 4]), q__scale=tensor("f64", [], [2.0])),
        left_alone("int8-of-quantized-by-channel", "a tensor that is quantized already, with a scale for each channel", scales_of, q=tensor("i8", [2, 2], [1, 2, 3, 4]), q__scale=floats([2], 2.0, 4.0)),
        left_alone("int8-of-quantized-in-one-element", "a scale of two dimensions", scales_of, q=tensor("i8", [2, 2], [1, 2, 3, 4]), q__scale=floats([1, 1], 2.0)),
        left_alone("int8-of-other-scales", "a scale for each group of numbers, as others have them", small, q=tensor("i8", [2, 2], [1, 2, 3, 4]), q__scale=floats([4], 1.0, -1.0, 0.5, 0.25)),
        left_alone("int8-of-fp8", "FP8 without scales", "- floats of 8 bits or fewer", q=tensor("f8_e5m2", [2], [0x3C, 0xC2])),
        left_alone("int8-of-fp8-and-scales", "FP8 with the scales of its blocks and of its input", small, q__weight=tensor("f8_e5m2", [2], [0x3C, 0x40]), q__weight_scale_inv=floats([1, 1], 0.25), q__input_scale=floats([], 0.5)),
        left_alone("int8-of-gptq", "a layer of GPTQ", "| GPTQ, AWQ | LAYER.`qweight`, integers |", q__qweight=tensor("i32", [1, 2], [1, 2]), q__qzeros=tensor("i32", [1, 1], [3]), q__scales=tensor("f16", [1, 2], [0.5, 0.25]), q__g_idx=tensor("i32", [2], [0, 0])),
        left_alone("int8-of-bitsandbytes", "a tensor of bitsandbytes, whose bytes are stored as floats", "| bitsandbytes | NAME of any type |", q=tensor("bf16", [2], [1.0, 0.5]), q__absmax=floats([1], 0.5), q__quant_map=floats([2], -1.0, 1.0), q__quant_state__bitsandbytes__nf4=tensor("u8", [2], [123, 125])),
        left_alone("int8-of-mlx", "packed words with scales and offsets", "| MLX | LAYER.`weight`, `uint32` |", q__weight=tensor("u32", [1], [7]), q__scales=tensor("f16", [1], [0.5]), q__biases=tensor("f16", [1], [0.25])),
        case("int8-of-names-alone", "a scale beside a tensor that is not quantized", "2.3", already, "int8", {MODEL: file_of(norm__weight=numbers, norm__scale=floats([1], 0.5))}, {"tensors": [*integers_and_scale("norm.scale", [1], [127], 254.0), *integers_and_scale("norm.weight", [2], [127, 64], 127.0)], "not_finite": 0}, scales="tensor"),
        case("int8-of-sparse", "a sparse object", "2.3", "Sparse objects of zTensor become dense first", "int8", {"model.zt": ztensor_of(a=matrix)[0]}, {"tensors": integers_and_scale("a", [2, 2], [0, 32, -127, 0], 63.5), "not_finite": 0}, scales="tensor"),
        case("int8-of-unknown-type", "elements of a logical type that is not known", "2.3", left, "int8", {"model.zt": unknown}, {"tensors": [described("a", *floats([2], 1.0, 0.5))], "not_finite": 0}, scales="tensor"),
    ]  # fmt: skip


def in_groups(values, columns, group_size):
    """Integers and scales by §2.5, and how many numbers were not finite."""
    rows = [values[start : start + columns] for start in range(0, len(values), columns)]
    integers, scales = [], []
    for start in range(0, len(rows), group_size):
        members = rows[start : start + group_size]
        of_group = []
        for column in range(columns):
            finite = [abs(row[column]) for row in members if math.isfinite(row[column])]
            of_group.append(float32(max(finite, default=0.0) / 127))
        for row in members:
            for value, scale in zip(row, of_group):
                whole = math.isfinite(value) and scale > 0
                integers.append(max(-127, min(127, rounded(value / scale))) if whole else 0)
        scales += of_group
    return integers, scales, sum(not math.isfinite(value) for value in values)


def groups():
    scale = "1. With `m` the largest absolute value among the finite numbers of the column and group, the scale is `m / 127`, computed in float64 and rounded to float32"
    rounding = "2. Each number is divided by the scale in float64, rounded to the nearest integer, halves away from zero, and clamped to -127…127"
    zero = "Where the scale is 0 the integer is 0"
    other = "3. A number that is not finite becomes 0, and is counted"
    each = "Each column of each `group_size` rows has a scale of its own"
    beyond = "One that is beyond float32 is an error"

    def one(name, about, words, shape, values, group_size, dtype="f32", refused=None):
        content = {MODEL: file_of(a=tensor(dtype, shape, values))}
        if refused:
            return case(name, about, "2.5", words, "int8 in groups", content, refused=refused, group_size=group_size)
        integers, scales, n_other = in_groups(values, shape[1], group_size)
        n_groups = -(-shape[0] // group_size)
        reads = {
            "integers": described("a", "i8", shape, packed("i8", integers)),
            "scales": described("a", "f32", [n_groups, shape[1]], packed("f32", scales)),
            "not_finite": n_other,
        }
        return case(name, about, "2.5", words, "int8 in groups", content, reads, group_size=group_size)

    numbers = [0.1 * n * (-1) ** n + n * n / 64 for n in range(16)]
    return [
        one("groups", "two groups of four rows", each, [8, 2], [float32(value) for value in numbers], 4),
        one("groups-last-shorter", "a group of eight rows and one of four", each, [12, 1], [float32(value) for value in numbers[:12]], 8),
        one("groups-one", "a group of more rows than there are", each, [4, 2], [float32(value) for value in numbers[:8]], 128),
        one("groups-of-float64", "numbers in float64, whose scale is rounded", scale, [4, 2], [value / 3 for value in numbers[:8]], 4, "f64"),
        one("groups-halves", "quotients that are halves", rounding, [8, 1], [127.0, 0.5, -0.5, 1.5, 2.5, -2.5, 126.5, -127.0], 8),
        one("groups-not-finite", "NaN and infinities, and a column of nothing else", other, [4, 2], [1.0, NAN, -INFINITY, INFINITY, 0.5, NAN, NAN, NAN], 4),
        one("groups-of-zeros", "a column of zeros", zero, [4, 2], [0.0, 1.0, -0.0, 2.0, 0.0, 3.0, 0.0, 4.0], 4),
        one("groups-tiny", "numbers whose scale is 0 in float32", zero, [4, 1], [1e-50, -1e-50, 2e-50, 0.0], 4, "f64"),
        one("groups-beyond-float32", "numbers whose scale is beyond float32", beyond, [4, 1], [1e41, 1.0, 2.0, 3.0], 4, "f64", refused="weights"),
    ]  # fmt: skip
