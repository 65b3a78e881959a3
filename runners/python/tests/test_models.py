"""The conventions of models: entry points, options, plain functions, seal, streams, coroutines, errors."""

import json
import os
import struct
import time
import unittest

import support
from host import Host, inline


def infer(*tensors):
    return {"infer": {"inputs": list(tensors)}}


def scalar(name="x"):
    return inline(name, "float32", [], 0, 4)


def number(value):
    return struct.pack("<f", value)


def spec(name, dtype="float32", **more):
    return dict(name=name, dtype=dtype, shape=[], **more)


@support.needs_numpy
class EntryPoints(support.ModelTest):
    def value(self, host, answer, name="y"):
        dtype, shape, data = host.outputs(*answer)[name]
        self.assertEqual((dtype, shape), ("float32", []))
        return struct.unpack("<f", data)[0]

    def test_the_object_of_the_entry_point_is_the_model(self):
        source = """
            class Model:
                def __init__(self, factor):
                    self.factor = factor

                def infer_with_tensors(self, inputs):
                    return {"y": inputs["x"] * self.factor}

            def get_model(factor=2):
                return Model(factor)
        """
        with self.host(source) as host:
            self.assertEqual(self.value(host, host.call(infer(scalar()), number(3))), 6)
        with self.host(source, {"model.factor": 5}) as host:
            self.assertEqual(self.value(host, host.call(infer(scalar()), number(3))), 15)
            self.assertEqual(host.logs, [])
        with self.host(source, {"model.other": 5, "unknown": 1}) as host:
            expected = ["unknown option `unknown`", "unknown option `model.other`: `get_model` has no such parameter"]
            self.assertEqual(host.logs, [("warn", text) for text in expected])
        with self.host(source, {"entrypoint_fn": "Model", "model": {"factor": 7}}) as host:
            self.assertEqual(self.value(host, host.call(infer(scalar()), number(3))), 21)

    def test_a_model_states_its_signature(self):
        source = """
            import numpy

            class Model:
                def signature(self):
                    return {"inputs": [{"name": "x", "dtype": numpy.dtype("float32"), "shape": ("batch", numpy.int64(2))}], "outputs": %s}

                def example(self):
                    return {"x": numpy.ones((1, 2), "float32")}

                def infer_with_tensors(self, inputs):
                    return inputs

            get_model = Model
        """
        with self.host(source % "[]") as host:
            name, fields, body, *_ = host.call({"describe": {}})
            self.assertEqual(name, "described")
            self.assertEqual(fields["inputs"], [{"name": "x", "dtype": "float32", "shape": ["batch", 2]}])
            self.assertEqual(fields["outputs"], [])
            self.assertEqual(fields["descriptions"], {})
            (example,) = fields["example"]
            self.assertEqual(host.bytes_of(example, body), number(1) * 2)
            self.assertEqual(host.call({"describe": {}})[0], "described")
        problems = {
            "3": "`outputs` of the model's signature is no list",
            '[{"name": "y"}]': "`outputs` of the model's signature holds what is no dict of `name`, `dtype` and `shape`",
            '[{"name": "y", "dtype": "int4", "shape": []}]': "`y` of the model's signature has no known dtype: int4",
            '[{"name": "y", "dtype": "int8", "shape": [-1]}]': "the shape of `y` in the model's signature has a size that is neither a text nor a number: -1",
        }
        for outputs, problem in problems.items():
            with self.host(source % outputs) as host:
                name, fields, *_ = host.call({"describe": {}})
                self.assertEqual((name, fields["message"]), ("error", problem))
        nothing = {name: [] for name in ("inputs", "outputs", "optional_inputs", "optional_outputs", "example")}
        more = '[{"name": "y", "dtype": "int8", "shape": "*", "optional": True, "description": "what it is"}]'
        with self.host(source % more) as host:
            fields = host.call({"describe": {}})[1]
            self.assertEqual((fields["optional_outputs"], fields["descriptions"]), (["y"], {"y": "what it is"}))
        with self.host("class get_model:\n    def infer_with_tensors(self, inputs):\n        return inputs\n") as host:
            self.assertEqual(host.call({"describe": {}})[:2], ("described", {**nothing, "descriptions": {}}))
        with Host() as host:
            self.assertEqual(host.call({"describe": {}})[1]["code"], "not_loaded")

    def test_relative_imports_and_files_beside_the_model(self):
        self.write("model/net/__init__.py", "")
        self.write("model/net/core.py", "from ..weights import factor\nfrom . import sub\n")
        self.write("model/net/sub.py", "")
        self.write("model/weights.py", "import os\nfactor = float(open('factor.txt').read())\n")
        self.write("model/factor.txt", "4")
        self.write(
            "model/start.py",
            """
            import weights
            from .net.core import factor

            def predict(x):
                assert __name__ == "start", __name__
                assert weights.__name__ == "weights"
                return {"y": x * factor}
            """,
        )
        with Host() as host:
            loaded = host.load(self.folder + "/model", {"entrypoint_package": "start", "infer_fn": "predict"})
            self.assertEqual(loaded[0], "loaded", loaded)
            answer = host.call(infer(scalar()), number(2))
            self.assertEqual(self.value(host, answer), 8)
        # The runner has written nothing into the model's folder.
        self.assertNotIn("__pycache__", [name for _, names, _ in os.walk(self.folder) for name in names])

    def test_models_that_are_none(self):
        for source, options, expected in (
            ("", {}, ["has no function `get_model`", "with `infer_fn`"]),
            ("get_model = 7", {}, ["has a int, not a function, `get_model`"]),
            ("def get_model(): return 7", {}, ["returned a int without the methods of a model", "`infer_with_handle`"]),
            ("", {"infer_fn": "f"}, ["has no function `f`"]),
            ("", {"infer_fn": 7}, ["the option `infer_fn` must be a name, found 7"]),
            ("", {"infer_fn": "f", "entrypoint_fn": "g"}, ["only one can be given"]),
            ("", {"entrypoint_package": "other"}, ["the model has no module `other` (there are these: main.py)"]),
            ("import nonsense_that_is_nowhere", {}, ["No module named 'nonsense_that_is_nowhere'", "main.py"]),
            (
                "def get_model(): import nonsense_that_is_nowhere",
                {},
                ["main.py, line 1", "a line `nonsense_that_is_nowhere`, and pack the model again"],
            ),
            ("def f(:", {}, ["SyntaxError", "def f(:"]),
            ("raise KeyError('x')", {}, ["KeyError: 'x'", "line 1"]),
        ):
            with self.subTest(source=source, options=options), Host() as host:
                self.write("main.py", source)
                self.error(host.load(self.folder, options), *expected)
                # The process lives on, and can load another model.
                self.write("main.py", "def f(): return {}")
                self.assertEqual(host.load(self.folder, {"infer_fn": "f"})[0], "loaded")
                self.assertEqual(host.load(self.folder, {"infer_fn": "f"})[1]["code"], "already_loaded")
        with Host() as host:
            self.error(host.load(self.folder + "/nowhere"), "there is no folder")

    def test_seal_of_the_model_and_in_its_place(self):
        source = """
            class Both:
                def __init__(self):
                    self.sealed = {}

                def seal(self, inputs):
                    self.sealed[len(self.sealed)] = inputs["x"] + 100
                    return len(self.sealed) - 1

                def infer_with_handle(self, handle):
                    return {"y": self.sealed[handle]}

                def unseal(self, handle):
                    print("unsealed", handle)

            class Tensors:
                def infer_with_tensors(self, inputs):
                    # Each call gets a separate dict.
                    return {"y": inputs.pop("x") + 1}
        """
        for entrypoint, expected in (("Both", 103), ("Tensors", 4)):
            with self.host(source, {"entrypoint_fn": entrypoint}) as host:
                handle = host.call({"seal": {"inputs": [scalar()]}}, number(3))[1]["handle"]
                for _ in range(2):
                    self.assertEqual(self.value(host, host.call({"infer_sealed": {"handle": handle}})), expected)
                self.assertEqual(self.value(host, host.call(infer(scalar()), number(3))), expected)
                host.send({"unseal": {"handle": handle}})
                answer = host.call({"infer_sealed": {"handle": handle}})
                self.assertEqual(answer[1]["code"], "unknown_handle")
                if entrypoint == "Both":
                    self.assertEqual(host.printed(), b"unsealed 0\n")

    def test_names_inside_the_model(self):
        source = "def f(inner): return {'result': inner + 1}"
        specs = {
            "inputs": [spec("x", internal_name="inner")],
            "outputs": [spec("y", internal_name="result")],
        }
        with self.host(source, {"infer_fn": "f"}, **specs) as host:
            self.assertEqual(self.value(host, host.call(infer(scalar()), number(3))), 4)

    def test_bools(self):
        source = """
            import numpy

            def f(mask, x):
                found = [mask.dtype.name, (~mask).tolist(), x[mask].tolist(), x.dtype.name, mask.flags.writeable]
                return {"y": repr(found), "mask": mask}

            class Sealed:
                def seal(self, inputs): return inputs
                def infer_with_handle(self, inputs): return f(**inputs)
        """
        specs = [spec("flags", "bool", internal_name="mask"), spec("x", "uint8")]
        tensors = [inline("flags", "bool", [3], 0, 3), inline("x", "uint8", [3], 3, 3)]
        for entrypoint in ({"infer_fn": "f"}, {"entrypoint_fn": "Sealed"}):
            for writable in (False, True):
                options = {**entrypoint, "writable_inputs": writable}
                with self.subTest(options), self.host(source, options, specs) as host:
                    outputs = host.outputs(*host.call(infer(*tensors), bytes([1, 0, 1, 5, 6, 7])))
                    expected = repr(["bool", [False, True, False], [5, 7], "uint8", writable])
                    self.assertEqual(outputs["y"][2][16:].decode(), expected)
                    self.assertEqual(outputs["mask"], ("bool", [3], bytes([1, 0, 1])))
                    host.send(infer(*tensors), 99, bytes([1, 0, 2, 5, 6, 7]))
                    error = host.read()[0]["message"]["error"]
                    self.assertEqual(error["code"], "protocol")
                    self.assertIn("tensor `flags`: an element is neither 0 nor 1", error["message"])

    def test_nested_and_scalar_bools(self):
        source = """
            def f(masks, flag):
                return {"y": repr([[one.tolist() for one in masks], bool(flag), flag.dtype.name, flag.shape])}
        """
        specs = [dict(spec("masks", "bool"), shape="*"), spec("flag", "bool")]
        inner = [inline("", "bool", [2], 0, 2), inline("", "bool", [0], 2, 0)]
        tensors = [{"name": "masks", "dtype": "nested", "inner": inner}, inline("flag", "bool", [], 2, 1)]
        with self.host(source, {"infer_fn": "f"}, specs) as host:
            outputs = host.outputs(*host.call(infer(*tensors), bytes([1, 0, 1])))
            self.assertEqual(outputs["y"][2][16:].decode(), "[[[True, False], []], True, 'bool', ()]")

    def test_outputs_in_the_declared_order(self):
        source = """
            import collections
            def one(x): return x + 1
            def two(x): return x + 1, x + 2
            def many(x): return [x + 1, x + 2]
            def named(x): return collections.namedtuple("Result", "b a")(x + 1, x + 2)
        """
        for function, declared, expected in (
            ("one", ["a"], {"a": 4}),
            ("two", ["b", "a"], {"b": 4, "a": 5}),
            ("many", ["b", "a"], {"b": 4, "a": 5}),
            ("named", ["b", "a"], {"b": 4, "a": 5}),
            ("two", ["a"], "the model returned 2 outputs, the carton declares 1 (a)"),
            ("one", ["a", "b"], "the model returned 1 outputs, the carton declares 2 (a, b)"),
            ("one", [], {"output": 4}),
            ("two", [], {"output_0": 4, "output_1": 5}),
            ("named", [], {"b": 4, "a": 5}),
        ):
            outputs = [spec(name) for name in declared]
            with self.subTest(function=function, declared=declared):
                with self.host(source, {"infer_fn": function}, outputs=outputs) as host:
                    answer = host.call(infer(scalar()), number(3))
                    if isinstance(expected, str):
                        self.error(answer, expected)
                    else:
                        self.assertEqual({one["name"]: self.value(host, answer, one["name"]) for one in answer[1]["outputs"]}, expected)

    def test_coroutines_share_one_event_loop(self):
        source = """
            import asyncio
            loops = []

            class Model:
                async def infer_with_tensors(self, inputs):
                    loops.append(asyncio.get_running_loop())
                    await asyncio.sleep(0)
                    assert all(loop is loops[0] for loop in loops)
                    return {"y": inputs["x"] + 1}

            async def get_model():
                loops.append(asyncio.get_running_loop())
                await asyncio.sleep(0)
                return Model()
        """
        with self.host(source) as host:
            for _ in range(2):
                self.assertEqual(self.value(host, host.call(infer(scalar()), number(3))), 4)

    def test_a_cancelled_coroutine(self):
        source = """
            import asyncio
            async def f(x):
                print("started", flush=True)
                try:
                    await asyncio.sleep(1000)
                finally:
                    print("stopped", flush=True)
        """
        with self.host(source, {"infer_fn": "f"}) as host:
            host.send(infer(scalar()), 7, number(3))
            while not host.printed():
                time.sleep(0.01)
            host.send({"cancel": {}}, 7)
            self.assertEqual(host.answer(7)[1]["code"], "cancelled")
            self.assertEqual(host.printed(), b"started\nstopped\n")

    def test_a_model_can_see_that_its_call_is_cancelled(self):
        source = """
            import time
            import carton_runner
            def f(x):
                while not carton_runner.is_cancelled():
                    time.sleep(0.001)
                return {}
        """
        with self.host(source, {"infer_fn": "f"}) as host:
            host.send(infer(scalar()), 7, number(3))
            # Pings are answered meanwhile. Another call waits, and can be cancelled before it begins.
            host.send({"ping": {}}, 8)
            self.assertEqual(host.answer(8)[0], "pong")
            host.send(infer(scalar()), 9, number(3))
            host.send({"cancel": {}}, 9)
            host.send({"cancel": {}}, 7)
            self.assertEqual(host.answer(7)[1]["code"], "cancelled")
            self.assertEqual(host.answer(9)[1]["code"], "cancelled")
            host.send({"cancel": {}}, 7)
            self.assertEqual(host.call({"ping": {}})[0], "pong")

    def test_the_end_of_the_host_ends_a_call(self):
        with self.host("import time\ndef f(): time.sleep(1000)", {"infer_fn": "f"}) as host:
            host.send(infer(), 7)
            time.sleep(0.1)
            host.socket.close()
            self.assertEqual(host.process.wait(10), 0)

    def test_exit_handlers_run_but_not_for_long(self):
        source = """
            import atexit, time
            def slow():
                print("begins", flush=True)
                time.sleep(1000)
            atexit.register(%s)
            def f(): return {}
        """
        for handler, expected in (("print, 'the end'", b"the end\n"), ("slow", b"begins\n")):
            with self.subTest(handler), self.host(source % handler, {"infer_fn": "f"}) as host:
                host.call(infer())
                host.socket.close()
                self.assertEqual(host.process.wait(10), 0)
                self.assertEqual(host.printed(), expected)

    def test_shutdown_waits_for_the_call(self):
        source = """
            import atexit, time
            atexit.register(print, "the end")
            def f():
                time.sleep(0.3)
                return {"y": 1.0}
        """
        with self.host(source, {"infer_fn": "f"}) as host:
            host.send(infer(), 7)
            host.send({"shutdown": {}})
            self.assertEqual(host.answer(7)[0], "inferred")
            self.assertEqual(host.process.wait(10), 0)
            self.assertEqual(host.printed(), b"the end\n")


@support.needs_numpy
class Streams(support.ModelTest):
    SOURCE = """
        import asyncio

        def count(n):
            try:
                for index in range(int(n)):
                    yield {"y": index}
            finally:
                print("closed", flush=True)

        async def count_later(n):
            try:
                for index in range(int(n)):
                    await asyncio.sleep(0)
                    yield {"y": index}
            finally:
                await asyncio.sleep(0)
                print("closed", flush=True)

        def count_in_order(n):
            return map(lambda index: index, range(int(n)))

        def no_stream(n):
            return {"y": n}

        def failing(n):
            yield {"y": 1}
            raise ValueError("no more")
    """

    def stream(self, host, n, credits):
        body = struct.pack("<q", n)
        host.send({"infer_stream": {"inputs": [inline("n", "int64", [], 0, 8)], "credits": credits}}, 7, body)

    def test_items_come_until_the_end(self):
        for function in ("count", "count_later", "count_in_order"):
            outputs = [spec("y", "int64")]
            with self.subTest(function), self.host(self.SOURCE, {"infer_fn": function}, outputs=outputs) as host:
                for _ in range(2):
                    self.stream(host, 5, 100)
                    for index in range(5):
                        answer = host.answer(7)
                        self.assertEqual(answer[0], "stream_item")
                        self.assertEqual(host.outputs(*answer)["y"], ("int64", [], struct.pack("<q", index)))
                    self.assertEqual(host.answer(7)[0], "stream_end")

    def test_a_stream_waits_for_credits(self):
        with self.host(self.SOURCE, {"infer_fn": "count"}) as host:
            self.stream(host, 5, 2)
            self.assertEqual([host.answer(7)[0] for _ in range(2)], ["stream_item"] * 2)
            time.sleep(0.1)
            host.send({"ping": {}}, 8)
            self.assertEqual(host.answer(8)[0], "pong")
            host.send({"credit": {"n": 2}}, 7)
            self.assertEqual([host.answer(7)[0] for _ in range(2)], ["stream_item"] * 2)
            host.send({"credit": {"n": 2}}, 7)
            self.assertEqual([host.answer(7)[0] for _ in range(2)], ["stream_item", "stream_end"])

    def test_a_cancelled_stream_is_closed(self):
        for function in ("count", "count_later"):
            with self.subTest(function), self.host(self.SOURCE, {"infer_fn": function}) as host:
                self.stream(host, 1000000, 2)
                self.assertEqual([host.answer(7)[0] for _ in range(2)], ["stream_item"] * 2)
                host.send({"cancel": {}}, 7)
                self.assertEqual(host.answer(7)[1]["code"], "cancelled")
                self.assertEqual(host.printed(), b"closed\n")

    def test_anything_else_is_a_stream_of_one(self):
        with self.host(self.SOURCE, {"infer_fn": "no_stream"}) as host:
            self.stream(host, 5, 1)
            self.assertEqual([host.answer(7)[0] for _ in range(2)], ["stream_item", "stream_end"])

    def test_a_stream_that_fails(self):
        with self.host(self.SOURCE, {"infer_fn": "failing"}) as host:
            self.stream(host, 5, 9)
            self.assertEqual(host.answer(7)[0], "stream_item")
            self.error(host.answer(7), "ValueError: no more", 'raise ValueError("no more")')

    def test_one_answer_of_a_stream(self):
        with self.host(self.SOURCE, {"infer_fn": "count"}) as host:
            for n, expected in ((0, "has no items"), (1, None), (2, "of several items"), (1000000, "of several items")):
                answer = host.call(infer(inline("n", "int64", [], 0, 8)), struct.pack("<q", n))
                if expected:
                    self.error(answer, expected, "infer_stream")
                else:
                    self.assertEqual(answer[0], "inferred")


@support.needs_numpy
class Errors(support.ModelTest):
    def test_exceptions_with_their_traceback(self):
        source = """
            import json

            def f():
                try:
                    json.loads("{")
                except ValueError as error:
                    raise RuntimeError("no model today") from error

            def g():
                try:
                    {}["x"]
                except KeyError:
                    raise RuntimeError("while handling")

            def h():
                raise RuntimeError from None

            class Strange(Exception):
                def __str__(self):
                    raise ValueError

            def i():
                raise Strange

            def j():
                j()

            def k():
                raise KeyboardInterrupt

            def l():
                raise MemoryError("too much")

            def m():
                raise ValueError("\\ud800")

            def n():
                exit = SystemExit(3)
                raise ValueError("x" * 1000000)

            def o():
                error = ValueError("a circle")
                error.__cause__ = error
                raise error
        """
        for function, message, causes in (
            ("f", "RuntimeError: no model today", ["JSONDecodeError: Expecting property name", "Traceback (most recent"]),
            ("g", "RuntimeError: while handling", ["KeyError: 'x'", "Traceback (most recent"]),
            ("h", "RuntimeError", ["Traceback (most recent"]),
            ("i", "Strange: <exception str() failed>", ["Traceback (most recent"]),
            ("j", "RecursionError: maximum recursion depth exceeded", ["Traceback (most recent"]),
            ("k", "KeyboardInterrupt", ["Traceback (most recent"]),
            ("l", "MemoryError: too much", ["Traceback (most recent"]),
            ("m", "ValueError: ?", ["Traceback (most recent"]),
            ("n", "ValueError: xxxx", ["Traceback (most recent"]),
            ("o", "ValueError: a circle", ["Traceback (most recent"]),
        ):
            with self.subTest(function), self.host(source, {"infer_fn": function}) as host:
                fields = self.error(host.call(infer()))
                self.assertEqual(fields["code"], "failed")
                self.assertEqual(fields["message"][: len(message)], message)
                self.assertEqual(len(fields["causes"]), len(causes), fields)
                for cause, expected in zip(fields["causes"], causes):
                    self.assertEqual(cause[: len(expected)], expected)
                traceback = fields["causes"][-1]
                self.assertIn("main.py", traceback)
                # None of the runner's own frames.
                self.assertNotIn("carton_runner", traceback)
                self.assertLess(len(json.dumps(fields)), 200000)
                if function == "f":
                    self.assertIn('raise RuntimeError("no model today") from error', traceback)
                    self.assertIn("json/decoder.py", traceback)
                self.assertEqual(self.error(host.call(infer()))["code"], "failed")


@support.needs_numpy
class Logs(support.ModelTest):
    def test_what_a_model_prints(self):
        source = r"""
            import logging, os, sys

            def f():
                print("a line")
                print("no end", end="")
                sys.stderr.write("é \ud800\n")
                sys.stdout.buffer.write(b"\xff\x00binary\n")
                logging.getLogger("model").warning("from logging")
                return {}
        """
        with self.host(source, {"infer_fn": "f"}) as host:
            self.assertEqual(host.call(infer())[0], "inferred")
            printed = host.printed()
            for part in (b"a line\n", b"no end", "é \\ud800\n".encode(), b"\xff\x00binary\n", b"from logging\n"):
                self.assertIn(part, printed)


class WithoutNumPy(support.ModelTest):
    def test_it_is_said_what_is_missing(self):
        self.write("main.py", "def f(): return {}")
        # The packages beside the interpreter are not visible.
        with Host(flags="-IBS") as host:
            answer = host.load(self.folder, {"infer_fn": "f"})
            fields = self.error(answer, "NumPy cannot be imported", "No module named 'numpy'", "pack the model anew")
            self.assertEqual(fields["code"], "unavailable")

    def test_files_of_the_model_that_hide_it(self):
        self.write("numpy/__init__.py", "raise ImportError('no NumPy here')")
        self.write("main.py", "def f(): return {}")
        with Host() as host:
            answer = host.load(self.folder, {"infer_fn": "f"})
            self.error(answer, "NumPy cannot be imported from the model's own folder", "give the folder another name")
        self.write("numpy.py", "def f(): return {}")
        with Host() as host:
            answer = host.load(self.folder, {"infer_fn": "f", "entrypoint_package": "numpy"})
            self.error(answer, "the model's own `numpy.py` hides NumPy", "give the file another name")


if __name__ == "__main__":
    unittest.main()
