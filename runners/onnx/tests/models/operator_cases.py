"""Writes the operator tests that come with the onnx package as cases for this runner: operator_cases.py FOLDER.

See src/tests/operators.rs for how they are run. Cases with values that Carton's tensors do not have (float16 and smaller
types, sequences) or that JSON does not have (infinities, NaN) are left out.
"""

import json
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
from onnx.backend.test.case.node import collect_testcases

DTYPES = "float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()


def to_json(array):
    array = np.asarray(array)
    if array.dtype == object or array.dtype.kind == "U":
        words = [word.decode() if isinstance(word, bytes) else str(word) for word in array.reshape(-1)]
        return {"dtype": "string", "shape": list(array.shape), "data": words}
    if array.dtype == bool:
        array = array.astype(np.uint8)
    if str(array.dtype) not in DTYPES:
        raise ValueError(str(array.dtype))
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError("not finite")
    return {"dtype": str(array.dtype), "shape": list(array.shape), "data": array.reshape(-1).tolist()}


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    cases, left_out = [], Counter()
    for test in collect_testcases(None):
        name = f"{test.name}.onnx"
        try:
            for inputs, outputs in test.data_sets:
                cases.append(
                    {
                        "model": name,
                        "inputs": {v.name: to_json(x) for v, x in zip(test.model.graph.input, inputs)},
                        "outputs": {v.name: to_json(x) for v, x in zip(test.model.graph.output, outputs)},
                        "rtol": test.rtol,
                        "atol": test.atol,
                    }
                )
            onnx.save(test.model, folder / name)
        except ValueError as error:
            left_out[str(error)] += 1
    (folder / "cases.json").write_text(json.dumps(cases))
    print(f"{len(cases)} cases, left out: {dict(left_out)}")


main(Path(sys.argv[1]))
