"""Tensor files: safetensors, sharded checkpoints (`model.safetensors.index.json`), zTensor, `.npz` and `.npy`.

    >>> from carton import tensors
    >>> with tensors.open("weights.safetensors") as file:
    ...     print(file["layer.weight"].shape)
    (4, 3)

Nothing is read before it is used. Arrays that the file holds as NumPy has them are views of the mapped file, of which only the parts that
are used are read: tensors of safetensors and zTensor files, and arrays of `.npy` and `.npz` that are uncompressed (`numpy.savez`),
little-endian and in C order. Do not change the file while such views are in use. Other libraries rely on arrays whose address is a multiple
of the element size, so an array at any other address is copied: most arrays of `.npz` are. Compressed arrays are decoded when they are
asked for. Arrays of objects are refused, because reading them runs code.
"""

from __future__ import annotations

import os
from types import TracebackType
from typing import Iterator, Mapping

import numpy as np

from . import _carton
from ._errors import ClosedError, InvalidInputError, UnsupportedError
from ._paths import AnyPath

__all__ = ["TensorFile", "open"]


class TensorFile(Mapping[str, np.ndarray]):
    """An open tensor file: a mapping from names to arrays, which are read when they are asked for.

    Arrays are read-only. Types that NumPy lacks (`bfloat16`, the 8-bit floats) need the package `ml_dtypes`; `raw` gives their bytes
    without it. Sparse and quantized tensors of zTensor are returned dense.
    """

    def __init__(self, path: AnyPath) -> None:
        self._file: _carton._TensorFile | None = _carton._TensorFile(os.fspath(path))
        self._names = self._file.names()
        self._known = frozenset(self._names)

    def _open(self) -> _carton._TensorFile:
        if self._file is None:
            raise ClosedError("the tensor file is closed")
        return self._file

    @property
    def format(self) -> str:
        """`safetensors`, `sharded safetensors`, `zTensor`, `npz` or `npy`."""
        return self._open().format

    @property
    def metadata(self) -> dict[str, str]:
        """The metadata of the file: names and texts."""
        return dict(self._open().metadata())

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor, without reading it.

            >>> tensors.open("weights.safetensors").shape("layer.weight")
            (4, 3)
        """
        return tuple(self._open().describe(name)[1])

    def dtype(self, name: str) -> str | None:
        """The name of a tensor's dtype, without reading it; None for strings and others that are not numbers.

            >>> tensors.open("weights.safetensors").dtype("layer.weight")
            'float32'
        """
        return self._open().describe(name)[0]

    def raw(self, name: str) -> np.ndarray:
        """The bytes of a tensor, as an array of `uint8`: a view of the mapped file, wherever in the file they lie.

        Raises:
            KeyError: There is no tensor of this name.
            IntegrityError: The data is damaged.
            InvalidInputError: It is not a tensor of numbers.

            >>> tensors.open("weights.safetensors").raw("layer.weight").shape
            (48,)
        """
        dtype, _, array = self._open().read(name)
        if dtype is None:
            raise InvalidInputError(f"`{name}` holds strings, which have no bytes of one size")
        return array

    def __getitem__(self, name: str) -> np.ndarray:
        dtype, shape, array = self._open().read(name)
        if dtype is None:
            return array
        typed = array.view(_numpy_dtype(dtype, name)).reshape(shape)
        if not typed.flags.aligned:
            typed = typed.copy()
            typed.flags.writeable = False
        return typed

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._known

    def close(self) -> None:
        """Closes the file. Arrays of it stay valid.

            >>> file = tensors.open("weights.safetensors")
            >>> weight = file["layer.weight"]
            >>> file.close()
            >>> weight.sum()
            np.float32(0.0)
        """
        self._file = None

    def __enter__(self) -> TensorFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<carton.tensors.TensorFile of {len(self)} tensors>"


def _numpy_dtype(name: str, tensor: str) -> np.dtype:
    try:
        return np.dtype(name)
    except TypeError:
        pass
    if name.startswith(("float4", "float6")):
        raise UnsupportedError(f"`{tensor}` is {name}, of which several elements share a byte: use raw()")
    try:
        import ml_dtypes
    except ImportError:
        error = UnsupportedError(f"`{tensor}` is {name}, which NumPy lacks")
        error.hint = "pip install ml_dtypes, or use raw()"
        raise error from None
    dtype: np.dtype = np.dtype(getattr(ml_dtypes, name))
    return dtype


def open(path: AnyPath) -> TensorFile:
    """Opens a tensor file of any supported format. The format is detected from its bytes.

    Raises:
        IntegrityError: The file is malformed.
        InvalidInputError: It is no tensor file; the message names what it is, where that is recognized (a Git LFS pointer, a web page, a
            PyTorch checkpoint, …), and `hint` says what to do. If its name claims a tensor file, this is an IntegrityError.
        MachineError: It cannot be read.

        >>> sorted(tensors.open("weights.safetensors"))
        ['layer.weight']
    """
    return TensorFile(path)
