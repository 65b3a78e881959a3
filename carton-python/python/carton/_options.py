"""The options that `load` and `load_async` share, declared once."""

from __future__ import annotations

import inspect
import json
from typing import TYPE_CHECKING, Any, Callable, Mapping, TypedDict, TypeVar

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
    restart: bool
    pool_bytes: int | None
    offline: bool | None


_DEFAULTS = {"restart": True, "install_runners": False, "bare": False, "allow_file_links": False}


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
    """
    for name in options:
        if name not in LoadOptions.__annotations__:
            raise TypeError(f"load() got an unexpected keyword argument {name!r}")
    given: dict[str, Any] = {**_DEFAULTS, **options}
    if (device := given.get("device")) is not None:
        given["device"] = str(device)
    if (runner_options := given.get("options")) is not None:
        given["options"] = json.dumps(dict(runner_options))
    return given
