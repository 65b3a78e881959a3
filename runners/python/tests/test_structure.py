"""Structured values: their leaves, and values of leaves (spec/structured-values.md)."""

import collections
import dataclasses
import json
import random
import struct
import typing
import unittest
from pathlib import Path

import support
from host import inline


class Detections(typing.NamedTuple):
    boxes: "numpy.ndarray"
    scores: "typing.Optional[numpy.ndarray]" = None


@dataclasses.dataclass
class Output(collections.OrderedDict):
    """As the outputs of models of Hugging Face: a dict that is a dataclass."""

    logits: object = None
    hidden_states: object = None

    def __post_init__(self):
        self.update({name: value for name, value in vars(self).items() if value is not None})


def spec(name, dtype="float64", shape=()):
    return {"name": name, "dtype": dtype, "shape": shape if shape == "*" else list(shape)}


def plain(value):
    """A value with arrays as lists of their elements, for comparisons."""
    if hasattr(value, "tolist"):
        return "tensor %r" % (value.tolist(),)
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(plain, value)) if type(value) in (list, tuple) else type(value)(*map(plain, value))
    return value


def of_case(case, numpy, nested=list):
    """What the JSON of `spec/conformance/structured-values.json` stands for: a value, or a leaf."""
    if not isinstance(case, dict):
        return case
    if "dtype" in case:
        dtype = object if case["dtype"] == "string" else case["dtype"]
        return numpy.array(case["data"], dtype=dtype).reshape(case["shape"])
    if "record" in case:
        return {key: of_case(one, numpy, nested) for key, one in case["record"]}
    ((form, parts),) = case.items()
    return {"list": list, "tuple": tuple, "nested": nested}[form](of_case(one, numpy, nested) for one in parts)


def shown(value, numpy):
    """A value whose arrays, numbers and texts are compared by dtype, shape and elements."""
    if isinstance(value, dict):
        return {key: shown(one, numpy) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(shown(one, numpy) for one in value)
    if value is None:
        return None
    array = numpy.asarray(value)
    kind = "string" if array.dtype.kind in "OU" else array.dtype.name
    return {"dtype": kind, "shape": array.shape, "data": array.ravel().tolist()}


@support.needs_numpy
class Leaves(unittest.TestCase):
    def leaves(self, value, declared=()):
        """The leaves of an output `v` as arrays and lists of arrays."""
        import numpy
        from carton_runner import structure

        found = structure.leaves({"v": value}, structure.DeclaredOutputs(declared), numpy)
        array = lambda one: numpy.empty(0) if one is structure.EMPTY else numpy.asarray(one)
        return {name: [array(one) for one in leaf] if isinstance(leaf, structure.Nested) else array(leaf) for name, leaf in found}

    def test_cases_of_the_specification(self):
        import numpy
        from carton_runner import structure
        from carton_runner.errors import RunnerError

        page = Path(__file__).resolve().parents[3] / "spec/conformance/structured-values.json"
        cases = json.loads(page.read_text(encoding="utf-8"))
        for case in cases["values"] + cases["values_with_numbers"]:
            with self.subTest(case=case):
                value = of_case(case["value"], numpy)
                declared = structure.DeclaredOutputs([spec(name, shape="*") for name in case.get("declared", ())])
                found = {}
                for name, leaf in structure.leaves({"v": value}, declared, numpy):
                    if isinstance(leaf, structure.Nested):
                        dtype = next((numpy.asarray(one).dtype for one in leaf if one is not structure.EMPTY), float)
                        leaf = [numpy.zeros(0, dtype) if one is structure.EMPTY else numpy.asarray(one) for one in leaf]
                    else:
                        leaf = numpy.asarray(leaf)
                    found[name] = leaf
                self.assertEqual(shown(found, numpy), {name: shown(of_case(leaf, numpy), numpy) for name, leaf in case["leaves"].items()})
                if case.get("comes_back", True):
                    self.assertEqual(shown(structure.value_of("v", found), numpy), shown(value, numpy))
        for case in cases["refused_values"] + cases["refused_values_with_numbers"]:
            with self.subTest(case=case), self.assertRaises(RunnerError):
                found = list(structure.leaves({"v": of_case(case, numpy)}, structure.DeclaredOutputs(()), numpy))
                # What is no tensor is found when it is sent.
                self.arrays(numpy).array("v", found[0][1])
        for case in cases["refused_leaves"]:
            with self.subTest(case=case), self.assertRaises(RunnerError):
                structure.value_of("v", {name: of_case(leaf, numpy) for name, leaf in case.items()})

    def arrays(self, numpy):
        from carton_runner.arrays import Arrays

        arrays = Arrays()
        arrays.use(numpy)
        return arrays

    def test_names(self):
        import numpy

        a, b, c = (numpy.float64(one) * numpy.ones(1) for one in (1, 2, 3))
        for value, expected in (
            ((a, (b, c)), {"v.0": a, "v.1.0": b, "v.1.1": c}),
            ({"boxes": [a, b], "n": 2}, {"v.boxes": [a, b], "v.n": numpy.array(2)}),
            ([{"x": a, "y": b}, {"x": b, "y": c}], {"v[].x": [a, b], "v[].y": [b, c]}),
            ([[a, b], [c]], {"v[][]": [a, b, c], "v[].#": numpy.array([2, 1])}),
            ([{"m": [a, b]}, {"m": []}], {"v[].m[]": [a, b], "v[].m.#": numpy.array([2, 0])}),
            ([{"m": []}, {"m": [1.5]}], {"v[].m": [numpy.empty(0), numpy.array([1.5])]}),
            ([[[a], [b]], [[c]]], {"v[][][][]": [a, b, c], "v[][][].#": numpy.array([2, 1]), "v[][].#": [numpy.array([1, 1]), numpy.array([1])]}),
            (Detections(a), {"v.boxes": a}),
            ([Detections(a, b), Detections(b, c)], {"v[].boxes": [a, b], "v[].scores": [b, c]}),
            (Output(logits=a, hidden_states=(b, c)), {"v.logits": a, "v.hidden_states.0": b, "v.hidden_states.1": c}),
            ({1: a, True: b, "k.l": c}, {"v.1": b, "v.k.l": c}),
            ([1.5, 2.5], {"v": numpy.array([1.5, 2.5])}),
            ([[1, 2], [3, 4]], {"v": numpy.array([[1, 2], [3, 4]])}),
            ({numpy.int64(1): a, numpy.float32(1.5): b, numpy.bool_(False): c}, {"v.1": a, "v.1.5": b, "v.False": c}),
            (None, {}),
            ((None, a), {"v.1": a}),
            ([], {"v": []}),
            ([[], []], {"v[][]": [], "v[].#": numpy.array([0, 0])}),
            ([a, b], {"v": [a, b]}),
            ([a, 2.0], {"v": [a, numpy.array(2.0)]}),
        ):
            found = self.leaves(value)
            self.assertEqual(plain(found), plain(expected), value)

    def test_declarations_decide(self):
        import numpy

        a = numpy.ones(1)
        lengths = [spec("v[].m[]", shape="*"), spec("v[].m.#", "int64", ["n"]), spec("v[].x", shape="*")]
        for value, declared, expected in (
            ((1, 2), [spec("v", "int64", [2])], {"v": numpy.array([1, 2])}),
            ((a, a), [spec("v", shape="*")], {"v": [a, a]}),
            ([], [spec("v", shape=["n"])], {"v": numpy.array([])}),
            ([], [spec("v", shape="*")], {"v": []}),
            ([[], []], [spec("v[][].a[]", shape="*"), spec("v[][].a.#", "int64", ["n"])], {"v[][].a[]": [], "v[][].a.#": numpy.array([0, 0], int)}),
            ([{"s": (1, 2)}, {"s": (3, 4)}], [spec("v[].s", shape="*")], {"v[].s": [numpy.array([1, 2]), numpy.array([3, 4])]}),
            ([{"m": []}], lengths[:2], {"v[].m[]": [], "v[].m.#": numpy.array([0])}),
            ([], lengths, {"v[].m[]": [], "v[].m.#": numpy.array([], int), "v[].x": []}),
            ([[1], [2]], [spec("v", "int64", [2, 1])], {"v": numpy.array([[1], [2]])}),
        ):
            self.assertEqual(plain(self.leaves(value, declared)), plain(expected), value)

    def test_what_has_no_leaves(self):
        import numpy
        from carton_runner.errors import RunnerError

        a = numpy.ones(1)
        deep = a
        for _ in range(70):
            deep = (deep,)
        grown = a
        for _ in range(40):
            grown = [grown]
        endless = []
        endless.append(endless)
        for value, expected in (
            ([{"x": a}, {"y": a}], "output `v` is a list whose elements differ: element 0 has `v[].x`, element 1 lacks it"),
            ([{"x": a}, {"x": [a]}], "output `v[].x` is a tensor in some elements of the list `v`, and a list of tensors in others"),
            ([{"x": a}, None], "element 1 lacks it"),
            ([None, {"x": a}], "output `v` is a list that holds None"),
            ([{}], "output `v` is a list of values without tensors"),
            ({"a.b": a, "a": {"b": a}}, "two outputs have the name `v.a.b`"),
            ({"": a}, "output `v` has the key ''"),
            ({"#": a}, "output `v` has the key '#'"),
            ({"k": {"a[]": a}}, "output `v.k` has the key 'a[]'"),
            ({(1, 2): a}, "output `v` has the key (1, 2), which is no text"),
            ({None: a}, "output `v` has the key None, which is no text"),
            ([None, None], "output `v` is a list that holds None"),
            ([[a], [1.0]], "output `v[]` is a tensor in some elements of the list `v`, and a list of tensors in others"),
            ([[[1, 2], [3]], [[4]]], "output `v[]` is a tensor in some elements of the list `v`, and a list of tensors in others"),
            ([[1, [2]], [[3]]], "the lists in output `v` have different lengths"),
            ([{"a.b": a, "a": {"b": a}}], "two outputs have the name `v[].a.b`"),
            (grown, "more than 100000 tensors"),
            (deep, "has more than 64 levels"),
            (endless, "has more than 64 levels"),
        ):
            with self.assertRaises(RunnerError) as caught:
                self.leaves(value)
            self.assertIn(expected, caught.exception.message)

    def test_random_values_come_back(self):
        from carton_runner import structure

        for seed in range(400):
            value = Random(seed).value()
            found = self.leaves(value)
            back = structure.value_of("v", found) if found else None
            self.assertEqual(plain(back), plain(natural(value)), "seed %d" % seed)

    def test_empty_lists_where_the_names_are_declared(self):
        import numpy
        from carton_runner import structure

        def lists(depth, choose):
            return numpy.ones(1) if depth == 0 else [lists(depth - 1, choose) for _ in range(choose())]

        for depth in (2, 3, 4, 5):
            names = sorted(self.leaves(lists(depth, lambda: 1)))
            for seed in range(40):
                value = lists(depth, lambda chosen=random.Random(seed): chosen.randint(0, 2))
                found = self.leaves(value, [spec(name, shape="*") for name in names])
                self.assertEqual(sorted(found), names, "seed %d" % seed)
                self.assertEqual(plain(structure.value_of("v", found)), plain(value), "seed %d" % seed)

    def test_leaves_of_no_value(self):
        import numpy
        from carton_runner import structure
        from carton_runner.errors import RunnerError

        a = numpy.ones(1)
        for found, expected in (
            ({"v": a, "v.x": a}, "input `v` is a value of its own, and so is `v.x` below it"),
            ({"v[].x": [a], "v.y": a}, "input `v[].x` is an element of a list, and `v.y` is not"),
            ({"v[].x": numpy.array(1.0)}, "input `v[].x` is an element of a list, and is neither a nested tensor nor one with a dimension"),
            ({"v[].x": [a], "v[].y": [a, a]}, "`v[].x` has 1 elements, `v[].y` has 2"),
            ({"v[][]": [a]}, "input `v[][]` needs the lengths of its lists, `v[].#`"),
            ({"v[].#": numpy.array([1])}, "there is no `v[][]`"),
            ({"v[][]": [a], "v[].#": numpy.array([2])}, "is not the lengths of lists that have the 1 tensors of `v[][]` in all"),
            ({"v[][]": [a], "v[].#": numpy.array([-1, 2])}, "is not the lengths"),
            ({"v[][]": [a], "v[].#": numpy.array([1.0])}, "is not the lengths"),
            ({"v[][]": [a], "v[].#": numpy.array(1)}, "is not the lengths"),
            ({"v" + ".a" * 70: a}, "more than 64 levels"),
            ({"v..a": a}, "input `v..a` is no part of a value"),
            ({"v.#": a}, "input `v.#` is no part of a value"),
            ({"v.x[0]": a}, "input `v.x[0]` is no part of a value"),
            ({"v[]": [a]}, "input `v[]` is the name of the elements of a list, and of no tensor"),
            ({"v[]": [a], "v.#": numpy.array([1])}, "`v.#` is not"),
            ({"v[].m.#": numpy.array([1])}, "there is no `v[].m[]`"),
            ({"v[].x": [a], "v[].m.#": [numpy.array([1])]}, "there is no `v[].m[]`"),
        ):
            with self.assertRaises(RunnerError) as caught:
                structure.value_of("v", found)
            self.assertIn(expected, caught.exception.message)

    def test_an_array_stands_for_the_list_of_its_parts(self):
        import numpy

        from carton_runner import structure

        value = structure.value_of("v", {"v[].x": numpy.arange(4).reshape(2, 2), "v[].y": [numpy.ones(1), numpy.ones(2)]})
        self.assertEqual([one["x"].tolist() for one in value], [[0, 1], [2, 3]])
        self.assertEqual([one["y"].shape for one in value], [(1,), (2,)])


class Random:
    """Random values of a random kind, of which all elements of a list are."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.n = 0

    def value(self):
        return self.of(self.kind(0), False)

    def kind(self, depth):
        choices = ["tensor"] if depth > 3 else ["tensor", "tensor", "tuple", "dict", "list", "named"]
        chosen = self.random.choice(choices)
        if chosen == "tuple":
            return chosen, [self.kind(depth + 1) for _ in range(self.random.randint(1, 3))]
        if chosen == "dict":
            return chosen, {key: self.kind(depth + 1) for key in self.random.sample(["a", "b c", "0", "é", "x-y"], self.random.randint(1, 3))}
        if chosen == "list":
            return chosen, self.kind(depth + 1)
        return chosen, [self.kind(depth + 1), self.kind(depth + 1)] if chosen == "named" else None

    def of(self, kind, in_list):
        import numpy

        name, parts = kind
        if name == "tuple":
            return tuple(self.of(one, in_list) for one in parts)
        if name == "dict":
            return {key: self.of(one, in_list) for key, one in parts.items()}
        if name == "named":
            return Detections(*(self.of(one, in_list) for one in parts))
        if name == "list":
            least = 1 if in_list and parts[0] != "tensor" else 0
            return [self.of(parts, True) for _ in range(self.random.randint(least, 3))]
        self.n += 1
        return numpy.full(self.random.choice([(), (1,), (2, 0), (2, 1)]), self.n)


def natural(value):
    """A value with the kinds that values of leaves have."""
    if isinstance(value, list):
        return [natural(one) for one in value]
    if isinstance(value, Detections):
        return {"boxes": natural(value[0]), "scores": natural(value[1])}
    if isinstance(value, tuple):
        return tuple(natural(one) for one in value)
    if isinstance(value, dict):
        entries = {key: natural(one) for key, one in value.items()}
        keys = [str(index) for index in range(len(entries))]
        return tuple(entries[key] for key in keys) if set(keys) == set(entries) else entries
    return value


SOURCE = """
    import dataclasses
    import typing
    import numpy as np
    from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

    class State(NamedTuple):
        h: np.ndarray
        c: Optional[np.ndarray] = None
        n: int = 7

    @dataclasses.dataclass
    class Options:
        scale: float
        state: State
        name: str = "none"
        mask: Optional[np.ndarray] = None

    class Entry(typing.TypedDict):
        flag: bool
        rows: List[int]

    def plain(x, state=None): return {"y": show(state)}
    def named(x, state: State = None): return {"y": show(state)}
    def optional(x, state: Optional[State] = None): return {"y": show(state)}
    def data(x, options: "Options" = None): return {"y": show(options)}
    def typed(x, state: Entry = None): return {"y": show(state)}
    def pair(x, state: Tuple[np.ndarray, float] = None): return {"y": show(state)}
    def any_pair(x, state: Tuple[np.ndarray, Optional[np.ndarray]] = None): return {"y": show(state)}
    def floats(x, state: Tuple[float, ...] = ()): return {"y": show(state)}
    def rows(x, state: List[float] = None): return {"y": show(state)}
    def by_number(x, state: Dict[int, float] = None): return {"y": show(state)}
    def either(x, state: Dict[str, Union[int, float, str]] = None): return {"y": show(state)}
    def listed(x, state: List[State] = None): return {"y": show(state)}
    def unknown(x, state: "Nothing" = None): return {"y": show(state)}
    def all_of(x, **rest): return {"y": show(rest)}
    async def later(x, state): return {"y": show(state)}

    def show(value):
        if isinstance(value, np.ndarray):
            return repr(value.tolist()) + ".tensor"
        if dataclasses.is_dataclass(value):
            value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        if isinstance(value, dict):
            return "{" + ", ".join("%r: %s" % (key, show(one)) for key, one in value.items()) + "}"
        if isinstance(value, (tuple, list)):
            return type(value).__name__ + "(" + ", ".join(map(show, value)) + ")"
        return repr(value)

    def step(x, state):
        h, c = state
        return x + h, (h + 1, c + x)

    def steps(x):
        for index in range(2):
            yield {"y": x + index, "state": (x, {"index": index})}

    async def later_steps(x):
        for index in range(2):
            yield State(x, x + index, index)

    def detect(x):
        return [{"boxes": np.zeros((n, 4)), "labels": [1] * n, "name": "b"} for n in range(3)]
"""


@support.needs_numpy
class Models(support.ModelTest):
    def infer(self, host, leaves, message="infer"):
        wires, body = [], b""
        for name, value in leaves.items():
            if isinstance(value, list):
                inner = []
                for one in value:
                    inner.append(inline("", "float64", [], len(body), 8))
                    body += struct.pack("d", one)
                wires.append({"name": name, "dtype": "nested", "inner": inner})
                continue
            if isinstance(value, tuple):
                dtype, shape, data = "int64", [len(value)], struct.pack("%dq" % len(value), *value)
            elif isinstance(value, str):
                dtype, shape, data = "string", [], struct.pack("<2Q", 0, len(value)) + value.encode()
            else:
                dtype, shape, data = "float64", [], struct.pack("d", value)
            body += bytes(-len(body) % 8)
            wires.append(inline(name, dtype, shape, len(body), len(data)))
            body += data
        fields = {"inputs": wires, **({"credits": 10} if message == "infer_stream" else {})}
        return host.call({message: fields}, body)

    def test_inputs(self):
        self.write("main.py", SOURCE)
        for function, leaves, expected in (
            ("plain", {}, "None"),
            ("plain", {"state": 1.0}, "1.0.tensor"),
            ("plain", {"state.0": 1.0, "state.1": 2.0}, "tuple(1.0.tensor, 2.0.tensor)"),
            ("plain", {"state.0": 1.0, "state.k": 2.0}, "{'0': 1.0.tensor, 'k': 2.0.tensor}"),
            ("plain", {"state.a.0": 1.0, "state.b": [2.0]}, "{'a': tuple(1.0.tensor), 'b': list(2.0.tensor)}"),
            ("plain", {"state[].a": [1.0, 2.0]}, "list({'a': 1.0.tensor}, {'a': 2.0.tensor})"),
            ("plain", {"state[][]": [1.0, 2.0], "state[].#": (0, 2)}, "list(list(), list(1.0.tensor, 2.0.tensor))"),
            ("named", {"state.h": 1.0, "state.n": 3.0}, "State(1.0.tensor, None, 3)"),
            ("optional", {"state.h": 1.0, "state.c": 3.0}, "State(1.0.tensor, 3.0.tensor, 7)"),
            ("named", {"state.0": 1.0, "state.1": 3.0}, "State(1.0.tensor, 3.0.tensor, 7)"),
            ("named", {"state.c": 1.0}, ("input `state.h` is missing, and State needs it",)),
            ("named", {"state.h": 1.0, "state.x": 1.0}, ("input `state.x`: State has no such field; it has `h`, `c`, `n`",)),
            ("data", {"options.scale": 2.0, "options.state.h": 1.0, "options.name": "m"}, "{'scale': 2.0, 'state': State(1.0.tensor, None, 7), 'name': 'm', 'mask': None}"),
            ("typed", {"state.flag": 1.0, "state.rows": (4, 5)}, "{'flag': True, 'rows': list(4, 5)}"),
            ("pair", {"state.0": 1.0, "state.1": 2.0}, "tuple(1.0.tensor, 2.0)"),
            ("pair", {"state.0": 1.0}, ("input `state` is a tuple of 2 elements, found 1: `state.1`",)),
            ("pair", {"state.a": 1.0}, ("input `state` is a tuple of `state.0`, `state.1`, found `state.a`",)),
            ("any_pair", {"state.0": 1.0}, "tuple(1.0.tensor, None)"),
            ("floats", {"state.0": 1.0, "state.1": 2.0, "state.2": 3.0}, "tuple(1.0, 2.0, 3.0)"),
            ("rows", {"state.0": 1.0, "state.1": 2.0}, "list(1.0, 2.0)"),
            ("named", {"state.h": 1.0, "state.n": 1.5}, ("input `state.n`: expected an integer, found 1.5",)),
            ("named", {"state.h": 1.0, "state.n": float("nan")}, ("input `state.n`: expected an integer, found nan",)),
            ("named", {"state.h": 1.0, "state.n": "5"}, ("input `state.n`: expected an integer, found '5'",)),
            ("data", {"options.scale": 2.0, "options.state.h": 1.0, "options.name": 1.0}, ("input `options.name`: expected a text, found 1.0",)),
            ("typed", {"state.flag": 2.0, "state.rows": (4, 5)}, ("input `state.flag`: expected a boolean, found 2.0",)),
            ("floats", {"state.0": float("nan")}, "tuple(nan)"),
            ("either", {"state.a": 1.5, "state.b": "x"}, "{'a': 1.5, 'b': 'x'}"),
            ("by_number", {"state.1": 1.0, "state.01": 2.0}, ("input `state` has several keys that are one int: 1, 01",)),
            ("by_number", {"state.1": 1.0, "state.10": 2.0}, "{1: 1.0, 10: 2.0}"),
            ("by_number", {"state.a": 1.0}, ("input `state` has keys that are no int: a",)),
            ("listed", {"state[].h": [1.0, 2.0], "state[].n": [3.0, 4.0]}, "list(State(1.0.tensor, None, 3), State(2.0.tensor, None, 4))"),
            ("unknown", {"state.0": 1.0}, "tuple(1.0.tensor)"),
            ("all_of", {"state.0": 1.0}, "{'state.0': 1.0.tensor}"),
            ("later", {"state.0": 1.0}, "tuple(1.0.tensor)"),
            ("plain", {"state": 1.0, "state.0": 1.0}, ("input `state` is a value of its own, and so is `state.0` below it",)),
        ):
            with self.subTest(function=function, leaves=leaves), self.host(SOURCE, {"infer_fn": function}) as host:
                answer = self.infer(host, {"x": 1.0, **leaves})
                if isinstance(expected, tuple):
                    self.error(answer, *expected)
                else:
                    self.assertEqual(host.outputs(*answer)["y"][2][16:].decode(), expected)

    def test_complex_numbers_are_no_floats(self):
        import numpy
        from carton_runner import annotated
        from carton_runner.errors import RunnerError

        for kind, value in ((float, 1j), (int, 1j), (float, 2**60 + 1), (bytes, 1.0), (int, numpy.inf)):
            with self.subTest(value=value), self.assertRaisesRegex(RunnerError, "input `x`: expected"):
                annotated._wanted(kind).leaf("x", numpy.array(value))
        array = numpy.array(1j)
        self.assertIs(annotated._wanted(typing.Union[float, numpy.ndarray]).leaf("x", array), array)
        with self.assertRaisesRegex(RunnerError, "input `x`: expected an integer, found 1.5"):
            annotated._wanted(typing.List[int]).leaf("x", numpy.array([1.0, 1.5]))

    def test_outputs(self):
        declared = [spec("y"), dict(spec("h"), internal_name="state.0"), spec("state.1")]
        for outputs, names in ((declared, ["y", "h", "state.1"]), ((), ["output_0", "output_1.0", "output_1.1"])):
            with self.host(SOURCE, {"infer_fn": "step"}, outputs=outputs) as host:
                answer = self.infer(host, {"x": 1.0, "state.0": 2.0, "state.1": 4.0})
                found = {name: struct.unpack("d", data)[0] for name, (_, _, data) in host.outputs(*answer).items()}
                self.assertEqual(found, dict(zip(names, (3.0, 3.0, 5.0))))
        with self.host(SOURCE, {"infer_fn": "detect"}) as host:
            _, fields, body = self.infer(host, {"x": 1.0})
            found = {one["name"]: [inner["shape"] for inner in one["inner"]] for one in fields["outputs"]}
            expected = {"output[].boxes": [[0, 4], [1, 4], [2, 4]], "output[].labels": [[0], [1], [2]], "output[].name": [[]] * 3}
            self.assertEqual(found, expected)
            dtypes = {one["name"]: {inner["dtype"] for inner in one["inner"]} for one in fields["outputs"]}
            self.assertEqual(dtypes["output[].labels"], {"int64"})

    def test_streams(self):
        for function, names in (("steps", ["y", "state.0", "state.1.index"]), ("later_steps", ["h", "c", "n"])):
            with self.host(SOURCE, {"infer_fn": function}) as host:
                self.last = self.infer(host, {"x": 1.0}, "infer_stream")
                for _ in range(2):
                    name, fields, _ = self.last
                    self.assertEqual((name, [one["name"] for one in fields["outputs"]]), ("stream_item", names))
                    self.last = host.answer(host.last)
                self.assertEqual(self.last[0], "stream_end")


if __name__ == "__main__":
    unittest.main()
