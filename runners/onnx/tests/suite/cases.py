"""The cases of ONNX's own backend suite: models with inputs and the outputs that the specification expects.

Three sources: the operator tests that the installed release generates, the data of release 1.18 (operator tests, and models that PyTorch
exported), and the nine networks of the zoo whose weights are constants ("light").
"""

import dataclasses
import glob
import json
import os
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

# The tolerances of onnx.backend.test for models from files, unless their data.json has others.
RTOL, ATOL = 1e-3, 1e-7


@dataclasses.dataclass
class Case:
    """One model with one set of inputs."""

    name: str
    model: Path
    inputs: dict
    outputs: list
    rtol: float
    atol: float


def collect(folder):
    """Returns all cases, sorted by name. Models that are not in files are written to `folder`."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    old = Path(sys.prefix) / "onnx-1.18" / "onnx" / "backend" / "test" / "data"
    if not old.is_dir():
        raise SystemExit(f"there is no {old}: run setup.sh")
    cases = list(generated(folder))
    for kind in ("node", "simple", "pytorch-converted", "pytorch-operator"):
        cases.extend(stored(old / kind, f"1.18 {kind}"))
    cases.extend(light(Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"))
    return sorted(cases, key=lambda case: case.name)


def generated(folder):
    """The operator tests that the installed release makes."""
    from onnx.backend.test.case.node import collect_testcases

    with np.errstate(all="ignore"):
        tests = collect_testcases()
    release = ".".join(onnx.__version__.split(".")[:2])
    for test in tests:
        path = folder / f"{test.name}.onnx"
        path.write_bytes(test.model.SerializeToString())
        for inputs, outputs in test.data_sets:
            yield case(f"{release} node {test.name}", path, test.model, inputs, outputs, test.rtol, test.atol)


def stored(folder, source):
    """Tests in folders: a model, and sets of inputs and outputs as protocol buffers."""
    for test in sorted(folder.iterdir()):
        path = test / "model.onnx"
        if not path.exists():
            continue
        model = onnx.load(path)
        data = json.loads((test / "data.json").read_text()) if (test / "data.json").exists() else {}
        for number, data_set in enumerate(sorted(glob.glob(str(test / "test_data_set_*")))):
            inputs = read(data_set, "input", model.graph.input)
            outputs = read(data_set, "output", model.graph.output)
            suffix = f" {number}" if number else ""
            name = f"{source} {test.name}{suffix}"
            yield case(name, path, model, inputs, outputs, data.get("rtol", RTOL), data.get("atol", ATOL))


def light(folder):
    """Networks whose weights are constants, on the input for which the suite states the output."""
    for path in sorted(folder.glob("light_*.onnx")):
        model = onnx.load(path)
        (value,) = callers_inputs(model)
        shape = [dimension.dim_value or 1 for dimension in value.type.tensor_type.shape.dim]
        count = int(np.prod(shape))
        x = (np.arange(count).reshape(shape) / count).astype(np.float32)
        expected = onnx.TensorProto()
        expected.ParseFromString(path.with_name(f"{path.stem}_output_0.pb").read_bytes())
        yield case(f"light {path.stem}", path, model, [x], [expected], RTOL, ATOL)


def case(name, path, model, inputs, outputs, rtol, atol):
    names = [value.name for value in callers_inputs(model)]
    # An optional input at the end may be left out.
    given = {key: array(value) for key, value in zip(names, inputs) if value is not None}
    return Case(name, Path(path), given, [array(value) for value in outputs], rtol, atol)


def callers_inputs(model):
    """The inputs that have no value in the model."""
    constants = {tensor.name for tensor in model.graph.initializer}
    constants |= {tensor.values.name for tensor in model.graph.sparse_initializer}
    return [value for value in model.graph.input if value.name not in constants]


def read(folder, what, values):
    """Reads `input_0.pb` and so on, each as the model declares it."""
    result = []
    for position, value in enumerate(values):
        path = Path(folder) / f"{what}_{position}.pb"
        if not path.exists():
            break
        kind = value.type.WhichOneof("value") or "tensor_type"
        proto = {
            "sequence_type": onnx.SequenceProto,
            "optional_type": onnx.OptionalProto,
            "map_type": onnx.MapProto,
        }.get(kind, onnx.TensorProto)()
        proto.ParseFromString(path.read_bytes())
        result.append(proto)
    return result


def array(value):
    """A tensor as an array of NumPy or ml_dtypes, a sequence as a list of arrays, and an optional value without one as None."""
    if isinstance(value, onnx.OptionalProto):
        value = numpy_helper.to_optional(value)
    elif isinstance(value, onnx.SequenceProto):
        value = numpy_helper.to_list(value)
    elif isinstance(value, onnx.TensorProto):
        value = numpy_helper.to_array(value)
    if isinstance(value, list):
        return [array(one) for one in value]
    if isinstance(value, (np.ndarray, np.generic)):
        value = np.asarray(value)
        if value.dtype == object:
            value = np.array([text.decode() if isinstance(text, bytes) else str(text) for text in value.ravel()] or [""])[
                : value.size
            ].reshape(value.shape)
    return value


if __name__ == "__main__":
    found = collect(os.environ.get("TMPDIR", "/tmp") + "/onnx-suite")
    print(len(found), "cases")
