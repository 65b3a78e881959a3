"""Runs, packs and verifies cartons: machine-learning models of any framework in one verifiable file.

    >>> import carton, numpy as np
    >>> model = carton.load("digits.carton")
    >>> outputs = model(image=np.zeros((1, 1, 8, 8), np.float32))
    >>> outputs["probabilities"].shape
    (1, 10)

The model runs in a process of its own, the runner. Tensors are passed in memory that both processes share.
"""

from __future__ import annotations

import atexit
import json
import os
from typing import Any, Callable, Mapping, Sequence

from . import _carton, _log, _program, _progress, cache, ray, spark, tensors
from ._carton import MappedRows, Model, Package, Sealed, Stream, TensorSpec, __version__
from ._errors import (
    BusyError,
    Cancelled,
    ClosedError,
    Error,
    ForkError,
    IntegrityError,
    InvalidInputError,
    MachineError,
    ModelError,
    NetworkError,
    NoRunnerError,
    RunnerCrashed,
    SelfTestError,
    SignatureError,
    SignatureMismatchError,
    Timeout,
    UnsupportedError,
)
from ._pack import Example, Packed, SelfTest, pack

__all__ = [
    "BusyError",
    "Cancelled",
    "ClosedError",
    "Error",
    "Example",
    "ForkError",
    "IntegrityError",
    "InvalidInputError",
    "MachineError",
    "MappedRows",
    "Model",
    "ModelError",
    "NetworkError",
    "NoRunnerError",
    "Package",
    "Packed",
    "RunnerCrashed",
    "Sealed",
    "SelfTest",
    "SelfTestError",
    "SignatureError",
    "SignatureMismatchError",
    "Stream",
    "TensorSpec",
    "Timeout",
    "UnsupportedError",
    "__version__",
    "cache",
    "install_runner",
    "load",
    "load_async",
    "open",
    "pack",
    "ray",
    "resolve",
    "runner_for",
    "runners",
    "shrink",
    "spark",
    "tensors",
]


def _text(location: Any) -> str:
    text: str = os.fsdecode(location)
    # A path object is a path, whatever it looks like.
    if not isinstance(location, str) and ("#" in text or ":" in text):
        return os.path.join(os.path.abspath(os.path.dirname(text)), os.path.basename(text))
    return text


def _options(
    *,
    expect: str | None,
    device: str | int | None,
    runner: str | None,
    options: Mapping[str, Any] | None,
    timeout: float | None,
    signature: str | None,
    framework_version: str | None,
    install_runners: bool,
    bare: bool,
    allow_file_links: bool,
    restart: bool,
    pool_bytes: int | None,
    offline: bool | None,
) -> dict[str, Any]:
    return {
        "expect": expect,
        "device": None if device is None else str(device),
        "runner": runner,
        "options": None if options is None else json.dumps(dict(options)),
        "timeout": timeout,
        "signature": signature,
        "framework_version": framework_version,
        "install_runners": install_runners,
        "bare": bare,
        "allow_file_links": allow_file_links,
        "restart": restart,
        "pool_bytes": pool_bytes,
        "offline": offline,
    }


def load(
    location: str | os.PathLike[str],
    *,
    expect: str | None = None,
    device: str | int | None = None,
    runner: str | None = None,
    options: Mapping[str, Any] | None = None,
    timeout: float | None = None,
    signature: str | None = None,
    framework_version: str | None = None,
    install_runners: bool = False,
    bare: bool = False,
    allow_file_links: bool = False,
    restart: bool = True,
    pool_bytes: int | None = None,
    offline: bool | None = None,
    progress: Callable[..., None] | bool | None = None,
) -> Model:
    """Loads a carton, verifies it, and starts its runner with the model.

    Args:
        location: A path, or an `https://` URL. It may end in `#sha256=` and the hash that the carton must have.
        expect: The hash that the carton must have, in hexadecimal digits.
        device: `cpu`, the index of a GPU, `GPU-…` or `MIG-…`. By default the runner chooses.
        runner: The runner to use instead of the one that the carton names.
        options: Options of the runner. They override those of the carton.
        timeout: Seconds that a call may take, waiting included. A runner that is working when the time is up is killed.
        signature: How strictly inputs and outputs are checked: `strict` (the default), `warn` or `off`.
        framework_version: The version of the framework, such as `>=1.10, <2`, in place of the one that the carton requires.
        install_runners: Whether a missing runner is installed from the configured index.
        bare: The location is a model that is not in a carton. It needs `runner`, and nothing is verified.
        allow_file_links: Whether LINKS of a local carton may name local files.
        restart: Whether a call starts a fresh runner if the last one has died.
        pool_bytes: The most shared memory for inputs, in bytes.
        offline: Whether the network may not be used. By default the configuration says so.
        progress: Called with `stage`, `done`, `total` and `unit` while the load goes on. By default a line on standard error shows it in
            terminals and notebooks; `False` shows nothing.

    Raises:
        IntegrityError: The carton is damaged, or not the expected one.
        NoRunnerError: No installed runner fits.
        Error: Any other failure; see its subclasses.
    """
    chosen = _options(
        expect=expect,
        device=device,
        runner=runner,
        options=options,
        timeout=timeout,
        signature=signature,
        framework_version=framework_version,
        install_runners=install_runners,
        bare=bare,
        allow_file_links=allow_file_links,
        restart=restart,
        pool_bytes=pool_bytes,
        offline=offline,
    )
    with _progress.reporting(progress) as callback:
        return _carton.load(_text(location), chosen, callback)


async def load_async(
    location: str | os.PathLike[str],
    *,
    expect: str | None = None,
    device: str | int | None = None,
    runner: str | None = None,
    options: Mapping[str, Any] | None = None,
    timeout: float | None = None,
    signature: str | None = None,
    framework_version: str | None = None,
    install_runners: bool = False,
    bare: bool = False,
    allow_file_links: bool = False,
    restart: bool = True,
    pool_bytes: int | None = None,
    offline: bool | None = None,
) -> Model:
    """Does the same as `load`, for a task of `asyncio`. Cancelling the task cancels the load."""
    chosen = _options(
        expect=expect,
        device=device,
        runner=runner,
        options=options,
        timeout=timeout,
        signature=signature,
        framework_version=framework_version,
        install_runners=install_runners,
        bare=bare,
        allow_file_links=allow_file_links,
        restart=restart,
        pool_bytes=pool_bytes,
        offline=offline,
    )
    return await _carton.load_async(_text(location), chosen)


def open(
    location: str | os.PathLike[str],
    *,
    expect: str | None = None,
    allow_file_links: bool = False,
    offline: bool | None = None,
    progress: Callable[..., None] | bool | None = None,
) -> Package:
    """Opens a carton without starting a runner: its metadata, files and tensors. The options are those of `load`.

        >>> package = carton.open("digits.carton")
        >>> [spec.name for spec in package.inputs]
        ['image']
    """
    with _progress.reporting(progress) as callback:
        return _carton.open(
            _text(location), expect=expect, allow_file_links=allow_file_links, offline=offline, progress=callback
        )


def shrink(
    location: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    url_prefix: str | None = None,
    min_size: int | None = None,
    links: Mapping[str, Sequence[str]] | None = None,
    save_files: str | os.PathLike[str] | None = None,
    progress: Callable[..., None] | bool | None = None,
) -> dict[str, Any]:
    """Writes a carton without files that can be fetched from elsewhere. Its hash stays the same.

    Args:
        location: The carton.
        output: The smaller carton.
        url_prefix: Leaves out large files of the model. The URL of each is the prefix, a slash and its SHA-256.
        min_size: The size from which a file is large, in bytes.
        links: Leaves out the files with these SHA-256, which are at these URLs.
        save_files: A folder for the files that are left out, to be uploaded.
    """
    with _progress.reporting(progress) as callback:
        return _carton.shrink(
            _text(location),
            os.fspath(output),
            url_prefix=url_prefix,
            min_size=min_size,
            links=None if links is None else {digest: list(urls) for digest, urls in links.items()},
            save_files=None if save_files is None else os.fspath(save_files),
            progress=callback,
        )


def resolve(
    location: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    allow_file_links: bool = False,
    progress: Callable[..., None] | bool | None = None,
) -> dict[str, Any]:
    """Writes a carton with all its files, of which some were left out."""
    with _progress.reporting(progress) as callback:
        return _carton.resolve(
            _text(location), os.fspath(output), allow_file_links=allow_file_links, progress=callback
        )


def runner_for(model: str | os.PathLike[str]) -> str | None:
    """The runner for the model at a path, if its files leave no doubt."""
    return _carton.runner_for(os.fspath(model))


def runners() -> list[dict[str, Any]]:
    """The runners that are available: `name`, `framework_version`, `compat_version`, and the `folder` of an installed one."""
    return _carton.runners()


def install_runner(
    name: str, *, version: str | None = None, index: str | None = None, progress: Callable[..., None] | bool | None = None
) -> str:
    """Installs a runner from an index, and returns its name and version.

    Args:
        name: The name of the runner.
        version: The version of its framework, such as `>=1.10, <2`.
        index: The URL or path of the index; by default the configured one.
    """
    with _progress.reporting(progress) as callback:
        return _carton.install_runner(name, version=version, index=index, progress=callback)


_program.use()
atexit.register(_carton.exit)
_log.start()
