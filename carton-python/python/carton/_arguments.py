"""Groups of arguments: what a model may do, what a carton says of itself, the calls and the files that it holds.

Each checks the types of its values when it is made, so that an error names the value.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any, Callable, Literal, Mapping, Sequence, Union

from ._errors import InvalidInputError
from ._paths import AnyPath

#: The limits of a runner, by name.
_LIMITS = ("memory", "processes", "open_files", "file_size", "cpu_seconds")

_Check = Callable[[str, Any], None]


def wrong_type(name: str, expected: str, value: object) -> InvalidInputError:
    """The error of an argument, or of a value in a group. The value is not shown, because it may be secret."""
    found = "None" if value is None else f"a value of type {type(value).__name__}"
    return InvalidInputError(f"`{name}`: expected {expected}, found {found}")


def check_text(name: str, value: Any) -> None:
    """A text.

    Raises:
        InvalidInputError: It is something else. The other checks raise the same.
    """
    if not isinstance(value, str):
        raise wrong_type(name, "a text", value)


def check_bool(name: str, value: Any) -> None:
    """True or False."""
    if not isinstance(value, bool):
        raise wrong_type(name, "True or False", value)


def check_path(name: str, value: Any) -> None:
    """A path."""
    if not isinstance(value, (str, bytes, os.PathLike)):
        raise wrong_type(name, "a path", value)


def check_whole(name: str, value: Any) -> None:
    """A number of bytes, processes and the like."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong_type(name, "a whole number", value)


def check_any(name: str, value: Any) -> None:
    """Anything, which becomes a tensor later."""


def check_dict(name: str, value: Any, check: _Check = check_any) -> None:
    """A dict with texts as its keys."""
    if not isinstance(value, Mapping):
        raise wrong_type(name, "a dict", value)
    for key, member in value.items():
        if not isinstance(key, str):
            raise wrong_type(name, "texts as the keys", key)
        check(f"{name}[{key!r}]", member)


def check_list(name: str, value: Any, check: _Check = check_text) -> None:
    """A list or another sequence, but no text, which is a sequence of its letters."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        raise wrong_type(name, "a list", value)
    for number, member in enumerate(value):
        check(f"{name}[{number}]", member)


def _unless_none(check: _Check, name: str, value: Any) -> None:
    if value is not None:
        check(name, value)


@dataclass(frozen=True)
class Sandbox:
    """What a model may do, for `load` and `pack`. A text alone is the mode: `sandbox="off"` means `sandbox=Sandbox("off")`.

    Attributes:
        mode: `on`, as far as this system can confine the model; `strict`, or not run it at all; `off`. By default the configuration says it,
            and without one it is `on`. A confined model has its own files and a scratch folder, no other files, no network, and no other
            processes.
        allow: What a confined model may use beyond that: `network`, `read=PATH` (with `private` where the home folder or the cache is in it);
            and `build`, which builds Python packages from their sources.
        env: Environment variables that the model gets: `NAME`, one of this process, or `NAME=VALUE`. They replace those that the carton
            sets. The representation of the object leaves them out, because they may be secret.
        limits: Limits of the runner by name: `memory` and `file_size` in bytes, `processes`, `open_files`, `cpu_seconds`.

    Raises:
        InvalidInputError: A value is not of its type, or there is no such limit.

        >>> carton.Sandbox(allow=["network"], limits={"memory": 4 << 30})
        Sandbox(mode=None, allow=['network'], limits={'memory': 4294967296})
    """

    mode: Literal["on", "strict", "off"] | None = None
    allow: Sequence[str] = ()
    env: Sequence[str] = field(default=(), repr=False)
    limits: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _unless_none(check_text, "sandbox.mode", self.mode)
        check_list("sandbox.allow", self.allow)
        check_list("sandbox.env", self.env)
        check_dict("sandbox.limits", self.limits, check_whole)
        for name in self.limits:
            if name not in _LIMITS:
                raise InvalidInputError(f"`sandbox.limits`: there is no limit `{name}`, there are {', '.join(_LIMITS)}")


def sandbox_options(sandbox: Sandbox | str | None) -> dict[str, Any]:
    """What confines a runner, as the extension module takes it.

    Raises:
        InvalidInputError: It is neither a text nor a `Sandbox`.
    """
    if not isinstance(sandbox, Sandbox):
        if not (sandbox is None or isinstance(sandbox, str)):
            raise wrong_type("sandbox", "a text or a Sandbox", sandbox)
        sandbox = Sandbox(sandbox)  # type: ignore[arg-type]  # the extension module says which modes there are
    # A relative path is one of the working folder.
    allow = [f"read={os.path.abspath(text[5:])}" if text.startswith("read=") and text[5:] else text for text in sandbox.allow]
    return {"sandbox": sandbox.mode, "allow": allow, "env": list(sandbox.env), "limits": dict(sandbox.limits)}


@dataclass(frozen=True)
class Metadata:
    """What a carton says of itself, for `pack`. A path alone is the file: `metadata="carton.toml"` means `metadata=Metadata(file="carton.toml")`.

    Attributes:
        model_name: The name of the model.
        short_description: One line about it.
        model_description: What it is, in Markdown. `@misc/NAME` is the file of this name in `Files.misc`.
        license: The license, as an SPDX expression where one exists.
        repository: The URL of its sources.
        homepage: The URL of its home page.
        required_platforms: The target triples that it runs on; by default all.
        file: A `carton.toml`. The other values replace what it says, and the self-tests and examples of `pack` are added to its own.
        strict: Whether mistakes are errors and not only warnings: unknown keys of the file, descriptions with `@misc/NAME` that is not in the
            carton, and platforms that are no target triples.

    Raises:
        InvalidInputError: A value is not of its type.

        >>> carton.Metadata(model_name="digits", license="Apache-2.0").model_name
        'digits'
    """

    model_name: str | None = None
    short_description: str | None = None
    model_description: str | None = None
    license: str | None = None
    repository: str | None = None
    homepage: str | None = None
    required_platforms: Sequence[str] | None = None
    file: AnyPath | None = None
    strict: bool = False

    def __post_init__(self) -> None:
        for name in METADATA_TEXTS:
            _unless_none(check_text, f"metadata.{name}", getattr(self, name))
        _unless_none(check_list, "metadata.required_platforms", self.required_platforms)
        _unless_none(check_path, "metadata.file", self.file)
        check_bool("metadata.strict", self.strict)


#: The values of `Metadata` that are texts.
METADATA_TEXTS = ("model_name", "short_description", "model_description", "license", "repository", "homepage")


def metadata_of(metadata: Metadata | AnyPath | None) -> Metadata:
    """The group that an argument means.

    Raises:
        InvalidInputError: It is neither a path nor a `Metadata`.
    """
    if isinstance(metadata, Metadata):
        return metadata
    if metadata is None or isinstance(metadata, (str, bytes, os.PathLike)):
        return Metadata(file=metadata)
    raise wrong_type("metadata", "a Metadata or the path of a carton.toml", metadata)


@dataclass(frozen=True)
class Files:
    """What a carton holds beside the model, and how it is stored, for `pack`.

    Attributes:
        misc: Files for `misc/`, by their names there.
        tensors: Tensors for `tensor_data/`, by name, beyond those of self-tests and examples.
        tensor_format: How tensors are stored: `bin`, `safetensors` or `ztensor`.
        compression: How files are compressed: `auto` chooses for each, `stored`, `zstd` or `deflate`.
        links: Lists of URLs by the SHA-256 of files that are left out, because they can be fetched from there.
        exclude: Patterns of files of the model's folder that are left out, as in `.gitignore`. They come after those of the folder's
            `.cartonignore`.
        allow_secrets: Paths of files in the model, or in `misc/`, that are packed although they look like secrets; `env.NAME` for an environment
            variable, `opts.NAME` for an option, and the key for another text of the metadata.

    Raises:
        InvalidInputError: A value is not of its type.

        >>> carton.Files(tensors={"labels": ["zero", "one"]}, tensor_format="safetensors").compression
        'auto'
    """

    misc: Mapping[str, AnyPath] = field(default_factory=dict)
    tensors: Mapping[str, Any] = field(default_factory=dict)
    tensor_format: Literal["bin", "safetensors", "ztensor"] = "bin"
    compression: Literal["auto", "stored", "zstd", "deflate"] = "auto"
    links: Mapping[str, Sequence[str]] = field(default_factory=dict)
    exclude: Sequence[str] = ()
    allow_secrets: Sequence[str] = ()

    def __post_init__(self) -> None:
        check_dict("files.misc", self.misc, check_path)
        check_dict("files.tensors", self.tensors)
        check_text("files.tensor_format", self.tensor_format)
        check_text("files.compression", self.compression)
        check_dict("files.links", self.links, check_list)
        check_list("files.exclude", self.exclude, check_text)
        check_list("files.allow_secrets", self.allow_secrets, check_text)


@dataclass(frozen=True)
class SelfTest:
    """A call that tests the model, wherever it runs: `pack` makes it, and so does `Model.self_test`.

    Attributes:
        inputs: Arrays by the names of inputs.
        expected: The outputs that the call must have: arrays by the names of outputs; or `record`, those that the packed model has now. None
            for a test that only runs the model.
        name: What reports call it.
        description: What it shows, in Markdown.

    Raises:
        InvalidInputError: A value is not of its type.

        >>> carton.SelfTest({"x": 1.0}, expected="record", name="one")
        SelfTest(inputs={'x': 1.0}, expected='record', name='one', description=None)
    """

    inputs: Mapping[str, Any]
    expected: Mapping[str, Any] | Literal["record"] | None = None
    name: str | None = None
    description: str | None = None

    def __post_init__(self) -> None:
        check_dict("SelfTest.inputs", self.inputs)
        if isinstance(self.expected, Mapping):
            check_dict("SelfTest.expected", self.expected)
        elif self.expected is not None and not (isinstance(self.expected, str) and self.expected == "record"):
            raise wrong_type("SelfTest.expected", "a dict, the text `record` or None", self.expected)
        _unless_none(check_text, "SelfTest.name", self.name)
        _unless_none(check_text, "SelfTest.description", self.description)


@dataclass(frozen=True)
class Example:
    """A call that shows people what the model does. It is not run.

    Attributes:
        inputs: Arrays by the names of inputs.
        outputs: Arrays by the names of outputs.
        name: What it is called.
        description: What it shows, in Markdown.

    Raises:
        InvalidInputError: A value is not of its type.

        >>> carton.Example({"x": 1.0}, {"y": 2.0}, name="one").outputs
        {'y': 2.0}
    """

    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any] = field(default_factory=dict)
    name: str | None = None
    description: str | None = None

    def __post_init__(self) -> None:
        check_dict("Example.inputs", self.inputs)
        check_dict("Example.outputs", self.outputs)
        _unless_none(check_text, "Example.name", self.name)
        _unless_none(check_text, "Example.description", self.description)


#: What `pack` takes as one of its `tests`.
AnyTest = Union[SelfTest, Example]
