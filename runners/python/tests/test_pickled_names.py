"""Pickles that name what the script defined that made them: found when the model is packed, and explained when it is loaded."""

import importlib.util
import os
import pickle
import subprocess
import sys
import textwrap
import time
import unittest
import zipfile

import support
from carton_runner import packing, pickled_names
from carton_runner.errors import RunnerError
from environment_case import Case
from host import Host

#: A script that makes a pickle of its own class, as scripts that train models do.
SCRIPT = """
import collections, pickle, sys
class Scaler:
    class Part: pass
    def __init__(self, factor): self.factor = factor
def helper(): pass
value = {"kind": "__main__", "scalers": [Scaler(2), Scaler(3)], "order": collections.OrderedDict(a=Scaler.Part), "f": helper}
"""


class Names(support.ModelTest):
    def run_script(self, code):
        source = textwrap.dedent(SCRIPT + code)
        subprocess.run([sys.executable, "-c", source], cwd=self.folder, check=True)

    def read_bytes(self, name):
        with open(os.path.join(self.folder, name), "rb") as file:
            return file.read()

    def write_bytes(self, name, data):
        with open(os.path.join(self.folder, name), "wb") as file:
            file.write(data)

    def found(self):
        return dict(pickled_names.of_main(self.folder))

    def test_every_protocol(self):
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            # Protocols below 4 have no names of nested classes.
            value = "value" if protocol >= 4 else "[value['scalers'], helper]"
            self.run_script(f"pickle.dump({value}, open('m{protocol}.pkl', 'wb'), {protocol})")
            expected = ["Scaler", "Scaler.Part", "helper"] if protocol >= 4 else ["Scaler", "helper"]
            self.assertEqual(self.found().pop(f"m{protocol}.pkl"), expected, protocol)

    def test_a_pickle_by_another_name_says_that_it_is_one(self):
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            for value in ("Scaler(2)", "[Scaler(2)]", "{'s': Scaler(2)}", "(Scaler(2), 1)"):
                self.run_script(f"pickle.dump({value}, open('weights.bin', 'wb'), {protocol})")
                found = self.found()
                # A tuple of the oldest protocols begins as much else does.
                expected = {} if protocol < 2 and value.startswith("(") else {"weights.bin": ["Scaler"]}
                self.assertEqual(found, expected, (protocol, value))

    def test_pickles_without_names_of_main(self):
        self.write("classes.py", "class Scaler: pass\n")
        self.run_script(
            "import classes; pickle.dump([classes.Scaler(), '__main__', 'Scaler', {'__main__': 1}], open('m.pkl', 'wb'))"
        )
        self.write("text.pkl", "no pickle\n")
        self.write("empty.pkl", "")
        self.assertEqual(self.found(), {})

    def test_files_of_pytorch(self):
        self.run_script("pickle.dump(value['scalers'], open('data.pkl', 'wb'), 2)")
        with zipfile.ZipFile(os.path.join(self.folder, "model.pt"), "w") as archive:
            archive.write(os.path.join(self.folder, "data.pkl"), "archive/data.pkl")
            archive.writestr("archive/data/0", bytes(64))
        # The older form: several pickles, and then the numbers.
        self.run_script(
            "file = open('old.pth', 'wb')\n"
            "for part in (0x1950a86a20f9469cfc6c, 1001, {'little_endian': True}, value): pickle.dump(part, file, 2 if part is not value else 4)\n"
            "file.write(bytes(64))"
        )
        os.remove(os.path.join(self.folder, "data.pkl"))
        self.assertEqual(sorted(self.found()), ["model.pt", "old.pth"])

    def test_compressed_files(self):
        self.run_script(
            "import bz2, gzip, lzma\n"
            "for module, name in ((gzip, 'm.pkl.gz'), (lzma, 'm.pkl.xz'), (bz2, 'm.pickle.bz2'), (gzip, 'm.joblib')):\n"
            "    module.open(name, 'wb').write(pickle.dumps(value['scalers']))\n"
        )
        self.assertEqual(self.found(), dict.fromkeys(("m.pkl.gz", "m.pkl.xz", "m.pickle.bz2", "m.joblib"), ["Scaler"]))

    @support.needs_numpy
    def test_arrays_of_objects(self):
        self.run_script(
            "import numpy\n"
            "numpy.save('objects.npy', numpy.array([Scaler(2), Scaler(3)], dtype=object), allow_pickle=True)\n"
            "numpy.save('numbers.npy', numpy.arange(3))"
        )
        self.assertEqual(self.found(), {"objects.npy": ["Scaler"]})

    def test_damaged_files_name_nothing(self):
        for name, content in (("broken.pt", b"\x80\x04}."), ("other.pt", bytes(range(256)) * 8)):
            with zipfile.ZipFile(os.path.join(self.folder, name), "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr("x/data.pkl", content * 64)
            data = bytearray(self.read_bytes(name))
            start = data.index(b"data.pkl") + len("data.pkl")
            data[start : start + 8] = b"\xff" * 8
            self.write_bytes(name, bytes(data))
        with zipfile.ZipFile(os.path.join(self.folder, "lzma.pt"), "w", zipfile.ZIP_LZMA) as archive:
            archive.writestr("x/data.pkl", b"\x80\x04}." * 64)
        data = bytearray(self.read_bytes("lzma.pt"))
        start = data.index(b"data.pkl") + len("data.pkl")
        data[start : start + 12] = b"\xff" * 12
        self.write_bytes("lzma.pt", bytes(data))
        # A name that says that it is UTF-8, and is not.
        with zipfile.ZipFile(os.path.join(self.folder, "name.pt"), "w") as archive:
            archive.writestr("ü/data.pkl", b"\x80\x04}.")
        self.write_bytes("name.pt", self.read_bytes("name.pt").replace("ü".encode(), b"\xff\xff"))
        self.run_script("pickle.dump(value['scalers'], open('z.pkl', 'wb'))")
        self.assertEqual(self.found(), {"z.pkl": ["Scaler"]})

    def test_long_values_are_skipped(self):
        self.run_script("pickle.dump([bytes(1 << 26), 'x' * (1 << 20), value], open('m.pkl', 'wb'))")
        self.assertEqual(self.found(), {"m.pkl": ["Scaler", "Scaler.Part", "helper"]})

    @unittest.skipUnless(importlib.util.find_spec("joblib"), "this interpreter has no joblib")
    def test_files_of_joblib(self):
        for name, arguments in (("plain", ""), ("zlib", ", compress=3"), ("gzip", ", compress=('gzip', 3)")):
            with self.subTest(name):
                # What comes behind an array is found too.
                self.run_script(
                    f"import joblib, numpy; joblib.dump([numpy.arange(1000), Scaler(2)], '{name}.joblib'{arguments})"
                )
                self.assertIn("Scaler", self.found()[f"{name}.joblib"])

    def test_hostile_files(self):
        name = b"\x8c\x08__main__\x8c\x01A\x93"
        endless = b"\x80\x04" + b"(" * (1 << 23)
        files = {
            "cut.pkl": b"\x80\x04\x95",
            "length.pkl": b"\x80\x04" + name + b"\x8e" + b"\xff" * 8,
            "memo.pkl": b"\x80\x04h\x01h\x02\x93j\xff\xff\xff\xff\x94",
            "no texts.pkl": b"\x80\x04]]\x93.",
            "long name.pkl": b"\x80\x02c" + b"a" * 100_000,
            "negative.pkl": b"\x80\x02\x8b\xff\xff\xff\xff",
            "no archive.pt": b"PK\x03\x04" + bytes(100),
            "no zlib.pkl": b"\x78\x9c\xff\xff",
            "bytes.pkl": bytes(range(256)) * 64,
            "z endless.pkl": endless,
            "z endless 2.pkl": endless,
        }
        for file, content in files.items():
            with open(os.path.join(self.folder, file), "wb") as opened:
                opened.write(content)
        os.mkfifo(os.path.join(self.folder, "pipe.pkl"))
        start = time.monotonic()
        self.assertEqual(self.found(), {"length.pkl": ["A"]})
        self.assertLess(time.monotonic() - start, 30)


class Packing(Case):
    def pack(self, leave_out=()):
        scratch = self.folder / "scratch"
        scratch.mkdir()
        return packing.pack(self.folder / "m", scratch, {"infer_fn": "f"}, {}, None, None, self.report, leave_out)

    def test_a_warning_says_which_and_what_to_do(self):
        self.write("m/main.py", "def f(): pass\n")
        code = SCRIPT + "pickle.dump(value, open('scaler.pkl', 'wb'))"
        subprocess.run([sys.executable, "-c", code], cwd=self.folder / "m", check=True)
        os.mkdir(self.folder / "m/notes")
        (self.folder / "m/notes/left_out.pkl").write_bytes(b"c__main__\nA\n.")
        self.pack(["notes"])
        (warning,) = self.report.warnings
        self.assertIn("the pickle `scaler.pkl` names `__main__.Scaler`, `__main__.Scaler.Part`, `__main__.helper`: ", warning)
        self.assertIn("loading the pickle fails where the model runs; move `Scaler` into a module beside the model", warning)

    def test_a_module_that_is_left_out(self):
        self.write("m/inner/main.py", "def f(): pass\n")
        for left_out in ("inner", "inner/main.py"):
            with self.assertRaises(RunnerError) as caught:
                packing.pack(self.folder / "m", self.folder, {"infer_fn": "f", "entrypoint_package": "inner.main"}, {}, None, None, self.report, [left_out])
            self.assertIn("`inner/main.py` has the entry point", caught.exception.message)


@support.needs_numpy
class Loading(support.ModelTest):
    SOURCE = """
        import os, pickle
        def read():
            with open("scaler.pkl", "rb") as file:
                return pickle.load(file)
        {at_import}
        def f(): return {{"y": read().factor}}
    """
    HINT = ("the pickle was made by a script or notebook that defines `Scaler` itself", "move `Scaler` into a module beside the model")

    def setUp(self):
        super().setUp()
        source = SCRIPT + "pickle.dump(value['scalers'][0], open('scaler.pkl', 'wb'))"
        subprocess.run([sys.executable, "-c", source], cwd=self.folder, check=True)

    def test_at_the_import_and_at_a_call(self):
        with Host() as host:
            self.write("main.py", self.SOURCE.format(at_import="read()"))
            self.error(host.load(self.folder, {"infer_fn": "f"}), "Can't get attribute 'Scaler'", *self.HINT)
        with self.host(self.SOURCE.format(at_import=""), {"infer_fn": "f"}) as host:
            self.error(host.call({"infer": {"inputs": []}}), "Can't get attribute 'Scaler'", *self.HINT)

    def test_a_model_may_know_the_class(self):
        at_import = "import __main__\n        class Scaler: pass\n        __main__.Scaler = Scaler"
        with self.host(self.SOURCE.format(at_import=at_import), {"infer_fn": "f"}) as host:
            self.assertEqual(host.call({"infer": {"inputs": []}})[0], "inferred")

    def test_other_missing_attributes_have_no_such_hint(self):
        with Host() as host:
            self.write("main.py", "import os; os.nothing")
            fields = self.error(host.load(self.folder, {"infer_fn": "f"}), "AttributeError")
            self.assertNotIn("hint", fields)


if __name__ == "__main__":
    unittest.main()
