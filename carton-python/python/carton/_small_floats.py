"""Arrays of the floats that NumPy lacks: `bfloat16` and the floats of 8 bits. `ml_dtypes` has their dtypes, if it is installed.

Both classes export DLPack, so that `torch.from_dlpack(output)` needs no `ml_dtypes`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _carton
from ._errors import UnsupportedError

#: The integers with the bits of each dtype.
BITS: dict[str, np.dtype[Any]] = {
    "bfloat16": np.dtype(np.uint16),
    "float8_e4m3fn": np.dtype(np.uint8),
    "float8_e5m2": np.dtype(np.uint8),
    "float8_e4m3fnuz": np.dtype(np.uint8),
    "float8_e5m2fnuz": np.dtype(np.uint8),
}


def _exported(bits: np.ndarray, name: str, options: dict[str, Any]) -> Any:
    """A capsule of DLPack with the elements of an array."""
    device = options.get("dl_device")
    if device is not None and tuple(int(part) for part in device) != (1, 0):
        raise BufferError("the array is in the memory of the processor, and is not exported to another device")
    if options.get("copy"):
        bits = bits.copy()
    version = options.get("max_version")
    return _carton.to_dlpack(bits, name, version is not None and version[0] >= 1)


class SmallFloatArray(np.ndarray):
    """An array of a dtype of `ml_dtypes`, which exports DLPack where NumPy's own arrays do not."""

    def __dlpack__(self, **options: Any) -> Any:
        name = self.dtype.name
        if name not in BITS:
            return super().__dlpack__(**options)
        return _exported(self.view(np.ndarray).view(BITS[name]), name, options)

    def __dlpack_device__(self) -> Any:
        return (1, 0)


class SmallFloats:
    """An output of floats that NumPy lacks, where `ml_dtypes` is not installed.

    It is an input again, and `torch.from_dlpack` and other libraries with DLPack take it without a copy. NumPy does not.
    """

    def __init__(self, bits: np.ndarray, name: str) -> None:
        self._bits = bits
        self._name = name

    @property
    def dtype(self) -> str:
        """The name of the dtype, such as `bfloat16`."""
        return self._name

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the dimensions."""
        return self._bits.shape

    def __dlpack__(self, **options: Any) -> Any:
        return _exported(self._bits, self._name, options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise lacking(self._name)

    def __getitem__(self, _: Any) -> Any:
        raise lacking(self._name)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a scalar has no length")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<{self._name} {list(self.shape)}, of which ml_dtypes makes an array>"


def lacking(name: str) -> UnsupportedError:
    """The error for elements that NumPy cannot show."""
    error = UnsupportedError(f"NumPy has no dtype {name}")
    error.hint = "pip install ml_dtypes; or pass the output to torch.from_dlpack"
    return error


def dtype_of(name: str) -> np.dtype[Any] | None:
    """The dtype of `ml_dtypes` with this name, if it is installed and has it."""
    try:
        import ml_dtypes
    except ImportError:
        return None
    scalar = getattr(ml_dtypes, name, None)
    return None if scalar is None else np.dtype(scalar)


def of_bits(bits: np.ndarray, name: str) -> SmallFloatArray | SmallFloats:
    """The array with these bits. It shows the same memory.

    Raises:
        UnsupportedError: It is to be written to, and `ml_dtypes` is not installed.
    """
    dtype = dtype_of(name)
    if dtype is not None:
        return bits.view(dtype).view(SmallFloatArray)
    if bits.flags.writeable:
        raise lacking(name)
    return SmallFloats(bits, name)
