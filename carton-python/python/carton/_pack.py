"""Packing: what `carton.pack` takes, as the extension module takes it."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import Any, Callable, Mapping, Sequence

from . import _carton, _live, _progress
from ._errors import InvalidInputError
from ._options import sandbox_options
from ._paths import AnyPath
from ._results import Packed


@dataclass(frozen=True)
class SelfTest:
    """A self-test to be packed.

    Attributes:
        inputs: Arrays by the names of inputs.
        expected_out: Arrays by the names of outputs; None for a test that only runs the model.
        name: What reports call it.
        description: What it shows, in Markdown.
    """

    inputs: Mapping[str, Any]
    expected_out: Mapping[str, Any] | None = None
    name: str | None = None
    description: str | None = None


@dataclass(frozen=True)
class Example:
    """An example to be packed. Unlike a self-test it is shown to people.

    Attributes:
        inputs: Arrays by the names of inputs.
        sample_out: Arrays by the names of outputs.
        name: What it is called.
        description: What it shows, in Markdown.
    """

    inputs: Mapping[str, Any]
    sample_out: Mapping[str, Any] = field(default_factory=dict)
    name: str | None = None
    description: str | None = None


def _test(test: SelfTest | Example | Mapping[str, Any]) -> tuple[Any, Any, dict[str, Any], Any]:
    if isinstance(test, SelfTest):
        expected = None if test.expected_out is None else dict(test.expected_out)
        return test.name, test.description, dict(test.inputs), expected
    if isinstance(test, Example):
        return test.name, test.description, dict(test.inputs), dict(test.sample_out)
    if isinstance(test, Mapping):
        return None, None, dict(test), None
    raise InvalidInputError(f"expected a SelfTest, an Example or a dict of inputs, found a {type(test).__name__}")


def pack(
    model: Any,
    output: AnyPath,
    *,
    example: Any = None,
    runner: str | None = None,
    metadata: AnyPath | None = None,
    model_name: str | None = None,
    short_description: str | None = None,
    model_description: str | None = None,
    license: str | None = None,
    repository: str | None = None,
    homepage: str | None = None,
    required_platforms: Sequence[str] | None = None,
    inputs: Sequence[_carton.TensorSpec] | None = None,
    outputs: Sequence[_carton.TensorSpec] | None = None,
    self_tests: Sequence[SelfTest] = (),
    examples: Sequence[Example] = (),
    record: Sequence[SelfTest | Mapping[str, Any]] = (),
    framework_version: str | None = None,
    options: Mapping[str, Any] | None = None,
    pack_options: Mapping[str, Any] | None = None,
    misc: Mapping[str, AnyPath] | None = None,
    tensors: Mapping[str, Any] | None = None,
    tensor_format: str | None = None,
    compression: str | None = None,
    links: Mapping[str, Sequence[str]] | None = None,
    check: bool = True,
    strict: bool = False,
    install_runners: bool = False,
    sandbox: str | None = None,
    allow: Sequence[str] = (),
    env: Sequence[str] = (),
    limits: Mapping[str, int] | None = None,
    progress: Callable[..., None] | bool | None = None,
) -> Packed:
    """Packs a model into a carton.

    The carton appears under its name only when it is complete, was loaded and passed its self-tests.

    Args:
        model: The file or folder of the model; or a live object: an `onnx.ModelProto`, a `torch.nn.Module` (see `runner`), a
            scikit-learn or XGBoost estimator, a function whose parameters are the inputs, or a class or an object with the method
            `infer_with_tensors(inputs)`. Python objects get the packages that they need, in the versions that are installed here.
        output: The carton to be written. An existing file is replaced.
        example: Inputs of a call: a dict by name, a tuple in order, or the only input; for an estimator an array of features or a pandas
            DataFrame, each column of which becomes an input. A live object's signature is inferred from it: the first dimension becomes
            `batch`. What the model returns for it is recorded as a self-test.
        runner: The runner that the model is for, such as `onnx`. By default the files of the model decide. A `torch.nn.Module` becomes
            TorchScript for `torchscript`, and is exported to ONNX for `onnx`, which takes an example and the packages onnx and onnxscript.
            By default it is TorchScript where a torchscript runner is installed that reads the files of this torch. Without one it is
            ONNX, which runs without torch, if there are an example and these packages, and TorchScript otherwise.
        metadata: A `carton.toml`. The other arguments replace what it says.
        inputs: Declared inputs, in order. By default the runner reads them from the model.
        outputs: Declared outputs, in order. With `inputs` alone they are those that the runner reads from the model, or else those that the
            self-tests, the example or recorded self-tests show, with any sizes.
        self_tests: Tests whose expected outputs are known.
        examples: Examples for people.
        record: Inputs of further self-tests. Their expected outputs are what the packed model returns now.
        framework_version: The versions of the framework that run the model, such as `>=1.10, <2`.
        options: Options of the runner, which are stored in the carton. `env.NAME` is an environment variable that the carton sets for the
            model.
        pack_options: Options of the runner for packing alone.
        misc: Files for `misc/`, by their names there.
        tensors: Further tensors for `tensor_data/`, by name.
        tensor_format: `bin` (the default), `safetensors` or `ztensor`.
        compression: `auto` (the default), `stored`, `zstd` or `deflate`.
        links: Lists of URLs by the SHA-256 of files that are left out, because they can be fetched from there.
        check: Whether the packed model is loaded and tested. Without self-tests it is run on zeros, if it takes them. Output shapes that
            the model itself declares and does not have are corrected with a warning.
        strict: Whether mistakes in the metadata are errors and not only warnings: unknown keys of the file, descriptions with
            `@misc/FILE` that is not in the carton, and platforms that are no target triples.
        install_runners: Whether a missing runner is installed from the configured index.
        sandbox: How the model is confined: `on` (the default), as far as this system can; `strict`, or not run at all; `off`. A confined
            model has its own files and a scratch folder, no other files, no network, and no other processes.
        allow: What a confined model may use beyond that: `network`, `read=PATH` (with `private` where the home folder or the cache is in it); and `build`, which builds Python packages from their
            sources.
        env: Environment variables that the model gets: `NAME`, one of this process, or `NAME=VALUE`. They replace those that the carton sets.
        limits: Limits of the runner by name: `memory` and `file_size` in bytes, `processes`, `open_files`, `cpu_seconds`.
        progress: Called with `stage`, `done`, `total` and `unit` while the work goes on.

    Raises:
        SelfTestError: A self-test fails. Nothing is written.
        InvalidInputError: The object is not of a kind that can be packed, or the example does not fit it.
        Error: Any other failure; see its subclasses.

        >>> def double(x):
        ...     return {"y": x * 2}
        >>> carton.pack(double, "double.carton", example=np.ones((2, 3)))
    """
    chosen = {
        "runner": runner,
        "metadata": metadata,
        "model_name": model_name,
        "short_description": short_description,
        "model_description": model_description,
        "license": license,
        "repository": repository,
        "homepage": homepage,
        "required_platforms": None if required_platforms is None else list(required_platforms),
        "inputs": None if inputs is None else list(inputs),
        "outputs": None if outputs is None else list(outputs),
        "self_tests": [_test(test) for test in self_tests],
        "examples": [_test(example) for example in examples],
        "record": [_test(test) for test in record],
        "framework_version": framework_version,
        "options": None if options is None else json.dumps(dict(options)),
        "pack_options": None if pack_options is None else json.dumps(dict(pack_options)),
        "misc": dict(misc or {}),
        "tensors": dict(tensors or {}),
        "tensor_format": tensor_format,
        "compression": compression,
        "links": {digest: list(urls) for digest, urls in (links or {}).items()},
        "check": check,
        "strict": strict,
        "install_runners": install_runners,
        "sandbox": sandbox_options(sandbox, allow, env, limits),
    }
    live = _live.prepared(model, example=example, inputs=inputs, outputs=outputs, runner=runner, options=options)
    with live as prepared, _progress.reporting(progress) as callback:
        return _carton.pack(prepared.path, os.fspath(output), prepared.completed(chosen), callback)
