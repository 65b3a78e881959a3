"""What differs between two cartons, or between the tensors of two files: the typed results of `carton.diff` and `carton.tensors.diff`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

from ._results import SigningStatus


@dataclass(frozen=True)
class TensorForm:
    """The type and the shape of a tensor.

    Attributes:
        dtype: The name of the type of its elements; None for an object whose elements are not known.
        shape: Its dimensions; None for a list of tensors, and for an array that cannot be read.
    """

    dtype: str | None
    shape: tuple[int, ...] | None


@dataclass(frozen=True)
class DifferingElement:
    """An element that differs.

    Attributes:
        index: Its index.
        a: The element of the first tensor, as a text that gives it exactly; strings and bytes may be shortened.
        b: The element of the second tensor.
        difference: The difference; None for strings and bytes, and where it is infinite or NaN because an element is.
        tensor: The position of the tensor, if it is one of a list.
    """

    index: tuple[int, ...]
    a: str
    b: str
    difference: float | None
    tensor: int | None = None


@dataclass(frozen=True)
class ElementsDifference:
    """How many elements differ, and which of them most.

    Attributes:
        elements: The number of elements.
        differing: The number of those that differ.
        largest: The element with the largest absolute difference; of strings and bytes, the first that differs.
        largest_relative: The element with the largest difference relative to that of the first tensor.
        cosine: The cosine of the angle between the tensors as vectors of all their elements, in float64; of complex numbers its real part. None for
            strings and lists, and for tensors that are 0 everywhere.
        not_finite: The number of elements that the cosine leaves out, because they are NaN or infinite in one of the tensors.
    """

    elements: int
    differing: int
    largest: DifferingElement | None
    largest_relative: DifferingElement | None
    cosine: float | None = None
    not_finite: int = 0


@dataclass(frozen=True)
class TensorDifference:
    """A tensor that differs, or that could not be compared.

    Attributes:
        name: Its name.
        change: What became of it: it was `removed` or `added`, has another `shape` or `dtype`, other `elements`, or could not be compared
            (`not_compared`).
        a: Its type and shape in the first list; None if that has none.
        b: Its type and shape in the second list.
        elements: What differs between the elements, if they were compared.
        reason: Why the elements were not compared, or what differs instead of them.
        name_b: Its name in the second list, if two tensors of different names were compared.
    """

    name: str
    change: Literal["removed", "added", "shape", "dtype", "elements", "not_compared"]
    a: TensorForm | None
    b: TensorForm | None
    elements: ElementsDifference | None
    reason: str | None = None
    name_b: str | None = None


@dataclass(frozen=True)
class TensorsDifference:
    """What differs between two lists of tensors.

    Attributes:
        same: The number of tensors that are the same in both.
        same_by_digest: The number of those of which only the SHA-256 that both files state were compared.
        tensors: The others.
    """

    same: int
    same_by_digest: int
    tensors: list[TensorDifference]

    @property
    def is_same(self) -> bool:
        """Whether no tensor differs, and all could be compared."""
        return not self.tensors


@dataclass(frozen=True)
class DiffedCarton:
    """A carton that was compared.

    Attributes:
        location: Where it is, without secrets.
        manifest_sha256: Its hash.
        model_name: The model's name.
        signing: Who signed it; None if that was not looked for.
    """

    location: str
    manifest_sha256: str | None
    model_name: str | None
    signing: SigningStatus | None


@dataclass(frozen=True)
class FieldChange:
    """A field of carton.toml with another value.

    Attributes:
        field: The field: `license`, `runner.opts.threads`.
        a: The value in the first carton; None if it is not set.
        b: The value in the second carton.
    """

    field: str
    a: Any
    b: Any


@dataclass(frozen=True)
class SpecChange:
    """An input or output that is declared otherwise.

    Attributes:
        name: Its name.
        change: `removed`, `added` or `changed`.
        fields: The properties that differ.
        default: What differs between the tensors that stand for an input that a call leaves out, if they do.
    """

    name: str
    change: Literal["removed", "added", "changed"]
    fields: list[FieldChange]
    default: TensorsDifference | None


@dataclass(frozen=True)
class FileVersion:
    """A file of one of the cartons.

    Attributes:
        sha256: Its SHA-256.
        size: Its size in bytes, if it is known.
    """

    sha256: str | None
    size: int | None


@dataclass(frozen=True)
class FileChange:
    """A file that differs.

    Attributes:
        path: Its path, in the second carton if that has it.
        change: `removed`, `added`, `changed` or `renamed`.
        a: It in the first carton.
        b: It in the second carton.
        path_a: Its path in the first carton, if it was renamed.
    """

    path: str
    change: Literal["removed", "added", "changed", "renamed"]
    a: FileVersion | None
    b: FileVersion | None
    path_a: str | None = None


@dataclass(frozen=True)
class FileTensors:
    """The tensors of a tensor file that differs.

    Attributes:
        path_a: The path of the file, or of the index of a sharded checkpoint, in the first carton.
        path_b: The same in the second carton.
        problem: Why the tensors could not be compared.
        found: What differs.
    """

    path_a: str
    path_b: str
    problem: str | None
    found: TensorsDifference


@dataclass(frozen=True)
class PackageChange:
    """A locked package of a Python model that differs.

    Attributes:
        name: Its normalized name, with its extras.
        marker: The environments that it is for, if not for all.
        a: The versions in the first carton; empty if it has none.
        b: The versions in the second carton. If they are those of the first, the files of the package differ.
    """

    name: str
    marker: str | None
    a: list[str]
    b: list[str]


@dataclass(frozen=True)
class Packages:
    """The locked packages of a Python model.

    Attributes:
        problem: Why they could not be compared.
        changes: The packages that differ.
    """

    problem: str | None
    changes: list[PackageChange]


@dataclass(frozen=True)
class CaseChange:
    """A self-test or example that differs.

    Attributes:
        name: Its name.
        change: `removed`, `added` or `changed`.
        description: The description, if it differs.
        inputs: What differs between the inputs.
        outputs: What differs between the outputs.
    """

    name: str
    change: Literal["removed", "added", "changed"]
    description: FieldChange | None
    inputs: TensorsDifference
    outputs: TensorsDifference


@dataclass(frozen=True)
class LinkChange:
    """A file whose links differ.

    Attributes:
        sha256: The SHA-256 of the file.
        paths: The paths of the file in both cartons.
        a: Where the first carton says that it can be fetched.
        b: Where the second carton says that it can be fetched.
    """

    sha256: str
    paths: list[str]
    a: list[str]
    b: list[str]


@dataclass(frozen=True)
class CartonDiff:
    """What differs between two cartons: the result of `carton.diff`.

    Attributes:
        is_same: Whether both are the same carton. Links and signatures are no part of a carton, and may differ.
        is_incomplete: Whether tensors or packages could not be compared.
        a: The first carton.
        b: The second carton.
        metadata: The fields of carton.toml that differ, but for inputs, outputs, self-tests and examples.
        inputs: The declared inputs that differ.
        outputs: The declared outputs that differ.
        files: The files that differ.
        tensors: The tensors in those of them that are tensor files of the model.
        packages: The locked packages of a Python model, if they differ.
        self_tests: The self-tests that differ.
        examples: The examples that differ.
        links: The files whose links differ.
    """

    is_same: bool
    is_incomplete: bool
    a: DiffedCarton
    b: DiffedCarton
    metadata: list[FieldChange]
    inputs: list[SpecChange]
    outputs: list[SpecChange]
    files: list[FileChange]
    tensors: list[FileTensors]
    packages: Packages | None
    self_tests: list[CaseChange]
    examples: list[CaseChange]
    links: list[LinkChange]


def carton_diff(text: str) -> CartonDiff:
    """What differs between two cartons, from JSON."""
    found = json.loads(text)
    packages = found["packages"]
    return CartonDiff(
        is_same=found["is_same"],
        is_incomplete=found["is_incomplete"],
        a=_carton(found["a"]),
        b=_carton(found["b"]),
        metadata=[FieldChange(**field) for field in found["metadata"]],
        inputs=[_spec(spec) for spec in found["inputs"]],
        outputs=[_spec(spec) for spec in found["outputs"]],
        files=[_file(file) for file in found["files"]],
        tensors=[
            FileTensors(path_a=file["path_a"], path_b=file["path_b"], problem=file["problem"], found=_tensors(file))
            for file in found["tensors"]
        ],
        packages=None
        if packages is None
        else Packages(packages["problem"], [PackageChange(**package) for package in packages["changes"]]),
        self_tests=[_case(case) for case in found["self_tests"]],
        examples=[_case(case) for case in found["examples"]],
        links=[LinkChange(**link) for link in found["links"]],
    )


def tensors_difference(text: str) -> TensorsDifference:
    """What differs between two lists of tensors, from JSON."""
    return _tensors(json.loads(text))


def _carton(found: dict[str, Any]) -> DiffedCarton:
    signing = found.pop("signing")
    return DiffedCarton(signing=None if signing is None else SigningStatus(**signing), **found)


def _spec(found: dict[str, Any]) -> SpecChange:
    default = found.get("default")
    return SpecChange(
        name=found["name"],
        change=found["change"],
        fields=[FieldChange(**field) for field in found["fields"]],
        default=None if default is None else _tensors(default),
    )


def _file(found: dict[str, Any]) -> FileChange:
    a, b = (None if found[side] is None else FileVersion(**found[side]) for side in ("a", "b"))
    return FileChange(path=found["path"], change=found["change"], a=a, b=b, path_a=found.get("path_a"))


def _case(found: dict[str, Any]) -> CaseChange:
    description = found["description"]
    return CaseChange(
        name=found["name"],
        change=found["change"],
        description=None if description is None else FieldChange(**description),
        inputs=_tensors(found["inputs"]),
        outputs=_tensors(found["outputs"]),
    )


def _tensors(found: dict[str, Any]) -> TensorsDifference:
    return TensorsDifference(found["same"], found["same_by_digest"], [_tensor(tensor) for tensor in found["tensors"]])


def _tensor(found: dict[str, Any]) -> TensorDifference:
    elements = found.pop("elements")
    if elements is not None:
        elements = ElementsDifference(
            elements=elements["elements"],
            differing=elements["differing"],
            largest=_element(elements["largest"]),
            largest_relative=_element(elements["largest_relative"]),
            cosine=elements["cosine"],
            not_finite=elements["not_finite"],
        )
    return TensorDifference(a=_form(found.pop("a")), b=_form(found.pop("b")), elements=elements, **found)


def _form(found: dict[str, Any] | None) -> TensorForm | None:
    if found is None:
        return None
    return TensorForm(found["dtype"], None if found["shape"] is None else tuple(found["shape"]))


def _element(found: dict[str, Any] | None) -> DifferingElement | None:
    return None if found is None else DifferingElement(index=tuple(found.pop("index")), **found)
