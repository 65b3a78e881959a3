"""Runs ONNX's own backend suite through `carton run`, and compares the results with the stored table, `results.txt`.

    python=$(runners/onnx/tests/suite/setup.sh target/test-onnx)
    ORT_DYLIB_PATH=LIBRARY $python runners/onnx/tests/suite/run.py --carton target/debug/carton [--part 1/10] [--update]

Each case has one of these outcomes:

- `equal`: the outputs are those of the suite, within its tolerance, and bit for bit those of ONNX Runtime's Python package;
- `as ONNX Runtime`: the suite's tolerance is missed, by ONNX Runtime itself: Carton's outputs are bit for bit the same;
- `random`: the model draws random numbers; dtypes and shapes are right;
- `refused: REASON`: Carton says that its tensors cannot hold an input or output;
- `ONNX Runtime: REASON`: its Python package refuses the model or the inputs too.

Anything else is `WRONG` and fails the run, whatever the table says.
"""

import argparse
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnxruntime

import cases

TABLE = Path(__file__).with_name("results.txt")
TIMEOUT = 120

# The dtypes whose tensors `carton run` gets as their carrier, float32: .npy has no name for them.
CARRIED = {
    np.dtype(getattr(ml_dtypes, name)): name
    for name in ["bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"]
}
NAMES = {name: dtype for dtype, name in CARRIED.items()}

# The outcome where not ONNX Runtime refuses a model, but its Python package, whose arrays have no bfloat16 and float8.
NOT_CARRIED = "its package cannot carry the tensors"

RANDOM = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}

# How Carton says that a tensor cannot hold a value, and the class of that reason.
UNSUPPORTED = re.compile(r"\bis (?:an? )?(\w[\w ]*), which (?:Carton's tensors do|ONNX Runtime does) not have")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--carton", required=True, help="the program")
    parser.add_argument("--part", default="1/1", help="K/N: only every Nth case, beginning with the Kth")
    parser.add_argument("--update", action="store_true", help="write the table")
    parser.add_argument("--only", help="only cases whose names match this regular expression; each outcome is printed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    position, count = map(int, arguments.part.split("/"))
    onnxruntime.set_default_logger_severity(4)
    with tempfile.TemporaryDirectory() as folder:
        chosen = cases.collect(Path(folder) / "models")[position - 1 :: count]
        if arguments.only:
            chosen = [case for case in chosen if re.search(arguments.only, case.name)]
        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
            outcomes = pool.map(lambda case: outcome(case, arguments.carton), chosen)
            found = {case.name: result for case, result in zip(chosen, outcomes)}
    print(", ".join(f"{n} {what}" for what, n in Counter(value.split(":")[0] for value in found.values()).items()))
    wrong = {name: value for name, value in found.items() if value.startswith("WRONG")}
    for name, value in (found if arguments.only else wrong).items():
        print(f"{name}: {value}")
    if arguments.update and count == 1 and not arguments.only and not wrong:
        write(found)
    changed = changes(found)
    for line in changed:
        print(line)
    failed = len(wrong) + len(changed)
    print(f"{len(found) - failed} passed, {failed} failed")
    return 1 if failed else 0


def outcome(case, program):
    """Runs a case, and says how it ended."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            theirs = runtime(case)
        except Exception as error:
            theirs = refusal(error)
        if theirs == NOT_CARRIED:
            try:
                theirs = runtime(case, widened(onnx.load(case.model)))
            except Exception as error:
                theirs = refusal(error)
        mine = carton(case, program, Path(folder))
    if isinstance(mine, str):
        if "panicked" in mine or mine.startswith("exit code"):
            return f"WRONG: {mine}"
        unsupported = UNSUPPORTED.search(mine)
        if unsupported:
            return f"refused: {unsupported[1]}"
        return f"ONNX Runtime: {theirs}" if isinstance(theirs, str) else f"WRONG: refused, ONNX Runtime runs it: {mine}"
    if isinstance(theirs, str):
        return f"WRONG: ONNX Runtime refuses it: {theirs}"
    model = onnx.load(case.model, load_external_data=False)
    if any(node.op_type in RANDOM for node in nodes(model.graph)):
        same = all(dtype_of(one) == dtype_of(two) and one.shape == two.shape for one, two in zip(mine, theirs))
        return "random" if same else "WRONG: dtypes or shapes of random numbers"
    for value, one, two in zip(model.graph.output, mine, theirs, strict=True):
        if not identical(one, two):
            return f"WRONG: `{value.name}` is {describe(one)}, ONNX Runtime has {describe(two)}"
        for tensor in one if isinstance(one, list) else [one]:
            if tensor is not None and dtype_of(tensor) != element_of(value.type):
                return f"WRONG: `{value.name}` is {dtype_of(tensor)}, the model declares {element_of(value.type)}"
    return "equal" if meets(case, mine) else "as ONNX Runtime"


def carton(case, program, folder):
    """Returns the outputs in the model's order, or the message of a refusal."""
    names = [value.name for value in onnx.load(case.model, load_external_data=False).graph.output]
    command = [program, "run", case.model, "--runner", "onnx", "--framework-version", ">=1", "--json"]
    if any(isinstance(value, list) for value in case.inputs.values()):
        # JSON has the dtype that a carton declares.
        packed = folder / "model.carton"
        ended = subprocess.run([program, "pack", case.model, "--no-check", "-o", packed], capture_output=True, text=True, check=False)
        if ended.returncode != 0:
            return ended.stderr
        command = [program, "run", packed, "--json"]
    for position, (name, value) in enumerate(case.inputs.items()):
        if isinstance(value, list):
            # The value of an input that begins with a bracket is JSON.
            command += ["-i", f"{name}={json.dumps([data(one) for one in value])}"]
        elif isinstance(value, np.ndarray) and (value.dtype.kind in "Ubiuf" or value.dtype in CARRIED):
            np.save(folder / f"{position}.npy", value.astype(np.float32) if value.dtype in CARRIED else value)
            command += ["-i", f"{name}={folder}/{position}.npy"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    if ended.returncode != 0:
        known = ended.returncode in (1, 3, 5, 6)
        # With `--json` the error is on standard output.
        message = ended.stdout + ended.stderr
        return message if known else f"exit code {ended.returncode}: {message}"
    outputs = json.loads(ended.stdout)["outputs"]
    return [from_json(outputs[name]) if name in outputs else None for name in names]


def data(value):
    """An array as nested lists of JSON."""
    return [data(one) for one in value] if value.ndim else number(value.item())


def number(value):
    if isinstance(value, float) and not np.isfinite(value):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    return value


def from_json(output):
    """The array, or the list of arrays, that `carton run --json` prints."""
    name = output["dtype"]
    if "shapes" in output:
        return [from_json({"dtype": name, "shape": shape, "data": one}) for shape, one in zip(output["shapes"], output["data"])]
    flat = output["data"]
    for _ in output["shape"][1:]:
        flat = [one for row in flat for one in row]
    flat = flat if isinstance(flat, list) else [flat]
    if name == "string":
        return np.array(flat or [""])[: len(flat)].reshape(output["shape"])
    words = {"NaN": np.nan, "Infinity": np.inf, "-Infinity": -np.inf}
    return np.array([words.get(one, one) for one in flat], NAMES.get(name, name)).reshape(output["shape"])


def runtime(case, model=None):
    """What ONNX Runtime's own package returns, in the model's dtypes."""
    session = onnxruntime.InferenceSession(model or case.model, providers=["CPUExecutionProvider"])
    given = {name: native(value) for name, value in case.inputs.items()}
    if model:
        given = {name: wide(value) for name, value in given.items()}
    # Those that a case leaves out are optional.
    absent = {value.name: None for value in session.get_inputs() if value.name not in given}
    returned = session.run(None, given | absent)
    declared = onnx.load(case.model, load_external_data=False).graph.output
    return [returned_as(value.type, one) for value, one in zip(declared, returned)]


def returned_as(declared, value):
    """What the package returned, in the dtype that the model declares, if its outputs were widened."""
    if value is None:
        return None
    if isinstance(value, list):
        return [returned_as(declared, one) for one in value]
    value = np.asarray(value)
    if value.dtype == object:
        value = value.astype(str) if value.size else np.empty(value.shape, "<U1")
    dtype = NAMES.get(element_of(declared))
    if dtype is None:
        return value
    # Where the package returns a float8 at all, it returns its bytes.
    return value.view(dtype) if value.dtype == np.uint8 else value.astype(dtype)


def wide(value):
    if isinstance(value, list):
        return [wide(one) for one in value]
    return value.astype(np.float32) if isinstance(value, np.ndarray) and value.dtype in CARRIED else value


def element_type(declared):
    """The number of the element type of a tensor, or of the tensors of a sequence, or of either as an optional value."""
    kind = declared.WhichOneof("value")
    return declared.tensor_type.elem_type if kind == "tensor_type" else element_type(getattr(declared, kind).elem_type)


def element_of(declared):
    """The name of that dtype."""
    element = element_type(declared)
    return "string" if element == onnx.TensorProto.STRING else onnx.helper.tensor_dtype_to_np_dtype(element).name


def dtype_of(array):
    return "string" if array.dtype.kind == "U" else array.dtype.name


def widened(model):
    """The model with float32 in place of its inputs and outputs in bfloat16 and float8, which ONNX Runtime's package cannot carry: both casts are
    exact."""
    graph = model.graph
    for value in list(graph.input) + list(graph.output):
        if value.type.WhichOneof("value") != "tensor_type" or element_of(value.type) not in NAMES:
            continue
        element = value.type.tensor_type.elem_type
        inner, is_input = f"{value.name}_narrow", value in graph.input
        for node in graph.node:
            names = node.input if is_input else node.output
            names[:] = [inner if name == value.name else name for name in names]
        to = element if is_input else onnx.TensorProto.FLOAT
        ends = ([value.name], [inner]) if is_input else ([inner], [value.name])
        cast = onnx.helper.make_node("Cast", *ends, to=to)
        graph.node.insert(0, cast) if is_input else graph.node.append(cast)
        value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    return model.SerializeToString()


def native(value):
    if isinstance(value, list):
        return [native(one) for one in value]
    return value.astype(object) if isinstance(value, np.ndarray) and value.dtype.kind == "U" else value


def identical(one, two):
    if one is None or two is None:
        return one is two
    if isinstance(one, list) or isinstance(two, list):
        return type(one) is type(two) and len(one) == len(two) and all(map(identical, one, two))
    if dtype_of(one) != dtype_of(two) or one.shape != two.shape:
        return False
    if one.dtype.kind == "f" or one.dtype in CARRIED:
        one, two = one.astype(np.float64), two.astype(np.float64)
        zero = np.signbit(one[one == 0]), np.signbit(two[two == 0])
        return np.array_equal(one, two, equal_nan=True) and np.array_equal(*zero)
    return np.array_equal(one, two)


def meets(case, outputs):
    """Whether the outputs are those of the suite, as onnx.backend.test compares them."""
    return all(is_close(case, found, expected) for found, expected in zip(outputs, case.outputs))


def is_close(case, found, expected):
    if found is None or expected is None:
        return found is expected
    if isinstance(found, list) or isinstance(expected, list):
        same = type(found) is type(expected) and len(found) == len(expected)
        return same and all(is_close(case, one, two) for one, two in zip(found, expected))
    if dtype_of(found) != dtype_of(expected) or found.shape != expected.shape:
        return False
    if found.dtype.kind == "U":
        return np.array_equal(found, expected)
    rtol = max(case.rtol, 2**-6) if expected.dtype == ml_dtypes.bfloat16 else case.rtol
    if expected.dtype in CARRIED:
        found, expected = found.astype(np.float32), expected.astype(np.float32)
    return np.allclose(found, expected, rtol=rtol, atol=case.atol, equal_nan=True)


def refusal(error):
    """The code that ONNX Runtime gives an error, in words."""
    code = re.search(r"\[ONNXRuntimeError\] : \d+ : (\w+)", str(error))
    return code[1] if code else NOT_CARRIED


def describe(value):
    if value is None:
        return "nothing"
    if isinstance(value, list):
        return f"[{', '.join(map(describe, value[:4]))}]"
    return f"{dtype_of(value)}{list(value.shape)} {value.ravel()[:8].tolist()}"


def nodes(graph):
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from nodes(attribute.g)


def changes(found):
    """Says where the outcomes are others than in the table."""
    lines = TABLE.read_text().splitlines() if TABLE.exists() else []
    table = dict(line.split("\t") for line in lines if line and not line.startswith("#"))
    lines = []
    for name, value in found.items():
        before = table.get(name, "equal")
        # Which of the two it is depends on the processor: neither is another answer than the framework's.
        if value != before and not {value, before} <= {"equal", "as ONNX Runtime"} and not value.startswith("WRONG"):
            lines.append(f"changed: {name}: {before} before, {value} now")
    return lines


def write(found):
    counts = Counter(value.split(":")[0] for value in found.values())
    head = [
        "# The outcomes of ONNX's backend suite through `carton run`, made by `run.py --update`: what is not listed is equal.",
        f"# onnx {onnx.__version__} and the data of 1.18, ONNX Runtime {onnxruntime.__version__}.",
        f"# {len(found)} cases: " + ", ".join(f"{n} {what}" for what, n in counts.most_common()) + ".",
    ]
    rest = [f"{name}\t{value}" for name, value in found.items() if value != "equal"]
    TABLE.write_text("\n".join(head + rest) + "\n")


if __name__ == "__main__":
    sys.exit(main())
