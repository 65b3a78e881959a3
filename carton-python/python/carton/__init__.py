"""Runs, packs and verifies cartons: machine-learning models of any framework in one verifiable file.

    >>> import carton, numpy as np
    >>> model = carton.load("digits.carton")
    >>> outputs = model(image=np.zeros((1, 1, 8, 8), np.float32))
    >>> outputs["probabilities"].shape
    (1, 10)

The model runs in a process of its own, the runner. Tensors are passed in memory that both processes share.

A carton is named by a path, or by a URL, of which only what is needed is fetched:

- `https://models.example.com/digits.carton`, or `http://`: a file of a web server.
- `oci://registry.example.com/team/digits:1.0`: an artifact of a registry of container images, from `carton.push`.
- `hf://team/digits@main/digits.carton`: a file of a repository of the Hugging Face Hub.
- `s3://bucket/digits.carton`, `gs://…`, `az://…`: an object of Amazon S3, Google Cloud Storage or Azure Blob Storage.

A word has one meaning: a *signature* is what a carton declares of inputs and outputs; who vouches for a carton has *signed* it.
"""

from __future__ import annotations

import atexit
import os
from typing import TYPE_CHECKING, Any, Callable, Mapping, Sequence

from . import _carton, _log, _program, _progress, cache, mlflow, ray, spark, tensors
from ._arrow import arrow
from ._arguments import Example, Files, Metadata, Sandbox, SelfTest
from ._carton import ArrowArray, MappedRows, Model, Package, Sealed, Stream, TensorSpec, __version__
from ._diff import (
    CartonDiff,
    CaseChange,
    DiffedCarton,
    FieldChange,
    FileChange,
    FileTensors,
    FileVersion,
    LinkChange,
    PackageChange,
    Packages,
    SpecChange,
)
from ._errors import (
    AbortedError,
    BusyError,
    ClosedError,
    Error,
    ForkError,
    IntegrityError,
    InvalidInputError,
    MachineError,
    ModelError,
    NetworkError,
    NoRunnerError,
    RunnerCrashedError,
    SelfTestError,
    SignatureError,
    SignatureMismatchError,
    TimedOutError,
    UnsupportedError,
    UntrustedError,
)
from ._options import LoadOptions, as_given, key_texts, takes_load_options
from ._pack import pack
from ._paths import AnyPath, location_text
from ._registry import pull, push, tag, tags
from ._results import (
    FileInfo,
    Info,
    Keys,
    LeftOut,
    MapReport,
    OutputResult,
    PackCheck,
    Packed,
    Pulled,
    Pushed,
    Recognized,
    RequiredRunner,
    Resolved,
    Runner,
    SandboxRequest,
    SelfTestReport,
    SelfTestResult,
    Shrunk,
    Signed,
    SigningStatus,
    TagInfo,
    Tagged,
    TensorInfo,
    VerifyReport,
    ZeroRun,
)
from ._signing import keygen, sign
from ._structure import leaves, structured

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = [
    "AbortedError",
    "ArrowArray",
    "BusyError",
    "CartonDiff",
    "CaseChange",
    "ClosedError",
    "DiffedCarton",
    "Error",
    "Example",
    "FieldChange",
    "FileChange",
    "FileInfo",
    "FileTensors",
    "FileVersion",
    "Files",
    "ForkError",
    "Info",
    "IntegrityError",
    "InvalidInputError",
    "Keys",
    "LeftOut",
    "LinkChange",
    "LoadOptions",
    "MachineError",
    "MapReport",
    "MappedRows",
    "Metadata",
    "Model",
    "ModelError",
    "NetworkError",
    "NoRunnerError",
    "OutputResult",
    "PackCheck",
    "Package",
    "PackageChange",
    "Packages",
    "Packed",
    "Pulled",
    "Pushed",
    "Recognized",
    "RequiredRunner",
    "Resolved",
    "Runner",
    "RunnerCrashedError",
    "Sandbox",
    "SandboxRequest",
    "Sealed",
    "SelfTest",
    "SelfTestError",
    "SelfTestReport",
    "SelfTestResult",
    "Shrunk",
    "SignatureError",
    "SignatureMismatchError",
    "Signed",
    "SigningStatus",
    "SpecChange",
    "Stream",
    "TagInfo",
    "Tagged",
    "TensorInfo",
    "TensorSpec",
    "TimedOutError",
    "UnsupportedError",
    "UntrustedError",
    "VerifyReport",
    "ZeroRun",
    "__version__",
    "arrow",
    "cache",
    "diff",
    "install_runner",
    "keygen",
    "leaves",
    "load",
    "load_async",
    "mlflow",
    "open",
    "pack",
    "pull",
    "push",
    "ray",
    "resolve",
    "runners",
    "shrink",
    "sign",
    "spark",
    "structured",
    "tag",
    "tags",
    "tensors",
]


@takes_load_options
def load(
    location: AnyPath,
    *,
    progress: Callable[..., None] | bool | None = None,
    **options: Unpack[LoadOptions],
) -> Model:
    """Loads a carton, verifies it, and starts its runner with the model.

    Args:
        location: The carton: a path, or a URL that begins with `https://`, `http://`, `oci://`, `hf://`, `s3://`, `gs://` or `az://`.
            It may end in `#sha256=` and the hash that the carton must have. `help(carton)` says what the URLs are.
        expect: The hash that the carton must have, in hexadecimal digits.
        device: `cpu`, the index of a GPU, `GPU-…` or `MIG-…`. By default the CPU in the sandbox; without it the
            runner chooses.
        runner: The runner to use instead of the one that the carton names.
        options: Options of the runner. They override those of the carton. `env.NAME` is an environment variable, as in `env`.
        timeout: Seconds that a call may take, waiting included. A runner that is working when the time is up is killed.
        load_timeout: Seconds that the runner may take to load the model, here and when a call starts it again. No limit by default.
        pool_wait: Seconds that a call waits for room in the shared memory, which earlier calls free; 30 by default.
        signature: How strictly inputs and outputs are checked: `strict` (the default), `warn` or `off`.
        framework_version: The version of the framework, such as `>=1.10, <2`, in place of the one that the carton requires.
        install_runners: Whether a missing runner is installed from the configured index.
        bare: The location is a model that is not in a carton. It needs `runner`, and nothing is verified.
        allow_file_links: Whether LINKS of a local carton may name local files.
        trusted_keys: Public keys, as paths or as PEM text, by one of which the carton must be signed. The trust rules of the
            configuration do not apply then.
        bundle: The Sigstore bundle that says who signed the carton: a path, or a URL of any kind that `location` may be. By default it is
            beside the carton, under its name and `.sig`.
        require_signed: Whether a carton is refused that no trusted signer has signed. By default the configuration says so.
        restart: Whether a call starts a fresh runner if the last one has died.
        pool_bytes: The most shared memory for inputs, in bytes.
        offline: Whether the network may not be used. By default the configuration says so.
        sandbox: How the model is confined: `on`, as far as this system can (the default); `strict`, or not run at all; `off`; or a `Sandbox`,
            which also says what the model may use.
        progress: Called with `stage`, `done`, `total` and `unit` while the load goes on. By default a line on standard error shows it in
            terminals and notebooks; `False` shows nothing.

    Raises:
        IntegrityError: The carton is damaged, or not the expected one.
        UntrustedError: The carton is not signed as it must be.
        NoRunnerError: No installed runner fits.
        TimedOutError: The runner did not load the model in time.
        NetworkError: A file must be fetched and cannot be.
        Error: Any other failure; see its subclasses.

        >>> with carton.load("digits.carton", device="cpu", timeout=30) as model:
        ...     model.runner.startswith("onnx")
        True
    """
    with _progress.reporting(progress) as callback:
        return _carton.load(location_text(location), as_given(options), callback)


@takes_load_options
async def load_async(location: AnyPath, **options: Unpack[LoadOptions]) -> Model:
    """Does the same as `load`, for a task of `asyncio`. Cancelling the task cancels the load.

    Args:
        location: The carton: a path, or a URL that begins with `https://`, `http://`, `oci://`, `hf://`, `s3://`, `gs://` or `az://`.
        options: Those of `load`, all but `progress`.

    Raises:
        Error: The errors that `load` raises.

        >>> import asyncio
        >>> async def main():
        ...     with await carton.load_async("digits.carton") as model:
        ...         return await model.infer_async(image=np.zeros((2, 1, 8, 8), np.float32))
        >>> asyncio.run(main())["probabilities"].shape
        (2, 10)
    """
    return await _carton.load_async(location_text(location), as_given(options))


def open(
    location: AnyPath,
    *,
    expect: str | None = None,
    allow_file_links: bool = False,
    trusted_keys: Sequence[str | os.PathLike[str]] = (),
    bundle: AnyPath | None = None,
    require_signed: bool | None = None,
    offline: bool | None = None,
    progress: Callable[..., None] | bool | None = None,
) -> Package:
    """Opens a carton without starting a runner: its metadata, files and tensors.

    `Package.signing` says who signed the carton. A signing bundle that is not required is looked for too, where that needs no server or
    where somebody is trusted.

    Args:
        location: The carton: a path, or a URL that begins with `https://`, `http://`, `oci://`, `hf://`, `s3://`, `gs://` or `az://`.
            It may end in `#sha256=` and the hash that the carton must have.
        expect: As in `load`, and so are the other options.

    Raises:
        IntegrityError: The carton is malformed, or not the expected one.
        UntrustedError: The carton is not signed as it must be.
        MachineError: It cannot be read.
        NetworkError: It cannot be fetched.

        >>> package = carton.open("digits.carton")
        >>> [spec.name for spec in package.inputs]
        ['image']
    """
    with _progress.reporting(progress) as callback:
        return _carton.open(
            location_text(location),
            expect=expect,
            allow_file_links=allow_file_links,
            trusted_keys=key_texts(trusted_keys),
            bundle=None if bundle is None else location_text(bundle),
            require_signed=require_signed,
            offline=offline,
            progress=callback,
        )


def diff(
    a: AnyPath,
    b: AnyPath,
    *,
    fetch: bool = False,
    rtol: float = 0.0,
    atol: float = 0.0,
    allow_file_links: bool = False,
    trusted_keys: Sequence[str | os.PathLike[str]] = (),
    require_signed: bool | None = None,
    offline: bool | None = None,
    progress: Callable[..., None] | bool | None = None,
) -> CartonDiff:
    """Says what differs between two cartons: metadata, files, tensors by name with the largest difference, packages of Python models,
    self-tests, examples and links.

    Files are compared by the digests in the manifests. The tensors of files that differ are compared where both files are on this machine, or
    with `fetch`.

    Args:
        a: The carton before: a path, or a URL that begins with `https://`, `http://`, `oci://`, `hf://`, `s3://`, `gs://` or `az://`.
        b: The carton after.
        fetch: Whether to fetch files that are not on this machine, to compare the tensors in them.
        rtol: Numbers in tensors are equal that differ by at most `atol + rtol * abs(number before)`.
        atol: See `rtol`.
        allow_file_links: As in `open`, like the following ones.
        trusted_keys: Public keys; a carton that none of them signed is refused.
        require_signed: Whether a carton without a trusted signer is refused.
        offline: Whether the network may not be used.
        progress: As in `load`.

    Raises:
        IntegrityError: A carton is damaged, or changes meanwhile.
        UntrustedError: A carton is not signed as it must be.
        Error: Any other failure; see its subclasses.

        >>> carton.diff("digits.carton", "digits.carton").is_same
        True
    """
    with _progress.reporting(progress) as callback:
        return _carton.diff(
            location_text(a),
            location_text(b),
            fetch=fetch,
            rtol=rtol,
            atol=atol,
            allow_file_links=allow_file_links,
            trusted_keys=key_texts(trusted_keys),
            require_signed=require_signed,
            offline=offline,
            progress=callback,
        )


def shrink(
    location: AnyPath,
    output: AnyPath,
    *,
    url_prefix: str | None = None,
    min_size: int | None = None,
    links: Mapping[str, Sequence[str]] | None = None,
    save_files: AnyPath | None = None,
    progress: Callable[..., None] | bool | None = None,
) -> Shrunk:
    """Writes a carton without files that can be fetched from elsewhere. Its hash stays the same.

    Args:
        location: The carton: a path, or a URL that begins with `https://`, `http://`, `oci://`, `hf://`, `s3://`, `gs://` or `az://`.
        output: The smaller carton.
        url_prefix: Leaves out large files of the model. The URL of each is the prefix, a slash and its SHA-256.
        min_size: The size from which a file is large, in bytes; 64 KiB by default.
        links: Leaves out the files with these SHA-256, which are at these URLs.
        save_files: A folder for the files that are left out, to be uploaded.
        progress: As in `load`.

    Raises:
        InvalidInputError: Neither `url_prefix` nor `links` is given, or both; or no file is left out.
        IntegrityError: The carton is damaged.

        >>> shrunk = carton.shrink("digits.carton", "small.carton", url_prefix="https://example.org/files", min_size=1000)
        >>> [file.path for file in shrunk.left_out]
        ['model/model.onnx']
    """
    with _progress.reporting(progress) as callback:
        return _carton.shrink(
            location_text(location),
            os.fspath(output),
            url_prefix=url_prefix,
            min_size=min_size,
            links=None if links is None else {digest: list(urls) for digest, urls in links.items()},
            save_files=None if save_files is None else os.fspath(save_files),
            progress=callback,
        )


def resolve(
    location: AnyPath,
    output: AnyPath,
    *,
    allow_file_links: bool = False,
    progress: Callable[..., None] | bool | None = None,
) -> Resolved:
    """Writes a carton with all its files, of which some were left out.

    Args:
        location: The carton: a path, or a URL that begins with `https://`, `http://`, `oci://`, `hf://`, `s3://`, `gs://` or `az://`.
        output: The whole carton.
        allow_file_links: Whether LINKS of a local carton may name local files.
        progress: As in `load`.

    Raises:
        NetworkError: A file cannot be fetched.
        IntegrityError: The carton, or a fetched file, is damaged.

        >>> resolved = carton.resolve("digits.carton", "whole.carton")
        >>> resolved.manifest_sha256 == carton.open("digits.carton").manifest_sha256
        True
    """
    with _progress.reporting(progress) as callback:
        return _carton.resolve(
            location_text(location), os.fspath(output), allow_file_links=allow_file_links, progress=callback
        )


def recognize(model: AnyPath) -> Recognized | None:
    """What runs the model at a path of this machine, if its files leave no doubt.

    Files of frameworks that are no Python model yet, such as those of XGBoost, scikit-learn, Keras or Hugging Face, are run by a Python model
    that `pack` writes for them, and that `eject` writes into a folder.

    Raises:
        MachineError: The path cannot be read.
        InvalidInputError: The file is empty or broken, or a model that nothing runs as it is.

        >>> carton.recognize("model.onnx").runner
        'onnx'
    """
    return _carton.recognize(os.fspath(model))


def eject(model: AnyPath, folder: AnyPath) -> None:
    """Writes the Python model that runs the files of a framework into a new folder, with copies of them, to read and change it. `pack` packs
    the folder.

    Raises:
        InvalidInputError: No such model is known for these files, or the folder is not empty.
        MachineError: A file cannot be read or written.

        >>> carton.eject("booster.json", "booster")  # doctest: +SKIP
    """
    _carton.eject(os.fspath(model), os.fspath(folder))


def runners() -> list[Runner]:
    """The runners that are available: those in the program `carton`, and the installed ones.

    Raises:
        MachineError: The folder of runners cannot be read.

        >>> sorted(runner.name for runner in carton.runners() if runner.folder is None)
        ['noop', 'onnx']
    """
    return _carton.runners()


def install_runner(
    name: str, *, version: str | None = None, index: str | None = None, progress: Callable[..., None] | bool | None = None
) -> str:
    """Installs a runner from an index, and returns its name and version.

    Args:
        name: The name of the runner.
        version: The version of its framework, such as `>=1.10, <2`.
        index: The index: a path, or a URL that begins with `https://` or `http://`; by default the configured one.
        progress: As in `load`.

    Raises:
        InvalidInputError: No index is given, and none is configured.
        NoRunnerError: The index has no such runner.
        IntegrityError: The fetched runner does not have the digest that the index says.

        >>> carton.install_runner("python", version="~3.11", index="runners/index.json")  # doctest: +SKIP
        'python 3.11'
    """
    with _progress.reporting(progress) as callback:
        return _carton.install_runner(name, version=version, index=index, progress=callback)


_program.use()
atexit.register(_carton.before_exit)
_log.start()
