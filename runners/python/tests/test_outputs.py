"""The values that models may return, and the errors for all others."""

import importlib.util
import struct
import unittest

import support
from host import inline

SOURCE = """
    import decimal
    import numpy as np

    class Tensor:
        '''As tensors of other frameworks.'''
        def __array__(self, dtype=None, copy=None):
            return np.arange(3, dtype=np.int16)

    def list_of_itself():
        one = []
        one.append(one)
        return one

    cases = {
        "float": lambda: 1.5,
        "int": lambda: -3,
        "huge float": lambda: 1e300,
        "infinite": lambda: float("inf"),
        "bool": lambda: True,
        "big": lambda: 2**63,
        "floats": lambda: [[1.0, 2.0], [3.0, 4.0]],
        "tuple": lambda: (1, 2),
        "mixed": lambda: [1, 2.5],
        "empty": lambda: [],
        "scalar": lambda: np.float32(2),
        "rank 0": lambda: np.array(7, dtype=np.uint16),
        "zero": lambda: np.zeros((3, 0, 2), dtype=np.int8),
        "big endian": lambda: np.arange(3, dtype=">i4"),
        "transposed": lambda: np.arange(6, dtype=np.int8).reshape(2, 3).T,
        "reversed": lambda: np.arange(3, dtype=np.int8)[::-1],
        "broadcast": lambda: np.broadcast_to(np.int8(5), (3,)),
        "bools": lambda: np.array([[True, False], [False, True]])[:, ::-1],
        "matrix": lambda: np.matrix([[1, 2]], dtype=np.int32),
        "other": Tensor,
        "str": lambda: "é\\0",
        "strs": lambda: ["a", "", "b\\0"],
        "str matrix": lambda: [["a", "b"], ["c", "d"]],
        "objects": lambda: np.array(["x", "yz"], dtype=object),
        "unicode": lambda: np.array([["x", "yz"]]),
        "np.str_": lambda: np.str_("😀"),
        "no strs": lambda: np.array([], dtype=object),
        "nested": lambda: [np.zeros(2, dtype=np.int8), np.ones((1, 2), dtype=np.int8)],
        "nested text": lambda: [np.array("a"), np.array(["b", "c"])],

        "float16": lambda: np.array([0.1, -65504, 6e-8, np.inf, np.nan], dtype=np.float16),
        "float16 big endian": lambda: np.array([0.1], dtype=">f2"),
        "float16 scalar": lambda: np.float16(0.5),
        "nested halves": lambda: [np.float16([0.1]), np.float16([0.2, 0.3])],

        "None": lambda: None,
        "complex": lambda: np.zeros(1, dtype=np.complex64),
        "longdouble": lambda: np.zeros(1, dtype=np.longdouble),
        "datetime": lambda: np.array(["2020-01-01"], dtype="datetime64[s]"),
        "bytes": lambda: np.array([b"x"]),
        "record": lambda: np.zeros(1, dtype=[("a", "i4")]),
        "masked": lambda: np.ma.masked_array([1, 2], [0, 1]),
        "number objects": lambda: np.array([1, "x"], dtype=object),
        "list of itself": lambda: list_of_itself(),
        "ragged": lambda: [[1], [1, 2]],
        "ragged depths": lambda: [1, [2]],
        "ragged below": lambda: [[[1]], [[2, 3]]],
        "number before text": lambda: [1, "a"],
        "text in a list of lists": lambda: [[1.0], ["a"]],
        "bool before text": lambda: (True, "a"),
        "number before None": lambda: [1.0, None],
        "None below": lambda: [[None, 1]],
        "text before None": lambda: ["a", None],
        "wide": lambda: [2**63, -1],
        "wider": lambda: [1, 2**64],
        "dict in a list": lambda: [{}],
        "ragged text": lambda: [["a"], ["b", "c"]],
        "huge": lambda: 10**30,
        "set": lambda: {1, 2},
        "decimal": lambda: decimal.Decimal(1),
        "surrogate": lambda: "\\ud800",
        "mixed nested": lambda: [np.zeros(1, dtype=np.int8), np.zeros(1)],
        "function": lambda: print,
    }

    def f(case):
        return {"y": cases[case[()]]()}

    def raw(case):
        return {"tuple": (1, 2), "key": {7: 1.0}, "name": {"\\ud800": 1.0}, "none": None, "type": int, "list": [{}]}[case[()]]
"""


def packed(form, *values):
    return struct.pack("<" + form, *values)


def texts(*elements):
    encoded = [element.encode() for element in elements]
    offsets = [sum(map(len, encoded[:index])) for index in range(len(encoded) + 1)]
    return packed("%dQ" % len(offsets), *offsets) + b"".join(encoded)


@support.needs_numpy
class Outputs(support.ModelTest):
    def ask(self, host, case):
        body = texts(case)
        return host.call({"infer": {"inputs": [inline("case", "string", [], 0, len(body))]}}, body)

    def test_what_is_a_tensor(self):
        with self.host(SOURCE, {"infer_fn": "f"}) as host:
            for case, expected in (
                ("float", ("float64", [], packed("d", 1.5))),
                ("int", ("int64", [], packed("q", -3))),
                ("bool", ("uint8", [], b"\1")),
                ("big", ("uint64", [], packed("Q", 2**63))),
                ("floats", ("float64", [2, 2], packed("4d", 1, 2, 3, 4))),
                ("tuple", ("int64", [2], packed("2q", 1, 2))),
                ("mixed", ("float64", [2], packed("2d", 1, 2.5))),
                ("empty", ("float64", [0], b"")),
                ("scalar", ("float32", [], packed("f", 2))),
                ("rank 0", ("uint16", [], packed("H", 7))),
                ("zero", ("int8", [3, 0, 2], b"")),
                ("big endian", ("int32", [3], packed("3i", 0, 1, 2))),
                ("transposed", ("int8", [3, 2], bytes([0, 3, 1, 4, 2, 5]))),
                ("reversed", ("int8", [3], bytes([2, 1, 0]))),
                ("broadcast", ("int8", [3], bytes([5, 5, 5]))),
                ("bools", ("uint8", [2, 2], bytes([0, 1, 1, 0]))),
                ("matrix", ("int32", [1, 2], packed("2i", 1, 2))),
                ("other", ("int16", [3], packed("3h", 0, 1, 2))),
                ("str", ("string", [], texts("é\0"))),
                ("strs", ("string", [3], texts("a", "", "b\0"))),
                ("str matrix", ("string", [2, 2], texts("a", "b", "c", "d"))),
                ("objects", ("string", [2], texts("x", "yz"))),
                ("unicode", ("string", [1, 2], texts("x", "yz"))),
                ("np.str_", ("string", [], texts("😀"))),
                ("no strs", ("string", [0], texts())),
                # Exactly: every value of float16 is one of float32.
                ("float16", ("float32", [5], bytes.fromhex("00c0cc3d00e07fc700008033 0000807f 0000c07f"))),
                ("float16 big endian", ("float32", [1], bytes.fromhex("00c0cc3d"))),
                ("float16 scalar", ("float32", [], packed("f", 0.5))),
            ):
                with self.subTest(case):
                    self.assertEqual(host.outputs(*self.ask(host, case))["y"], expected)

    @unittest.skipUnless(importlib.util.find_spec("ml_dtypes"), "this interpreter has no ml_dtypes")
    def test_dtypes_of_ml_dtypes(self):
        source = """
            import ml_dtypes, numpy as np

            class OfTorch:
                # As tensors of PyTorch, which NumPy cannot read.
                dtype = "torch.bfloat16"
                def __array__(self, dtype=None, copy=None): raise TypeError("Got unsupported ScalarType BFloat16")
                def float(self): return np.array([0.5], np.float32)

            def f(case):
                if case[()] == "torch":
                    return {"y": OfTorch()}
                return {"y": np.array([0.1, -3e38, np.inf]).astype(case[()])}
        """
        with self.host(source, {"infer_fn": "f"}) as host:
            # The upper halves of the float32, as ONNX Runtime and PyTorch round them.
            expected = ("float32", [3], bytes.fromhex("0000cd3d 000062ff 0000807f"))
            self.assertEqual(host.outputs(*self.ask(host, "bfloat16"))["y"], expected)
            self.assertEqual(host.outputs(*self.ask(host, "torch"))["y"], ("float32", [1], packed("f", 0.5)))
            advice = "return it as one of float32 … uint64, or as text"
            self.error(self.ask(host, "float8_e5m2"), "output `y` has the dtype float8_e5m2", advice)

    def test_nested_tensors(self):
        with self.host(SOURCE, {"infer_fn": "f"}) as host:
            for case, expected in (
                ("nested", [("int8", [2], bytes(2)), ("int8", [1, 2], b"\1\1")]),
                ("nested text", [("string", [], texts("a")), ("string", [2], texts("b", "c"))]),
                ("nested halves", [("float32", [1], packed("f", 0.0999755859375)), ("float32", [2], packed("2f", 0.199951171875, 0.300048828125))]),
            ):
                _, fields, body = self.ask(host, case)
                (tensor,) = fields["outputs"]
                self.assertEqual((tensor["name"], tensor["dtype"]), ("y", "nested"))
                inner = [(one["dtype"], one["shape"], host.bytes_of(one, body)) for one in tensor["inner"]]
                self.assertEqual(inner, expected)
        with self.host("def g(x): return {'n': len(x), 'y': x}", {"infer_fn": "g"}) as host:
            inner = [inline("", "int8", [2], 0, 2), inline("", "int8", [], 2, 1)]
            _, fields, body = host.call({"infer": {"inputs": [{"name": "x", "dtype": "nested", "inner": inner}]}}, b"abc")
            inner = fields["outputs"][1]["inner"]
            self.assertEqual([host.bytes_of(one, body) for one in inner], [b"ab", b"c"])

    def test_what_is_none(self):
        with self.host(SOURCE, {"infer_fn": "f"}) as host:
            for case, *expected in (
                ("None", "output `y` is None", "return an array, a number or text for each output"),
                ("complex", "output `y` has the dtype complex64", "real and imaginary"),
                ("longdouble", "which Carton has no name for", ".astype(numpy.float64)"),
                ("datetime", "output `y` has the dtype datetime64[s]", ".astype(numpy.int64)"),
                ("bytes", "output `y` has the dtype |S1", "numpy.char.decode"),
                ("record", "which Carton has no name for", "its fields"),
                ("masked", "output `y` is a masked array", ".filled(0)"),
                ("number objects", "output `y` holds a int where only text is expected", "an array of a numeric dtype"),
                ("list of itself", "output `y` is lists in lists, 64 deep or more", "return NumPy arrays"),
                ("ragged", "the lists in output `y` have different lengths", "`[numpy.array(row) for row in rows]`"),
                ("ragged depths", "the lists in output `y` have different lengths"),
                ("ragged below", "the lists in output `y` have different lengths"),
                ("ragged text", "the lists in output `y` have different lengths", "return a list of NumPy arrays"),
                ("number before text", "output `y` is a list of numbers that holds text: 'a'", "outputs of their own"),
                ("text in a list of lists", "output `y` is a list of numbers that holds text: 'a'"),
                ("bool before text", "output `y` is a list of numbers that holds text: 'a'"),
                ("number before None", "output `y` is a list that holds None", "NaN can stand"),
                ("None below", "output `y` is a list that holds None"),
                ("text before None", "output `y` holds a NoneType where only text is expected"),
                ("wide", "the integers in output `y` fit no dtype, neither int64 nor uint64"),
                ("wider", "the integers in output `y` fit no dtype"),
                ("huge", "the integers in output `y` fit no dtype"),
                ("dict in a list", "output `y` is a list of what is neither numbers nor text"),
                ("set", "output `y` is a set, which is no tensor", "return NumPy arrays"),
                ("decimal", "output `y` is a decimal.Decimal, which is no tensor"),
                ("surrogate", "output `y` holds what is no text in Unicode"),
                ("mixed nested", "the elements of output `y` are int8 and float64"),
                ("function", "output `y` is a builtin_function_or_method, which is no tensor"),
            ):
                with self.subTest(case):
                    self.assertEqual(self.error(self.ask(host, case), *expected)["code"], "failed")

    def test_results_that_have_no_names(self):
        outputs = [{"name": "y", "dtype": "float32", "shape": []}]
        with self.host(SOURCE, {"infer_fn": "raw"}, outputs=outputs) as host:
            for case, expected in (
                ("tuple", "the model returned 2 outputs, the carton declares 1 (y)"),
                ("key", "the names of outputs are text, found 7"),
                ("name", "the name of an output is no text in Unicode"),
                ("none", "output `y` is None"),
                ("type", "output `y` is a type"),
                ("list", "output `y` is a list of what is neither numbers nor text"),
            ):
                with self.subTest(case):
                    self.error(self.ask(host, case), expected)

    def test_numbers_of_python_become_what_is_declared(self):
        for case, declared, expected in (
            ("float", "float32", packed("f", 1.5)),
            ("int", "int8", b"\xfd"),
            ("int", "float32", packed("f", -3)),
            ("int", "uint8", None),
            ("float", "int32", None),
            # Rounded, but not to an infinity.
            ("huge float", "float32", None),
            ("infinite", "float32", packed("f", float("inf"))),
            ("big", "int64", None),
            ("bool", "uint8", b"\1"),
            ("floats", "float32", packed("4f", 1, 2, 3, 4)),
            ("empty", "int16", b""),
            ("empty", "string", texts()),
        ):
            outputs = [{"name": "y", "dtype": declared, "shape": "*"}]
            with self.subTest(case=case, declared=declared):
                with self.host(SOURCE, {"infer_fn": "f"}, outputs=outputs) as host:
                    dtype, _, data = host.outputs(*self.ask(host, case))["y"]
                    if expected is None:
                        # Nothing is rounded, or wrapped around; the host reports the expected dtype.
                        self.assertNotEqual(dtype, declared)
                    else:
                        self.assertEqual((dtype, data), (declared, expected))

    def test_more_than_a_frame_holds(self):
        source = "import numpy as np\ndef f(): return {'y': np.zeros(1 << 30, np.uint8)}"
        with self.host(source, {"infer_fn": "f"}, shared_memory=False) as host:
            answer = host.call({"infer": {"inputs": []}})
            self.assertEqual(self.error(answer)["code"], "too_large")


if __name__ == "__main__":
    unittest.main()
