"""The examination of a model before any of it runs, and the errors of models that do not load."""

import py_compile
import tempfile
import textwrap
import unittest
from pathlib import Path

import support
from carton_runner import entry_point, loading, packing
from carton_runner.errors import RunnerError
from host import Host


def options(**given):
    return loading.Options(given, None)


class EntryPoints(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def read(self, source, **given):
        (self.folder / "main.py").write_text(textwrap.dedent(source))
        return entry_point.read(self.folder, options(**given))

    def refused(self, source, *expected, **given):
        with self.assertRaises(RunnerError) as caught:
            self.read(source, **given)
        text = "\n".join((caught.exception.message, *caught.exception.causes, caught.exception.hint or ""))
        for part in expected:
            self.assertIn(part, text)

    def test_modules_that_cannot_be_compiled(self):
        self.refused("x = 1\ndef f(:\n", "main.py, line 2: SyntaxError: invalid syntax", "def f(:")
        self.refused("return 1\n", "main.py, line 1: SyntaxError: 'return' outside function")
        self.refused("if 1:\nx\n", "main.py, line 2: IndentationError")
        self.refused("x = 1\0", "main.py")

    def test_functions_that_are_not_there(self):
        self.refused("", "the module `main` (main.py) has no function `get_model`", "`infer_fn`")
        self.refused("def g(): pass", "has no function `f`", infer_fn="f")
        self.refused("class A:\n    def f(self): pass\n", "has no function `f`", infer_fn="f")
        self.refused("", "the model has no module `net` (there are these: main.py)", entrypoint_package="net")
        self.refused("", "the model has no module `../main`", entrypoint_package="../main")

    def test_functions_that_may_be_there(self):
        for source in (
            "def f(): pass",
            "async def f(): pass",
            "class f: pass",
            "from .net import f",
            "from .net import g as f",
            "import f",
            "f = lambda x: x",
            "try:\n    from fast import f\nexcept ImportError:\n    def f(x): pass",
            "if 1:\n    def f(): pass",
            "for f in [print]: pass",
            "with open('x') as f: pass",
            "[f := print]",
            "def g():\n    global f\n    f = 1",
            "from .net import *",
            "globals()['f'] = print",
            "def __getattr__(name): return print",
        ):
            with self.subTest(source=source):
                self.assertEqual(self.read(source, infer_fn="f").function, "f")

    def test_where_modules_are(self):
        package = self.folder / "net"
        package.mkdir()
        (package / "serve.py").write_text("\n\ndef f(x): pass\n")
        entry = self.read("", entrypoint_package="net.serve", infer_fn="f")
        self.assertEqual((entry.file, entry.definition.lineno), ("net/serve.py", 3))
        (package / "__init__.py").write_text("def f(): pass\n")
        self.assertEqual(self.read("", entrypoint_package="net", infer_fn="f").file, "net/__init__.py")
        entry = entry_point.read(package / "serve.py", options(infer_fn="f"))
        self.assertEqual((entry.package, entry.file), ("serve", "serve.py"))
        # Compiled modules cannot be examined, whichever Python they are for.
        (self.folder / "fast.cpython-311-x86_64-linux-gnu.so").write_bytes(b"")
        self.assertIsNone(self.read("", entrypoint_package="fast", infer_fn="f").definition)

    def test_modules_without_a_file_of_text(self):
        self.refused("", "no module `net..serve`", entrypoint_package="net..serve")
        self.refused("", "no module `%s`" % ("n" * 5000), entrypoint_package="n" * 5000)
        self.refused("", "no module `main\0`", entrypoint_package="main\0")
        # A package can add modules from outside its folder.
        (self.folder / "net").mkdir()
        (self.folder / "net/__init__.py").write_text("x = 1\n")
        self.refused("", "no module `net.serve`", entrypoint_package="net.serve")
        (self.folder / "net/__init__.py").write_text("__path__.append('elsewhere')\n")
        self.assertEqual(self.read("", entrypoint_package="net.serve", infer_fn="f").file, "")

    def test_parameters_with_a_default_are_optional_inputs(self):
        for source, names, expected in (
            ("def f(x, scale=2.0): pass", ("x", "scale"), ["scale"]),
            ("def f(x, /, y=1, *, z, w=None): pass", ("y", "z", "w"), ["y", "w"]),
            ("async def f(x=1, **more): pass", ("x", "other"), ["x"]),
            # Leaves of the value of a parameter.
            ("def f(x, state=None): pass", ("x", "state.0", "state[].h", "x.y"), ["state.0", "state[].h"]),
            ("def f(*, state=None, **more): pass", ("more.k",), []),
            # Only the definition itself says what the parameters are.
            ("@wrap\ndef f(x=1): pass", ("x",), []),
            ("f = lambda x=1: x", ("x",), []),
        ):
            with self.subTest(source):
                inputs = [{"name": name} for name in names]
                self.assertEqual(packing.optional_inputs(self.read(source, infer_fn="f"), inputs), expected)
        entry = self.read("def f(scale=2.0): pass", infer_fn="f")
        self.assertEqual(packing.optional_inputs(entry, [{"name": "factor", "internal_name": "scale"}]), ["scale"])
        self.assertEqual(packing.optional_inputs(entry, None), [])
        self.assertEqual(packing.optional_inputs(self.read("def get_model(x=1): pass"), [{"name": "x"}]), [])

    def test_leaves_are_for_their_parameter(self):
        source = "def f(x, state): pass"
        self.assertEqual(self.mismatches(source, "x", "state.0", "state.1"), [])
        where = "`f` (main.py, line 1)"
        expected = ["input `other.0`: %s has no parameter `other.0`; it has `x`, `state`" % where, "input `state`: %s needs it, and no declared input gives it" % where]
        self.assertEqual(self.mismatches(source, "x", "other.0"), expected)

    def mismatches(self, source, *names):
        inputs = [{"name": name, "dtype": "float32"} if isinstance(name, str) else name for name in names]
        return packing.mismatches(self.read(source, infer_fn="f"), inputs)

    def test_inputs_that_contradict_the_function(self):
        function = "`f` (main.py, line 1)"
        check = lambda expected, *found: self.assertEqual(self.mismatches(*found), expected)  # noqa: E731
        check([], "def f(x, *, y, z=1): pass", "x", "y")
        check([], "def f(**inputs): pass", "x", "y")
        check([f"input `img`: {function} has no parameter `img`; it has `image`",
               f"input `image`: {function} needs it, and no declared input gives it"], "def f(image): pass", "img")
        check([f"input `y`: {function} has no parameter `y`; it has none"], "def f(*args): pass", "y")
        check([f"input `y`: {function} needs it, and no declared input gives it"], "def f(x, *, y): pass", "x")
        check([f"input `x`: {function} takes `x` by position only"], "def f(x, /): pass", "x")
        inner = {"name": "pixels", "dtype": "float32", "internal_name": "x"}
        check([], "def f(x): pass", inner)
        check([f"input `pixels`: {function} has no parameter `x`; it has `y`"], "def f(y=0): pass", inner)
        # The inputs are declared to be empty.
        check([f"input `x`: {function} needs it, and no declared input gives it"], "def f(x): pass")

    def test_what_is_not_known_is_no_contradiction(self):
        for source in (
            "@decorated\ndef f(x): pass",
            "def f(x): pass\ndef f(y): pass",
            "f = make()",
            "class f:\n    def __init__(self, x): pass",
            "def f(x): pass\nglobals()['f'] = print",
        ):
            with self.subTest(source=source):
                self.assertEqual(self.mismatches(source, "y"), [])
        entry = self.read("def f(x): pass", infer_fn="f")
        self.assertEqual(packing.mismatches(entry, None), [])
        # The object of an entry point takes all inputs as one dict.
        self.assertEqual(packing.mismatches(self.read("def get_model(x): pass"), [{"name": "y"}]), [])


@support.needs_numpy
class Loading(support.ModelTest):
    def load(self, source, given=None, requirements=None):
        self.write("main.py", source)
        with Host() as host:
            return host.load(self.folder, given or {})

    def test_a_module_that_is_not_installed(self):
        self.write("net.py", "x = 1\nimport yaml_that_is_nowhere.inner\n")
        answer = self.load("from . import net", {"entrypoint_package": "main"})
        fields = self.error(answer, "net.py, line 2: ModuleNotFoundError: No module named 'yaml_that_is_nowhere'", "Traceback")
        self.assertEqual(fields["code"], "failed")
        self.assertIn("a line `yaml_that_is_nowhere`, and pack the model again", fields["hint"])
        self.assertEqual(loading._missing_package("sklearn", self.folder).split("`")[1], "scikit-learn")
        # There is no hint to install a module of the model itself.
        fields = self.error(self.load("from . import other\n", {"entrypoint_package": "main"}), "main.py", "other")
        self.assertNotIn("hint", fields)

    def test_what_loads_can_be_packed(self):
        function = "def f(): return {}\n"
        for name, package in (
            ("my-model.py", None),
            ("3d.py", None),
            ("class.py", None),
            ("my-net/1.py", "my-net.1"),
            ("my-net/__init__.py", "my-net"),
            ("main.pyc", None),
            ("net/serve.pyc", "net.serve"),
        ):
            with self.subTest(name=name):
                path = Path(self.write(name, function))
                if path.suffix == ".pyc":
                    source = path.with_suffix(".py")
                    path.rename(source)
                    py_compile.compile(str(source), str(path), doraise=True)
                    source.unlink()
                given = {"infer_fn": "f", **({} if package is None else {"entrypoint_package": package})}
                with Host() as host:
                    loaded = host.load(self.folder, given)
                    self.assertEqual(loaded[0], "loaded", loaded)
                entry = entry_point.read(Path(self.folder), options(**given))
                self.assertEqual(entry.definition is None, path.suffix == ".pyc")
                self.assertEqual(entry.file, "" if path.suffix == ".pyc" else name)
                path.unlink()

    def test_a_syntax_error_and_a_missing_function(self):
        self.error(self.load("x = 1\ndef f(:\n"), 'main.py", line 2', "SyntaxError")
        fields = self.error(self.load("x = 1\n"), "the module `main` (main.py) has no function `get_model`")
        self.assertEqual(fields["code"], "failed")


if __name__ == "__main__":
    unittest.main()
