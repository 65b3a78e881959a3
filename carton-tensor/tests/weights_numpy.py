"""Makes arrays of every float type, and says what NumPy finds of them: `weights_numpy.py DIRECTORY`.

NAME.bin are the elements, NAME.i8 their int8 form by the rule of spec/weights.md §2.2, and a line of expected.txt is
NAME DTYPE COUNT MIN MAX MEAN STD NANS INFS SCALE, where `none` is what there is not.
"""

import sys
from pathlib import Path

import ml_dtypes
import numpy as np

directory = Path(sys.argv[1])
random = np.random.default_rng(7)
DTYPES = {
    "float32": np.float32,
    "float64": np.float64,
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8_e5m2": ml_dtypes.float8_e5m2,
    "float8_e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "float8_e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
    "int8": np.int8,
    "uint8": np.uint8,
    "int16": np.int16,
    "int32": np.int32,
    "int64": np.int64,
}


def cases():
    for count in (1, 7, 4096, 300_001):
        yield "normal", random.normal(0, 0.02, count)
        yield "wide", random.normal(0, 1, count) * 10.0 ** random.uniform(-6, 6, count)
        yield "offset", 1000 + random.normal(0, 0.5, count)
        yield "outlier", np.concatenate([[3e4], random.normal(0, 0.02, count)])
        broken = random.normal(0, 1, count)
        broken[::5] = np.nan
        broken[1::7] = np.inf
        broken[2::11] = -np.inf
        yield "broken", broken
    yield "zeros", np.zeros(100)
    yield "nothing", np.zeros(0)
    yield "nans", np.full(5000, np.nan)
    yield "halves", np.array([-2.0, -1.0, 0.5, 1.5])


def int8(values):
    """In float32 where that holds every number of the type, else in float64, as the rule says."""
    wide = np.float64 if values.dtype in (np.float64, np.int32, np.int64) else np.float32
    values = values.astype(wide)
    finite = np.isfinite(values)
    largest = np.max(np.abs(values[finite]), initial=0)
    scale = wide(127) / wide(largest) if largest > 0 else wide(1)
    scaled = (np.where(finite, values, 0) * scale).astype(np.float64)
    rounded = np.where(scaled < 0, -1, 1) * np.floor(np.abs(scaled) + 0.5)
    # What lies just below a half and is carried over it by the addition.
    rounded = np.where(np.abs(rounded - scaled) > 0.5, rounded - np.sign(scaled), rounded)
    return np.clip(rounded, -128, 127).astype(np.int8), scale


lines = []
with np.errstate(all="ignore"):
    for name, dtype in DTYPES.items():
        for number, (case, values) in enumerate(cases()):
            if np.issubdtype(dtype, np.integer):
                values = np.clip(np.nan_to_num(values * 50), -100 if name != "uint8" else 0, 100)
            array = values.astype(dtype)
            label = f"{name}-{number}-{case}"
            (directory / f"{label}.bin").write_bytes(array.tobytes())
            wide = array.astype(np.float64)
            finite = wide[np.isfinite(wide)]
            numbers = ["none"] * 4
            if finite.size:
                mean = np.mean(finite)
                numbers = [repr(float(x)) for x in (finite.min(), finite.max(), mean, np.sqrt(np.mean((finite - mean) ** 2)))]
            integers, scale = int8(array)
            (directory / f"{label}.i8").write_bytes(integers.tobytes())
            counts = [str(int(np.isnan(wide).sum())), str(int(np.isinf(wide).sum()))]
            lines.append(" ".join([label, name, str(array.size), *numbers, *counts, repr(float(scale))]))
(directory / "expected.txt").write_text("\n".join(lines) + "\n")
