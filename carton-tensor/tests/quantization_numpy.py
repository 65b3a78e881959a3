"""Makes arrays, and says what NumPy finds when they are quantized with one scale and with one for each index of axis 0:
`quantization_numpy.py DIRECTORY`.

NAME.bin are the elements, NAME.GRANULARITY.i8 their int8 form by the rule of spec/weights.md §2.2, NAME.GRANULARITY.f64 the scales. A line of
expected.txt is NAME DTYPE SHAPE, and RELATIVE MAX_ABSOLUTE of each granularity, `tensor` first.
"""

import sys
from pathlib import Path

import ml_dtypes
import numpy as np

directory = Path(sys.argv[1])
random = np.random.default_rng(11)


def cases():
    # As large as the matrices of a layer: one scale costs 1.2 %, one for each channel less than 1 %.
    for dtype, channels in ((np.float32, 2048), (ml_dtypes.bfloat16, 512)):
        yield "layer", random.normal(0, 0.02, (channels, 4096)).astype(np.float32).astype(dtype)
    for dtype in (np.float32, np.float64, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn):
        # Channels of one number, of few, of more than are looked at at once; and more than two dimensions.
        for shape in ((5, 1), (1, 5), (7, 3), (300, 11), (6, 2, 3, 4), (3, 270_001), (70, 4097)):
            scales = 10.0 ** random.uniform(-2, 1, (shape[0],) + (1,) * (len(shape) - 1))
            yield "channels", (random.normal(0, 1, shape) * scales).astype(dtype)
        broken = random.normal(0, 1, (9, 40))
        broken[3, ::5] = np.nan
        broken[4, 7] = np.inf
        broken[5] = 0
        broken[6] = np.nan
        yield "broken", broken.astype(dtype)
        # No channels: one scale.
        yield "vector", random.normal(0, 1, 33).astype(dtype)
        yield "zeros", np.zeros((3, 4)).astype(dtype)
        yield "scalar", np.array(0.3).astype(dtype)
        yield "nothing", np.zeros((3, 0)).astype(dtype)
    # Squares of these are beyond float64.
    yield "huge", random.normal(0, 1, (4, 50)) * 1e200


def int8(values, per_channel):
    wide = np.float64 if values.dtype == np.float64 else np.float32
    values = values.astype(wide)
    finite = np.isfinite(values)
    values = np.where(finite, values, 0)
    axes = tuple(range(1, values.ndim)) if per_channel and values.ndim > 1 and values.size else None
    largest = np.max(np.abs(values), axis=axes, initial=0, keepdims=True)
    scale = np.where(largest > 0, wide(127) / np.where(largest > 0, largest, 1), wide(1)).astype(wide)
    scaled = (values * scale).astype(np.float64)
    rounded = np.copysign(np.floor(np.abs(scaled) + 0.5), scaled)
    rounded = np.where(np.abs(rounded - scaled) > 0.5, rounded - np.sign(scaled), rounded)
    integers = np.clip(rounded, -128, 127).astype(np.int8)
    wide_values, wide_scale = values.astype(np.float64), scale.astype(np.float64)
    error = np.abs(wide_values - integers / wide_scale)
    # The norms of numbers that are near 1.
    unit = np.max(np.abs(wide_values), initial=0) or 1.0
    norm, norm_of_error = np.linalg.norm((wide_values / unit).ravel()), np.linalg.norm((error / unit).ravel())
    relative = norm_of_error / norm if norm > 0 else 0.0
    return integers, wide_scale.ravel(), relative, np.max(error, initial=0)


lines = []
with np.errstate(all="ignore"):
    for number, (case, array) in enumerate(cases()):
        label = f"{number}-{case}"
        (directory / f"{label}.bin").write_bytes(array.tobytes())
        numbers = []
        for granularity in ("tensor", "channel"):
            integers, scale, relative, largest = int8(array, granularity == "channel")
            (directory / f"{label}.{granularity}.i8").write_bytes(integers.tobytes())
            (directory / f"{label}.{granularity}.f64").write_bytes(scale.tobytes())
            numbers += [repr(float(relative)), repr(float(largest))]
        shape = ",".join(map(str, array.shape)) or "scalar"
        lines.append(" ".join([label, array.dtype.name, shape, *numbers]))
(directory / "expected.txt").write_text("\n".join(lines) + "\n")
