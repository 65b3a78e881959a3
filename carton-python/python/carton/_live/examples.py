"""Examples: their inputs, what a live object returns for them, and the signature that both show."""

from __future__ import annotations

import asyncio
import inspect
import threading
from typing import Any, Callable, Iterable, Mapping, Sequence

import numpy as np

from .. import _carton, _convert, _small_floats
from .._errors import InvalidInputError
from .._structure import Nested, is_record, is_structured, leaves, record_of
from .live import Live

#: The symbol of the first dimension in signatures that are inferred from an example.
BATCH = "batch"


def named_example(example: Any, names: Sequence[str] | None) -> dict[str, Any]:
    """The inputs of an example by name: `names` are those of the model's inputs, in order, if they are known.

    Raises:
        InvalidInputError: The example has no names and the model has none, or they are too few.
    """
    if isinstance(example, Mapping):
        return {str(name): value for name, value in example.items()}
    values = list(example) if isinstance(example, tuple) else [example]
    if names is None:
        error = InvalidInputError("the inputs of the example have no names")
        error.hint = "pass a dict: example={'image': x}"
        raise error
    if len(values) > len(names):
        raise InvalidInputError(f"the example has {len(values)} inputs, and the model has {len(names)}: {', '.join(names)}")
    return dict(zip(names, values))


def parameters_of(function: Callable[..., Any], title: str) -> list[str]:
    """The names of a function's parameters, which are the inputs of the model."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"the parameters of {title} are not known: {error}") from error
    for parameter in parameters:
        if parameter.kind is parameter.POSITIONAL_ONLY:
            wrong = InvalidInputError(f"{title} takes `{parameter.name}` by position only, and inputs are passed by name")
            wrong.hint = "remove the `/` from its parameters, or wrap it in a function"
            raise wrong
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [parameter.name for parameter in parameters if parameter.kind in named]


def optional_parameters(function: Callable[..., Any]) -> frozenset[str]:
    """The names of a function's parameters that have a default."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return frozenset()
    return frozenset(parameter.name for parameter in parameters if parameter.default is not parameter.empty)


def leaves_received(example: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs of an example as a model gets them. Structured ones are their leaves (spec/structured-values.md)."""
    found: dict[str, Any] = {}
    for name, value in example.items():
        if is_structured(value):
            found.update({leaf: as_received(one, leaf) for leaf, one in leaves(value, name).items()})
        else:
            found[name] = as_received(value, name)
    return found


def as_received(value: Any, name: str) -> Any:
    """A value as a model gets it from its runner: an array, or a list of arrays of several shapes."""
    kind, converted, shape = _convert.plain(value, name)
    if kind in ("strings", "bytes"):
        return _convert.strings(converted, shape).copy()
    if kind == "nested":
        # A list of its own kind: those of arrays of one shape would be taken for one array.
        return Nested(as_received(element, name) for element in converted)
    return converted if kind == "array" else np.asarray(_small_floats.of_bits(converted, kind))


def column_array(series: Any) -> np.ndarray:
    """A column of a DataFrame as an array that a carton can hold."""
    name = str(series.name)
    if series.isna().any():
        raise InvalidInputError(f"column `{name}` of the example has missing values")
    values: np.ndarray = series.to_numpy()
    found: np.ndarray = as_received(values, name)
    return found


def copies_of(example: Mapping[str, Any]) -> dict[str, Any]:
    """Copies of inputs, so that a function that writes to them does not change the example."""
    return {name: [part.copy() for part in value] if isinstance(value, list) else value.copy() for name, value in example.items()}


def as_sent(value: Any) -> np.ndarray:
    """An output as callers get it: of a dtype that cartons have, or booleans."""
    if hasattr(value, "toarray"):
        raise InvalidInputError("the estimator returns a sparse matrix, which is not a tensor")
    array: np.ndarray = np.asarray(value)
    return array


def named_outputs(result: Any, names: Sequence[str] | None) -> dict[str, Any]:
    """The outputs of a call by name: a record as it is, otherwise the values in the order of the names. Values that are None are no outputs."""
    if is_record(result) and (names is None or not isinstance(result, tuple)):
        return {name: _value(value) for name, value in (record_of(result) or {}).items() if value is not None}
    values = list(result) if isinstance(result, tuple) else [result]
    if names is None:
        names = ["output"] if len(values) == 1 else [f"output_{number}" for number in range(len(values))]
    if len(names) != len(values):
        raise InvalidInputError(f"the model returned {len(values)} outputs, and {len(names)} are declared: {', '.join(names)}")
    return {name: _value(value) for name, value in zip(names, values) if value is not None}


def _value(value: Any) -> Any:
    if is_structured(value):
        # The packed model tells its leaves.
        return value
    if isinstance(value, (bytes, bytearray)):
        # NumPy would drop zeros at the end.
        array = np.empty((), object)
        array[()] = bytes(value)
        return array
    if isinstance(value, list) and any(hasattr(one, "__array__") and not isinstance(one, np.generic) for one in value):
        # A nested tensor, whatever the shapes are.
        return [as_sent(one) for one in value]
    if isinstance(value, list):
        try:
            return as_sent(value)
        except ValueError:
            return [as_sent(element) for element in value]
    return as_sent(value)


def with_result(live: Live, result: Any, names: Sequence[str] | None) -> None:
    """Adds the signature, and what the object returned for the example."""
    if inspect.isawaitable(result):
        result = _awaited(result)
    if inspect.isasyncgen(result):
        result = iter(_awaited(_collect(result)))
    if isinstance(result, Iterable) and inspect.isgenerator(result) or type(result).__name__ == "list_iterator":
        items = list(_first(result, 2))
        if not items:
            raise InvalidInputError("the model is a stream, and the example has no items")
        outputs = named_outputs(items[0], names)
        with_signature(live, outputs)
        if len(items) > 1:
            # A self-test is a call with one answer.
            live.expected = None
            live.example = None
            if live.outputs is None and names is None:
                # No call tells the outputs, and a carton declares both sides or none.
                live.inputs = None
        return
    with_signature(live, named_outputs(result, names))


def _first(items: Any, n: int) -> Iterable[Any]:
    try:
        for _, item in zip(range(n), items):
            yield item
    finally:
        close = getattr(items, "close", None)
        if close is not None:
            close()


async def _collect(items: Any) -> list[Any]:
    found = []
    async for item in items:
        found.append(item)
        if len(found) == 2:
            break
    await items.aclose()
    return found


def _awaited(awaitable: Any) -> Any:
    """The result of a coroutine. It runs on a thread of its own, because the caller may be in an event loop, as notebooks are."""
    results: list[Any] = []
    errors: list[BaseException] = []

    async def wait() -> Any:
        return await awaitable

    def run() -> None:
        try:
            results.append(asyncio.run(wait()))
        except BaseException as error:  # noqa: B902, raised again below
            errors.append(error)

    thread = threading.Thread(target=run, name="carton-example")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def with_signature(live: Live, expected: dict[str, Any] | None) -> None:
    """Infers the signature from the example and what the object returns for it. Where the outputs are structured, the packed model tells them."""
    assert live.example is not None
    if expected is not None and any(map(is_structured, expected.values())):
        expected = None
    arrays = [value for value in live.example.values() if isinstance(value, np.ndarray) and value.ndim]
    n_rows = arrays[0].shape[0] if arrays else None
    live.inputs = [_spec(name, value, n_rows) for name, value in live.example.items()]
    if expected is not None:
        live.outputs = [_spec(name, value, n_rows) for name, value in expected.items()]
        # Arrays of one shape in a list would be taken for one array.
        live.expected = None if any(isinstance(value, list) for value in expected.values()) else expected


def _spec(name: str, value: Any, n_rows: int | None) -> _carton.TensorSpec:
    """The declaration that fits a value. Its first dimension is a symbol if it has as many elements as the first input has."""
    if isinstance(value, list):
        return _carton.TensorSpec(name, _dtype(value[0]), "*")
    shape: list[int | str] = list(value.shape)
    if shape and shape[0] == n_rows:
        shape[0] = BATCH
    try:
        return _carton.TensorSpec(name, _dtype(value), shape)
    except ValueError as error:
        wrong = InvalidInputError(f"`{name}`: cartons have no tensors of dtype {value.dtype}")
        wrong.hint = "convert it in the model, for example by array.astype(numpy.float32)"
        raise wrong from error


def _dtype(array: np.ndarray) -> Any:
    """The dtype of an array, with a name for one of bytes objects, which NumPy does not tell from one of texts."""
    return "bytes" if array.dtype == object and array.size and isinstance(array.flat[0], bytes) else array.dtype
