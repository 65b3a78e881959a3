"""Reads carton.toml (carton-format.md, "carton.toml"; carton-format-extensions.md, "Optional inputs and outputs"). Pure."""

import re
import sys

try:
    import tomllib
except ImportError:
    sys.exit("this reader needs Python 3.11 or newer, whose standard library has a TOML reader")

import elements
from refusal import Refused

MAX_TOML = 4 << 20
TENSOR_DATA = "@tensor_data/"
DTYPES = "float32 float64 string int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()
TEXTS = ("model_name", "short_description", "model_description", "license", "repository", "homepage")
RUNNER_NAME = re.compile(r"[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)?")
TARGET_TRIPLE = re.compile(r"[A-Za-z0-9_.]+(-[A-Za-z0-9_.]+)+")
IDENTIFIERS = r"[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*"
NUMBER = r"(0|[1-9][0-9]*)"
COMPARATOR = re.compile(
    rf" *(=|>=|>|<=|<|~|\^)? *{NUMBER}(\.([*xX](\.[*xX])?|{NUMBER}(\.([*xX]|{NUMBER}(-{IDENTIFIERS})?(\+{IDENTIFIERS})?))?))? *"
)


def parse_toml(content, what, reason, max_size):
    """A TOML file as a dict."""
    if len(content) > max_size:
        raise Refused("limit", f"{what} has {len(content)} bytes; at most {max_size} are allowed")
    try:
        return tomllib.loads(content.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise Refused(reason, f"{what} is not TOML: {error}") from error


class Table:
    """A table whose values are taken by name and type. Fields that nobody asks for are ignored."""

    def __init__(self, values, where, reason="metadata"):
        self.values, self.where, self.reason = values, where, reason
        if not isinstance(values, dict):
            raise self.refusal("it is not a table")

    def refusal(self, text):
        return Refused(self.reason, f"{self.where}: {text}")

    def take(self, name, kind, required=False):
        value = self.values.get(name)
        if value is None:
            if required:
                raise self.refusal(f"`{name}` is missing")
            return None
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise self.refusal(f"`{name}` has a wrong type")
        return value

    def tables(self, name):
        """A list of tables, or None where there is none."""
        values = self.take(name, list)
        if values is None:
            return None
        return [Table(value, f"{self.where}, {name}[{n}]", self.reason) for n, value in enumerate(values)]

    def texts(self, *names):
        """Those of some optional texts that are there. An empty one is the same as none."""
        taken = {name: self.take(name, str) for name in names}
        return {name: text for name, text in taken.items() if text}


def parse(content):
    """carton.toml as the corpus has it: known fields only, with defaults filled in."""
    root = Table(parse_toml(content, "carton.toml", "metadata", MAX_TOML), "carton.toml")
    if root.take("spec_version", int, required=True) != 1:
        raise Refused("unsupported", "carton.toml: only version 1 of the format is read")
    metadata = {"spec_version": 1, **root.texts(*TEXTS)}
    platforms = root.take("required_platforms", list)
    if platforms:
        for platform in platforms:
            if not isinstance(platform, str) or len(platform) > 100 or not TARGET_TRIPLE.fullmatch(platform):
                raise root.refusal(f"{platform!r} has not the form of a target triple")
        metadata["required_platforms"] = platforms
    metadata["runner"] = _runner(Table(root.take("runner", dict, required=True), "carton.toml, runner"))
    for side in ("input", "output"):
        declared = root.tables(side)
        if declared is not None:
            metadata[f"{side}s"] = [_declaration(table, side) for table in declared]
    if root.tables("self_test"):
        metadata["self_tests"] = [
            _test(table, {"inputs": True, "expected_out": False}, misc=False) for table in root.tables("self_test")
        ]
    if root.tables("example"):
        metadata["examples"] = [_test(table, {"inputs": False, "sample_out": False}, misc=True) for table in root.tables("example")]
    has_inputs = any(test.get("inputs") for test in (*metadata.get("self_tests", ()), *metadata.get("examples", ())))
    if "outputs" in metadata and "inputs" not in metadata and not has_inputs:
        metadata["inputs"] = []
    return metadata


def _runner(table):
    name = table.take("runner_name", str, required=True)
    if len(name) > 128 or not RUNNER_NAME.fullmatch(name) or any(part in (".", "..") for part in name.split("/")):
        raise table.refusal(f"{name!r} is not the name of a runner")
    requirement = table.take("required_framework_version", str, required=True)
    if requirement.strip(" ") not in ("*", "x", "X"):
        if not all(COMPARATOR.fullmatch(comparator) for comparator in requirement.split(",")):
            raise table.refusal(f"{requirement!r} is not a requirement of a version")
    version = table.take("runner_compat_version", int)
    if version is not None and version < 0:
        raise table.refusal("`runner_compat_version` is negative")
    opts = table.take("opts", dict) or {}
    return {
        "runner_name": name,
        "required_framework_version": requirement,
        "runner_compat_version": 1 if version is None else version,
        **({"opts": opts} if opts else {}),
    }


def _declaration(table, side):
    """An input or an output. An empty symbol is the same as "*"."""
    dtype = table.take("dtype", str, required=True)
    if dtype not in DTYPES:
        raise table.refusal(f"{dtype!r} is not a dtype")
    shape = table.take("shape", (list, str), required=True)
    if isinstance(shape, str):
        shape = shape or "*"
    else:
        for size in shape:
            if isinstance(size, bool) or not isinstance(size, (int, str)) or (isinstance(size, int) and size < 0):
                raise table.refusal(f"{size!r} is neither a size nor a symbol")
        shape = ["*" if size == "" else size for size in shape]
    declaration = {"name": table.take("name", str, required=True), "dtype": dtype, "shape": shape}
    declaration.update(table.texts("description", "internal_name"))
    # A later version may say more here, in any form.
    element = elements.of(dtype, table.take("element", object))
    if element is not None and not (elements.is_complex(element) and isinstance(shape, list) and shape[-1:] != [2]):
        declaration["element"] = element
    optional = table.take("optional", bool)
    if optional is not None and (side == "input" or optional):
        declaration["optional"] = optional
    default = table.take("default", object)
    if side == "input" and isinstance(default, str) and default.startswith(TENSOR_DATA) and default != TENSOR_DATA:
        declaration["default"] = default
    return declaration


def _test(table, sides, misc):
    """A self-test or an example."""
    test = table.texts("name", "description")
    for side, required in sides.items():
        references = table.take(side, dict, required=required)
        if references is None:
            if misc:
                test[side] = {}
            continue
        for name, reference in references.items():
            prefixes = ("@tensor_data/", "@misc/") if misc else ("@tensor_data/",)
            if not isinstance(reference, str) or not reference.startswith(prefixes):
                raise table.refusal(f"`{side}.{name}` does not refer to what it may")
        test[side] = references
    return test


def references(metadata):
    """What defaults, self-tests and examples refer to."""
    yield from (tensor["default"] for tensor in metadata.get("inputs", ()) if "default" in tensor)
    for test in (*metadata.get("self_tests", ()), *metadata.get("examples", ())):
        for side in ("inputs", "expected_out", "sample_out"):
            yield from test.get(side, {}).values()


def optional_inputs(metadata):
    """The names of the inputs that callers may leave out (carton-format-extensions.md, "Optional inputs and outputs")."""
    calls = [test["inputs"] for test in metadata.get("self_tests", ())]
    calls += [example["inputs"] for example in metadata.get("examples", ()) if _is_call(example)]
    return [
        tensor["name"]
        for tensor in metadata.get("inputs", ())
        if tensor.get("optional", "default" in tensor or any(tensor["name"] not in call for call in calls))
    ]


def _is_call(example):
    """Whether an example has all the data of a call."""
    inputs = example["inputs"].values()
    return bool(inputs) and all(value.startswith("@tensor_data/") for value in inputs) and bool(example["sample_out"])
