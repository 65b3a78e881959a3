"""What elements are, where a dtype of version 1 carries them (carton-format-extensions.md, "What elements are")."""

import base64
import binascii
import math
import struct

CARRIERS = {
    "bool": "uint8",
    "float16": "float32",
    "bfloat16": "float32",
    "float8_e4m3fn": "float32",
    "float8_e5m2": "float32",
    "float8_e4m3fnuz": "float32",
    "float8_e5m2fnuz": "float32",
    "complex64": "float32",
    "complex128": "float64",
    "bytes": "string",
}

# Bits of the exponent and the mantissa, the bias, and whether there are infinities and a negative zero.
FLOATS = {
    "float16": (5, 10, 15, True, True),
    "bfloat16": (8, 7, 127, True, True),
    "float8_e4m3fn": (4, 3, 7, False, True),
    "float8_e5m2": (5, 2, 15, True, True),
    "float8_e4m3fnuz": (4, 3, 8, False, False),
    "float8_e5m2fnuz": (5, 2, 16, False, False),
}


def of(dtype, element):
    """The element, or None where it says nothing. A later version may say anything."""
    return element if isinstance(element, str) and CARRIERS.get(element) == dtype else None


def is_complex(element):
    return element in ("complex64", "complex128")


def problem(element, content):
    """What is wrong with the elements of a carrier: bytes, or a list of texts. None where nothing is."""
    if element == "bool":
        return None if set(content) <= {0, 1} else "a boolean is neither 0 nor 1"
    if element == "bytes":
        return next((f"{text!r} is not base64" for text in content if not _is_base64(text)), None)
    if element in FLOATS:
        values = struct.unpack(f"<{len(content) // 4}f", content)
        return next((f"{value} is not a {element}" for value in values if not _is_float(value, *FLOATS[element])), None)
    return None


def _is_base64(text):
    try:
        return base64.b64encode(base64.b64decode(text, validate=True)).decode() == text
    except (binascii.Error, ValueError):
        return False


def _is_float(value, exponent_bits, mantissa_bits, bias, has_infinity, has_negative_zero):
    if math.isnan(value):
        return True
    if math.isinf(value):
        return has_infinity
    if value == 0:
        return has_negative_zero or math.copysign(1, value) > 0
    largest_exponent = (1 << exponent_bits) - 1 - bias - has_infinity
    # The largest mantissa of a format with a negative zero and without infinities is NaN.
    top = (1 << (mantissa_bits + 1)) - 1 - (not has_infinity and has_negative_zero)
    if abs(value) > math.ldexp(top, largest_exponent - mantissa_bits):
        return False
    # The distance of two neighbours, below the smallest normal number that of the subnormal ones.
    exponent = max(math.frexp(value)[1] - 1, 1 - bias)
    return math.ldexp(value, mantissa_bits - exponent).is_integer()
