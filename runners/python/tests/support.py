"""Shared by the tests: models in temporary folders, and whether NumPy is installed to run them."""

import importlib.util
import os
import sys
import tempfile
import textwrap
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
for folder in (HERE, os.path.dirname(HERE)):
    if folder not in sys.path:
        sys.path.insert(0, folder)

if os.environ.get("CARTON_TEST_NUMPY") == "elsewhere":
    # scripts/test runs these tests on another interpreter, so they are not loaded here.
    def needs_numpy(test):
        return None
else:
    needs_numpy = unittest.skipUnless(importlib.util.find_spec("numpy"), "this interpreter has no NumPy")
needs_linux = unittest.skipUnless(sys.platform.startswith("linux"), "this system has no memfd")


class ModelTest(unittest.TestCase):
    """A test with models in a separate temporary folder."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def host(self, source, options=None, inputs=(), outputs=(), **arguments):
        """A runner that has loaded the model with this source."""
        from host import Host

        self.write("main.py", source)
        host = Host(**arguments)
        try:
            loaded = host.load(self.folder, options, inputs, outputs)
            self.assertEqual(loaded[0], "loaded", loaded[1])
        except BaseException:
            host.__exit__()
            raise
        return host

    def write(self, name, source):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(textwrap.dedent(source))
        return path

    def error(self, answer, *expected):
        """Checks that an answer is an error with this text, and returns its fields."""
        name, fields, _ = answer
        self.assertEqual(name, "error", answer)
        text = "\n".join((fields["message"], *fields["causes"], fields.get("hint", "")))
        for part in expected:
            self.assertIn(part, text)
        return fields
