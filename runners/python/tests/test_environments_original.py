"""The lock of the original Carton beside our own: when a model gets it, and its contents."""

import hashlib
import os
import sys
import tempfile
import unittest
from pathlib import Path

import support
from carton_runner import packing
from carton_runner.environments import listing, local_wheels, lock, original_lock, store, writing_original
from carton_runner.environments.writing_original import CannotLock
from carton_runner.errors import RunnerError
from host import Host, inline, prepared
from environment_case import Case

#: A package as uv lists it in a ``pylock.toml``, after text that must not be mistaken for it.
PACKAGE = """
[[packages]]
name = "%(name)s"
version = "2.0.0"
sdist = { url = "https://files.example/%(name)s-2.0.0.tar.gz", size = 1, hashes = { sha256 = "%(zeros)s" } }
wheels = [%(wheels)s]
"""
WHEEL = '{ url = "%s", upload-time = 2024-12-24T18:10:19Z, size = 143862, hashes = { sha256 = "%s" } }'
ONE, TWO = "1" * 64, "2" * 64
NUMPY = "https://files.example/ab/numpy-2.0.0-py3-none-any.whl"


def pylock(name="numpy", **found):
    listed = ",\n    ".join(WHEEL % (url, sha256) for url, sha256 in found.get("wheels", [(NUMPY, ONE)]))
    return 'lock-version = "1.0"\n' + PACKAGE % {"name": name, "wheels": listed, "zeros": "0" * 64}


class Writing(Case):
    def setUp(self):
        super().setUp()
        self.write("fake/pylock.toml", pylock())

    def packed(self, path, options=None, compat_version=None, **pack_options):
        scratch = Path(tempfile.mkdtemp(dir=self.folder))
        path = self.folder / path
        return packing.pack(path, scratch, options or {}, pack_options, None, compat_version, self.report)

    def pack(self, path, options=None, **pack_options):
        """The folder, and the options that are stored; only the structure of the original has any."""
        packed = self.packed(path, options, **pack_options)
        expected = packing.OURS if packed.get("options") is None else packing.OF_THE_ORIGINAL
        self.assertEqual(packed["runner_compat_version"], expected)
        return Path(packed["path"]), packed.get("options")

    def locked(self, model):
        path = model / original_lock.CARTON_LOCK
        return original_lock.read(path) if path.exists() else None

    def test_a_model_in_the_originals_conventions_gets_both(self):
        self.write("m/model.py", "def get_model(): pass\n")
        self.write("m/requirements.txt", "numpy\n")
        model, options = self.pack("m")
        self.assertEqual(options, {"entrypoint_package": "model", "entrypoint_fn": "get_model"})
        self.assertTrue((model / lock.REQUIREMENTS_LOCK).exists())
        locked = self.locked(model)
        self.assertEqual(locked.deps_hash, hashlib.sha256(b"numpy\n").hexdigest())
        (environment,) = locked.environments
        here = original_lock.markers()
        names = ("os_name", "sys_platform", "platform_machine", "platform_python_implementation", "python_version")
        self.assertEqual(environment.markers, {name: here[name] for name in names})
        self.assertEqual(environment.wheels, (original_lock.LockedWheel(ONE, NUMPY, None),))
        if sys.version_info >= (3, 11):
            import tomllib

            parsed = tomllib.loads((model / original_lock.CARTON_LOCK).read_text())
            self.assertEqual(set(parsed), {"orig_deps_hash", "lockfile"})
            self.assertEqual(parsed["lockfile"][0]["locked_deps"], [{"sha256": ONE, "url": NUMPY}])

    def test_a_model_without_requirements_gets_both_too(self):
        self.write("m.py", "def get_model(): pass\n")
        for path in ("m.py", "m"):
            model, options = self.pack(path)
            self.assertEqual(self.locked(model).deps_hash, hashlib.sha256(b"").hexdigest())
            # Packed again from the unpacked folder.
            os.makedirs(self.folder / "m/.carton", exist_ok=True)
            self.write("m/m.py", "def get_model(): pass\n")
            for name in (lock.REQUIREMENTS_LOCK, original_lock.CARTON_LOCK):
                self.write(f"m/{name}", (model / name).read_text())
        calls = len(self.calls())
        self.assertEqual(self.locked(self.pack("m")[0]), self.locked(model))
        self.assertEqual(len(self.calls()), calls)

    def test_what_the_original_cannot_call_gets_ours_alone(self):
        for source, options in (
            ("def f(): pass", {"infer_fn": "f"}),
            ("def get_model(x): pass", {"model.x": 1}),
            ("def get_model(x): pass", {"model": {"x": 1}}),
            ("async def get_model(): pass", {}),
        ):
            with self.subTest(source=source, options=options):
                self.write("m.py", source)
                model, given = self.pack("m.py", options)
                self.assertIsNone(self.locked(model))
                self.assertIsNone(given)
                # If the metadata requests a structure, it is made, or packing fails.
                with self.assertRaisesRegex(Exception, "cannot have `runner_compat_version` 1, .*: it "):
                    self.packed("m.py", options, compat_version=packing.OF_THE_ORIGINAL)
        self.write("m.py", "class A:\n    def f(): pass\n")
        self.assertIsNone(self.locked(self.pack("m.py", {"entrypoint_fn": "A.f"})[0]))

    def test_what_cannot_be_written_faithfully_is_left_out_and_said(self):
        self.write("m.py", "def get_model(): pass\n")

        def check(text, expected):
            self.write("fake/pylock.toml", text)
            model, options = self.pack("m.py")
            self.assertIsNone(self.locked(model))
            self.assertIsNone(options)
            self.assertIn("`runner_compat_version` 2, and the runner of the original Carton", self.report.texts[-1])
            self.assertIn(expected, self.report.texts[-1])
            self.assertNotIn("secret", self.report.texts[-1])
            with self.assertRaises(RunnerError) as caught:
                self.packed("m.py", compat_version=packing.OF_THE_ORIGINAL)
            self.assertIn(expected, caught.exception.message)
            self.assertNotIn("secret", caught.exception.message)

        check(pylock(wheels=[]), "has no wheel for this platform")
        check(pylock(wheels=[(NUMPY, TWO)]), "is not among the files that are locked")
        check(pylock(name="other"), "is not among the files that are locked")
        for url in (
            "https://me:secret@files.example/numpy-2.0.0-py3-none-any.whl",
            "https://secret@files.example/numpy-2.0.0-py3-none-any.whl",
            f"{NUMPY}?token=secret",
            NUMPY.replace("https", "http"),
            "file:///secret/numpy-2.0.0-py3-none-any.whl",
        ):
            check(pylock(wheels=[(url, ONE)]), "is not at a plain https URL")
        check("", "uv lists no wheels")
        self.fake(index="https://files.example/simple")
        check(pylock(), "on the server of its package index")

    def test_the_structure_that_is_asked_for(self):
        self.write("m.py", "def get_model(): pass\n")
        for asked, expected in ((None, 1), (1, 1), (2, 2)):
            with self.subTest(asked=asked):
                packed = self.packed("m.py", compat_version=asked)
                self.assertEqual(packed["runner_compat_version"], expected)
                self.assertEqual(self.locked(Path(packed["path"])) is None, expected == 2)
                self.assertEqual(self.report.warnings, [])

    def test_who_names_the_entry_point_is_warned(self):
        self.write("m.py", "async def get_model(): pass\n")
        for options, is_warned in (({}, False), ({"entrypoint_fn": "get_model"}, True), ({"entrypoint_package": "m"}, True)):
            with self.subTest(options=options):
                self.report.warnings.clear()
                self.packed("m.py", options)
                expected = [warning for warning in self.report.warnings if "which is a coroutine" in warning]
                self.assertEqual(len(expected), is_warned)
                self.packed("m.py", options, compat_version=packing.OURS)
                self.assertEqual(len(self.report.warnings), is_warned)

    def test_bundled_wheels_are_named_where_they_are(self):
        self.write("m/model.py", "def get_model(): pass\n")
        self.write("m/requirements.txt", "numpy\n")
        text = (self.pack("m")[0] / lock.REQUIREMENTS_LOCK).read_text()
        self.write("m/.carton/requirements.lock", text)
        wheel = self.write("m/.carton/wheels/numpy-2.0.0-py3-none-any.whl", "x")
        fields = {"platform": store.platform_tag(), "lock": f"sha256:{lock.parse(text).digest()}"}
        self.write("m/.carton/wheels.lock", lock.Lock(fields, (local_wheels.WheelFile.of(wheel).requirement(),)).text("wheels"))
        calls = len(self.calls())
        model, _ = self.pack("m", bundle_wheels=True)
        ((found,),) = [environment.wheels for environment in self.locked(model).environments]
        name = ".carton/wheels/numpy-2.0.0-py3-none-any.whl"
        self.assertEqual(found, (hashlib.sha256(b"x").hexdigest(), None, name))
        self.assertEqual(len(self.calls()), calls)
        (line,) = original_lock.lines(self.locked(model).environments[0], model)
        self.assertIn("numpy-2.0.0-py3-none-any.whl", line)
        # With other requirements the wheels are left out, and so is the lock that names them.
        self.write("m/.carton/carton.lock", (model / original_lock.CARTON_LOCK).read_text())
        self.write("m/requirements.txt", "numpy>1\n")
        self.assertEqual(self.locked(self.pack("m")[0]).environments[0].wheels[0].url, NUMPY)

    def test_a_lock_that_is_there_is_kept_as_the_original_does(self):
        self.write("m/model.py", "def get_model(): pass\n")
        self.write("m/requirements.txt", "numpy\n")
        here = {name: original_lock.markers()[name] for name in writing_original._MARKERS}
        elsewhere = original_lock.Environment(dict(here, sys_platform="elsewhere"), ())
        wheel = original_lock.LockedWheel(TWO, NUMPY, None)

        def check(environments, expected, deps=b"numpy\n"):
            given = original_lock.OriginalLock(hashlib.sha256(deps).hexdigest(), environments)
            self.write("m/.carton/carton.lock", writing_original.written(given))
            found = self.locked(self.pack("m")[0])
            self.assertEqual([one.wheels for one in found.environments], expected)

        ours = (original_lock.LockedWheel(ONE, NUMPY, None),)
        check((original_lock.Environment(here, (wheel,)), elsewhere), [(wheel,), ()])
        # Locks for other machines are kept beside the lock for this one.
        check((elsewhere,), [ours, ()])
        check((original_lock.Environment(here, (wheel,)), elsewhere), [ours], deps=b"other\n")
        gone = original_lock.LockedWheel(TWO, None, ".carton/bundled_wheels/x/y-1-py3-none-any.whl")
        check((original_lock.Environment(here, (gone,)), elsewhere), [ours, ()])
        self.write("m/.carton/carton.lock", "nonsense")
        self.assertEqual(self.locked(self.pack("m")[0]).environments[0].wheels, ours)
        self.assertIn("is left out", self.report.warnings[-1])

    def test_what_is_wrong_with_a_model_is_told_before_packages_are_looked_for(self):
        self.write("m.py", "def get_model(:\n")
        with self.assertRaisesRegex(Exception, "m.py, line 1: SyntaxError"):
            self.pack("m.py")
        self.assertEqual(self.calls(), [])


class Wheels(unittest.TestCase):
    def test_the_closest_of_those_that_fit_is_taken(self):
        own = "cp%d%d" % sys.version_info[:2]
        best_first = [
            f"x-1-2-{own}-{own}-manylinux_2_28_x86_64.whl",
            f"x-1-{own}-{own}-manylinux_2_28_x86_64.whl",
            f"x-1-{own}-{own}-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
            f"x-1-{own}-{own}-linux_x86_64.whl",
            "x-1-cp39-abi3-manylinux_2_28_x86_64.whl",
            "x-1-cp38-abi3-manylinux_2_28_x86_64.whl",
            f"x-1-{own}-none-any.whl",
            "x-1-py3-none-manylinux_2_17_x86_64.whl",
            "x-1-py3-none-any.whl",
            "x-1-py2.py3-none-any.whl",
        ]
        ranks = [listing.preference(name) for name in best_first]
        self.assertEqual(ranks[:-1], sorted(ranks[:-1], reverse=True))
        self.assertGreaterEqual(ranks[-2], ranks[-1])
        listed = [("https://files.example/" + name, ONE) for name in reversed(best_first)]
        locked = lock.parse(f"numpy==2.0.0 --hash=sha256:{ONE}\n")
        (found,) = writing_original.choose(pylock(wheels=listed), locked, {"index.example"})
        self.assertEqual(found.url, listed[-1][0])

    def test_nothing_in_a_lock_needs_quoting(self):
        locked = original_lock.OriginalLock("", (original_lock.Environment({"os_name": "a'\nx = 'y"}, ()),))
        self.assertRaises(CannotLock, writing_original.written, locked)


@support.needs_numpy
class Inputs(Case):
    def test_models_of_the_original_may_write_to_their_inputs(self):
        import numpy

        self.fake(packages=str(Path(numpy.__file__).parents[1]))
        self.write("model/main.py", "def f(x):\n    x += 1\n    return {'y': x}\n")
        here = {name: original_lock.markers()[name] for name in writing_original._MARKERS}
        wheel = original_lock.LockedWheel(ONE, NUMPY, None)
        text = writing_original.written(original_lock.OriginalLock("", (original_lock.Environment(here, (wheel,)),)))
        x = inline("x", "float64", [], 0, 8)
        for has_lock, options, works in ((False, {}, False), (True, {}, True), (True, {"writable_inputs": False}, False)):
            if has_lock:
                self.write("model/.carton/carton.lock", text)
                self.assertEqual(prepared(self.folder / "model", env=dict(os.environ))[0], "prepared")
            with self.subTest(has_lock=has_lock, options=options), Host(env=dict(os.environ)) as host:
                loaded = host.load(self.folder / "model", {"infer_fn": "f", **options})
                self.assertEqual(loaded[0], "loaded", loaded)
                answer = host.call({"infer": {"inputs": [x]}}, bytes(8))
                self.assertEqual(answer[0], "inferred" if works else "error", answer)


if __name__ == "__main__":
    unittest.main()
