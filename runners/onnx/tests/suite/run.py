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

# The numeric dtypes that Carton's tensors have.
CARRIED = {np.dtype(name) for name in "f4 f8 i1 i2 i4 i8 u1 u2 u4 u8".split()}

# The outcome where not ONNX Runtime refuses a model, but its Python package, whose arrays have no bfloat16 and float8.
NOT_CARRIED = "its package cannot carry the tensors"

RANDOM = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}

# How Carton says that a tensor cannot hold a value, and the class of that reason.
UNSUPPORTED = re.compile(r"\bis (?:an? )?(\w[\w ]*), which Carton's tensors do not have")


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
        same = all(one.dtype == two.dtype and one.shape == two.shape for one, two in zip(mine, theirs))
        return "random" if same else "WRONG: dtypes or shapes of random numbers"
    for one, two in zip(mine, theirs, strict=True):
        if one.dtype != two.dtype or one.shape != two.shape or not identical(one, two):
            return f"WRONG: {describe(one)}, ONNX Runtime has {describe(two)}"
    return "equal" if meets(case, mine) else "as ONNX Runtime"


def carton(case, program, folder):
    """Returns the outputs in the model's order, or the message of a refusal."""
    names = [value.name for value in onnx.load(case.model, load_external_data=False).graph.output]
    command = [program, "run", case.model, "--runner", "onnx", "--framework-version", ">=1", "-o", folder / "out.npz"]
    for position, (name, value) in enumerate(case.inputs.items()):
        if isinstance(value, np.ndarray):
            value = carried(value)
        # What Carton's tensors do not have cannot be given; the model is refused because of its declaration.
        if isinstance(value, np.ndarray) and (value.dtype.kind == "U" or value.dtype in CARRIED):
            np.save(folder / f"{position}.npy", value)
            command += ["-i", f"{name}={folder}/{position}.npy"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    if ended.returncode != 0:
        known = ended.returncode in (1, 3, 5, 6)
        return ended.stderr if known else f"exit code {ended.returncode}: {ended.stderr}"
    with np.load(folder / "out.npz") as outputs:
        missing = [name for name in names if name not in outputs]
        return [outputs[name] for name in names] if not missing else f"exit code 0 without {missing}: {ended.stderr}"


def runtime(case, model=None):
    """What ONNX Runtime's own package returns, as Carton's tensors would carry it."""
    session = onnxruntime.InferenceSession(model or case.model, providers=["CPUExecutionProvider"])
    given = {name: native(value) for name, value in case.inputs.items()}
    if model:
        given = {name: carried(value) if value.dtype == ml_dtypes.bfloat16 else value for name, value in given.items()}
    return [carried(np.asarray(value)) for value in session.run(None, given)]


def widened(model):
    """The model with float32 in place of its inputs and outputs in bfloat16, which ONNX Runtime's package cannot carry: both casts are exact."""
    graph = model.graph
    for value in list(graph.input) + list(graph.output):
        if value.type.tensor_type.elem_type != onnx.TensorProto.BFLOAT16:
            continue
        inner, is_input = f"{value.name}_bfloat16", value in graph.input
        for node in graph.node:
            names = node.input if is_input else node.output
            names[:] = [inner if name == value.name else name for name in names]
        to = onnx.TensorProto.BFLOAT16 if is_input else onnx.TensorProto.FLOAT
        ends = ([value.name], [inner]) if is_input else ([inner], [value.name])
        cast = onnx.helper.make_node("Cast", *ends, to=to)
        graph.node.insert(0, cast) if is_input else graph.node.append(cast)
        value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    return model.SerializeToString()


def native(value):
    return value.astype(object) if isinstance(value, np.ndarray) and value.dtype.kind == "U" else value


def carried(value):
    """An array with the dtype that Carton's tensors carry it in (README.md of the runner, "Element types")."""
    if value.dtype == bool:
        return value.astype(np.uint8)
    if value.dtype in (np.float16, ml_dtypes.bfloat16):
        return value.astype(np.float32)
    if value.dtype == object:
        return value.astype(str) if value.size else np.empty(value.shape, "<U1")
    return value


def identical(one, two):
    if one.dtype.kind == "f":
        zero = np.signbit(one[one == 0]), np.signbit(two[two == 0])
        return np.array_equal(one, two, equal_nan=True) and np.array_equal(*zero)
    return np.array_equal(one, two)


def meets(case, outputs):
    """Whether the outputs are those of the suite, as onnx.backend.test compares them."""
    for found, expected in zip(outputs, case.outputs):
        if not isinstance(expected, np.ndarray):
            return False
        reference = carried(expected)
        rtol = max(case.rtol, 2**-6) if expected.dtype == ml_dtypes.bfloat16 else case.rtol
        if reference.dtype.kind != found.dtype.kind or reference.shape != found.shape:
            return False
        if reference.dtype.kind == "U":
            if not np.array_equal(found, reference):
                return False
        elif not np.allclose(found, reference, rtol=rtol, atol=case.atol, equal_nan=True):
            return False
    return True


def refusal(error):
    """The code that ONNX Runtime gives an error, in words."""
    code = re.search(r"\[ONNXRuntimeError\] : \d+ : (\w+)", str(error))
    return code[1] if code else NOT_CARRIED


def describe(value):
    return f"{value.dtype}{list(value.shape)} {value.ravel()[:8].tolist()}"


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
