"""Structured values as leaves with names, and back: the rule alone, and calls of a model that returns its inputs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import carton
from carton._structure import NOTHING_DECLARED, Declared, Nested, _leaves, is_structured, of_inputs, top_of

KEYS = st.text("abcxyz_é-1", min_size=1, max_size=4).filter(lambda key: not key.isdigit())


class Leaf:
    """A tensor, to the rule."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Leaf) and other.number == self.number

    def __repr__(self) -> str:
        return f"Leaf({self.number})"


#: Types of values. A list has one for all its elements, so that they have the same leaves.
types = st.recursive(
    st.just("leaf"),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: ("tuple", parts)),
        st.dictionaries(KEYS, inner, min_size=1, max_size=3).map(lambda parts: ("record", parts)),
        inner.map(lambda part: ("list", part)),
    ),
    max_leaves=8,
)


def value_of(draw: st.DrawFn, kind: Any, is_empty: bool = True) -> Any:
    if kind == "leaf":
        return Leaf(draw(st.integers(0, 1000)))
    form, parts = kind
    if form == "tuple":
        return tuple(value_of(draw, part, is_empty) for part in parts)
    if form == "record":
        return {key: value_of(draw, part, is_empty) for key, part in parts.items()}
    return [value_of(draw, parts, is_empty) for _ in range(draw(st.integers(0 if is_empty else 1, 3)))]


@st.composite
def values(draw: st.DrawFn, is_empty: bool = False) -> Any:
    return value_of(draw, draw(types), is_empty)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(value=values())
def test_there_and_back(value: Any) -> None:
    found = carton.leaves(value, "v")
    assert carton.structured(found) == {"v": value}
    assert all(name == "v" or name.startswith(("v.", "v[")) for name in found)
    # Other outputs beside it are of no matter.
    assert carton.structured({"a": 1, **found, "z.0": 2}) == {"a": 1, "v": value, "z": (2,)}


@settings(max_examples=200, deadline=None, derandomize=True)
@given(data=st.data())
def test_empty_lists_where_the_names_are_declared(data: st.DataObject) -> None:
    """An empty list has the leaves that its elements would have, so that it comes back, wherever it is not in a list of nothing."""
    kind = data.draw(types)
    full = value_of(data.draw, kind, False)
    declared = Declared(_leaves(full, "v", NOTHING_DECLARED, 0))
    value = value_of(data.draw, kind, True)
    found = _leaves(value, "v", declared, 0)
    assert sorted(found) == sorted(declared.names)
    assert carton.structured(found) == {"v": value}


def of_case(case: Any) -> Any:
    """What the JSON of `spec/conformance/structured-values.json` stands for: a value, or a leaf."""
    if not isinstance(case, dict):
        return case
    if "dtype" in case:
        dtype = object if case["dtype"] == "string" else case["dtype"]
        return np.array(case["data"], dtype=dtype).reshape(case["shape"])
    if "record" in case:
        return {key: of_case(one) for key, one in case["record"]}
    ((form, parts),) = case.items()
    return {"list": list, "tuple": tuple, "nested": Nested}[form](of_case(one) for one in parts)


def shown(value: Any) -> Any:
    """A value whose arrays, numbers and texts are compared by dtype, shape and elements."""
    if isinstance(value, dict):
        return {key: shown(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return (tuple if isinstance(value, tuple) else list)(shown(one) for one in value)
    if value is None:
        return None
    array = np.asarray(value)
    kind = "string" if array.dtype.kind in "OU" else array.dtype.name
    return {"dtype": kind, "shape": array.shape, "data": array.ravel().tolist()}


def test_cases_of_the_specification() -> None:
    page = Path(__file__).resolve().parents[2] / "spec/conformance/structured-values.json"
    cases = json.loads(page.read_text(encoding="utf-8"))
    for case in cases["values"] + cases["values_with_numbers"]:
        value = of_case(case["value"])
        found = _leaves(value, "v", Declared(case.get("declared", ())), 0)
        arrays = {name: [np.asarray(one) for one in leaf] if isinstance(leaf, Nested) else np.asarray(leaf) for name, leaf in found.items()}
        assert shown(arrays) == {name: shown(of_case(leaf)) for name, leaf in case["leaves"].items()}, case
        if case.get("comes_back", True):
            assert shown(carton.structured(arrays)) == {"v": shown(value)}, case
    for case in cases["refused_values"] + cases["refused_values_with_numbers"]:
        with pytest.raises(carton.InvalidInputError):
            pytest.fail(str(carton.leaves(of_case(case), "v")))
    for case in cases["refused_leaves"]:
        with pytest.raises(carton.InvalidInputError):
            pytest.fail(str(carton.structured({name: of_case(leaf) for name, leaf in case.items()})))


def test_names() -> None:
    a, b, c = Leaf(0), Leaf(1), Leaf(2)

    def check(value: Any, expected: dict[str, Any]) -> None:
        found = carton.leaves(value, "v")
        assert {name: leaf.tolist() if isinstance(leaf, np.ndarray) else leaf for name, leaf in found.items()} == expected

    check((a, (b, c)), {"v.0": a, "v.1.0": b, "v.1.1": c})
    check({"boxes": [a, b], "n": 2}, {"v.boxes": [a, b], "v.n": 2})
    check([{"boxes": a, "scores": b}, {"boxes": b, "scores": c}], {"v[].boxes": [a, b], "v[].scores": [b, c]})
    check([[a, b], [c]], {"v[][]": [a, b, c], "v[].#": [2, 1]})
    check([{"masks": [a, b]}, {"masks": []}], {"v[].masks[]": [a, b], "v[].masks.#": [2, 0]})
    check((a, None), {"v.0": a})
    check({2: a, True: b, "k": [1, 2]}, {"v.2": a, "v.True": b, "v.k": [1, 2]})
    check([[1, 2], [3]], {"v": [[1, 2], [3]]})
    check([[1, 2], [3, 4]], {"v": [[1, 2], [3, 4]]})
    check({np.int64(1): a, np.float32(1.5): b}, {"v.1": a, "v.1.5": b})
    assert isinstance(carton.leaves([[1, 2], [3]], "v")["v"], Nested)
    assert not isinstance(carton.leaves([[1, 2], [3, 4]], "v")["v"], Nested)
    # A list of arrays of one shape stays one.
    assert isinstance(carton.leaves([a, b], "v")["v"], Nested)
    # An empty list has the dtype of those beside it.
    for value, leaf in (([["a"], []], "v"), ([{"m": []}, {"m": ["a"]}], "v[].m"), ([[1], []], "v")):
        parts = carton.leaves(value, "v")[leaf]
        assert len({np.asarray(part).dtype for part in parts}) == 1 and {np.shape(part) for part in parts} == {(0,), (1,)}
    check(None, {})
    check([], {"v": []})
    assert isinstance(_leaves([a, b], "v", NOTHING_DECLARED, 0)["v"], Nested)


def test_what_has_no_leaves() -> None:
    a = Leaf(0)
    endless: list[Any] = []
    endless.append(endless)
    assert is_structured(endless)
    grown: Any = a
    for _ in range(40):
        grown = [grown]
    for value, message in (
        ([a, (a,)], "different leaves|both tensors"),
        ([{"a": a}, {"b": a}], "different leaves"),
        ([(a, None), (a, a)], "different leaves"),
        ({"a.b": a, "a": {"b": a}}, "two leaves have the name `v.a.b`"),
        ({"": a}, "entry ``"),
        ({"#": a}, "entry `#`"),
        ({"a[]": a}, "entry `a"),
        ({1: a, "1": a}, "two entries"),
        ([None, None, [a]], "different leaves"),
        ([None, None], "the list `v` has 2 elements, and no tensor in any of them"),
        ([{}, {}], "no tensor in any of them"),
        ([(), ()], "no tensor in any of them"),
        ({None: a}, "`v`: a dict has the key None"),
        ({(1, 2): a}, "which is no text, number or boolean"),
        ({b"x": a}, "which is no text"),
        ([[a], [1.0]], "both tensors and lists"),
        ([1, [2]], "holds numbers or texts"),
        (endless, "64 levels"),
        (grown, "100000 leaves"),
    ):
        with pytest.raises(carton.InvalidInputError, match=message):
            carton.leaves(value, "v")
    deep: Any = a
    for _ in range(70):
        deep = (deep,)
    with pytest.raises(carton.InvalidInputError, match="64 levels"):
        carton.leaves(deep, "v")
    with pytest.raises(carton.InvalidInputError, match="100000 leaves"):
        carton.leaves({str(number): a for number in range(100_001)}, "v")
    for outputs, message in (
        ({"v.k": a, "v.k.0": a}, "leaves below it"),
        ({"v[].a": [a], "v.b": a}, "both a list and a record"),
        ({"v[].a": [a], "v[].b": [a, a]}, "different numbers"),
        ({"v[][]": [a]}, "lengths"),
        ({"v[][]": [a], "v[].#": np.array([2])}, "not those of the lengths"),
        ({"v" + ".0" * 70: a}, "64 levels"),
        ({"v..a": a}, "`v..a` is no part of a value"),
        ({"v.#": a}, "`v.#` is no part of a value"),
        ({"v.x[0]": a}, "is no part of a value"),
        ({"v[]": [a]}, r"`v\[\]` is the name of the elements of a list, and of no tensor"),
        ({"v[].a": np.zeros((2, 2))}, "not a nested tensor"),
        ({"v[].m[]": [a, a], "v[].m.#": np.array([[2], [1]])}, "is not int64 of one dimension"),
        ({"v[].m[]": [a, a], "v[].m.#": np.array([1.5, 1])}, "is not int64 of one dimension"),
        ({"v[].m.#": np.array([1])}, "there is no"),
    ):
        with pytest.raises(carton.InvalidInputError, match=message):
            carton.structured(outputs)
    # The names of other outputs are plain text.
    for outputs in ({"x[0]": 1, "y": 2}, {"output": 1, "output.1": 2}):
        assert carton.structured(outputs) == outputs
    assert top_of("x[0].y") == "x[0]" and top_of("x[].y") == "x"


class State(NamedTuple):
    h: Any
    c: Any


@dataclass
class Batch:
    x: Any
    state: State


def test_the_inputs_of_a_call() -> None:
    a, b, c = np.zeros(2), np.ones(2), np.arange(2)
    declared = ["x", "state.h", "state.c"]
    expected = {"x": a, "state.h": b, "state.c": c}
    for positional, named in (
        ((a, State(b, c)), None),
        ((a, {"h": b, "c": c}), None),
        ((Batch(a, State(b, c)),), None),
        (({"x": a, "state": State(b, c)},), None),
        ((), {"x": a, "state": State(b, c)}),
        ((), expected),
    ):
        assert of_inputs(positional, named, declared) == ((), expected)
    assert of_inputs((State(a, b),), None, ["s.h", "s.c"]) == ((), {"s.h": a, "s.c": b})
    assert of_inputs((), {"t": (a, b)}, None) == ((), {"t.0": a, "t.1": b})
    # What is declared as one tensor is passed as before.
    assert of_inputs((), {"t": (a, b)}, ["t"]) == ((), {"t": (a, b)})
    assert of_inputs((), {"t": (1, 2)}, ["t.0", "t.1"]) == ((), {"t.0": 1, "t.1": 2})
    assert of_inputs((), {"t": (1, 2), "u": [a, b]}, None) == ((), {"t": (1, 2), "u": [a, b]})
    assert of_inputs((a, b), None, ["x", "y"]) == ((a, b), {})
    # A tensor by position has the name of a leaf, also where several begin in the same way.
    assert of_inputs((a, [{"x": b}]), None, ["input.1", "other[].x"]) == ((), {"input.1": a, "other[].x": [b]})
    assert of_inputs((a, b, State(b, c)), None, ["input.1", "input.2", "s.h", "s.c"]) == ((), {"input.1": a, "input.2": b, "s.h": b, "s.c": c})
    with pytest.raises(carton.InvalidInputError, match="by name"):
        of_inputs((a, (b, c)), None, None)


def test_calls(echo: carton.Model) -> None:
    a, b, c = np.zeros(2), np.ones(3), np.arange(4.0)
    outputs = echo(x=a, state=(b, {"c": c, "none": None}), found=[{"box": a, "masks": [b, c]}, {"box": a, "masks": []}])
    assert sorted(outputs) == ["found[].box", "found[].masks.#", "found[].masks[]", "state.0", "state.1.c", "x"]
    value = carton.structured(outputs)
    assert value["x"].tolist() == [0, 0]
    assert value["state"][0].tolist() == [1, 1, 1] and value["state"][1]["c"].tolist() == [0, 1, 2, 3]
    assert [[mask.tolist() for mask in one["masks"]] for one in value["found"]] == [[[1, 1, 1], [0, 1, 2, 3]], []]
    # Lists of one shape stay lists.
    assert [part.tolist() for part in carton.structured(echo(v={"l": [a, a]}))["v"]["l"]] == [[0, 0], [0, 0]]
    assert carton.structured(echo(Batch(a, State(b, c))))["state"]["h"].tolist() == [1, 1, 1]
    with echo.seal(state=(a, b)) as sealed:
        assert sorted(echo(sealed)) == ["state.0", "state.1"]
