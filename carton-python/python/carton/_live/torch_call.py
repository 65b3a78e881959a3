"""Calls a module of PyTorch with an example: its inputs as tensors, and what it returns by name."""

from __future__ import annotations

import inspect
import typing
from dataclasses import dataclass, replace
from typing import Any, Mapping, Sequence

import numpy as np

from .._errors import Error, InvalidInputError
from .examples import as_received, named_example, parameters_of


@dataclass(frozen=True)
class Call:
    """A call of a module, which is in evaluation, and what it returned."""

    model: Any
    #: The tensors by the names of the inputs, which may be other names than those of the parameters.
    inputs: dict[str, Any]
    #: The parameter that takes all inputs as a dict; None if each has its own.
    dict_parameter: str | None
    #: The parameter of each input, if it has one.
    parameters: dict[str, str]
    outputs: dict[str, Any]

    def arguments(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a call with a value for each input."""
        if self.dict_parameter is not None:
            return {self.dict_parameter: dict(values)}
        return {self.parameters[name]: value for name, value in values.items()}

    def own_arguments(self) -> dict[str, Any]:
        """The arguments with the example's tensors, to which the call may write."""
        return self.arguments({name: tensor.clone() for name, tensor in self.inputs.items()})

    def n_rows(self) -> int | None:
        return next((tensor.shape[0] for tensor in self.inputs.values() if tensor.ndim), None)

    def has_rows(self, name: str) -> bool:
        """Whether the first dimension of an input is as large as that of the first input."""
        tensor = self.inputs[name]
        return bool(tensor.ndim) and tensor.shape[0] == self.n_rows()


def call_with(model: Any, example: Any, names: list[str] | None, output_names: list[str] | None) -> Call:
    """Calls a module with the example."""
    import torch

    dict_parameter = _dict_parameter(model)
    own = None if dict_parameter else _parameters(model)
    inputs = {name: _tensor(value, name) for name, value in named_example(example, names or own).items()}
    by_parameter = {}
    if own is not None:
        # Declared inputs are matched as the torchscript runner does it: by name if all are names of parameters, otherwise in order.
        matched = dict(zip(names, own)) if names and not set(names) <= set(own) else {name: name for name in own}
        if unknown := [name for name in inputs if name not in matched]:
            raise InvalidInputError(f"the example has an input `{unknown[0]}`, and the module takes {', '.join(matched)}")
        by_parameter = {name: matched[name] for name in inputs}
    call = Call(model, inputs, dict_parameter, by_parameter, outputs={})
    try:
        with torch.no_grad():
            found = model(**call.own_arguments())
    except Exception as error:
        raise InvalidInputError(f"the module fails with the example: {type(error).__name__}: {error}") from error
    return replace(call, outputs=named(found, output_names))


def _parameters(model: Any) -> list[str]:
    import torch

    forward: Any = model.forward
    if isinstance(model, torch.jit.ScriptModule):
        return [argument.name for argument in forward.schema.arguments[1:]]
    return parameters_of(forward, type(model).__name__)


def _dict_parameter(model: Any) -> str | None:
    """The parameter that takes all inputs as a dict, which is the other convention of the torchscript runner: the only required one."""
    import torch

    forward: Any = model.forward
    if isinstance(model, torch.jit.ScriptModule):
        arguments = forward.schema.arguments[1:]
        found = [(argument.name, argument.type.kind() == "DictType", argument.has_default_value()) for argument in arguments]
    else:
        try:
            hints = typing.get_type_hints(forward)
            signature = inspect.signature(forward).parameters.values()
        except (NameError, TypeError, ValueError):
            return None
        found = [(one.name, typing.get_origin(hints.get(one.name)) is dict, one.default is not one.empty) for one in signature]
    is_convention = bool(found) and found[0][1] and all(has_default for _, _, has_default in found[1:])
    return found[0][0] if is_convention else None


def _tensor(value: Any, name: str) -> Any:
    """A tensor of its own, because modules write to their inputs."""
    import torch

    try:
        tensor = torch.as_tensor(np.array(value) if isinstance(value, np.ndarray) else value).detach().clone()
        # Refuses dtypes that no carton has.
        as_received(tensor.cpu(), name)
    except Error:
        raise
    except (TypeError, ValueError, RuntimeError) as error:
        raise InvalidInputError(f"input `{name}` of the example cannot be a tensor of a carton: {error}") from error
    return tensor


def named(found: Any, names: Sequence[str] | None) -> dict[str, Any]:
    """What a module returned, by name: keys of a dict, fields of a named tuple, otherwise the names in order.

    Raises:
        InvalidInputError: It is not a tensor, nor a tuple, a list or a dict of tensors.
    """
    import torch

    if isinstance(found, tuple) and hasattr(found, "_asdict") and names is None:
        found = found._asdict()
    if isinstance(found, Mapping):
        outputs = {str(name): value for name, value in found.items()}
    else:
        values = list(found) if isinstance(found, (tuple, list)) else [found]
        if names is None:
            names = ["output"] if len(values) == 1 else [f"output_{number}" for number in range(len(values))]
        if len(names) != len(values):
            raise InvalidInputError(f"the module returned {len(values)} outputs, and {len(names)} are declared: {', '.join(names)}")
        outputs = dict(zip(names, values))
    for name, value in outputs.items():
        if not isinstance(value, torch.Tensor):
            error = InvalidInputError(f"output `{name}` of the module is a {type(value).__name__}, and a tensor is expected")
            error.hint = "return a tensor, a tuple of tensors or a dict of tensors"
            raise error
    return outputs


def array_of(tensor: Any) -> np.ndarray:
    """An output as callers get it."""
    found: np.ndarray = as_received(tensor.detach().cpu().resolve_conj().resolve_neg(), "output")
    return found
