"""The values that models may return, and the errors for all others."""

import importlib.util
import struct
import textwrap
import unittest

import support
from host import DTYPES, inline, shared

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
        "one": lambda: 1,
        "huge int": lambda: 10**6,
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

        "complex": lambda: 1 - 2j,
        "complex64": lambda: np.array([[1 + 2j, complex("-0-infj")]], dtype=np.complex64),
        "complex128": lambda: np.array(1e300j),
        "complex big endian": lambda: np.array([1j], dtype=">c8"),
        "more than 0 and 1": lambda: np.array([0, 1, 2, 255], dtype=np.uint8).view(bool),
        "byte": lambda: b"\\xff\\0",
        "bytearray": lambda: bytearray(b"ab"),
        "bytes list": lambda: [b"\\xff", b"", b"a\\0"],
        "bytes array": lambda: np.array([[b"x", b"yz"]]),
        "bytes objects": lambda: np.array([b"\\0", b"y"], dtype=object),
        "nested bytes": lambda: [np.array(b"a"), np.array([b"b", b"c"])],
        "None": lambda: None,

        "clongdouble": lambda: np.zeros(1, dtype=np.clongdouble),
        "text and bytes": lambda: np.array([b"x", "y"], dtype=object),
        "bytes and text": lambda: ["x", b"y"],
        "None in a record": lambda: {"a": [1.0, None]},
        "longdouble": lambda: np.zeros(1, dtype=np.longdouble),
        "datetime": lambda: np.array(["2020-01-01"], dtype="datetime64[s]"),
        "record": lambda: np.zeros(1, dtype=[("a", "i4")]),
        "masked": lambda: np.ma.masked_array([1, 2], [0, 1]),
        "number objects": lambda: np.array([1, "x"], dtype=object),
        "list of itself": lambda: list_of_itself(),
        "ragged": lambda: [[1], [1, 2]],
        "ragged depths": lambda: [1, [2]],
        "ragged below": lambda: [[[1]], [[2, 3]]],
        "number before text": lambda: [1, "a"],
        "text in a list of lists": lambda: [[1.0], ["a"]],
        "bool before text": lambda: [True, "a"],
        "number before None": lambda: [1.0, None],
        "None below": lambda: [[None, 1]],
        "text before None": lambda: ["a", None],
        "wide": lambda: [2**63, -1],
        "wider": lambda: [1, 2**64],
        "dict in a list": lambda: [{}],
        "ragged with an empty one": lambda: [[], ["a"]],
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
        return {"tuple": (1, 2), "key": {(7,): 1.0}, "name": {"\\ud800": 1.0}, "none": None, "type": int, "list": [{}]}[case[()]]
"""


def packed(form, *values):
    return struct.pack("<" + form, *values)


def texts(*elements):
    return blobs(*(element.encode() for element in elements))


def blobs(*elements):
    offsets = [sum(map(len, elements[:index])) for index in range(len(elements) + 1)]
    return packed("%dQ" % len(offsets), *offsets) + b"".join(elements)


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
                ("bool", ("bool", [], b"\1")),
                ("big", ("uint64", [], packed("Q", 2**63))),
                ("floats", ("float64", [2, 2], packed("4d", 1, 2, 3, 4))),
                ("mixed", ("float64", [2], packed("2d", 1, 2.5))),
                ("scalar", ("float32", [], packed("f", 2))),
                ("rank 0", ("uint16", [], packed("H", 7))),
                ("zero", ("int8", [3, 0, 2], b"")),
                ("big endian", ("int32", [3], packed("3i", 0, 1, 2))),
                ("transposed", ("int8", [3, 2], bytes([0, 3, 1, 4, 2, 5]))),
                ("reversed", ("int8", [3], bytes([2, 1, 0]))),
                ("broadcast", ("int8", [3], bytes([5, 5, 5]))),
                ("bools", ("bool", [2, 2], bytes([0, 1, 1, 0]))),
                ("more than 0 and 1", ("bool", [4], bytes([0, 1, 1, 1]))),
                ("matrix", ("int32", [1, 2], packed("2i", 1, 2))),
                ("other", ("int16", [3], packed("3h", 0, 1, 2))),
                ("str", ("string", [], texts("é\0"))),
                ("strs", ("string", [3], texts("a", "", "b\0"))),
                ("str matrix", ("string", [2, 2], texts("a", "b", "c", "d"))),
                ("objects", ("string", [2], texts("x", "yz"))),
                ("unicode", ("string", [1, 2], texts("x", "yz"))),
                ("np.str_", ("string", [], texts("😀"))),
                ("no strs", ("string", [0], texts())),
                ("float16", ("float16", [5], bytes.fromhex("662e fffb 0100 007c 007e"))),
                ("float16 big endian", ("float16", [1], bytes.fromhex("662e"))),
                ("float16 scalar", ("float16", [], bytes.fromhex("0038"))),
                ("complex", ("complex128", [], packed("2d", 1, -2))),
                ("complex64", ("complex64", [1, 2], packed("4f", 1, 2, -0.0, -float("inf")))),
                ("complex128", ("complex128", [], packed("2d", 0, 1e300))),
                ("complex big endian", ("complex64", [1], packed("2f", 0, 1))),
                ("byte", ("bytes", [], blobs(b"\xff\0"))),
                ("bytearray", ("bytes", [], blobs(b"ab"))),
                ("bytes list", ("bytes", [3], blobs(b"\xff", b"", b"a\0"))),
                ("bytes array", ("bytes", [1, 2], blobs(b"x", b"yz"))),
                ("bytes objects", ("bytes", [2], blobs(b"\0", b"y"))),
            ):
                with self.subTest(case):
                    self.assertEqual(host.outputs(*self.ask(host, case))["y"], expected)

    def test_hosts_that_take_the_dtypes_of_format_v1_alone(self):
        with self.host(SOURCE, {"infer_fn": "f"}, dtypes=()) as host:
            for case, expected in (
                ("bools", ("uint8", [2, 2], bytes([0, 1, 1, 0]))),
                ("more than 0 and 1", ("uint8", [4], bytes([0, 1, 1, 1]))),
                # Exactly: every value of float16 is one of float32.
                ("float16", ("float32", [5], bytes.fromhex("00c0cc3d00e07fc700008033 0000807f 0000c07f"))),
                ("float16 big endian", ("float32", [1], bytes.fromhex("00c0cc3d"))),
                ("complex", ("float64", [2], packed("2d", 1, -2))),
                ("complex64", ("float32", [1, 2, 2], packed("4f", 1, 2, -0.0, -float("inf")))),
                ("byte", ("string", [], texts("/wA="))),
                ("bytes array", ("string", [1, 2], texts("eA==", "eXo="))),
            ):
                with self.subTest(case):
                    self.assertEqual(host.outputs(*self.ask(host, case))["y"], expected)

    @unittest.skipUnless(importlib.util.find_spec("ml_dtypes"), "this interpreter has no ml_dtypes")
    def test_dtypes_of_ml_dtypes(self):
        source = """
            import ml_dtypes, numpy as np
            def f(case):
                return {"y": np.array([0.1, -3, np.inf]).astype(case[()])}
            def one(x):
                assert x.dtype == ml_dtypes.bfloat16 and not x.flags.writeable, x
                return {"y": x, "z": [x[:1], x], "sum": x.astype(np.float32).sum()}
            def number():
                return {"y": 0.1, "z": 1e30}
        """
        with self.host(source, {"infer_fn": "f"}) as host:
            # As ONNX Runtime and PyTorch round them.
            for kind, expected in (
                ("bfloat16", "cd3d 40c0 807f"),
                ("float8_e4m3fn", "1d c4 7f"),
                ("float8_e5m2", "2e c2 7c"),
                ("float8_e4m3fnuz", "25 cc 80"),
                ("float8_e5m2fnuz", "32 c6 80"),
            ):
                self.assertEqual(host.outputs(*self.ask(host, kind))["y"], (kind, [3], bytes.fromhex(expected)))
            advice = "return it as float32, which holds each of its values"
            self.error(self.ask(host, "float8_e3m4"), "output `y` has the dtype float8_e3m4", advice)
            self.error(self.ask(host, "int4"), "output `y` has the dtype int4", "return it as int8")
        with self.host(source, {"infer_fn": "f"}, dtypes=()) as host:
            expected = ("float32", [3], bytes.fromhex("0000cd3d 000040c0 0000807f"))
            self.assertEqual(host.outputs(*self.ask(host, "bfloat16"))["y"], expected)
        with self.host(source, {"infer_fn": "one"}) as host:
            data = bytes.fromhex("cd3d 40c0")
            answer = host.call({"infer": {"inputs": [inline("x", "bfloat16", [2], 0, 4)]}}, data)
            outputs = host.outputs(*answer[:1], {"outputs": [one for one in answer[1]["outputs"] if one["name"] != "z"]}, answer[2])
            self.assertEqual(outputs["y"], ("bfloat16", [2], data))
            self.assertAlmostEqual(struct.unpack("f", outputs["sum"][2])[0], -2.9, places=2)
            region, memory = host.region(1 << 20)
            memory[:] = data * (1 << 18)
            answer = host.call({"infer": {"inputs": [shared("x", "bfloat16", [1 << 19], region, 0, 1 << 20)]}})
            found = {one["name"]: one for one in answer[1]["outputs"]}
            # The memory of the host, without a copy.
            self.assertEqual(found["y"]["data"]["shared"], {"owner": "host", "region": region, "offset": 0, "length": 1 << 20})
        declared = [{"name": name, "dtype": "bfloat16", "shape": []} for name in "y"] + [{"name": "z", "dtype": "float8_e4m3fn", "shape": []}]
        with self.host(source, {"infer_fn": "number"}, outputs=declared) as host:
            outputs = host.outputs(*host.call({"infer": {"inputs": []}}))
            self.assertEqual(outputs["y"], ("bfloat16", [], bytes.fromhex("cd3d")))
            # Nothing is rounded to what is no number.
            self.assertEqual(outputs["z"][0], "float64")

    def test_floats_that_numpy_lacks_without_ml_dtypes(self):
        # Hides `ml_dtypes`, and stands in for PyTorch.
        self.write("ml_dtypes.py", "raise ImportError('hidden')")
        source = """
            import sys, types
            import numpy as np

            class Tensor:
                def __init__(self, array, dtype): self.array, self.dtype = array, "torch." + dtype
                def detach(self): return self
                cpu = resolve_conj = resolve_neg = detach
                def view(self, dtype): return Tensor(self.array, dtype)
                def numpy(self):
                    if self.dtype == "torch.bfloat16": raise TypeError("Got unsupported ScalarType BFloat16")
                    return self.array
                def float(self): return Tensor((self.array.view(np.uint16).astype(np.uint32) << 16).view(np.float32), "float32")

            torch = types.ModuleType("torch")
            torch.Tensor, torch.int16, torch.bfloat16 = Tensor, "int16", "bfloat16"

            def from_numpy(array):
                assert array.dtype == np.int16 and array.flags.writeable
                return Tensor(array, "int16")

            torch.from_numpy = from_numpy

            def f(x, imports=False):
                if imports: sys.modules["torch"] = torch
                return {"y": x, "kind": str(x.dtype)}

            def imports():
                sys.modules["torch"] = torch
                return {}
        """
        x = inline("x", "bfloat16", [2], 0, 4)
        data = bytes.fromhex("cd3d 40c0")
        for dtypes, expected in (((), ("float32", [2], bytes.fromhex("0000cd3d 000040c0"))), (DTYPES, ("bfloat16", [2], data))):
            with self.host("import sys\n" + textwrap.dedent(source) + "\nsys.modules['torch'] = torch", {"infer_fn": "f"}, dtypes=dtypes) as host:
                outputs = host.outputs(*host.call({"infer": {"inputs": [x]}}, data))
                self.assertEqual(outputs["y"], expected)
                self.assertEqual(outputs["kind"][2][16:], b"torch.bfloat16")
        with self.host("def f(x): return {'y': x.nbytes}", {"infer_fn": "f"}) as host:
            answer = host.call({"infer": {"inputs": [x]}}, data)
            fields = self.error(answer, "input `x` is of bfloat16, which needs the package ml_dtypes or torch", "requirements.txt")
            self.assertEqual(fields["code"], "unavailable")
            # Other calls are not concerned.
            outputs = host.outputs(*host.call({"infer": {"inputs": [inline("x", "float16", [2], 0, 4)]}}, data))
            self.assertEqual(outputs["y"][2], packed("q", 4))

    def test_a_failed_call_leaves_nothing(self):
        import numpy
        from carton_runner.decoding import Decoder
        from carton_runner.errors import ProtocolError

        decoder = Decoder(None, None)
        decoder.use(numpy)
        with self.assertRaises(ProtocolError):
            decoder.decode("infer", [inline("x", "bfloat16", [1], 0, 2), inline("y", "int8", [9], 0, 1)], b"ab")
        self.assertIs(type(decoder.decode("infer", [inline("x", "int8", [1], 0, 1)], b"a")), dict)

    def test_inputs_of_every_dtype(self):
        source = """
            def f(**inputs):
                return {"y": repr({name: [x.dtype.str, x.tolist()] for name, x in inputs.items()}), **inputs}
        """
        tensors = (
            ("a", "bool", [2], b"\0\1"),
            ("b", "float16", [], bytes.fromhex("0038")),
            ("c", "complex64", [1], packed("2f", 1, -2)),
            ("d", "complex128", [1], packed("2d", 1, -2)),
            ("e", "bytes", [2], blobs(b"\xff\0", b"")),
        )
        with self.host(source, {"infer_fn": "f"}) as host:
            wires, body = [], b""
            for name, dtype, shape, data in tensors:
                body += bytes(-len(body) % 64)
                wires.append(inline(name, dtype, shape, len(body), len(data)))
                body += data
            outputs = host.outputs(*host.call({"infer": {"inputs": wires}}, body))
            for name, *expected in tensors:
                self.assertEqual(outputs[name], tuple(expected))
            expected = "{'a': ['|b1', [False, True]], 'b': ['<f2', 0.5], 'c': ['<c8', [(1-2j)]], 'd': ['<c16', [(1-2j)]], 'e': ['|O', [b'\\xff\\x00', b'']]}"
            self.assertEqual(outputs["y"][2][16:].decode(), expected)

    def test_nested_tensors(self):
        with self.host(SOURCE, {"infer_fn": "f"}) as host:
            for case, expected in (
                ("nested", [("int8", [2], bytes(2)), ("int8", [1, 2], b"\1\1")]),
                ("nested text", [("string", [], texts("a")), ("string", [2], texts("b", "c"))]),
                ("nested halves", [("float16", [1], bytes.fromhex("662e")), ("float16", [2], bytes.fromhex("6632cd34"))]),
                ("nested bytes", [("bytes", [], blobs(b"a")), ("bytes", [2], blobs(b"b", b"c"))]),
                ("ragged", [("int64", [1], packed("q", 1)), ("int64", [2], packed("2q", 1, 2))]),
                ("ragged below", [("int64", [1, 1], packed("q", 1)), ("int64", [1, 2], packed("2q", 2, 3))]),
                ("ragged text", [("string", [1], texts("a")), ("string", [2], texts("b", "c"))]),
                ("ragged with an empty one", [("string", [0], texts()), ("string", [1], texts("a"))]),
                ("empty", []),
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

    def test_numbers_and_texts_for_other_declarations(self):
        for dtype, value, expected in (
            ("string", "5", ("int64", [], packed("q", 5))),
            ("bytes", "5", ("int64", [], packed("q", 5))),
            ("bytes", "['abcd', 'é']", ("bytes", [2], blobs(b"abcd", "é".encode()))),
            ("bytes", "'abcd'", ("bytes", [], blobs(b"abcd"))),
            ("bytes", "[b'abcd']", ("bytes", [1], blobs(b"abcd"))),
        ):
            declared = [{"name": "y", "dtype": dtype, "shape": "*"}]
            with self.subTest(value), self.host("def f(): return {'y': %s}" % value, {"infer_fn": "f"}, outputs=declared) as host:
                self.assertEqual(host.outputs(*host.call({"infer": {"inputs": []}}))["y"], expected)

    def test_irregular_rows_that_are_declared(self):
        declared = [{"name": "y", "dtype": "float32", "shape": "*"}]
        with self.host("def f(): return {'y': [[1], [], [2, 3]]}", {"infer_fn": "f"}, outputs=declared) as host:
            _, fields, _ = host.call({"infer": {"inputs": []}})
            self.assertEqual([(one["dtype"], one["shape"]) for one in fields["outputs"][0]["inner"]], [("float32", [1]), ("float32", [0]), ("float32", [2])])

    def test_what_is_none(self):
        with self.host(SOURCE, {"infer_fn": "f"}) as host:
            for case, *expected in (
                ("clongdouble", "which Carton has no name for", ".astype(numpy.complex128)"),
                ("text and bytes", "output `y` holds a str where only bytes are expected"),
                ("bytes and text", "output `y` holds a bytes where only text is expected"),
                ("None in a record", "output `y.a` is a list that holds None"),
                ("longdouble", "which Carton has no name for", ".astype(numpy.float64)"),
                ("datetime", "output `y` has the dtype datetime64[s]", ".astype(numpy.int64)"),
                ("record", "which Carton has no name for", "its fields"),
                ("masked", "output `y` is a masked array", ".filled(0)"),
                ("number objects", "output `y` holds a int where only text is expected", "an array of a numeric dtype"),
                ("list of itself", "has more than 64 levels", "return the tensors by name"),
                ("ragged depths", "the lists in output `y` have different lengths"),
                ("number before text", "output `y` is a list of numbers that holds text: 'a'", "outputs of their own"),
                ("text in a list of lists", "output `y` is a list of numbers that holds text: 'a'"),
                ("bool before text", "output `y` is a list of numbers that holds text: 'a'"),
                ("number before None", "output `y` is a list that holds None", "NaN can stand"),
                ("None below", "output `y` is a list that holds None"),
                ("text before None", "output `y` holds a NoneType where only text is expected"),
                ("wide", "the integers in output `y` fit no dtype, neither int64 nor uint64"),
                ("wider", "the integers in output `y` fit no dtype"),
                ("huge", "the integers in output `y` fit no dtype"),
                ("dict in a list", "output `y` is a list of values without tensors"),
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
                ("key", "the names of outputs are text, found (7,)"),
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
            ("bool", "bool", b"\1"),
            ("one", "bool", b"\1"),
            ("int", "bool", None),
            ("float", "float16", bytes.fromhex("003e")),
            ("huge float", "float16", None),
            ("huge int", "float16", None),
            ("float", "complex64", packed("2f", 1.5, 0)),
            ("complex", "complex64", packed("2f", 1, -2)),
            ("complex", "float64", None),
            ("byte", "bytes", blobs(b"\xff\0")),
            ("tuple", "int32", packed("2i", 1, 2)),
            ("floats", "float32", packed("4f", 1, 2, 3, 4)),
            ("empty", "int16", b""),
            ("empty", "string", texts()),
            ("empty", "bytes", blobs()),
        ):
            outputs = [{"name": "y", "dtype": declared, "shape": ["n"]}]
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
