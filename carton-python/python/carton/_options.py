"""The options that `load` and `load_async` share, declared once."""

from __future__ import annotations

import inspect
import json
import os
from typing import TYPE_CHECKING, Any, Callable, Mapping, Sequence, TypedDict, TypeVar

from ._arguments import Sandbox, check_dict, check_list, check_path, sandbox_options
from ._errors import machine_error
from ._paths import AnyPath, location_text

if TYPE_CHECKING:
    _Function = TypeVar("_Function", bound=Callable[..., Any])


class LoadOptions(TypedDict, total=False):
    """The options of `carton.load`, which documents them: `**options: Unpack[carton.LoadOptions]` in a function that passes them on."""

    expect: str | None
    device: str | int | None
    runner: str | None
    options: Mapping[str, Any] | None
    timeout: float | None
    load_timeout: float | None
    pool_wait: float | None
    signature: str | None
    framework_version: str | None
    install_runners: bool
    bare: bool
    allow_file_links: bool
    trusted_keys: Sequence[str | os.PathLike[str]]
    bundle: AnyPath | None
    require_signed: bool | None
    restart: bool
    pool_bytes: int | None
    offline: bool | None
    sandbox: Sandbox | str | None


_DEFAULTS = {"restart": True, "install_runners": False, "bare": False, "allow_file_links": False, "trusted_keys": ()}


def takes_load_options(function: _Function) -> _Function:
    """Gives a function with `**options` the signature with each of them by name, which `help` and completion show."""
    signature = inspect.signature(function)
    own = [parameter for parameter in signature.parameters.values() if parameter.kind is not parameter.VAR_KEYWORD]
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=_DEFAULTS.get(name), annotation=annotation)
        for name, annotation in inspect.get_annotations(LoadOptions).items()
    ]
    function.__signature__ = signature.replace(parameters=[*own, *options])  # type: ignore[attr-defined]
    return function


def as_given(options: LoadOptions) -> dict[str, Any]:
    """The options as the extension module takes them.

    Raises:
        TypeError: There is no such option.
        InvalidInputError: An option is not of its type.
    """
    for name in options:
        if name not in LoadOptions.__annotations__:
            raise TypeError(f"load() got an unexpected keyword argument {name!r}")
    given: dict[str, Any] = {**_DEFAULTS, **options}
    if (device := given.get("device")) is not None:
        given["device"] = str(device)
    given["trusted_keys"] = key_texts(given["trusted_keys"])
    if (bundle := given.get("bundle")) is not None:
        given["bundle"] = location_text(bundle)
    if (runner_options := given.get("options")) is not None:
        check_dict("options", runner_options)
        given["options"] = json.dumps(dict(runner_options))
    given["sandbox"] = sandbox_options(given.pop("sandbox", None))
    return given


def key_texts(keys: Sequence[str | os.PathLike[str]]) -> list[str]:
    """The PEM texts of keys or certificates that are given as texts or as paths.

    Raises:
        InvalidInputError: It is one text and no list, or has something else than texts and paths.
        MachineError: A file cannot be read.
    """
    check_list("keys", keys, check_path)
    texts = []
    for key in keys:
        if isinstance(key, str) and key.lstrip().startswith("-----BEGIN"):
            texts.append(key)
        else:
            try:
                with open(key, encoding="utf-8", errors="replace") as file:
                    texts.append(file.read())
            except OSError as error:
                raise machine_error(error) from error
    return texts
