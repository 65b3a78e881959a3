"""Tensor files: safetensors, sharded checkpoints (`model.safetensors.index.json`), zTensor, PyTorch checkpoints, GGUF, ONNX models, `.npz` and `.npy`; opened, written, converted,
merged, quantized, checked and compared.

    >>> from carton import tensors
    >>> with tensors.open("weights.safetensors") as file:
    ...     print(file["layer.weight"].shape)
    (4, 3)

Functions that read take a *place*: the path of a file, of the folder of a checkpoint, or of a carton; or the URL of a file or a carton
(`https://…`, `hf://OWNER/REPOSITORY/FILE`, `s3://…`, `gs://…`, `az://…`), of which only what is needed is fetched. `#NAME` after a place is one
tensor, `model.carton` has those of its self-tests and examples, and `model.carton#model/weights.safetensors` those of a file of its model.

    >>> tensors.save({"bias": np.zeros(3, np.float32)}, "bias.safetensors").tensors
    1
    >>> tensors.convert("bias.safetensors", "bias.zt", zstd=3).path
    'bias.zt'

Nothing is read before it is used. Arrays that a file of this machine holds as NumPy has them are views of the mapped file, of which only the parts that
are used are read: tensors of safetensors and zTensor files, and arrays of `.npy` and `.npz` that are uncompressed (`numpy.savez`),
little-endian and in C order. Do not change the file while such views are in use. Other libraries rely on arrays whose address is a multiple
of the element size, so an array at any other address is copied: most arrays of `.npz` are. Compressed arrays are decoded when they are
asked for. Arrays of objects are refused, because reading them runs code.
"""

from __future__ import annotations

import json
import operator
import os
from dataclasses import dataclass, field
from types import EllipsisType, TracebackType
from typing import Any, Callable, Iterable, Iterator, Literal, Mapping, Sequence

import numpy as np

from . import _carton, _progress
from ._diff import DifferingElement, ElementsDifference, TensorDifference, TensorForm, TensorsDifference, tensors_difference
from ._errors import ClosedError, InvalidInputError, UnsupportedError
from ._paths import AnyPath

__all__ = [
    "Constant",
    "Copies",
    "DeepFindings",
    "DifferingElement",
    "ElementsDifference",
    "Finding",
    "Loss",
    "NotFinite",
    "Quantized",
    "QuantizedTensor",
    "TensorDifference",
    "TensorFile",
    "TensorForm",
    "TensorSlice",
    "TensorsDifference",
    "Validation",
    "Verification",
    "Written",
    "convert",
    "diff",
    "merge",
    "merge_adapters",
    "open",
    "quantize",
    "save",
    "validate",
    "verify",
]

_Progress = Callable[..., None] | bool | None


@dataclass(frozen=True)
class Written:
    """The result of `save`, `convert`, `merge` and `merge_adapters`.

    Attributes:
        path: The file; of several, their index.
        tensors: The number of tensors.
        size: The size of all files in bytes.
        warnings: What was lost or left out, one sentence each.
        shards: The files of tensors, if there are several.
    """

    path: str
    tensors: int
    size: int
    warnings: list[str]
    shards: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Loss:
    """What quantization lost.

    Attributes:
        relative: The norm of the differences divided by the norm of the numbers.
        norm_of_error: The Euclidean norm of the differences.
        norm: The Euclidean norm of the numbers.
        max_absolute: The largest absolute difference.
    """

    relative: float
    norm_of_error: float
    norm: float
    max_absolute: float


@dataclass(frozen=True)
class QuantizedTensor:
    """A tensor that `quantize` made integers of.

    Attributes:
        name: Its name.
        scale: The factor of all its numbers; None if it has several scales.
        scales: The number of its scales.
        non_finite: The number of values that were not finite, and became 0.
        error: What was lost, if that was measured.
    """

    name: str
    scale: float | None
    scales: int
    non_finite: int
    error: Loss | None


@dataclass(frozen=True)
class Quantized:
    """The result of `quantize`.

    Attributes:
        path: The file.
        tensors: The number of tensors in it, scales among them.
        size: Its size in bytes.
        warnings: What was lost or left out, one sentence each.
        quantized: The tensors that were quantized, by name.
        unchanged: The number of tensors that were written as they were.
        total: What was lost of all of them together, if that was measured.
    """

    path: str
    tensors: int
    size: int
    warnings: list[str]
    quantized: list[QuantizedTensor]
    unchanged: int
    total: Loss | None


@dataclass(frozen=True)
class Finding:
    """An error or warning of `validate`.

    Attributes:
        category: Its kind, such as `missing_tensor`.
        tensor: The tensor that it is about, if it is about one.
        message: What is wrong, in words.
    """

    category: str
    tensor: str | None
    message: str


@dataclass(frozen=True)
class Validation:
    """The result of `validate`.

    Attributes:
        ok: Whether there are no errors.
        model: The name of the model in the description.
        tensors: The number of tensors, without scales.
        scales: The number of tensors that hold, or should hold, the scales of others.
        parameters: The number of their elements.
        errors: What makes the weights unusable or wrong.
        warnings: What deserves attention.
    """

    ok: bool
    model: str
    tensors: int
    scales: int
    parameters: int
    errors: list[Finding]
    warnings: list[Finding]


@dataclass(frozen=True)
class NotFinite:
    """A tensor with numbers that are not finite.

    Attributes:
        name: Its name.
        nan: The number of NaNs; of complex numbers, that of their parts.
        infinite: The number of infinities of either sign.
        elements: The number of its elements.
    """

    name: str
    nan: int
    infinite: int
    elements: int


@dataclass(frozen=True)
class Constant:
    """A tensor of more than one element, all of which are equal.

    Attributes:
        name: Its name.
        value: The element; None for a complex or infinite number.
        elements: The number of its elements.
    """

    name: str
    value: float | None
    elements: int


@dataclass(frozen=True)
class Copies:
    """Tensors of one dtype with the same bytes.

    Attributes:
        names: Their names.
        bytes: The size of each in bytes.
        is_shared: Whether all of them are one place in the file. Otherwise their bytes are stored several times.
    """

    names: list[str]
    bytes: int
    is_shared: bool


@dataclass(frozen=True)
class DeepFindings:
    """What the numbers of tensors have that one may want to know.

    Attributes:
        examined: The number of tensors whose numbers were read.
        not_finite: Tensors with NaN or infinities.
        constant: Tensors of more than one element, all of which are equal.
        copies: Tensors with the same bytes, except constant ones.
        not_examined: Tensors whose numbers were not read, one line each, with the reason.
    """

    examined: int
    not_finite: list[NotFinite]
    constant: list[Constant]
    copies: list[Copies]
    not_examined: list[str]


@dataclass(frozen=True)
class Verification:
    """The result of `verify`.

    Attributes:
        ok: Whether there is no problem, and nothing that could not be checked.
        tensors: The number of tensors.
        bytes: The size of all tensors in bytes.
        digests: The number of digests that match.
        problems: The rules that the file breaks, one line each.
        unchecked: What could not be checked, and may be whole or damaged, one line each.
        findings: What a version of the format forbids and can be read, and digests of unknown algorithms. They are not damage.
        deep: What the numbers have, if `deep` was asked for. It is no damage either.
    """

    ok: bool
    tensors: int
    bytes: int
    digests: int
    problems: list[str]
    unchecked: list[str]
    findings: list[str]
    deep: DeepFindings | None = None


class TensorFile(Mapping[str, np.ndarray]):
    """An open tensor file: a mapping from names to arrays, which are read when they are asked for.

    Arrays are read-only. Types that NumPy lacks (`bfloat16`, the 8-bit floats) need the package `ml_dtypes`; `raw` gives their bytes
    without it. Sparse and quantized tensors of zTensor are returned dense, and quantized ones of GGUF as `float32`.
    """

    def __init__(self, place: AnyPath, *, follow_links: bool | None = None, offline: bool | None = None) -> None:
        self._file: _carton._TensorFile | None = _carton._TensorFile(
            os.fspath(place), follow_links=follow_links, offline=offline
        )
        self._names = self._file.names()
        self._known = frozenset(self._names)

    def _open(self) -> _carton._TensorFile:
        if self._file is None:
            raise ClosedError("the tensor file is closed")
        return self._file

    @property
    def format(self) -> str:
        """`safetensors`, `sharded safetensors`, `zTensor`, `zTensor 2`, `PyTorch`, `sharded PyTorch`, `GGUF`, `ONNX`, `npz` or `npy`; `carton` for a carton's own
        tensors."""
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
            raise InvalidInputError(f"`{name}` holds strings or a list, which have no bytes of one size")
        return array

    def __getitem__(self, name: str) -> np.ndarray:
        dtype, shape, array = self._open().read(name)
        return array if dtype is None else _typed(name, dtype, shape, array)

    def get_slice(self, name: str) -> TensorSlice:
        """A tensor of numbers of which parts are read when they are indexed: of a file at a URL, no more than those are fetched.

        Raises:
            KeyError: There is no tensor of this name.

            >>> tensors.open("weights.safetensors").get_slice("layer.weight")[:2, -1].shape
            (2,)
        """
        return TensorSlice(self._open(), name)

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


class TensorSlice:
    """A tensor of a file that is not read yet. Indexing it reads the part, as an array."""

    def __init__(self, file: _carton._TensorFile, name: str) -> None:
        self._file = file
        self._name = name
        self.dtype, shape, _ = file.describe(name)
        self.shape = tuple(shape)

    def __getitem__(self, index: int | slice | EllipsisType | tuple[int | slice | EllipsisType, ...]) -> np.ndarray:
        """Reads a part: indices and slices with positive steps, as for NumPy's arrays, and at most one `...`.

        Raises:
            IndexError: The tensor has no such index, or another number of dimensions.
            IntegrityError: The data is damaged.
        """
        parts = index if isinstance(index, tuple) else (index,)
        if parts.count(...) > 1:
            raise IndexError("an index can only have one `...`")
        if ... in parts:
            at = parts.index(...)
            whole = (slice(None),) * (len(self.shape) - len(parts) + 1)
            parts = parts[:at] + whole + parts[at + 1 :]
        text = ",".join(_slice_text(part) for part in parts)
        dtype, shape, array = self._file.read_slice(self._name, text)
        return _typed(self._name, dtype, shape, array)

    def __repr__(self) -> str:
        return f"<carton.tensors.TensorSlice of `{self._name}`: {self.dtype} {list(self.shape)}>"


def _slice_text(part: int | slice | EllipsisType) -> str:
    def number(value: Any) -> str:
        return "" if value is None else str(operator.index(value))

    if isinstance(part, slice):
        return f"{number(part.start)}:{number(part.stop)}:{number(part.step)}"
    return number(part)


def _typed(name: str, dtype: str, shape: Sequence[int], array: np.ndarray) -> np.ndarray:
    typed = array.view(_numpy_dtype(dtype, name)).reshape(shape)
    if not typed.flags.aligned:
        typed = typed.copy()
        typed.flags.writeable = False
    return typed


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


def open(place: AnyPath, *, follow_links: bool | None = None, offline: bool | None = None) -> TensorFile:
    """Opens the tensors at a place. The format is detected from the bytes.

    Args:
        place: A path or a URL of a tensor file, of the folder of a checkpoint, or of a carton; see the module.
        follow_links: Whether links are followed from the files of a checkpoint to files outside of its folder. By default those that the user
            of this process or the superuser made; programs that open what others uploaded need `False`.
        offline: Whether the network may not be used. By default the configuration says so.

    Raises:
        IntegrityError: The file is malformed.
        InvalidInputError: It is no tensor file; the message names what it is, where that is recognized (a Git LFS pointer, a web page, a
            PyTorch checkpoint, …), and `hint` says what to do. If its name claims a tensor file, this is an IntegrityError.
        NetworkError: It must be fetched and cannot be.
        MachineError: It cannot be read.

        >>> sorted(tensors.open("weights.safetensors"))
        ['layer.weight']
    """
    return TensorFile(place, follow_links=follow_links, offline=offline)


def save(
    tensors: Mapping[str, Any],
    output: AnyPath,
    *,
    metadata: Mapping[str, str] | None = None,
    zstd: int | None = None,
    digest: Literal["sha256", "crc32c"] | None = None,
    version: Literal["1.1", "1.2", "2"] | None = None,
    sparse_below: float | None = None,
    progress: _Progress = None,
) -> Written:
    """Writes tensors to a file, in the format that its extension names: `.safetensors`, `.zt`, `.gguf`, `.npz`, or `.npy` for one tensor. The file
    appears under its name when it is complete.

    Args:
        tensors: Arrays by name: NumPy arrays, also of the types of `ml_dtypes`, tensors of PyTorch, numbers and lists.
        output: The file; an existing one is replaced.
        metadata: Texts by name, for safetensors, zTensor and GGUF.
        zstd: The level of compression, from 1 to 22; for `.zt`, as the following ones.
        digest: The algorithm of the digest that each tensor gets.
        version: The version of the format; 1.2 by default. Files of version 2 hold dense tensors, and the other options for zTensor are not
            for them.
        sparse_below: Stores a tensor as sparse if less than this share of its elements is not 0.
        progress: Called with `stage`, `done`, `total` and `unit` while the work goes on.

    Raises:
        InvalidInputError: The format cannot hold a tensor, or the metadata.
        MachineError: The file cannot be written.

        >>> tensors.save({"x": np.eye(2), "y": np.array([True, False])}, "xy.safetensors", metadata={"made by": "me"}).size > 0
        True
    """
    given = [(name, _given(name, value)) for name, value in tensors.items()]
    storing = _storing(zstd, digest, version, sparse_below)
    with _progress.reporting(progress) as callback:
        result = _carton.tensor_save(given, os.fspath(output), storing, list((metadata or {}).items()), progress=callback)
    return Written(**json.loads(result))


def convert(
    places: AnyPath | Sequence[AnyPath],
    output: AnyPath,
    *,
    only: str | Iterable[str] = (),
    exclude: str | Iterable[str] = (),
    rename: str | Iterable[str] = (),
    dtype: Literal["bfloat16", "float16", "float32", "float8_e4m3fn", "q8_0", "q4_0"] | None = None,
    saturate: bool = False,
    groups: Literal["kept", "numbers", "made"] = "kept",
    shard_size: int | None = None,
    metadata: Mapping[str, str] | None = None,
    keep_metadata: bool = True,
    zstd: int | None = None,
    digest: Literal["sha256", "crc32c"] | None = None,
    version: Literal["1.1", "1.2", "2"] | None = None,
    sparse_below: float | None = None,
    max_dense: int | None = None,
    follow_links: bool | None = None,
    offline: bool | None = None,
    progress: _Progress = None,
) -> Written:
    """Writes the tensors of a place, or of several, to a file of another format, piece by piece. No bit changes without `dtype` or `groups`:
    what a format cannot hold is refused.

    Args:
        places: A path or a URL of a tensor file, of the folder of a checkpoint, or of a carton; see the module. The tensors of several are joined.
        output: The file, as in `save`.
        only: Patterns of the names of the tensors to write; `*` stands for any characters, `?` for one.
        exclude: Patterns of the names of tensors that are left out.
        rename: Substitutions in the names like those of `sed -E`: `s/^model\\.//`.
        dtype: The type that floats are rounded to, to the nearest number. Integers stay, and what is quantized already. `q8_0` and `q4_0` are blocks of GGUF files, which
            matrices become whose rows are a multiple of 32 numbers; other floats become `float32` then.
        saturate: Whether numbers beyond the largest one of `dtype` become that. Otherwise they are an error.
        groups: What happens to the quantized groups of zTensor files: they are `kept`; the float32 `numbers` that they, and blocks of GGUF, represent are
            written, and the dense tensors that packed ones of GPTQ, AWQ, FP8 and others stand for, under their own names; or groups are `made` of each int8 matrix `NAME` and its scale `NAME.scale`.
        shard_size: The most bytes of tensors in a file, for safetensors: more become several files and their index, as transformers writes them.
        metadata: Texts by name, in place of those of the same name.
        keep_metadata: Whether the metadata of the places is written.
        zstd: As in `save`, like `digest`, `version`, `sparse_below` and `progress`.
        max_dense: The largest size in bytes of a sparse tensor when it is made dense; 4 GiB by default.
        follow_links: As in `open`.
        offline: Whether the network may not be used. By default the configuration says so.

    Raises:
        InvalidInputError: The format cannot hold a tensor; no name matches; two tensors would have one name; a number is beyond `dtype`.
        Error: Any other failure; see its subclasses.

        >>> tensors.convert("weights.safetensors", "weights.zt", digest="sha256").tensors
        1
        >>> tensors.convert("weights.safetensors", "half.safetensors", dtype="float16", rename="s/layer/block/").tensors
        1
    """
    several = [places] if isinstance(places, (str, bytes, os.PathLike)) else list(places)
    converting = {
        "groups": groups,
        "only": _patterns(only),
        "exclude": _patterns(exclude),
        "rename": _patterns(rename),
        "dtype": dtype,
        "saturate": saturate,
        "shard_size": shard_size,
        "metadata": list((metadata or {}).items()),
        "keep_metadata": keep_metadata,
    }
    storing = _storing(zstd, digest, version, sparse_below)
    with _progress.reporting(progress) as callback:
        result = _carton.tensor_convert(
            [_origin(place, max_dense=max_dense, follow_links=follow_links, offline=offline) for place in several],
            os.fspath(output),
            storing,
            converting,
            progress=callback,
        )
    return Written(**json.loads(result))


def merge(
    places: Sequence[AnyPath],
    output: AnyPath,
    *,
    method: Literal["linear", "slerp", "task-arithmetic"] = "linear",
    weights: Iterable[float] = (),
    normalize: bool | None = None,
    t: float | None = None,
    base: AnyPath | None = None,
    lambda_: float | None = None,
    dtype: Literal["bfloat16", "float16", "float32", "float8_e4m3fn"] | None = None,
    zstd: int | None = None,
    digest: Literal["sha256", "crc32c"] | None = None,
    version: Literal["1.1", "1.2", "2"] | None = None,
    sparse_below: float | None = None,
    max_dense: int | None = None,
    follow_links: bool | None = None,
    offline: bool | None = None,
    progress: _Progress = None,
) -> Written:
    """Writes a blend of models that have the same tensors, of the same dtypes and shapes. Tensors are read in pieces, so that their size does not matter.

    Floats are blended in float32, or in float64 if that is their type, and rounded once. Integers, booleans and floats of 8 bits must be the same in all models.

    Args:
        places: The models: paths or URLs of tensor files, of folders of checkpoints, or of files of a carton; see the module.
        output: The file, as in `save`.
        method: `linear` is the sum of the models times their weights, divided by the sum of the weights. `slerp` is on the arc between the first model and the second.
            `task-arithmetic` adds to the base `lambda_` times the sum of the differences from it, times their weights.
        weights: A weight for each model; 1 for each by default. Not for `slerp`.
        normalize: Whether to divide by the sum of the weights; by default for `linear` only.
        t: Where between the first model, 0, and the second one, 1; for `slerp`.
        base: The model that the others were made of; for `task-arithmetic`.
        lambda_: A factor of the sum of the differences; for `task-arithmetic`.
        dtype: The type of the floats that are written; by default that of the models.
        zstd: As in `save`, like `digest`, `version`, `sparse_below` and `progress`.
        max_dense: The largest size in bytes of a sparse tensor when it is made dense; 4 GiB by default.
        follow_links: As in `open`.
        offline: Whether the network may not be used. By default the configuration says so.

    Raises:
        InvalidInputError: A model lacks a tensor or has another one; the method does not fit the models.
        Error: Any other failure; see its subclasses.

        >>> written = tensors.save({"layer.weight": np.full((4, 3), 3, np.float32)}, "three.safetensors")
        >>> merged = tensors.merge(["weights.safetensors", "three.safetensors"], "merged.safetensors", weights=[1, 2])
        >>> with tensors.open(merged.path) as file:
        ...     print(file["layer.weight"][0, 0])
        2.0
    """
    merging = {
        "method": method,
        "weights": list(weights),
        "normalize": normalize,
        "t": t,
        "lambda": lambda_,
        "dtype": dtype,
    }
    models = [_origin(place, max_dense=max_dense, follow_links=follow_links, offline=offline) for place in places]
    origin = None if base is None else _origin(base, max_dense=max_dense, follow_links=follow_links, offline=offline)
    storing = _storing(zstd, digest, version, sparse_below)
    with _progress.reporting(progress) as callback:
        result = _carton.tensor_merge(models, origin, os.fspath(output), storing, merging, progress=callback)
    return Written(**json.loads(result))


def merge_adapters(
    place: AnyPath,
    adapters: Sequence[AnyPath],
    output: AnyPath,
    *,
    scales: Iterable[float] = (),
    dtype: Literal["bfloat16", "float16", "float32", "float8_e4m3fn"] | None = None,
    zstd: int | None = None,
    digest: Literal["sha256", "crc32c"] | None = None,
    version: Literal["1.1", "1.2", "2"] | None = None,
    max_dense: int | None = None,
    follow_links: bool | None = None,
    offline: bool | None = None,
    progress: _Progress = None,
) -> Written:
    """Writes a model with low-rank adapters (LoRA) of PEFT merged into its weights, one after another, as `merge_and_unload` of PEFT does.

    Args:
        place: The model: a path or a URL of a tensor file, of the folder of a checkpoint, or of a file of a carton; see the module.
        adapters: The folders of the adapters on this machine, or their files of tensors, with `adapter_config.json` beside them.
        output: The file, as in `save`.
        scales: A factor of what each adapter adds; 1 for each by default.
        dtype: The type of the floats that are written; by default that of the model.
        zstd: As in `save`, like `digest`, `version` and `progress`.
        max_dense: The largest size in bytes of a sparse tensor when it is made dense; 4 GiB by default.
        follow_links: As in `open`.
        offline: Whether the network may not be used. By default the configuration says so.

    Raises:
        InvalidInputError: An adapter is more than a product that is added, such as DoRA, or has a tensor that has no place in the model.
        Error: Any other failure; see its subclasses.

        >>> import json, pathlib
        >>> folder = pathlib.Path("adapter")
        >>> folder.mkdir()
        >>> config = {"peft_type": "LORA", "r": 1, "lora_alpha": 2, "target_modules": ["layer"]}
        >>> length = (folder / "adapter_config.json").write_text(json.dumps(config))
        >>> layer = "base_model.model.layer"
        >>> product = {f"{layer}.lora_A.weight": np.ones((1, 3), np.float32), f"{layer}.lora_B.weight": np.ones((4, 1), np.float32)}
        >>> written = tensors.save(product, folder / "adapter_model.safetensors")
        >>> merged = tensors.merge_adapters("weights.safetensors", [folder], "tuned.safetensors", scales=[0.5])
        >>> with tensors.open(merged.path) as file:
        ...     print(file["layer.weight"][0, 0])
        1.0
    """
    storing = _storing(zstd, digest, version, None)
    model = _origin(place, max_dense=max_dense, follow_links=follow_links, offline=offline)
    adapting = {"adapters": [os.fspath(adapter) for adapter in adapters], "scales": list(scales), "dtype": dtype}
    with _progress.reporting(progress) as callback:
        result = _carton.tensor_merge_adapters(model, os.fspath(output), storing, adapting, progress=callback)
    return Written(**json.loads(result))


def quantize(
    place: AnyPath,
    output: AnyPath,
    *,
    per_channel: bool = False,
    group_size: int | None = None,
    only: str | Iterable[str] = (),
    measure: bool = False,
    zstd: int | None = None,
    digest: Literal["sha256", "crc32c"] | None = None,
    version: Literal["1.1", "1.2", "2"] | None = None,
    max_dense: int | None = None,
    follow_links: bool | None = None,
    offline: bool | None = None,
    progress: _Progress = None,
) -> Quantized:
    """Writes float tensors as int8: a tensor `NAME` becomes its integers, and `NAME.scale`, the float64 number that they were multiplied by.
    Others are written unchanged, and so is what is quantized already.

    Args:
        place: A path or a URL of a tensor file, of the folder of a checkpoint, or of a carton; see the module.
        output: The file, as in `save`.
        per_channel: Whether each index of axis 0 has a scale of its own.
        group_size: Makes a quantized group of each matrix instead, with one scale for this many rows of each column; for `.zt`.
        only: Patterns of the names of the tensors to quantize. The others are written unchanged.
        measure: Whether to measure what is lost.
        zstd: As in `save`, like `digest`, `version` and `progress`.
        max_dense: The largest size in bytes of a sparse tensor when it is made dense; 4 GiB by default.
        follow_links: As in `open`.
        offline: Whether the network may not be used. By default the configuration says so.

    Raises:
        InvalidInputError: There is nothing to quantize.
        Error: Any other failure; see its subclasses.

        >>> report = tensors.quantize("weights.safetensors", "weights.int8.safetensors", measure=True)
        >>> [tensor.name for tensor in report.quantized], report.total.relative
        (['layer.weight'], 0.0)
    """
    quantizing = {
        "per_channel": per_channel,
        "group_size": group_size,
        "only": _patterns(only),
        "measure": measure,
    }
    storing = _storing(zstd, digest, version, None)
    with _progress.reporting(progress) as callback:
        text = _carton.tensor_quantize(
            _origin(place, max_dense=max_dense, follow_links=follow_links, offline=offline), os.fspath(output), storing, quantizing, progress=callback
        )
    result = json.loads(text)
    result["quantized"] = [
        QuantizedTensor(**{**tensor, "error": _loss(tensor.get("error"))}) for tensor in result["quantized"]
    ]
    return Quantized(**{**result, "total": _loss(result.get("total"))})


def validate(
    place: AnyPath,
    model: AnyPath,
    *,
    sizes: Mapping[str, int] | None = None,
    digests: bool = True,
    max_dense: int | None = None,
    follow_links: bool | None = None,
    offline: bool | None = None,
    progress: _Progress = None,
) -> Validation:
    """Compares tensors with what a kind of model should have: names, shapes, dtypes, and the values of scales.

    Args:
        place: A path or a URL of a tensor file, of the folder of a checkpoint, or of a carton; see the module.
        model: `bitnet-7b`, or a description in a TOML file.
        sizes: Sizes in place of those that the description names, for a smaller or larger model.
        digests: Whether the digests of a zTensor file are compared.
        max_dense: The largest size in bytes of a sparse tensor when it is made dense; 4 GiB by default.
        follow_links: As in `open`.
        offline: Whether the network may not be used. By default the configuration says so.
        progress: Called with `stage`, `done`, `total` and `unit` while the work goes on.

    Raises:
        InvalidInputError: There is no such description, or it has no such size.
        Error: Any other failure; see its subclasses.

        >>> report = tensors.validate("weights.safetensors", "bitnet-7b")
        >>> report.ok, report.tensors
        (False, 1)
    """
    origin = _origin(place, max_dense=max_dense, follow_links=follow_links, offline=offline, digests=digests)
    with _progress.reporting(progress) as callback:
        text = _carton.tensor_validate(origin, os.fsdecode(model), dict(sizes or {}), progress=callback)
    found = json.loads(text)
    errors, warnings = ([_finding(finding) for finding in found[kind]] for kind in ("errors", "warnings"))
    return Validation(
        ok=not errors,
        model=found["model"],
        tensors=found["n_tensors"],
        scales=found["n_scales"],
        parameters=found["n_parameters"],
        errors=errors,
        warnings=warnings,
    )


def verify(
    place: AnyPath,
    *,
    deep: bool = False,
    follow_links: bool | None = None,
    offline: bool | None = None,
    progress: _Progress = None,
) -> Verification:
    """Checks a file against every rule of its format, and the digests in it.

    Args:
        place: A path or a URL of a tensor file, of the folder of a checkpoint, or of a carton; see the module.
        deep: Whether to read the numbers too, and to look for NaN, infinities, tensors whose elements are all equal, and tensors with the same
            bytes.
        follow_links: As in `open`.
        offline: Whether the network may not be used. By default the configuration says so.
        progress: Called with `stage`, `done`, `total` and `unit` while the work goes on.

    Raises:
        IntegrityError: The file is so malformed that it cannot be opened.
        Error: Any other failure; see its subclasses.

        >>> tensors.verify("weights.safetensors").ok
        True
        >>> tensors.verify("weights.safetensors", deep=True).deep.constant
        [Constant(name='layer.weight', value=0.0, elements=12)]
    """
    with _progress.reporting(progress) as callback:
        origin = _origin(place, max_dense=None, follow_links=follow_links, offline=offline, digests=False)
        text = _carton.tensor_verify(origin, deep=deep, progress=callback)
    found = json.loads(text)
    return Verification(ok=found.pop("passed"), deep=_deep(found.pop("deep", None)), **found)


def diff(
    a: AnyPath,
    b: AnyPath,
    *,
    only: str | Iterable[str] = (),
    rtol: float = 0.0,
    atol: float = 0.0,
    read_all: bool = False,
    max_dense: int | None = None,
    follow_links: bool | None = None,
    offline: bool | None = None,
    progress: _Progress = None,
) -> TensorsDifference:
    """Compares the tensors of two places by their names. Where both are one tensor (an `.npy` file, or `#NAME`), the names do not matter.

    Tensors of other types are compared by value if some type holds all numbers of both, and quantized groups by the float32 numbers that they
    represent. NaN equals NaN, and -0.0 equals 0.0. Tensors are read in pieces, so that their size does not matter.

    Args:
        a: The place before: a path or a URL of a tensor file, of the folder of a checkpoint, or of a carton; see the module.
        b: The place after.
        only: Patterns of the names of the tensors to compare; `*` stands for any characters, `?` for one.
        rtol: Numbers are equal that differ by at most `atol + rtol * abs(number before)`.
        atol: See `rtol`.
        read_all: Whether tensors are read also where both `.zt` files state the same SHA-256 of their bytes.
        max_dense: The largest size in bytes of a sparse tensor when it is made dense; 4 GiB by default.
        follow_links: As in `open`.
        offline: Whether the network may not be used. By default the configuration says so.
        progress: Called with `stage`, `done`, `total` and `unit` while the work goes on.

    Raises:
        IntegrityError: A file is malformed or damaged.
        InvalidInputError: It is no tensor file; no name matches; a tolerance is no number from 0 on.
        Error: Any other failure; see its subclasses.

        >>> written = tensors.save({"layer.weight": np.full((4, 3), 0.5, np.float32)}, "after.safetensors")
        >>> found = tensors.diff("weights.safetensors", "after.safetensors")
        >>> found.tensors[0].elements.largest
        DifferingElement(index=(0, 0), a='0.0', b='0.5', difference=0.5, tensor=None)
    """
    comparing = {"only": _patterns(only), "rtol": rtol, "atol": atol, "read_all": read_all}
    before, after = (_origin(place, max_dense=max_dense, follow_links=follow_links, offline=offline) for place in (a, b))
    with _progress.reporting(progress) as callback:
        return tensors_difference(_carton.tensor_diff(before, after, comparing, progress=callback))


def _patterns(only: str | Iterable[str]) -> list[str]:
    return [only] if isinstance(only, str) else list(only)


def _origin(
    place: AnyPath,
    *,
    max_dense: int | None,
    follow_links: bool | None,
    offline: bool | None,
    only: str | Iterable[str] = (),
    digests: bool = True,
) -> dict[str, Any]:
    return {
        "place": os.fspath(place),
        "only": _patterns(only),
        "max_dense": max_dense,
        "digests": digests,
        "follow_links": follow_links,
        "offline": offline,
    }


def _storing(
    zstd: int | None, digest: str | None, version: str | None, sparse_below: float | None
) -> dict[str, Any]:
    return {"zstd": zstd, "digest": digest, "version": version, "sparse_below": sparse_below}


def _loss(found: Mapping[str, float] | None) -> Loss | None:
    return None if found is None else Loss(**found)


def _deep(found: Mapping[str, Any] | None) -> DeepFindings | None:
    if found is None:
        return None
    return DeepFindings(
        examined=found["examined"],
        not_finite=[NotFinite(**one) for one in found["not_finite"]],
        constant=[Constant(**one) for one in found["constant"]],
        copies=[Copies(**one) for one in found["copies"]],
        not_examined=found["not_examined"],
    )


def _finding(found: Mapping[str, Any]) -> Finding:
    return Finding(category=found["category"], tensor=found.get("tensor"), message=found["message"])


def _given(name: str, value: Any) -> tuple[Any, ...]:
    """The dtype, the shape and the bytes of a tensor; or the shape and the strings."""
    # NumPy lacks types that PyTorch has, so their bytes are taken.
    if type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "detach"):
        tensor = value.detach().cpu().contiguous()
        import torch

        flat = tensor.reshape(-1).view(torch.uint8).numpy()
        return str(tensor.dtype).removeprefix("torch."), list(tensor.shape), flat
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise InvalidInputError(f"`{name}` is no array: {error}") from None
    if array.dtype.kind in "UO":
        elements = array.ravel().tolist()
        if not all(isinstance(element, str) for element in elements):
            raise InvalidInputError(f"`{name}` is an array of objects, expected numbers or strings")
        return list(array.shape), elements
    little = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
    return array.dtype.name, list(array.shape), little.reshape(-1).view(np.uint8)
