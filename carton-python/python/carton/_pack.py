"""Packing: what `carton.pack` takes, as the extension module takes it."""

from __future__ import annotations

import json
import os
from typing import Any, Callable, Mapping, Sequence

from . import _carton, _live, _progress
from ._arguments import (
    METADATA_TEXTS,
    AnyTest,
    Example,
    Files,
    Metadata,
    Sandbox,
    SelfTest,
    check_bool,
    check_dict,
    check_list,
    check_text,
    metadata_of,
    sandbox_options,
    wrong_type,
)
from ._errors import InvalidInputError
from ._paths import AnyPath
from ._results import Packed


def pack(
    model: Any,
    output: AnyPath,
    *,
    example: Any = None,
    tests: Sequence[AnyTest] = (),
    inputs: Sequence[_carton.TensorSpec] | None = None,
    outputs: Sequence[_carton.TensorSpec] | None = None,
    metadata: Metadata | AnyPath | None = None,
    files: Files | None = None,
    runner: str | None = None,
    framework_version: str | None = None,
    options: Mapping[str, Any] | None = None,
    pack_options: Mapping[str, Any] | None = None,
    check: bool = True,
    sandbox: Sandbox | str | None = None,
    install_runners: bool = False,
    progress: Callable[..., None] | bool | None = None,
) -> Packed:
    """Packs a model into a carton.

    The carton appears under its name only when it is complete, was loaded and passed its self-tests.

    Args:
        model: The file or folder of the model, on this machine; or a live object: an `onnx.ModelProto`, a `torch.nn.Module` (see `runner`), a
            scikit-learn, XGBoost or LightGBM estimator, a function whose parameters are the inputs (those with a default are optional), or a
            class or an object with the method `infer_with_tensors(inputs)`. Python objects get the packages that they need, in the versions that are installed here.
        output: The carton to be written. An existing file is replaced.
        example: Inputs of a call: a dict by name, a tuple in order, or the only input; for an estimator an array of features or a pandas
            DataFrame, each column of which becomes an input. A live object's signature is inferred from it: the first dimension becomes
            `batch`. What the model returns for it is recorded as a self-test.
        tests: Calls that the carton holds: a `SelfTest` tests the model, an `Example` is shown to people.
        inputs: Declared inputs, in order. By default the runner reads them from the model.
        outputs: Declared outputs, in order. With `inputs` alone they are those that the runner reads from the model, or else those that the
            example and the tests show, with any sizes.
        metadata: What the carton says of itself: a `Metadata`, or the path of a `carton.toml`.
        files: What the carton holds beside the model, and how it is stored: a `Files`.
        runner: The runner that the model is for, such as `onnx`. By default the files of the model decide. A `torch.nn.Module` becomes
            TorchScript for `torchscript`, and is exported to ONNX for `onnx`, which takes an example and the packages onnx and onnxscript.
            By default it is TorchScript where a torchscript runner is installed that reads the files of this torch. Without one it is
            ONNX, which runs without torch, if there are an example and these packages, and TorchScript otherwise.
        framework_version: The versions of the framework that run the model, such as `>=1.10, <2`.
        options: Options of the runner, which are stored in the carton. `env.NAME` is an environment variable that the carton sets for the
            model.
        pack_options: Options of the runner for packing alone.
        check: Whether the packed model is loaded and tested. Without self-tests it is run on zeros, if it takes them. Output shapes that
            the model itself declares and does not have are corrected with a warning.
        sandbox: How the model is confined while it is packed and checked: `on`, `strict` or `off`, or a `Sandbox`.
        install_runners: Whether a missing runner is installed from the configured index.
        progress: Called with `stage`, `done`, `total` and `unit` while the work goes on. By default a line on standard error shows it in
            terminals and notebooks; `False` shows nothing.

    Raises:
        SelfTestError: A self-test fails. Nothing is written.
        InvalidInputError: The object is not of a kind that can be packed, the example does not fit it, or an argument is not of its type.
        Error: Any other failure; see its subclasses.

        >>> def double(x):
        ...     return {"y": x * 2}
        >>> carton.pack(double, "double.carton", example=np.ones((2, 3)))
    """
    about, kept = metadata_of(metadata), Files() if files is None else files
    if not isinstance(kept, Files):
        raise wrong_type("files", "a Files", files)
    for name, text in (("runner", runner), ("framework_version", framework_version)):
        if text is not None:
            check_text(name, text)
    for name, specs in (("inputs", inputs), ("outputs", outputs)):
        if specs is not None:
            check_list(name, specs, _check_spec)
    for name, given in (("options", options), ("pack_options", pack_options)):
        if given is not None:
            check_dict(name, given)
    for name, flag in (("check", check), ("install_runners", install_runners)):
        check_bool(name, flag)
    chosen = {
        **{name: getattr(about, name) for name in METADATA_TEXTS},
        "required_platforms": None if about.required_platforms is None else list(about.required_platforms),
        "metadata": about.file,
        "strict": about.strict,
        "misc": dict(kept.misc),
        "tensors": dict(kept.tensors),
        "tensor_format": kept.tensor_format,
        "compression": kept.compression,
        "links": {digest: list(urls) for digest, urls in kept.links.items()},
        "exclude": list(kept.exclude),
        "allow_secrets": list(kept.allow_secrets),
        **_calls(tests),
        "inputs": None if inputs is None else list(inputs),
        "outputs": None if outputs is None else list(outputs),
        "runner": runner,
        "framework_version": framework_version,
        "options": None if options is None else _json("options", options),
        "pack_options": None if pack_options is None else _json("pack_options", pack_options),
        "check": check,
        "sandbox": sandbox_options(sandbox),
        "install_runners": install_runners,
    }
    live = _live.prepared(model, example=example, inputs=inputs, outputs=outputs, runner=runner, options=options)
    with live as prepared, _progress.reporting(progress) as callback:
        return _carton.pack(prepared.path, os.fspath(output), prepared.completed(chosen), callback)


def _json(name: str, options: Mapping[str, Any]) -> str:
    try:
        return json.dumps(dict(options))
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"`{name}`: {error}") from error


def _check_spec(name: str, value: Any) -> None:
    if not isinstance(value, _carton.TensorSpec):
        raise wrong_type(name, "a TensorSpec", value)


def _calls(tests: Sequence[AnyTest]) -> dict[str, Any]:
    """The tests by what the extension module does with them: name, description, inputs and outputs of each."""

    def check(name: str, value: Any) -> None:
        if not isinstance(value, (SelfTest, Example)):
            raise wrong_type(name, "a SelfTest or an Example", value)

    check_list("tests", tests, check)
    calls: dict[str, list[Any]] = {"self_tests": [], "examples": [], "record": []}
    for test in tests:
        if isinstance(test, Example):
            kind, outputs = "examples", dict(test.outputs)
        elif isinstance(test.expected, str):
            kind, outputs = "record", None
        else:
            kind, outputs = "self_tests", None if test.expected is None else dict(test.expected)
        calls[kind].append((test.name, test.description, dict(test.inputs), outputs))
    return calls
