"""The options that `load` and `load_async` share, declared once."""

from __future__ import annotations

import inspect
import json
import os
from typing import TYPE_CHECKING, Any, Callable, Mapping, Sequence, TypedDict, TypeVar

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
    signature_file: str | os.PathLike[str] | None
    require_signature: bool | None
    restart: bool
    pool_bytes: int | None
    offline: bool | None
    sandbox: str | None
    allow: Sequence[str]
    env: Sequence[str]
    limits: Mapping[str, int] | None


#: The limits of a runner, by name.
_LIMITS = ("memory", "processes", "open_files", "file_size", "cpu_seconds")

_DEFAULTS = {"restart": True, "install_runners": False, "bare": False, "allow_file_links": False, "trusted_keys": (), "allow": (), "env": ()}


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
    given["trusted_keys"] = key_texts(given["trusted_keys"])
    if (signature_file := given.get("signature_file")) is not None:
        given["signature_file"] = os.fsdecode(signature_file)
    if (runner_options := given.get("options")) is not None:
        given["options"] = json.dumps(dict(runner_options))
    given["sandbox"] = sandbox_options(given.pop("sandbox", None), given.pop("allow"), given.pop("env"), given.pop("limits", None))
    return given


def sandbox_options(mode: str | None, allow: Sequence[str], env: Sequence[str], limits: Mapping[str, int] | None) -> dict[str, Any]:
    """What confines a runner, as the extension module takes it.

    Raises:
        TypeError: `allow` or `env` is a text instead of a list of texts, or there is no such limit.
    """
    if isinstance(allow, str):
        raise TypeError(f"`allow` is a list, such as [{allow!r}]")
    if isinstance(env, str):
        # Not shown, because it may have a password.
        raise TypeError("`env` is a list, such as ['NAME', 'OTHER=VALUE']")
    for name in limits or ():
        if name not in _LIMITS:
            raise TypeError(f"there is no limit {name!r}, there are {', '.join(_LIMITS)}")
    # A relative path is one of the working folder.
    absolute = [f"read={os.path.abspath(text[5:])}" if text.startswith("read=") and text[5:] else text for text in allow]
    return {"sandbox": mode, "allow": absolute, "env": list(env), "limits": None if limits is None else dict(limits)}


def key_texts(keys: Sequence[str | os.PathLike[str]]) -> list[str]:
    """The PEM texts of public keys that are given as texts or as paths.

    Raises:
        OSError: A file cannot be read.
    """
    texts = []
    for key in keys:
        if isinstance(key, str) and key.lstrip().startswith("-----BEGIN"):
            texts.append(key)
        else:
            with open(key, encoding="utf-8", errors="replace") as file:
                texts.append(file.read())
    return texts
