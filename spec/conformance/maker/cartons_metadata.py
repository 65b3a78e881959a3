"""Cartons whose carton.toml is what the case is about (carton-format.md; carton-format-extensions.md)."""

import ast

from .cartons_contents import case
from .little_carton import LEAST_TOML, sha256, whole
from .zip_records import ZSTD, zstd_block, zstd_frame

TYPES = "A value of the wrong type is refused"
UNKNOWN = "Unknown tables and fields are ignored, so that some can be added without another `spec_version`"
VERSION = "required; anything but 1 is refused"
EXTENSIONS = "carton-format-extensions.md"
REFERENCES = "A reference to what is not there is refused"


def cases():
    return [*tomls(), *cards(), *signatures(), *optional_inputs(), *defaults(), *optional_outputs(), *elements(), *tests()]


def tomls():
    def toml(old, new):
        return lambda c: c.edit("carton.toml", old, new)

    def bad(name, about, words, old, new, reason="metadata", section="`carton.toml`"):
        return case(f"toml-{name}", about, (section, words), toml(old, new), refused=reason)

    def runner(name, value):
        def change(carton):
            carton.edit("carton.toml", '"noop"', f'"{value}"')
            carton.metadata["runner"]["runner_name"] = value

        return case(
            f"runner-name-{name}",
            f"a runner called {value[:20]}",
            ("`carton.toml`", "`runner_name` is made of ASCII letters, digits, `_`, `-` and `.`, at most 128 of them"),
            change,
        )

    def requirement(name, value, refused=None):
        def change(carton):
            carton.edit("carton.toml", '"=1.0.0"', f'"{value}"')
            carton.metadata["runner"]["required_framework_version"] = value

        words = "A requirement is one or more comparators with commas between them, or `*` alone"
        return case(f"requirement-{name}", f"the requirement `{value}`", ("`carton.toml`", words), change, refused=refused)

    def bad_runner(name, value):
        words = "perhaps with one `/` between the name of a vendor and the rest; neither part is `.` or `..`"
        return bad(f"runner-name-{name}", f"a runner called {value[:20]!r}", words, '"noop"', f'"{value}"')

    def platform(name, value, refused=None):
        def change(carton):
            carton.edit("carton.toml", "\n[runner]", f"required_platforms = {value}\n\n[runner]")
            if refused is None and value != "[]":
                carton.metadata["required_platforms"] = [value.strip('[]"')]

        words = "Each of `required_platforms` has the form of a target triple"
        return case(f"platform-{name}", f"required_platforms = {value[:40]}", ("`carton.toml`", words), change, refused=refused)

    def sized(size):
        def change(carton):
            data = LEAST_TOML + b"#" * (size - len(LEAST_TOML))
            blocks = [zstd_block(0, LEAST_TOML)]
            left = size - len(LEAST_TOML)
            while left > 0:
                piece = min(left, 131072)
                left -= piece
                blocks.append(zstd_block(1, b"#", piece, last=left == 0))
            carton.replace("carton.toml", data=data, method=ZSTD, packed=zstd_frame(blocks))

        return change

    def empty_texts(carton):
        texts = ("model_name", "short_description", "model_description", "license", "repository", "homepage")
        carton.edit("carton.toml", "\n[runner]", "".join(f'{text} = ""\n' for text in texts) + "\n[runner]")

    def unknown(carton):
        carton.edit("carton.toml", "\n[runner]", "future = 1\n[other]\nx = 1\n[runner]\nfuture = [1]\n")

    def opts(carton):
        carton.edit("carton.toml", '"=1.0.0"\n', '"=1.0.0"\n[runner.opts]\nlevels = [1, 2]\nname = "x"\non = true\n')
        carton.metadata["runner"]["opts"] = {"levels": [1, 2], "name": "x", "on": True}

    def long_description(carton):
        carton.edit("carton.toml", "\n[runner]", 'short_description = "' + "x" * 101 + '"\n[runner]')
        carton.metadata["short_description"] = "x" * 101

    spec = "spec_version = 1"
    return [
        case("toml-unknown-fields", "tables and fields that a reader does not know", ("`carton.toml`", UNKNOWN), unknown),
        case(
            "toml-empty-texts",
            "optional texts that are empty",
            ("`carton.toml`", "An empty optional text is the same as none"),
            empty_texts,
        ),
        case(
            "toml-long-description",
            "a short description of 101 characters, which is only not written",
            ("`carton.toml`", "written: at most 100 characters"),
            long_description,
        ),
        case(
            "toml-opts",
            "options of the runner",
            ("`carton.toml`", "optional: the runner's own options; the model must run right without them"),
            opts,
        ),
        case("toml-of-4-mib", "carton.toml has exactly 4 MiB", ("`carton.toml`", "At most 4 MiB"), sized(4 << 20)),
        case(
            "toml-too-large",
            "carton.toml has 4 MiB and a byte",
            ("`carton.toml`", "At most 4 MiB"),
            sized((4 << 20) + 1),
            refused="limit",
        ),
        bad("no-toml", "no TOML", "A TOML file", spec, "spec_version"),
        case(
            "toml-not-utf-8",
            "carton.toml is not UTF-8",
            ("`carton.toml`", "A TOML file"),
            lambda c: c.replace("carton.toml", data=LEAST_TOML + b"# \xff"),
            refused="metadata",
        ),
        bad("key-twice", "a key twice", "A TOML file", spec, spec + "\n" + spec),
        bad("version-2", "version 2", VERSION, spec, "spec_version = 2", "unsupported"),
        bad("version-0", "version 0", VERSION, spec, "spec_version = 0", "unsupported"),
        bad("no-version", "no version", VERSION, spec, ""),
        bad("version-float", "a version that is a float", TYPES, spec, "spec_version = 1.0"),
        bad("version-true", "a version that is a boolean", TYPES, spec, "spec_version = true"),
        bad("version-text", "a version that is a text", TYPES, spec, 'spec_version = "1"'),
        bad("name-number", "a name that is a number", TYPES, spec, spec + "\nmodel_name = 3"),
        bad("runner-text", "a runner that is a text", TYPES, "[runner]", 'runner = "noop"\n[other]'),
        bad("opts-list", "options that are a list", TYPES, "[runner]", "[runner]\nopts = []"),
        bad("input-table", "inputs that are one table", TYPES, "[runner]", '[input]\nname = "x"\n[runner]'),
        bad("compat-text", "a compatibility version that is a text", TYPES, "[runner]", '[runner]\nrunner_compat_version = "1"'),
        bad(
            "compat-negative",
            "a compatibility version below 0",
            "an integer of 0 or more",
            "[runner]",
            "[runner]\nrunner_compat_version = -1",
        ),
        bad("no-runner", "no runner", "required", "[runner]", "[other]"),
        bad("no-runner-name", "no name of the runner", "required", 'runner_name = "noop"', ""),
        bad(
            "no-framework-version",
            "no version of the framework",
            "required: a requirement of semantic versions",
            'required_framework_version = "=1.0.0"',
            "",
        ),
        runner("vendor", "vendor/some-runner_1.0"),
        runner("of-128", "r" * 128),
        bad_runner("of-129", "r" * 129),
        bad_runner("empty", ""),
        bad_runner("two-slashes", "a/b/c"),
        bad_runner("upwards", "vendor/.."),
        bad_runner("space", "a b"),
        bad_runner("other-letters", "läufer"),
        requirement("list", ">=1.12, <2"),
        requirement("partial", "1"),
        requirement("tilde", "~1.2"),
        requirement("caret", "^1.2.3-beta.1"),
        requirement("star", "*"),
        requirement("wildcard", "1.2.*"),
        requirement("words", "the latest", refused="metadata"),
        requirement("empty", "", refused="metadata"),
        requirement("four-parts", "=1.2.3.4", refused="metadata"),
        requirement("leading-zero", "=01.2", refused="metadata"),
        requirement("trailing-comma", "1,", refused="metadata"),
        platform("none", "[]"),
        platform("unknown", '["some-machine"]'),
        platform("one-part", '["linux"]', refused="metadata"),
        platform("empty-part", '["x86_64--linux"]', refused="metadata"),
        platform("too-long", '["' + "a" * 50 + "-" + "b" * 50 + '"]', refused="metadata"),
        platform("number", "[1]", refused="metadata"),
        platform("text", '"x86_64-unknown-linux-gnu"', refused="metadata"),
    ]


def cards():
    """Cards are not in `reads`: what is shown is that none of them changes what else a reader says."""
    section, never = "Model cards", "A card is never a reason to refuse a carton"
    refused = "Refused in it are anchors, aliases, tags, keys that are no texts or occur twice"

    def card(name, about, words, text):
        return case(f"card-{name}", about, (section, words), lambda c: c.edit("carton.toml", "\n[runner]", text + "\n[runner]"), page=EXTENSIONS)

    def readme(name, about, words, text):
        return case(f"card-readme-{name}", about, (section, words), lambda c: c.add("misc/README.md", text), page=EXTENSIONS)

    return [
        card("whole", "a card", "`carton.toml` may say what a model is for", '[card]\ntags = ["digits"]\n[[card.results]]\nmetric = "accuracy"\nvalue = 0.98\n'),
        card("text", "a card that is a text", never, 'card = "a model of digits"\n'),
        card("other-types", "a card in which nothing has its type", never, "[card]\ntags = 1.5\nintended_use = []\nresults = true\nbase_model = [{}]\n"),
        readme("whole", "a card in a README", "its first line is `---`", b"---\ntags: [digits]\nlicense: mit\n---\nDigits.\n"),
        readme("cut-off", "a card in a README that does not end", never, b"---\ntags: [digits\n"),
        readme("anchors", "a card in a README with an anchor and an alias", refused, b"---\ntags: &tags [digits]\nlanguage: *tags\n---\n"),
        readme("key-twice", "a card in a README with a key twice", refused, b"---\nlicense: mit\nlicense: apache-2.0\n---\n"),
        readme("not-utf-8", "a card in a README that is not UTF-8", never, b"---\ntags: [\xff]\n---\n"),
    ]


INPUT = '[[input]]\nname = "x"\ndtype = "float32"\nshape = [3]\n'
OUTPUT = '[[output]]\nname = "y"\ndtype = "float32"\nshape = [3]\n'
X = {"name": "x", "dtype": "float32", "shape": [3]}
Y = {"name": "y", "dtype": "float32", "shape": [3]}


def with_signature(text, **metadata):
    """Adds tables to carton.toml, and what a reader must make of them."""

    def change(carton):
        carton.edit("carton.toml", "[runner]", text + "[runner]")
        carton.metadata.update(metadata)

    return change


def signatures():
    both = "if there is one of either, all inputs and outputs must be there"
    section = "Inputs and outputs"

    def good(name, about, words, text, section=section, by="format", **metadata):
        return case(f"signature-{name}", about, (section, words), with_signature(text, **metadata), by=by)

    def bad(name, about, words, text):
        return case(f"signature-{name}", about, (section, words), with_signature(text), refused="metadata")

    def of(**fields):
        """An input with some fields replaced, as TOML."""
        values = {"name": '"x"', "dtype": '"float32"', "shape": "[3]", **fields}
        return "[[input]]\n" + "".join(f"{key} = {value}\n" for key, value in values.items() if value) + OUTPUT

    def outputs_and_example(carton):
        example = '[[example]]\ninputs = { a = "@misc/a" }\n'
        carton.add("misc/a", b"x")
        with_signature(OUTPUT + example, outputs=[Y], examples=[{"inputs": {"a": "@misc/a"}, "sample_out": {}}])(carton)

    dtypes = "float32 float64 string int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()
    each = "".join(f'[[input]]\nname = "{dtype}"\ndtype = "{dtype}"\nshape = []\n' for dtype in dtypes)
    odd = "What is odd"
    sizes_ = 'a list with one item a dimension: a size of 0 or more, a symbol, or `"*"`; the empty list is a scalar'
    return [
        good("both", "an input and an output", both, INPUT + OUTPUT, inputs=[X], outputs=[Y]),
        good(
            "no-inputs",
            "a model without inputs",
            "A model without inputs has `input = []`",
            "input = []\n" + OUTPUT,
            inputs=[],
            outputs=[Y],
        ),
        good(
            "dtypes",
            "every dtype, for scalars",
            "`dtype` is one of",
            each + OUTPUT,
            inputs=[{"name": d, "dtype": d, "shape": []} for d in dtypes],
            outputs=[Y],
        ),
        good(
            "sizes-and-symbols",
            "sizes, symbols and `*`",
            sizes_,
            of(shape='[0, "n", "*", 9223372036854775807]'),
            inputs=[{**X, "shape": [0, "n", "*", 2**63 - 1]}],
            outputs=[Y],
        ),
        good("any-shape", "any shape", '`"*"`: any shape', of(shape='"*"'), inputs=[{**X, "shape": "*"}], outputs=[Y]),
        good(
            "symbol-for-a-shape",
            "a symbol for a whole shape",
            "another string: a symbol for the whole shape",
            of(shape='"s"'),
            inputs=[{**X, "shape": "s"}],
            outputs=[Y],
        ),
        good("inputs-alone", "inputs without outputs", "`[[input]]` alone", INPUT, section=odd, by="carton", inputs=[X]),
        good(
            "outputs-alone",
            "outputs without inputs",
            "which a reader also takes from `[[output]]` alone",
            OUTPUT,
            inputs=[],
            outputs=[Y],
        ),
        case(
            "signature-outputs-alone-with-inputs",
            "outputs alone, and an example that has inputs",
            (odd, "`[[output]]` alone, and self-tests or examples with inputs"),
            outputs_and_example,
            by="carton",
        ),
        good(
            "name-twice",
            "a name that two inputs have",
            "a name that several inputs, or several outputs, have",
            INPUT + INPUT + OUTPUT,
            section=odd,
            by="carton",
            inputs=[X, X],
            outputs=[Y],
        ),
        good(
            "empty-name",
            "an input without a name",
            "an empty name",
            of(name='""'),
            section=odd,
            by="carton",
            inputs=[{**X, "name": ""}],
            outputs=[Y],
        ),
        good(
            "empty-symbols",
            "empty symbols",
            'the same as `"*"`',
            of(shape='["", 3]') + '[[output]]\nname = "z"\ndtype = "int8"\nshape = ""\n',
            section=odd,
            by="carton",
            inputs=[{**X, "shape": ["*", 3]}],
            outputs=[Y, {"name": "z", "dtype": "int8", "shape": "*"}],
        ),
        bad("no-name", "an input without a field `name`", both, of(name="")),
        bad("no-dtype", "an input without a dtype", both, of(dtype="")),
        bad("no-shape", "an input without a shape", both, of(shape="")),
        bad("dtype-bool", "a dtype that the format does not have", "`dtype` is one of", of(dtype='"bool"')),
        bad("dtype-upper-case", "a dtype in upper case", "`dtype` is one of", of(dtype='"Float32"')),
        bad("size-negative", "a size below 0", sizes_, of(shape="[-1]")),
        bad("size-float", "a size that is a float", sizes_, of(shape="[1.0]")),
        bad("size-true", "a size that is a boolean", sizes_, of(shape="[true]")),
        bad("shape-number", "a shape that is a number", sizes_, of(shape="3")),
        bad("shape-nested", "a list in a shape", sizes_, of(shape="[[3]]")),
    ]


def optional_inputs():
    section = "Optional inputs and outputs"
    inputs = INPUT + '[[input]]\nname = "mask"\ndtype = "int8"\nshape = [1]\n'
    mask = {"name": "mask", "dtype": "int8", "shape": [1]}
    test = '[[self_test]]\ninputs = { x = "@tensor_data/t" }\n'
    test_as_read = {"self_tests": [{"inputs": {"x": "@tensor_data/t"}}]}
    tensor = '[[tensor]]\nname = "t"\ndtype = "int8"\nshape = [1]\nfile = "t.bin"\ninner = []\n'
    missing = "A missing input is an error unless it is optional"
    by_tests = "Without `optional` and `default`, an input is optional if one of the carton's own self-tests leaves it out"
    by_examples = "or one of its examples that has all the data of a call"
    shown = "Any other example, such as one that shows a picture, says nothing about the inputs that it leaves out"
    must_be_there = "`optional = false` is an input that must be there, whatever self-tests and examples leave out"
    booleans = "An `optional` other than `true` or `false` is refused"

    def make(name, about, words, optional, call="", as_read=None, answer=None, refused=None):
        def change(carton):
            line = "" if optional is None else f"optional = {optional}\n"
            metadata = {"inputs": [X, {**mask, **({} if optional is None else {"optional": optional == "true"})}], "outputs": [Y]}
            if "@tensor_data/" in call:
                carton.add("tensor_data/index.toml", tensor.encode())
                carton.add("tensor_data/t.bin", b"\x05")
                carton.tensors = [{"name": "t", "dtype": "int8", "shape": [1], "sha256": sha256(b"\x05")}]
            if "@misc/" in call:
                carton.add("misc/x.png", b"a picture")
            with_signature(inputs + line + OUTPUT + call, **metadata, **(as_read or {}))(carton)
            carton.optional_inputs = answer or []

        return case(f"optional-{name}", about, (section, words), change, refused=refused, page=EXTENSIONS)

    def example(name, about, words, given, returned, answer=None):
        def table(references):
            return "{ " + ", ".join(f'{key} = "{value}"' for key, value in references.items()) + " }"

        call = f"[[example]]\ninputs = {table(given)}\nsample_out = {table(returned)}\n"
        as_read = {"examples": [{"inputs": given, "sample_out": returned}]}
        return make(f"example-{name}", about, words, None, call, as_read, answer)

    stored, picture = "@tensor_data/t", "@misc/x.png"
    return [
        make("true", "an input that may be missing", missing, "true", answer=["mask"]),
        make("absent", "no field and no self-test: every input must be there", missing, None),
        make("by-self-test", "a self-test leaves an input out", by_tests, None, test, test_as_read, ["mask"]),
        make("false", "a self-test leaves out an input that must be there", must_be_there, "false", test, test_as_read),
        example("call", "an example of a call leaves an input out", by_examples, {"x": stored}, {"y": stored}, ["mask"]),
        example("with-pictured-output", "its output is a picture", by_examples, {"x": stored}, {"y": picture}, ["mask"]),
        example("of-a-picture", "an example that shows only the picture that is an input", shown, {"x": picture}, {"y": stored}),
        example("without-outputs", "an example without outputs", by_examples, {"x": stored}, {}),
        example("without-inputs", "an example without inputs", by_examples, {}, {"y": stored}),
        make("text", "something else than a boolean", booleans, '"yes"', refused="metadata"),
        make("number", "a number", booleans, "1", refused="metadata"),
    ]


def defaults():
    section = "Optional inputs and outputs"
    tensor = '[[tensor]]\nname = "t"\ndtype = "float32"\nshape = [3]\nfile = "t.bin"\ninner = []\n'
    content = bytes(12)
    names = "`default` names a tensor of `tensor_data`"
    other = "A `default` that is no text of the form `@tensor_data/NAME` means nothing"

    def make(name, about, words, lines, known, answer, refused=None):
        def change(carton):
            carton.add("tensor_data/index.toml", tensor.encode())
            carton.add("tensor_data/t.bin", content)
            carton.tensors = [{"name": "t", "dtype": "float32", "shape": [3], "sha256": sha256(content)}]
            with_signature(INPUT + lines + OUTPUT, inputs=[{**X, **known}], outputs=[Y])(carton)
            carton.optional_inputs = answer

        return case(f"default-{name}", about, (section, words), change, refused=refused, page=EXTENSIONS)

    stored = {"default": "@tensor_data/t"}
    line = 'default = "@tensor_data/t"\n'
    must = "An input with a default is optional, unless `optional = false` says otherwise"
    dangling = "one that names a tensor which is not there is refused"
    return [
        make("tensor", "an input with a default", names, line, stored, ["x"]),
        make("not-optional", "a default of an input that must be there", must, line + "optional = false\n", {**stored, "optional": False}, []),
        make("dangling", "a default that is not there", dangling, 'default = "@tensor_data/u"\n', {}, [], refused="metadata"),
        make("misc", "a default that is another file", other, 'default = "@misc/t"\n', {}, []),
        make("number", "a default that is a number", other, "default = 3\n", {}, []),
        make("empty", "a default without a name", other, 'default = "@tensor_data/"\n', {}, []),
    ]


def optional_outputs():
    section = "Optional inputs and outputs"

    def make(name, about, words, line, known):
        change = with_signature(INPUT + OUTPUT + line, inputs=[X], outputs=[{**Y, **known}])
        return case(f"optional-output-{name}", about, (section, words), change, page=EXTENSIONS)

    missing = "A missing output is an error unless it has `optional = true`"
    nothing = "For an output, `false` and `default` mean nothing"
    return [
        make("true", "an output that may be missing", missing, "optional = true\n", {"optional": True}),
        make("false", "an output that is not optional", nothing, "optional = false\n", {}),
        make("default", "an output with a default", nothing, 'default = "@tensor_data/t"\n', {}),
    ]


def elements():
    section = "What elements are"
    bools = "0 is false, 1 is true"
    short = "the same number"
    parts = "the real and the imaginary part, in one more dimension: the last, of size 2"
    base64 = "base64 (RFC 4648, section 4, with padding) of the bytes"
    text = "Where `shape` is a text, it stands for the shape of the tensor itself"
    unknown = "A value that a reader does not know says nothing"

    def make(name, about, words, lines, shape="[1]", **known):
        def change(carton):
            mask = {"name": "mask", "shape": ast.literal_eval(shape), **known}
            output = {**mask, "name": "kept"}
            texts = [f'[[{side}]]\nname = "{one["name"]}"\nshape = {shape}\n{lines}\n' for side, one in (("input", mask), ("output", output))]
            with_signature("".join(texts), inputs=[mask], outputs=[output])(carton)

        return case(f"element-{name}", about, (section, words), change, page=EXTENSIONS)

    return [
        make("bool", "booleans", bools, 'dtype = "uint8"\nelement = "bool"', dtype="uint8", element="bool"),
        *(
            make(name.replace("_", "-"), f"a dtype that float32 carries: {name}", short, f'dtype = "float32"\nelement = "{name}"', dtype="float32", element=name)
            for name in ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")
        ),
        make("bytes", "bytes", base64, 'dtype = "string"\nelement = "bytes"', dtype="string", element="bytes"),
        make("complex64", "complex numbers", parts, 'dtype = "float32"\nelement = "complex64"', "[3, 2]", dtype="float32", element="complex64"),
        make("complex128", "long complex numbers", parts, 'dtype = "float64"\nelement = "complex128"', "[2]", dtype="float64", element="complex128"),
        make("complex-symbol", "complex numbers of any shape", text, 'dtype = "float32"\nelement = "complex64"', '"s"', dtype="float32", element="complex64"),
        make("complex-of-three", "complex numbers that are no pairs", unknown, 'dtype = "float32"\nelement = "complex64"', "[2, 3]", dtype="float32"),
        make("complex-scalar", "a complex number without a dimension of parts", unknown, 'dtype = "float32"\nelement = "complex64"', "[]", dtype="float32"),
        make("complex-in-symbol", "complex numbers in a dimension of any size", unknown, 'dtype = "float32"\nelement = "complex64"', '["n"]', dtype="float32"),
        make("unknown", "a value of later versions", unknown, 'dtype = "float32"\nelement = "float4"', dtype="float32"),
        make("number", "a value of another type", unknown, 'dtype = "uint8"\nelement = 7', dtype="uint8"),
        make("upper-case", "a value in upper case", unknown, 'dtype = "uint8"\nelement = "Bool"', dtype="uint8"),
        make(
            "other-dtype",
            "booleans beside another dtype",
            "neither does a value beside another `dtype` than its carrier",
            'dtype = "int8"\nelement = "bool"',
            dtype="int8",
        ),
    ]


def tests():
    section = "References"
    self_tests = "Self-tests and examples"

    def bad(name, about, shows, old, new):
        return case(f"test-{name}", about, shows, lambda c: c.edit("carton.toml", old, new), refused="metadata", base=whole)

    image = 'image = "@tensor_data/image", words'
    return [
        bad(
            "no-such-tensor",
            "a reference to a tensor that is not there",
            (section, REFERENCES),
            image,
            'image = "@tensor_data/nothing", words',
        ),
        bad(
            "no-such-file",
            "a reference to a file that is not there",
            (section, REFERENCES),
            'image = "@misc/seven.png"',
            'image = "@misc/eight.png"',
        ),
        bad("no-reference", "a value that is no reference", (section, REFERENCES), image, 'image = "image", words'),
        bad(
            "file-in-self-test",
            "a self-test that refers to a file",
            (self_tests, "Self-tests refer to tensors only"),
            image,
            'image = "@misc/seven.png", words',
        ),
        bad(
            "file-of-the-model",
            "an example that refers to a file of the model",
            (self_tests, "may refer to files in `misc/` too"),
            'image = "@misc/seven.png"',
            'image = "@model/digits.onnx"',
        ),
        bad(
            "without-inputs",
            "a self-test without inputs",
            (self_tests, "required"),
            "[[example]]",
            '[[self_test]]\nexpected_out = { digit = "@tensor_data/digit" }\n[[example]]',
        ),
        bad("value-number", "a reference that is a number", ("`carton.toml`", TYPES), image, "image = 3, words"),
    ]
