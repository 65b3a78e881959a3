"""Compares floats that were written, in every dtype, with those of NumPy and ml_dtypes."""

import pathlib
import sys
from fractions import Fraction

import ml_dtypes
import numpy as np
from safetensors import safe_open

folder = pathlib.Path(sys.argv[1])


def written(dtype, column):
    (file,) = (folder / dtype).glob("part-*.safetensors")
    with safe_open(file, "numpy") as tensors:
        return tensors.get_tensor(column)


def nearest(numbers, dtype):
    """Returns each number rounded to the nearest of a dtype, ties to even, in exact arithmetic.

    ml_dtypes rounds from float64 by way of float32, which can end at a neighbour.
    """
    guesses = numbers.astype(np.float32).astype(dtype)
    for position, (number, guess) in enumerate(zip(numbers.tolist(), guesses)):
        if not np.isfinite(number) or not np.isfinite(guess):
            continue
        pattern = int(guess.view(np.uint16))
        around = np.array([pattern - 1, pattern, pattern + 1]).clip(0, 0xFFFF).astype(np.uint16).view(dtype)
        distances = [
            (abs(Fraction(float(one)) - Fraction(number)), int(one.view(np.uint16)) & 1)
            for one in around
            if np.isfinite(one) and np.signbit(one) == np.signbit(guess)
        ]
        finite = [one for one in around if np.isfinite(one) and np.signbit(one) == np.signbit(guess)]
        guesses[position] = finite[distances.index(min(distances))]
    return guesses


def truncated(numbers, dtype):
    """Floats of 16 bits as safetensors-spark makes them: an F32 with its lower bits cut off, and zero for a subnormal F16."""
    bits = numbers.astype(np.float32).view(np.uint32)
    if dtype == ml_dtypes.bfloat16:
        return (bits >> 16).astype(np.uint16).view(dtype)
    sign = bits >> 16 & 0x8000
    exponent = (bits >> 23 & 0xFF).astype(np.int32) - 127 + 15
    cut = exponent.clip(0, 31).astype(np.uint32) << 10 | bits >> 13 & 0x3FF
    magnitude = np.where(exponent >= 31, 0x7C00, np.where(exponent <= 0, 0, cut))
    return (sign | magnitude).astype(np.uint16).view(dtype)


CONVERSIONS = {
    "float64": lambda numbers: numbers.astype(np.float64),
    "float32": lambda numbers: numbers.astype(np.float32),
    "float16": lambda numbers: numbers.astype(np.float16),
    "bfloat16": lambda numbers: numbers.astype(ml_dtypes.bfloat16)
    if numbers.dtype == np.float32
    else nearest(numbers, ml_dtypes.bfloat16),
    "float32-truncated": lambda numbers: numbers.astype(np.float32),
    "float16-truncated": lambda numbers: truncated(numbers, np.float16),
    "bfloat16-truncated": lambda numbers: truncated(numbers, ml_dtypes.bfloat16),
}

n_numbers = 0
for dtype, convert in CONVERSIONS.items():
    for column in ("f64", "f32"):
        kind = np.dtype(column[0] + str(int(column[1:]) // 8))
        numbers = np.fromfile(folder / f"{dtype.partition('-')[0]}.{column}", dtype=kind)
        values = convert(numbers)
        assert np.array_equal(np.isinf(values), np.isinf(numbers)), "numbers that overflow are refused"
        found = written(dtype, column)
        assert found.dtype == values.dtype, (dtype, found.dtype)
        if found.tobytes() != values.tobytes():
            width = np.dtype(f"u{values.dtype.itemsize}")
            (wrong,) = np.nonzero(found.view(width) != values.view(width))
            first = wrong[0]
            sys.exit(
                f"{column} as {dtype}: {len(wrong)} differ, the first is {numbers[first]!r}: "
                f"{found[first]!r}, expected {values[first]!r}"
            )
    n_numbers += len(numbers) if "-" not in dtype else 0
print(n_numbers, "numbers are the same")
