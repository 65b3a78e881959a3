"""The modules of a model: each is imported once, whatever it is imported as, and has the name that Python gives it in the model's folder.

The expected values are those of `python -c "import …"` in the folder."""

import json
import os
import subprocess
import sys
import unittest

import support
from host import Host

INFER = {"infer": {"inputs": []}}


@support.needs_numpy
class Modules(support.ModelTest):
    def load(self, options):
        host = Host()
        self.addCleanup(host.__exit__)
        self.assertEqual(host.load(self.folder, options)[0], "loaded")
        return host

    def texts(self, **options):
        """What the function `report` of the model returns: texts."""
        host = self.load({"infer_fn": "report", **options})
        _, shape, block = host.outputs(*host.call(INFER))["y"]
        return json.loads(block[8 * (shape[0] + 1) :].decode().replace("\0", ""))

    def python(self, code):
        """What Python prints in the model's folder."""
        code = "import sys; sys.path.insert(0, ''); " + code
        ran = subprocess.run([sys.executable, "-IBc", code], cwd=self.folder, capture_output=True, check=True)
        return json.loads(ran.stdout)

    def test_a_class_that_a_pickle_names_is_the_class_of_the_module(self):
        self.write(
            "model.py",
            """
            import json, pickle

            class Scaler:
                def __init__(self, factor):
                    self.factor = factor

            def report():
                with open("scaler.pkl", "rb") as file:
                    scaler = pickle.load(file)
                return {"y": [json.dumps([type(scaler) is Scaler, Scaler.__module__, pickle.dumps(Scaler(1), 0).decode()])]}
            """,
        )
        # Written by the script that trained the model, which imports `model`.
        code = "import model, pickle; pickle.dump(model.Scaler(2), open('scaler.pkl', 'wb'))"
        subprocess.run([sys.executable, "-Bc", code], cwd=self.folder, check=True)
        expected = self.python("import model, json; print(model.report()['y'][0])")
        self.assertEqual(expected[:2], [True, "model"])
        self.assertEqual(self.texts(), expected)

    def test_relative_and_absolute_imports_give_the_same_module(self):
        self.write("net/__init__.py", "from .core import Layer\n")
        self.write("net/core.py", "from .. import shared\nclass Layer: pass\n")
        self.write("plain/part.py", "from ..shared import VALUE\n")
        self.write("shared.py", "VALUE = 1\n")
        self.write("__init__.py", "VERSION = 3\n")
        self.write(
            "start.py",
            """
            import importlib, json
            import net.core, shared, plain.part
            from . import VERSION, net as relative, shared as also
            from .net import core
            from .plain import part

            def report():
                import _carton_model_module.net.core as original
                import _carton_model_module.start as start
                found = [
                    relative is net, core is net.core, also is shared, net.core.shared is shared, part is plain.part,
                    original.Layer is net.Layer, start.report is report,
                    __name__, net.__name__, core.__name__, part.__name__, VERSION,
                    importlib.reload(core) is net.core,
                ]
                return {"y": [json.dumps(found)]}
            """,
        )
        expected = [True] * 7 + ["start", "net", "net.core", "plain.part", 3, True]
        self.assertEqual(self.texts(entrypoint_package="start"), expected)

    def test_a_model_in_a_package(self):
        self.write("net/__init__.py", "")
        self.write("net/weights.py", "class Weights: pass\n")
        self.write(
            "net/serve.py",
            """
            import json
            from .weights import Weights

            def report():
                import net.weights
                return {"y": [json.dumps([__name__, Weights is net.weights.Weights, Weights.__module__])]}
            """,
        )
        self.assertEqual(self.texts(entrypoint_package="net.serve"), ["net.serve", True, "net.weights"])

    def test_names_of_the_standard_library_and_of_the_runner(self):
        source = """
            import json as _json
            from . import helper

            def report():
                import {name}
                return {{"y": [helper.dumps([__name__, {name}.__name__])]}}
        """
        self.write("helper.py", "def dumps(value):\n    return repr(value).replace(\"'\", '\"')\n")
        for name, expected in (
            # These are imported before the model is, so their names are taken, as they are in Python.
            ("os", ["_carton_model_module.os", "os"]),
            ("sys", ["_carton_model_module.sys", "sys"]),
            ("carton_runner", ["_carton_model_module.carton_runner", "carton_runner"]),
            # These are not, and the model's folder comes first.
            ("this", ["this", "this"]),
            ("antigravity", ["antigravity", "antigravity"]),
        ):
            with self.subTest(name):
                path = self.write(name + ".py", source.format(name=name))
                self.assertEqual(self.texts(entrypoint_package=name), expected)
                os.remove(path)

    def test_a_module_of_another_folder_that_the_model_puts_first(self):
        self.write("net.py", "PLACE = 'model'\n")
        self.write("first/net.py", "PLACE = 'first'\n")
        self.write(
            "start.py",
            """
            import json, sys
            sys.path.insert(0, "first")
            import net

            def report():
                return {"y": [json.dumps([net.PLACE])]}
            """,
        )
        self.assertEqual(self.texts(entrypoint_package="start"), ["first"])

    def test_modules_that_import_each_other(self):
        self.write("a.py", "from . import b\nfrom .b import name_of_a\n\ndef report(): return b.report()\n")
        self.write(
            "b.py",
            """
            import json
            from . import a
            name_of_a = a.__name__
            def report():
                import a as absolute
                return {"y": [json.dumps([name_of_a, absolute is a])]}
            """,
        )
        self.assertEqual(self.texts(entrypoint_package="a"), ["a", True])

    def test_what_is_beside_a_module_is_found(self):
        self.write("net/__init__.py", "")
        self.write("net/data.txt", "here")
        self.write(
            "start.py",
            """
            import inspect, json
            from importlib import resources

            def report():
                text = resources.files("net").joinpath("data.txt").read_text()
                return {"y": [json.dumps([inspect.getsource(report).split("(")[0], type(__loader__).__name__, text])]}
            """,
        )
        self.assertEqual(self.texts(entrypoint_package="start"), ["def report", "SourceFileLoader", "here"])

    def test_processes_that_the_model_starts(self):
        self.write("net.py", "def square(x): return x * x\n")
        self.write(
            "start.py",
            """
            import json, multiprocessing
            from . import net

            class Layer: pass

            def work(x):
                return [net.square(x), type(Layer()).__module__]

            def report():
                found = []
                for method in ("fork", "spawn", "forkserver"):
                    with multiprocessing.get_context(method).Pool(1) as pool:
                        found += [pool.apply(work, (3,))]
                return {"y": [json.dumps(found)]}
            """,
        )
        self.assertEqual(self.texts(entrypoint_package="start"), [[9, "start"]] * 3)

    def test_a_failed_import_can_be_tried_again(self):
        self.write("start.py", "from . import net\n")
        self.write("net.py", "raise KeyError('not yet')\n")
        with Host() as host:
            options = {"entrypoint_package": "start", "infer_fn": "report"}
            self.error(host.load(self.folder, options), "KeyError: 'not yet'", "net.py")
            self.write("net.py", "VALUE = 2\n")
            self.write("start.py", "from . import net\nimport json\ndef report(): return {'y': [json.dumps(net.VALUE)]}\n")
            self.assertEqual(host.load(self.folder, options)[0], "loaded")

    def test_pickles_of_the_original_carton(self):
        self.write(
            "model.py",
            """
            import json, pickle
            class Scaler: pass
            def report():
                with open("scaler.pkl", "rb") as file:
                    return {"y": [json.dumps(type(pickle.load(file)) is Scaler)]}
            """,
        )
        with open(os.path.join(self.folder, "scaler.pkl"), "wb") as file:
            file.write(b"c_carton_model_module.model\nScaler\n)\x81.")
        self.assertEqual(self.texts(), True)


if __name__ == "__main__":
    unittest.main()
