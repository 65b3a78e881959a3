from typing import TYPE_CHECKING, Any, Callable, Iterator, Literal, Mapping, Protocol, Sequence, final

import numpy as np
import numpy.typing as npt

from ._paths import AnyPath
from ._diff import CartonDiff
from ._results import (
    CacheListing,
    Info,
    MapReport,
    Packed,
    Recognized,
    Pruned,
    Pulled,
    Pushed,
    Resolved,
    Runner,
    SelfTestReport,
    Shrunk,
    Signed,
    SigningStatus,
    TagInfo,
    Tagged,
    VerifyReport,
)

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "__version__",
    "use_program",
    "load",
    "load_async",
    "diff",
    "open",
    "pack",
    "recognize",
    "eject",
    "shrink",
    "resolve",
    "generate_key",
    "sign",
    "push",
    "pull",
    "tag",
    "tags",
    "runners",
    "install_runner",
    "cache_list",
    "cache_prune",
    "cache_remove",
    "tensor_convert",
    "tensor_diff",
    "tensor_merge",
    "tensor_merge_adapters",
    "tensor_quantize",
    "tensor_save",
    "tensor_validate",
    "tensor_verify",
    "take_log",
    "start_log",
    "cast_inputs",
    "arrow_numbers",
    "arrow_strings",
    "arrow_bytes",
    "arrow_struct",
    "from_arrow",
    "from_dlpack",
    "to_dlpack",
    "ArrowArray",
    "Bridge",
    "Memory",
    "MappedRows",
    "Model",
    "Sealed",
    "Stream",
    "Package",
    "TensorSpec",
    "_TensorFile",
    "before_exit",
]

__version__: str

_Value = Any
_Outputs = dict[str, Any]

class _ArrowStream(Protocol):
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...

@final
class TensorSpec:
    """What a carton declares of one input or output.

    `shape` is a tuple of sizes (`int`), symbols (`str`) and `"*"` for any size; or one text: `"*"` for any shape, or a symbol for all of it.
    `dtype` is a name, such as `float32`, `bool`, `bfloat16` or `bytes`, or a dtype of NumPy or `ml_dtypes`.
    """

    def __new__(
        cls,
        name: str,
        dtype: npt.DTypeLike,
        shape: str | Sequence[int | str | None] | None = None,
        *,
        description: str | None = None,
        internal_name: str | None = None,
        optional: bool | None = None,
    ) -> TensorSpec: ...
    @property
    def name(self) -> str: ...
    @property
    def dtype(self) -> str: ...
    @property
    def shape(self) -> str | tuple[int | str, ...]: ...
    @property
    def description(self) -> str | None: ...
    @property
    def internal_name(self) -> str | None: ...
    @property
    def optional(self) -> bool: ...
    def __getnewargs_ex__(self) -> tuple[tuple[str, str, Any], dict[str, Any]]: ...
    def __hash__(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...

@final
class Model:
    """A model that is loaded in its runner, from `carton.load`.

    Calls take inputs by name, in declared order, or as one dict; `timeout` is in seconds. An input whose name is `timeout` must be passed in
    a dict. Any number of threads and tasks may call the model at once.
    """

    def __call__(self, *inputs: _Value, timeout: float | None = None, **named: _Value) -> _Outputs: ...
    def infer(self, *inputs: _Value, timeout: float | None = None, **named: _Value) -> _Outputs: ...
    async def infer_async(self, *inputs: _Value, timeout: float | None = None, **named: _Value) -> _Outputs: ...
    def stream(self, *inputs: _Value, timeout: float | None = None, **named: _Value) -> Stream: ...
    def seal(self, *inputs: _Value, **named: _Value) -> Sealed: ...
    def alloc(
        self,
        input: str | None = None,
        /,
        *,
        shape: Sequence[int] | None = None,
        dtype: npt.DTypeLike | None = None,
        **symbols: int,
    ) -> np.ndarray: ...
    def map(
        self,
        rows: AnyPath | _ArrowStream,
        *,
        inputs: Mapping[str, str] | None = None,
        outputs: Mapping[str, str] | None = None,
        keep: bool | Sequence[str] | None = None,
        constants: Mapping[str, _Value] | None = None,
        batch_size: int | None = None,
        batch_bytes: int | None = None,
        workers: int = 1,
        null: Literal["nan"] | None = None,
        times: Literal["s", "ms", "us", "ns"] | None = None,
    ) -> MappedRows: ...
    def map_to(
        self,
        path: AnyPath,
        rows: AnyPath | _ArrowStream,
        *,
        inputs: Mapping[str, str] | None = None,
        outputs: Mapping[str, str] | None = None,
        keep: bool | Sequence[str] | None = None,
        constants: Mapping[str, _Value] | None = None,
        batch_size: int | None = None,
        batch_bytes: int | None = None,
        workers: int = 1,
        null: Literal["nan"] | None = None,
        times: Literal["s", "ms", "us", "ns"] | None = None,
        progress: Callable[..., None] | bool | None = None,
    ) -> MapReport: ...
    def self_test(
        self, *, rtol: float | None = None, atol: float | None = None, progress: Callable[..., None] | None = None
    ) -> SelfTestReport: ...
    def ping(self) -> None: ...
    def _repr_html_(self) -> str: ...
    @property
    def package(self) -> Package: ...
    @property
    def inputs(self) -> list[TensorSpec]: ...
    @property
    def outputs(self) -> list[TensorSpec]: ...
    @property
    def runner(self) -> str: ...
    @property
    def closed(self) -> bool: ...
    def close(self) -> None: ...
    def __enter__(self) -> Model: ...
    def __exit__(self, *_exception: object) -> None: ...

@final
class Sealed:
    """Inputs that the runner keeps, from `Model.seal`. A call passes it as its only input."""

    def close(self) -> None: ...
    def __enter__(self) -> Sealed: ...
    def __exit__(self, *_exception: object) -> None: ...

@final
class MappedRows:
    """The rows of a table with the outputs of a model, from `Model.map`. They are computed as they are read, once: by iterating, by `read_all`
    or `write`, or by a library that reads Arrow streams, as `pyarrow.table(rows)` and `polars.DataFrame(rows)` do.
    """

    def __new__(
        cls, model: Model, table: Any, constants: Mapping[str, _Value] | None, options: Mapping[str, Any]
    ) -> MappedRows: ...
    def __iter__(self) -> Iterator[pa.RecordBatch]: ...
    def read_all(self) -> pa.Table: ...
    def write(self, path: AnyPath, progress: Callable[..., None] | None = None) -> MapReport: ...
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...
    def _raise(self) -> None: ...
    def close(self) -> None: ...
    def __enter__(self) -> MappedRows: ...
    def __exit__(self, *_exception: object) -> None: ...

@final
class Stream:
    """The outputs of a call as they come, from `Model.stream`. The call begins when the first is asked for, and ends with the stream."""

    def __iter__(self) -> Stream: ...
    def __next__(self) -> _Outputs: ...
    def __aiter__(self) -> Stream: ...
    async def __anext__(self) -> _Outputs: ...
    def close(self) -> None: ...
    def __enter__(self) -> Stream: ...
    def __exit__(self, *_exception: object) -> None: ...

@final
class Package:
    """An opened carton, from `carton.open`: what it says of itself, its files and tensors. No runner is started."""

    @property
    def manifest_sha256(self) -> str | None: ...
    @property
    def signing(self) -> SigningStatus | None: ...
    @property
    def model_name(self) -> str | None: ...
    @property
    def short_description(self) -> str | None: ...
    @property
    def model_description(self) -> str | None: ...
    @property
    def license(self) -> str | None: ...
    @property
    def inputs(self) -> list[TensorSpec]: ...
    @property
    def outputs(self) -> list[TensorSpec]: ...
    @property
    def self_tests(self) -> list[str]: ...
    @property
    def examples(self) -> list[str]: ...
    @property
    def tensors(self) -> list[str]: ...
    def info(self) -> Info: ...
    def bom(self, format: Literal["cyclonedx", "spdx"]) -> str: ...
    def tensor(self, name: str) -> Any: ...
    def example(self, name: str) -> tuple[dict[str, Any], dict[str, Any]]: ...
    def self_test(self, name: str) -> tuple[dict[str, Any], dict[str, Any] | None]: ...
    def read(self, path: str, *, limit: int = ...) -> bytes: ...
    def _repr_html_(self) -> str: ...
    def verify(self, *, progress: Callable[..., None] | None = None) -> VerifyReport: ...
    def unpack(
        self, destination: AnyPath, *, progress: Callable[..., None] | None = None
    ) -> None: ...

@final
class ArrowArray:
    """A tensor as an Arrow array, or a dict of tensors as a struct array, from `carton.arrow`. Consumers of the PyCapsule interface take it."""

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[Any, Any]: ...
    def __arrow_c_schema__(self) -> Any: ...
    def __len__(self) -> int: ...

@final
class Memory:
    """Owns the memory of arrays that this module makes: it is their `base`."""

@final
class Bridge:
    def __new__(cls) -> Bridge: ...
    def fileno(self) -> int: ...
    def deliver(self) -> None: ...

@final
class _TensorFile:
    def __new__(cls, place: AnyPath, *, follow_links: bool | None = None, offline: bool | None = None) -> _TensorFile: ...
    @property
    def format(self) -> str: ...
    def names(self) -> list[str]: ...
    def metadata(self) -> list[tuple[str, str]]: ...
    def describe(self, name: str) -> tuple[str | None, list[int], str]: ...
    def read(self, name: str) -> tuple[str | None, list[int], np.ndarray]: ...
    def read_slice(self, name: str, text: str) -> tuple[str, list[int], np.ndarray]: ...

def cast_inputs(specs: Sequence[TensorSpec], inputs: Mapping[str, Any]) -> dict[str, Any]: ...
def arrow_numbers(array: np.ndarray, bits: str | None = None) -> ArrowArray: ...
def arrow_strings(elements: Sequence[str], shape: Sequence[int]) -> ArrowArray: ...
def arrow_bytes(elements: Sequence[bytes], shape: Sequence[int]) -> ArrowArray: ...
def arrow_struct(names: Sequence[str], arrays: Sequence[ArrowArray]) -> ArrowArray: ...
def from_arrow(value: Any) -> np.ndarray: ...
def from_dlpack(capsule: Any) -> tuple[str, np.ndarray]: ...
def to_dlpack(bits: np.ndarray, dtype: str, is_versioned: bool) -> Any: ...
def before_exit() -> None: ...
def use_program(path: AnyPath) -> None: ...
def load(location: str, options: Mapping[str, Any], progress: Callable[..., None] | None = None) -> Model: ...
async def load_async(location: str, options: Mapping[str, Any]) -> Model: ...
def open(
    location: str,
    *,
    expect: str | None = None,
    allow_file_links: bool = False,
    trusted_keys: Sequence[str] | None = None,
    bundle: str | None = None,
    require_signed: bool | None = None,
    offline: bool | None = None,
    progress: Callable[..., None] | None = None,
) -> Package: ...
def pack(
    model: AnyPath,
    output: AnyPath,
    options: Mapping[str, Any],
    progress: Callable[..., None] | None = None,
) -> Packed: ...
def recognize(model: AnyPath) -> Recognized | None: ...
def eject(model: AnyPath, folder: AnyPath) -> None: ...
def shrink(
    location: str,
    output: AnyPath,
    *,
    url_prefix: str | None = None,
    min_size: int | None = None,
    links: Mapping[str, Sequence[str]] | None = None,
    save_files: AnyPath | None = None,
    progress: Callable[..., None] | None = None,
) -> Shrunk: ...
def resolve(
    location: str,
    output: AnyPath,
    *,
    allow_file_links: bool = False,
    progress: Callable[..., None] | None = None,
) -> Resolved: ...
def generate_key(curve: str, password: str | None = None) -> tuple[str, str, str]: ...
def sign(
    location: str,
    *,
    key: str,
    password: str | None = None,
    certificates: Sequence[str] | None = None,
    expect: str | None = None,
    output: AnyPath | None = None,
    progress: Callable[..., None] | None = None,
) -> Signed: ...
def push(
    location: str,
    artifact: str,
    *,
    min_size: int | None = None,
    mount_from: Sequence[str] | None = None,
    expect: str | None = None,
    allow_file_links: bool = False,
    trusted_keys: Sequence[str] | None = None,
    bundle: str | None = None,
    require_signed: bool | None = None,
    progress: Callable[..., None] | None = None,
) -> Pushed: ...
def pull(
    artifact: str,
    output: AnyPath | None = None,
    *,
    compression: str | None = None,
    expect: str | None = None,
    trusted_keys: Sequence[str] | None = None,
    bundle: str | None = None,
    require_signed: bool | None = None,
    progress: Callable[..., None] | None = None,
) -> Pulled: ...
def tag(artifact: str, tag: str, *, progress: Callable[..., None] | None = None) -> Tagged: ...
def tags(repository: str, *, progress: Callable[..., None] | None = None) -> list[TagInfo]: ...
def runners() -> list[Runner]: ...
def install_runner(
    name: str, *, version: str | None = None, index: str | None = None, progress: Callable[..., None] | None = None
) -> str: ...
def cache_list() -> CacheListing: ...
def cache_prune(
    *, older_than: float | None = None, max_size: int | None = None, dry_run: bool = False
) -> Pruned: ...
def cache_remove(wanted: Sequence[str]) -> Pruned: ...
def tensor_convert(
    origins: Sequence[Mapping[str, Any]],
    output: AnyPath,
    storing: Mapping[str, Any],
    converting: Mapping[str, Any],
    *,
    progress: Callable[..., None] | None = None,
) -> str: ...
def tensor_merge(
    models: Sequence[Mapping[str, Any]],
    base: Mapping[str, Any] | None,
    output: AnyPath,
    storing: Mapping[str, Any],
    merging: Mapping[str, Any],
    *,
    progress: Callable[..., None] | None = None,
) -> str: ...
def tensor_merge_adapters(
    model: Mapping[str, Any],
    output: AnyPath,
    storing: Mapping[str, Any],
    adapting: Mapping[str, Any],
    *,
    progress: Callable[..., None] | None = None,
) -> str: ...
def tensor_quantize(
    origin: Mapping[str, Any],
    output: AnyPath,
    storing: Mapping[str, Any],
    quantizing: Mapping[str, Any],
    *,
    progress: Callable[..., None] | None = None,
) -> str: ...
def tensor_validate(
    origin: Mapping[str, Any],
    model: str,
    sizes: Mapping[str, int],
    *,
    progress: Callable[..., None] | None = None,
) -> str: ...
def diff(
    a: str,
    b: str,
    *,
    fetch: bool = False,
    rtol: float = 0.0,
    atol: float = 0.0,
    allow_file_links: bool = False,
    trusted_keys: Sequence[str] | None = None,
    require_signed: bool | None = None,
    offline: bool | None = None,
    progress: Callable[..., None] | None = None,
) -> CartonDiff: ...
def tensor_diff(
    a: Mapping[str, Any],
    b: Mapping[str, Any],
    comparing: Mapping[str, Any],
    *,
    progress: Callable[..., None] | None = None,
) -> str: ...
def tensor_verify(
    origin: Mapping[str, Any], *, deep: bool, progress: Callable[..., None] | None = None
) -> str: ...
def tensor_save(
    given: Sequence[tuple[str, tuple[Any, ...]]],
    output: AnyPath,
    storing: Mapping[str, Any],
    metadata: Sequence[tuple[str, str]],
    *,
    progress: Callable[..., None] | None = None,
) -> str: ...
def start_log(level: int) -> None: ...
def take_log() -> list[tuple[int, str, str]]: ...
