"""The result of writing a live object: its files, and what it told of itself."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import Any

from .. import _carton
from .._paths import AnyPath
from .._structure import top_of


@dataclass
class Live:
    """A live object as files, and what is known of it."""

    #: The file or folder of the model.
    path: AnyPath
    #: None leaves the choice to the files of the model.
    runner: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    framework_version: str | None = None
    #: The signature, if an example shows it.
    inputs: list[_carton.TensorSpec] | None = None
    outputs: list[_carton.TensorSpec] | None = None
    #: The inputs that a call may leave out, by their names in the model.
    optional: frozenset[str] = frozenset()
    #: The inputs of the example, by name.
    example: dict[str, Any] | None = None
    #: What the object itself returns for the example; None if only the packed model can tell.
    expected: dict[str, Any] | None = None

    def completed(self, chosen: dict[str, Any]) -> dict[str, Any]:
        """The options of a pack with what is known of the object. What the caller chose is kept."""
        specs = [*(chosen["inputs"] or ()), *(chosen["outputs"] or ())]
        # A declared name may differ from the one that the object has.
        declared = {spec.internal_name or spec.name: spec.name for spec in specs}

        def renamed(values: dict[str, Any]) -> dict[str, Any]:
            return {declared.get(name, name): value for name, value in values.items()}

        completed = dict(chosen)
        for name in ("runner", "framework_version", "inputs", "outputs"):
            if chosen[name] is None:
                completed[name] = getattr(self, name)
        if completed["inputs"] is not None:
            completed["inputs"] = [self._with_optional(spec) for spec in completed["inputs"]]
        if self.options:
            given = {} if chosen["options"] is None else json.loads(chosen["options"])
            completed["options"] = json.dumps({**self.options, **given})
        if self.example is not None:
            expected = None if self.expected is None else renamed(self.expected)
            tests = "record" if expected is None else "self_tests"
            completed[tests] = [*chosen[tests], ("example", None, renamed(self.example), expected)]
        return completed

    def _with_optional(self, spec: _carton.TensorSpec) -> _carton.TensorSpec:
        """A declared input, which is optional where the model says so, and the caller does not say that it is not."""
        name = spec.internal_name or spec.name
        arguments, named = spec.__getnewargs_ex__()
        if named["optional"] is not None or not {name, top_of(name)} & self.optional:
            return spec
        return _carton.TensorSpec(*arguments, **{**named, "optional": True})
