"""Descriptions of models, and what validating files by them finds (weights.md §3 and §4)."""

import math

from .elements import packed
from .tensor_bytes import dense, manifest, ztensor
from .weights_case import MODEL, case, file_of, floats, tensor
from .ztensor_case import Object
from .ztensor_case import file_of as ztensor_of
from .ztensor_groups import group
from .ztensor_sparse import coo

DESCRIPTION = "description.toml"
ERRORS = (
    "no_tensors", "no_expected_tensors", "unreadable", "empty_shape", "zero_dimension", "shape_mismatch", "dtype_mismatch", "scale",
    "contains_nan", "contains_inf", "value_range", "quantization",
)  # fmt: skip
PLAIN = 'version = 1\nname = "plain"\n'


def described(*tensors, more=""):
    """A description of tensors: (name, shape), or (name, shape, more fields)."""
    entries = [f'[[tensors]]\nname = "{name}"\nshape = {shape}\n{"".join(fields)}' for name, shape, *fields in tensors]
    return f"{PLAIN}{more}\n" + "\n".join(entries)


W = described(("w", [2, 2]))
# The same as integers: 0.5, -1, 2 and 0.25 by the scale 63.5.
NUMBERS = floats([2, 2], 0.5, -1.0, 2.0, 0.25)
INTEGERS = tensor("i8", [2, 2], [32, -64, 127, 16])
SCALE = tensor("f64", [], [63.5])


def validation(name, about, section, words, description, files, n_tensors, n_parameters, *findings, **options):
    """A file that is compared with a description. A finding is a category, or one and the tensor that it is about."""
    pairs = sorted((finding, "") if isinstance(finding, str) else finding for finding in findings)
    listed = [{"category": category, "tensor": of or None} for category, of in pairs]
    reads = {
        "tensors": n_tensors,
        "parameters": n_parameters,
        "errors": [finding for finding in listed if finding["category"] in ERRORS],
        "warnings": [finding for finding in listed if finding["category"] not in ERRORS],
    }
    files = files if isinstance(files, dict) else {MODEL: files}
    return case(f"model-{name}", about, section, words, "validation", {DESCRIPTION: description, **files}, reads, **options)


def cases():
    return [*descriptions(), *no_descriptions(), *findings(), *values_of_integers(), *quantization(), *quantized()]


def descriptions():
    page = """version = 1
name = "tiny"
dtypes = ["float32", "bfloat16"]

[sizes]
layers = 2
width = 2

[values]
min = -128.0
max = 128.0

[quantization]
method = "ternary"
scale = 1.0

[[tensors]]
name = "layers.{layer}.attention.weight"
repeat = "layers"
shape = ["width", "width"]
quantized = true

[[tensors]]
name = "norm.weight"
shape = ["width"]
dtypes = ["float32"]
"""
    ternary = tensor("bf16", [2, 2], [1.0, 0.0, -1.0, 1.0])
    layers = {f"layers__{n}__attention__weight": ternary for n in range(2)}
    norm = {"norm__weight": floats([2], 0.5, 1.5)}
    repeated = "An entry with `repeat` stands for that many tensors, and `{layer}` in its name for 0, 1, 2 and so on"
    sizes = "A validation may replace numbers in `sizes`, for a smaller or larger model of the same kind"
    not_counted = "`n_parameters` does not count then"
    three = {**layers, "layers__2__attention__weight": ternary}
    counted = page.replace('name = "tiny"', 'name = "tiny"\nn_parameters = 10').replace("layers = 2", "layers = 1")
    parameters = "The number of parameters is the sum over all tensors, unless `n_parameters` gives another one"
    nothing = ("inconsistent_dtypes",)
    return [
        validation("example", "the description of the page, with smaller sizes, and a model that is so", "3.4", repeated, page, file_of(**layers, **norm), 3, 10, *nothing),
        validation("larger", "a size that is replaced", "3.4", sizes, page, file_of(**three, **norm), 4, 14, *nothing, sizes={"layers": 3}),
        validation("of-stated-parameters", "a number of parameters that the tensors have, and the description's sizes do not", "3.4", parameters, counted, file_of(**layers, **norm), 3, 10, *nothing, "unexpected_tensors"),
        validation("of-parameters-not-counted", "a stated number of parameters, and a size that is replaced", "3.4", not_counted, counted, file_of(**three, **norm), 4, 14, *nothing, sizes={"layers": 3}),
        validation("of-other-parameters", "another number of parameters than is stated", "4", "\"Parameter count differs from expected\"", PLAIN + "n_parameters = 5\n" + W[len(PLAIN) :], file_of(w=NUMBERS), 1, 4, "parameter_count"),
    ]  # fmt: skip


def no_descriptions():
    def bad(name, about, section, words, text, **options):
        return case(f"description-{name}", about, section, words, "validation", {DESCRIPTION: text, MODEL: file_of(w=NUMBERS)}, refused="description", **options)  # fmt: skip

    unknown = "Unknown keys are refused"
    version = "`version` is 1; a reader refuses any other"
    toml = "A TOML file that says which tensors there should be"
    dtypes = "`dtypes` lists what tensors may have, by the names of NumPy and `ml_dtypes`"
    bounds = "either may be absent, neither is NaN, and `min` is at most `max`"
    shape = "Each entry has a `name` and a `shape`, whose dimensions are integers or names in `sizes`"
    layer = "An entry with `repeat` stands for that many tensors, and `{layer}` in its name for 0, 1, 2 and so on"
    most = "There are at most 1,000,000 tensors, with 256 MiB of names, in a file of at most 4 MiB"
    names = described(("{layer}" + "x" * 300, [1], "repeat = 1000000\n"))
    return [
        bad("no-toml", "no TOML", "3", toml, "version = "),
        bad("no-tensors", "no list of tensors", "3", toml, PLAIN),
        bad("no-version", "no version", "3", toml, W.replace("version = 1\n", "")),
        bad("unknown-key", "a key that there is not", "3", unknown, described(("w", [2, 2]), more="future = 1")),
        bad("unknown-key-of-tensors", "a key of a tensor that there is not", "3", unknown, described(("w", [2, 2], "future = 1\n"))),
        bad("unknown-key-of-values", "a key of `values` that there is not", "3", unknown, described(("w", [2, 2]), more="values = { mean = 0 }")),
        bad("unknown-key-of-quantization", "a key of `quantization` that there is not", "3", unknown, described(("w", [2, 2]), more='quantization = { method = "ternary", bits = 2 }')),
        bad("version-2", "version 2", "3.1", version, W.replace("version = 1", "version = 2")),
        bad("version-2-with-unknown-key", "version 2 with a key that there is not", "3.1", version, W.replace("version = 1", "version = 2\nfuture = 1")),
        bad("unknown-dtype", "a dtype that there is not", "3.2", dtypes, described(("w", [2, 2]), more='dtypes = ["F32"]')),
        bad("unknown-method", "a method that there is not", "3.3", "`method` is how the tensors marked `quantized` are quantized", described(("w", [2, 2]), more='quantization = { method = "int4" }')),
        bad("scale-of-zero", "a scale of 0", "3.3", "a `scale` is a finite number above 0", described(("w", [2, 2]), more='quantization = { method = "ternary", scale = 0.0 }')),
        bad("scale-of-infinity", "an infinite scale", "3.3", "a `scale` is a finite number above 0", described(("w", [2, 2]), more='quantization = { method = "ternary", scale = inf }')),
        bad("values-that-fall", "a least number above the greatest", "3.2", bounds, described(("w", [2, 2]), more="values = { min = 1.0, max = 0.0 }")),
        bad("value-of-nan", "a least number that is NaN", "3.2", bounds, described(("w", [2, 2]), more="values = { min = nan }")),
        bad("quantized-without-quantization", "a tensor that is quantized, and no word of how", "3.4", "and is refused where there is no `[quantization]`", described(("w", [2, 2], "quantized = true\n"))),
        bad("of-65-dimensions", "a dimension too many", "3.4", "A shape has at most 64 dimensions", described(("w", [1] * 65))),
        bad("negative-size", "a dimension below 0", "3", toml, described(("w", [-1]))),
        bad("unknown-size", "a dimension that is no name in `sizes`", "3.4", shape, described(("w", '["width"]'))),
        bad("repeat-without-layer", "a name without `{layer}` that is repeated", "3.4", layer, described(("w", [2, 2], "repeat = 2\n"))),
        bad("layer-without-repeat", "a name with `{layer}` that is not repeated", "3.4", layer, described(("w.{layer}", [2, 2]))),
        bad("described-twice", "a name twice", "3.4", "A name may be described once", described(("w", [2, 2]), ("w", [2]))),
        bad("described-by-a-layer", "a name that is also that of a layer", "3.4", "A name may be described once", described(("w.{layer}", [2, 2], "repeat = 2\n"), ("w.1", [2]))),
        bad("too-many-tensors", "1,000,001 tensors", "3.4", most, described(("w.{layer}", [1], "repeat = 1000001\n"))),
        bad("too-many-names", "names of more than 256 MiB", "3.4", most, names),
        bad("size-to-replace-unknown", "a size that is to be replaced and is not there", "3.4", "A size that the description does not have is refused", W, sizes={"width": 2}),
    ]  # fmt: skip


def findings():
    """A case for each category. Of `no_data` and `size_mismatch` files are not opened."""
    two = described(("w", [2, 2]), ("norm", [2]))
    norm = floats([2], 1.0, 2.0)
    theirs = ztensor(manifest({"w": {**dense([2, 2], "f32", 64, 16), "format": "theirs"}}), NUMBERS[2])
    other = ztensor(
        manifest({"more": {**dense([2, 2], "f32", 64, 16), "format": "theirs"}, "w": dense([2, 2], "f32", 64, 16)}), NUMBERS[2]
    )
    outside = Object("sparse_csr", [2, 2], {"values": ("f32", packed("f32", [1.0])), "indices": ("u64", packed("u64", [5])), "indptr": ("u64", packed("u64", [0, 1, 1]))}, {}, None)  # fmt: skip
    broken = ztensor_of(w=coo([2, 2], [((0, 1), 0.5)]), norm=outside)[0]
    filters = "With a filter, tensors that do not pass it are not missing, and parameters are counted only if every tensor of the description passes"
    nothing_compared = "It is an error because nothing was compared"
    f16 = tensor("f16", [2], [1.0, 2.0])

    def bad(name, about, words, description, content, n_tensors, n_parameters, *found, section="4", **options):
        return validation(name, about, section, words, description, content, n_tensors, n_parameters, *found, **options)

    return [
        bad("as-described", "a model that is as described", "Findings are errors or warnings, each of one category", W, file_of(w=NUMBERS), 1, 4),
        bad("without-tensors", "no tensors", "\"No tensors found\"", W, file_of(), 0, 0, "no_tensors"),
        bad("of-other-names", "tensors of which none is described", nothing_compared, W, file_of(model__w=NUMBERS), 1, 4, "no_expected_tensors", "unexpected_tensors"),
        bad("of-an-empty-description", "a description without tensors", "perhaps because the description has none", PLAIN + "tensors = []\n", file_of(w=NUMBERS), 1, 4, "no_expected_tensors", "unexpected_tensors", "parameter_count"),
        bad("unreadable", "a sparse object with a column behind the last, beside one that is right", "its bytes break a rule of its format; or it is described, and no tensor of numbers", described(("w", [2, 2]), ("norm", [2, 2])), {"model.zt": broken}, 2, 8, ("unreadable", "norm")),
        bad("of-no-numbers", "an object of a format that is not known", "its bytes break a rule of its format; or it is described, and no tensor of numbers", W, {"model.zt": theirs}, 1, 0, ("unreadable", "w"), "parameter_count"),
        bad("not-numbers", "an object of a format that is not known and is not described", "what is not described is no tensor of numbers either: strings, an object of a format that is not known", W, {"model.zt": other}, 2, 4, ("not_numbers", "more"), "unexpected_tensors"),
        bad("empty-shape", "a tensor of no dimensions", "\"Tensor NAME has empty shape\", unless the description says so", W, file_of(w=floats([], 1.0)), 1, 1, ("empty_shape", "w"), "parameter_count"),
        bad("scalar", "a tensor of no dimensions that is described so", "\"Tensor NAME has empty shape\", unless the description says so", described(("w", [])), file_of(w=floats([], 1.0)), 1, 1),
        bad("zero-dimension", "a dimension of zero that is described", "\"Tensor NAME has zero dimension\"", described(("w", [2, 0])), file_of(w=floats([2, 0])), 1, 0, ("zero_dimension", "w")),
        bad("shape-mismatch", "another shape", "\"Tensor NAME shape mismatch\": another shape than described", W, file_of(w=floats([4], 1.0, 2.0, 3.0, 4.0)), 1, 4, ("shape_mismatch", "w")),
        bad("dtype-mismatch", "another dtype", "another dtype than described (§3.2)", described(("w", [2, 2]), more='dtypes = ["float16", "bfloat16"]'), file_of(w=NUMBERS), 1, 4, ("dtype_mismatch", "w")),
        bad("dtype-of-one-tensor", "another dtype than one tensor may have", "`dtypes` replaces the list of section 3.2", described(("w", [2, 2], 'dtypes = ["float64"]\n'), more='dtypes = ["float32"]'), file_of(w=NUMBERS), 1, 4, ("dtype_mismatch", "w"), section="3.4"),
        bad("dtypes-of-any", "dtypes of which the description says nothing", "without it they may have any", W, file_of(w=tensor("u16", [2, 2], [1, 2, 3, 4])), 1, 4, section="3.2"),
        bad("nan", "NaN", "\"Tensor NAME contains NaN\"", W, file_of(w=floats([2, 2], 1.0, math.nan, 2.0, 3.0)), 1, 4, ("contains_nan", "w")),
        bad("infinity", "an infinity", "\"Tensor NAME contains Inf\"", W, file_of(w=floats([2, 2], 1.0, -math.inf, 2.0, 3.0)), 1, 4, ("contains_inf", "w")),
        bad("nan-and-infinity", "NaN, an infinity, and numbers in range", "`values.min` and `values.max` bound the finite numbers; either may be absent", described(("w", [2, 2]), more="values = { max = 2.0 }"), file_of(w=floats([2, 2], -9.0, math.inf, 2.0, math.nan)), 1, 4, ("contains_inf", "w"), ("contains_nan", "w"), section="3.2"),
        bad("value-below", "a number below the least", "finite numbers beyond `values`", described(("w", [2, 2]), more="values = { min = -0.5 }"), file_of(w=NUMBERS), 1, 4, ("value_range", "w")),
        bad("value-above", "a number above the greatest", "finite numbers beyond `values`", described(("w", [2, 2]), more="values = { max = 1.5 }"), file_of(w=NUMBERS), 1, 4, ("value_range", "w")),
        bad("missing", "a tensor that is not there", "\"Some expected layers are missing\"", two, file_of(w=NUMBERS), 1, 4, "missing_layers", "parameter_count"),
        bad("unexpected", "a tensor that is not described", "tensors that are not described", W, file_of(w=NUMBERS, norm=norm), 2, 6, "unexpected_tensors", "parameter_count"),
        bad("inconsistent-floats", "two types of floats", "several dtypes among the floats, or among the others", two, file_of(w=NUMBERS, norm=f16), 2, 6, "inconsistent_dtypes"),
        bad("inconsistent-others", "integers and bools", "several dtypes among the floats, or among the others", two, file_of(w=tensor("u8", [2, 2], [1, 2, 3, 4]), norm=tensor("bool", [2], [True, False])), 2, 6, "inconsistent_dtypes"),
        bad("of-floats-and-others", "floats of one type, and integers of one type", "several dtypes among the floats, or among the others", two, file_of(w=NUMBERS, norm=tensor("u8", [2], [1, 2])), 2, 6),
        bad("filtered", "a filter that leaves a missing tensor out", filters, two, file_of(w=NUMBERS), 1, 4, section="4.2", filter="w"),
        bad("filtered-and-missing", "a filter that a missing tensor passes", filters, two, file_of(w=NUMBERS), 1, 4, "missing_layers", "parameter_count", section="4.2", filter="*"),
    ]  # fmt: skip


def values_of_integers():
    """Integers with a scale stand for floats (§4.1)."""
    half = "A number is beyond `values` only if it exceeds a bound by more than half a step, `0.5 / scale`, which is what rounding adds"
    stands = "The numbers of an `int8` tensor with scales are those that it stands for, `integer / scale`"
    of_group = "Of a `quantized_group` the half step is that of its largest scale"
    missed = "Of an `int8` tensor whose scale is missed, `values` are not compared"

    def bounded(name, about, words, bound, content, *found):
        text = described(("w", [2, 2]), more=f"values = {{ {bound} }}")
        return validation(name, about, "4.1", words, text, content, 1, 4, *found)

    tens = file_of(w=tensor("i8", [2, 2], [10, -10, 5, 0]), w__scale=tensor("f64", [], [10.0]))
    channels = file_of(w=tensor("i8", [2, 2], [10, -10, 10, 0]), w__scale=floats([2], 10.0, 5.0))
    # Numbers from -2 to 2.5, in steps of 0.5 and less.
    grouped = ztensor_of(w=group([[0], [4], [8], [13]], [[0.5]], [[8]], bits=8, group_size=4))[0]
    in_groups = described(("w", [4, 1]), more="values = { min = -3.75, max = 2.25 }")
    out_of_groups = in_groups.replace("-3.75", "-3.74")
    two = described(("v", [2]), ("w", [2, 2]), more="values = { max = 3.0 }")
    with_and_without = file_of(v=tensor("i8", [2], [100, 1]), w=INTEGERS, w__scale=SCALE)
    return [
        bounded("half-a-step", "a number that exceeds a bound by less than half a step", half, "min = -0.96, max = 0.96", tens),
        bounded("more-than-half-a-step", "a number that exceeds a bound by more than half a step", half, "max = 0.94", tens, ("value_range", "w")),
        bounded("more-than-half-a-step-below", "the same below", half, "min = -0.94", tens, ("value_range", "w")),
        bounded("step-of-a-channel", "a channel with a scale of its own, whose half step is larger", stands, "max = 1.91", channels),
        bounded("value-of-a-channel", "a channel whose numbers are beyond the bound", stands, "max = 1.89", channels, ("value_range", "w")),
        validation("half-a-step-of-a-group", "a group whose numbers exceed the bounds by half a step", "4.1", of_group, in_groups, {"model.zt": grouped}, 1, 4),
        validation("more-than-half-a-step-of-a-group", "a group with a number that is further out", "4.1", of_group, out_of_groups, {"model.zt": grouped}, 1, 4, ("value_range", "w")),
        validation("values-without-scale", "integers without the scale that other ones have", "4.1", missed, two, with_and_without, 2, 6, ("missing_scale", "v")),
    ]  # fmt: skip


def quantization():
    """How tensors are quantized that are described as quantized (§3.3)."""
    ternary = "- `ternary`: every number is 0, s or -s, with one s for each tensor"
    scale = "If `scale` is given, s must be it (to the precision of the dtype)"
    codes = "Of integers without a scale beside them it is not compared"
    int8 = "- `int8`: the integers -127 to 127, as section 2.2 makes them"
    given = "A tensor of floats must give these when multiplied by `scale`, which must then be given"
    others = "Integers with a scale beside them have been multiplied by that one, and need no other"
    coarsest = "Ternary numbers must have the scale of section 3.3 to the precision of the coarsest float that the description allows"

    def one(name, about, words, method, content, *found, section="3.3", more="", shape=(2, 2)):
        text = described(("w", list(shape), "quantized = true\n"), more=f"quantization = {{ {method} }}\n{more}")
        files = content if isinstance(content, dict) else {MODEL: content}
        return validation(name, about, section, words, text, files, 1, 4, *found)

    is_ternary, of_one = 'method = "ternary"', 'method = "ternary", scale = 1.0'
    is_int8 = 'method = "int8"'
    wrong = ("quantization", "w")
    ones = floats([2, 2], 1.0, 0.0, -1.0, 1.0)
    halves = floats([2, 2], 0.5, 0.0, -0.5, 0.0)
    integers = tensor("i8", [2, 2], [1, 0, -1, 1])
    scaled = {"w": tensor("i8", [2, 2], [127, 0, -127, 0])}
    grid = floats([2, 2], 0.5, -31.75, 31.75, 0.25)
    of_group = {"model.zt": ztensor_of(w=group([[0], [4], [8], [13]], [[0.5]], [[8]], bits=8, group_size=4))[0]}
    return [
        one("ternary", "numbers that are 0, 1 and -1", scale, of_one, file_of(w=ones)),
        one("ternary-of-any-scale", "numbers that are 0, 0.5 and -0.5, and any scale", ternary, is_ternary, file_of(w=halves)),
        one("ternary-of-another-scale", "numbers that are 0, 0.5 and -0.5, and the scale 1", scale, of_one, file_of(w=halves), wrong),
        one("ternary-of-zeros", "nothing but zeros", ternary, of_one, file_of(w=floats([2, 2], 0.0, 0.0, -0.0, 0.0))),
        one("not-ternary", "numbers of two sizes", ternary, is_ternary, file_of(w=floats([2, 2], 1.0, 0.5, 0.0, -1.0)), wrong),
        one("ternary-codes", "integers, which have no scale", codes, 'method = "ternary", scale = 0.5', file_of(w=integers)),
        one("ternary-codes-of-two-sizes", "integers of two sizes", ternary, is_ternary, file_of(w=tensor("i8", [2, 2], [1, 0, -2, 1])), wrong),
        one("ternary-with-scale", "integers with a scale, which stand for 0, 1 and -1", coarsest, of_one, file_of(**scaled, w__scale=tensor("f64", [], [127.0])), section="4.1"),
        one("ternary-with-another-scale", "integers with a scale, which stand for 0, 0.5 and -0.5", coarsest, of_one, file_of(**scaled, w__scale=tensor("f64", [], [254.0])), wrong, section="4.1"),
        one("ternary-with-a-coarse-scale", "integers with a scale, which are 1.001 where bfloat16 is allowed", coarsest, of_one, file_of(**scaled, w__scale=tensor("f64", [], [127 / 1.001])), section="4.1", more='dtypes = ["float32", "bfloat16"]'),
        one("ternary-with-a-fine-scale", "integers with a scale, which are 1.001 where float32 alone is allowed", coarsest, of_one, file_of(**scaled, w__scale=tensor("f64", [], [127 / 1.001])), wrong, section="4.1", more='dtypes = ["float32"]'),
        one("int8-codes", "integers from -127 to 127", int8, is_int8, file_of(w=tensor("i8", [2, 2], [127, -127, 0, 1]))),
        one("int8-of-minus-128", "the integer -128", int8, is_int8, file_of(w=tensor("i8", [2, 2], [127, -128, 0, 1])), wrong),
        one("int8-in-floats", "floats that are integers when multiplied by the scale", given, is_int8 + ", scale = 4.0", file_of(w=grid)),
        one("int8-not-in-floats", "floats that are no integers when multiplied by the scale", given, is_int8 + ", scale = 3.0", file_of(w=grid), wrong),
        one("int8-in-floats-without-scale", "floats, and no scale", given, is_int8, file_of(w=grid), wrong),
        one("int8-with-scale", "integers with a scale, and no scale in the description", others, is_int8, file_of(w=INTEGERS, w__scale=SCALE)),
        one("int8-with-two-scales", "integers with a scale, and another one in the description", others, is_int8 + ", scale = 2.0", file_of(w=INTEGERS, w__scale=SCALE)),
        one("int8-in-groups", "a quantized group", "neither do those of a `quantized_group`", is_int8, of_group, shape=(4, 1)),
        one("int8-beyond-127", "floats that are 128 when multiplied by the scale", given, is_int8 + ", scale = 4.0", file_of(w=floats([2, 2], 32.0, 0.5, 1.0, 0.25)), wrong),
    ]  # fmt: skip


def quantized():
    """What is quantized fits the description that it fitted before (§3.2 and §4.1)."""
    fits = "A tensor that may have floats may be stored quantized too: as `int8` with its scale beside it (section 2.3), or as a `quantized_group`"
    accept = "With `accept_quantized = false` it may not, and must have one of the `dtypes` as it is stored"
    belongs = "A tensor `NAME.scale` that the description does not have belongs to the `int8` tensor `NAME`, if there is one in the file"
    counts = "It is no tensor of the model: it is not unexpected, and counts neither as a tensor nor among the parameters nor for `inconsistent_dtypes`, and neither does an `int8` tensor with scales for the last"
    alone = "Where there is no such `NAME`, it is a tensor like others"
    holds = "\"Tensor NAME.scale holds no scales of NAME\": it has no floats, another shape, or numbers that are not finite and above 0"
    missing = "an `int8` tensor that may be of `int8` has no scale that fits, and another one has"
    only_floats = 'dtypes = ["float32"]'
    of_floats = described(("w", [2, 2]), more=only_floats)
    refusing = described(("w", [2, 2]), more=only_floats + "\naccept_quantized = false")
    groups = {"model.zt": ztensor_of(w=group([[0], [4], [8], [13]], [[0.5]], [[8]], bits=8, group_size=4))[0]}
    columns = described(("w", [4, 1]), more=only_floats)

    def wrong_scale(name, about, scale):
        content = file_of(w=INTEGERS, w__scale=scale)
        return validation(name, about, "4", holds, of_floats, content, 1, 4, ("scale", "w.scale"), ("dtype_mismatch", "w"))

    described_scale = described(("w", [2, 2], 'dtypes = ["int8"]\n'), ("w.scale", [], 'dtypes = ["float64"]\n'))
    two = described(("v", [2]), ("w", [2, 2]))
    return [
        validation("quantized", "integers with a scale where floats are described", "3.2", fits, of_floats, file_of(w=INTEGERS, w__scale=SCALE), 1, 4),
        validation("quantized-by-channel", "integers with a scale for each channel", "3.2", fits, of_floats, file_of(w=INTEGERS, w__scale=floats([2], 63.5, 127.0)), 1, 4),
        validation("quantized-in-groups", "a quantized group where floats are described", "3.2", fits, columns, groups, 1, 4),
        validation("quantized-where-integers-are", "integers with a scale where other integers are described", "3.2", fits, described(("w", [2, 2]), more='dtypes = ["uint8"]'), file_of(w=INTEGERS, w__scale=SCALE), 1, 4, ("dtype_mismatch", "w")),
        validation("quantized-not-accepted", "integers with a scale where nothing quantized is accepted", "3.2", accept, refusing, file_of(w=INTEGERS, w__scale=SCALE), 1, 4, ("dtype_mismatch", "w")),
        validation("quantized-not-accepted-of-any-dtype", "integers with a scale where nothing quantized is accepted and every dtype is", "3.2", accept, described(("w", [2, 2]), more="accept_quantized = false"), file_of(w=INTEGERS, w__scale=SCALE), 1, 4, ("dtype_mismatch", "w")),
        validation("groups-not-accepted", "a quantized group where nothing quantized is accepted", "3.2", accept, described(("w", [4, 1]), more="accept_quantized = false"), groups, 1, 4, ("dtype_mismatch", "w")),
        validation("scale-not-counted", "a scale, and other tensors of another float", "4.1", counts, two, file_of(v=floats([2], 1.0, 2.0), w=INTEGERS, w__scale=SCALE), 2, 6),
        validation("scale-of-nothing", "a tensor that is called as a scale, and no tensor that it is of", "4.1", alone, W, file_of(w=NUMBERS, v__scale=floats([], 1.0)), 2, 5, ("empty_shape", "v.scale"), "unexpected_tensors", "parameter_count"),
        validation("scale-of-floats", "a tensor that is called as a scale of a tensor of floats", "4.1", alone, W, file_of(w=NUMBERS, w__scale=floats([1], 1.0)), 2, 5, "unexpected_tensors", "parameter_count"),
        validation("scale-described", "a scale that the description has", "4.1", belongs, described_scale, file_of(w=INTEGERS, w__scale=SCALE), 2, 5),
        wrong_scale("scale-of-integers", "a scale that is an integer", tensor("i32", [], [63])),
        wrong_scale("scale-of-another-shape", "three scales for two channels", floats([3], 1.0, 2.0, 3.0)),
        wrong_scale("scale-of-zero", "a scale of 0", floats([], 0.0)),
        wrong_scale("scale-below-zero", "a scale below 0", floats([], -1.0)),
        wrong_scale("scale-of-nan", "a scale that is NaN", floats([2], 1.0, math.nan)),
        wrong_scale("scale-of-infinity", "a scale that is infinite", floats([2], 1.0, math.inf)),
        validation("scale-missing", "an int8 tensor without a scale, beside one that has one", "4", missing, two, file_of(v=tensor("i8", [2], [1, 2]), w=INTEGERS, w__scale=SCALE), 2, 6, ("missing_scale", "v")),
        validation("no-scales", "int8 tensors without scales", "4", missing, two, file_of(v=tensor("i8", [2], [1, 2]), w=INTEGERS), 2, 6),
        validation("scale-missing-of-floats", "an int8 tensor without a scale where floats are described", "4", "another dtype than described (§3.2)", of_floats, file_of(w=INTEGERS), 1, 4, ("dtype_mismatch", "w")),
    ]  # fmt: skip
