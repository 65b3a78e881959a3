"""Packing a Python model: the files that a carton gets, and the lock of its packages, with a fake `uv`."""

import os
import sys
import tempfile
import unittest
from pathlib import Path

import support  # noqa: F401, finds the host
from carton_runner.environments import compiling, gathering, local_wheels, lock, store, tree
from carton_runner.errors import RunnerError
from environment_case import HASH, Case


class Packing(Case):
    def pack(self, path, leave_out=(), **options):
        scratch = Path(tempfile.mkdtemp(dir=self.folder))
        packed = gathering.gather(self.folder / path, scratch, options, self.report, leave_out=leave_out)
        self.assertEqual(packed.required_framework_version, "=%d.%d" % sys.version_info[:2])
        self.assertEqual(packed.model.parent, scratch)
        return packed.model

    def names(self, folder):
        return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir())

    def test_a_folder(self):
        self.write("m/model.py", "x = 1\n")
        self.write("m/requirements.txt", "numpy\n")
        self.write("m/weights/a.bin", "abc")
        for left_out in ("__pycache__/model.pyc", ".git/HEAD", "notes/a.txt", "env/pyvenv.cfg"):
            self.write(f"m/{left_out}")
        before = self.names(self.folder / "m")
        model = self.pack("m", leave_out=["__pycache__", ".git", "notes/a.txt"])
        self.assertEqual(
            self.names(model), [".carton/requirements.lock", "model.py", "requirements.txt", "weights/a.bin"]
        )
        self.assertEqual((model / "weights/a.bin").resolve(), (self.folder / "m/weights/a.bin").resolve())
        self.assertEqual(self.names(self.folder / "m"), before)
        self.assertIn("env", self.report.warnings[0])
        locked = lock.read(model / lock.REQUIREMENTS_LOCK)
        self.assertEqual(locked.names(), ["numpy"])
        compile_call = self.calls()[0]
        self.assertIn("--universal", compile_call)
        self.assertNotIn(str(self.folder / "m"), compile_call)

    def test_a_single_file_asks_for_numpy(self):
        self.write("m.py", "x = 1\n")
        self.write("requirements.txt", "other\n")
        self.assertEqual(self.names(self.pack("m.py")), [".carton/requirements.lock", "m.py"])
        self.assertEqual(self.seen("requirements"), "numpy\n")

    def test_other_files_are_refused(self):
        self.write("m.txt")
        with self.assertRaises(RunnerError):
            self.pack("m.txt")
        with self.assertRaises(RunnerError):
            self.pack("nothing.py")

    def test_a_lock_is_kept_until_its_inputs_change(self):
        self.write("m/requirements.txt", "-r more.txt\nnumpy\n")
        self.write("m/more.txt", "x\n")
        text = (self.pack("m") / lock.REQUIREMENTS_LOCK).read_text()
        self.write(
            "m/.carton/requirements.lock", text + "# index: https://index.example/simple\n# https://index.example\n"
        )
        self.assertEqual((self.pack("m") / lock.REQUIREMENTS_LOCK).read_text(), text)
        self.assertEqual(len(self.locks()), 1)
        self.write("m/more.txt", "y\n")
        self.pack("m")
        self.assertEqual(len(self.locks()), 2)

    def test_nothing_is_written_through_a_link(self):
        self.write("m/requirements.txt", "numpy\n")
        self.write("m/hidden/requirements.lock", "mine")
        os.symlink("hidden", self.folder / "m/.carton")
        self.assertIn("numpy", (self.pack("m") / lock.REQUIREMENTS_LOCK).read_text())
        self.assertEqual((self.folder / "m/hidden/requirements.lock").read_text(), "mine")

    def test_a_lock_of_another_origin_is_made_anew(self):
        self.write("m/requirements.txt", "numpy\n")
        for text in ("--index-url https://evil.example\n", f"x==1 {HASH}\n"):
            self.write("m/.carton/requirements.lock", text)
            self.assertEqual(lock.read(self.pack("m") / lock.REQUIREMENTS_LOCK).names(), ["numpy"])
            self.assertIn("made anew", self.report.warnings.pop())

    def test_unknown_options_are_warned_about(self):
        self.write("m.py")
        self.pack("m.py", bundle_whels=True)
        self.assertIn("bundle_whels", self.report.warnings[0])
        with self.assertRaises(RunnerError):
            self.pack("m.py", bundle_wheels="yes")

    def test_mistakes_in_the_requirements_are_no_fault_of_the_model(self):
        def check(said, expected, hint):
            self.fake(fails=said)
            with self.assertRaises(RunnerError) as caught:
                self.pack("m")
            self.assertIn(expected, caught.exception.message)
            self.assertEqual(caught.exception.code, "setup")
            self.assertIn(hint, caught.exception.hint)
            self.assertEqual(caught.exception.causes[0], said)

        self.write("m/requirements.txt", "numpy==1\n")
        check("error: No solution found when resolving dependencies", "no such versions", "names and versions in")
        check("something else", "uv failed", "names and versions in")
        newer = "cause: Because the requested Python version (>=3.9) does not satisfy Python>=3.99 and you require x"
        check(f"error: No solution found when resolving dependencies {newer}", "no such versions", "names and versions in")
        check(f"error: No solution found when resolving dependencies {newer.replace('99', '12')}", "no such versions", "--framework-version =3.14")

    def test_folders_that_cannot_be_written_are_no_fault_of_the_model(self):
        self.write("data/python", "a file")
        with self.assertRaises(RunnerError) as caught:
            self.prepare(self.model())
        self.assertEqual(caught.exception.code, "setup")
        self.assertIn("CARTON_RUNNER_DATA_DIR", caught.exception.hint)

    def test_an_index_of_the_requirements_is_used_and_said(self):
        def used(line, variable, expected, said):
            self.report.warnings.clear()
            self.write("m/requirements.txt", f"{line}\nnumpy\n")
            model = self.pack("m")
            self.assertIn(f"{variable}={expected}\n", self.seen("environment"))
            self.assertEqual(self.seen("requirements"), "numpy\nnumpy\n")
            (warning,) = self.report.warnings
            self.assertIn(f"line 1 of requirements.txt names {said}, which is used while packing", warning)
            for text in (warning, (model / lock.REQUIREMENTS_LOCK).read_text(), *self.calls(), *self.report.texts):
                self.assertNotIn("secret", text)

        index = "a package index on `https://index.example`"
        used("--extra-index-url https://index.example/simple", "UV_EXTRA_INDEX_URL", "https://index.example/simple", index)
        used("--extra-index-url https://me:secret@Index.example/x", "UV_EXTRA_INDEX_URL", "https://me:secret@index.example/x", index)
        used("-i https://secret@index.example/simple", "UV_DEFAULT_INDEX", "https://secret@index.example/simple", index)
        used("-fhttps://index.example:444/links", "UV_FIND_LINKS", "https://index.example:444/links", "packages of a page on `https://index.example:444`")
        used("-i http://localhost:3141/root/pypi/+simple/", "UV_DEFAULT_INDEX", "http://localhost:3141/root/pypi/+simple/", "a package index on `http://localhost:3141`")
        # What the user has configured is asked first.
        os.environ.update(UV_INDEX="x=https://other.example", UV_EXTRA_INDEX_URL="https://more.example", UV_FIND_LINKS="/a b,https://c.example")
        used("-i https://index.example/simple", "UV_DEFAULT_INDEX", "https://index.example/simple", index)
        used("--extra-index-url https://index.example/simple", "UV_EXTRA_INDEX_URL", "https://more.example https://index.example/simple", index)
        self.assertIn("UV_INDEX=x=https://other.example\n", self.seen("environment"))
        used("-f https://index.example/l", "UV_FIND_LINKS", "/a b,https://c.example,https://index.example/l", "packages of a page on `https://index.example`")
        # The index that the user has in place of PyPI stays the last one.
        os.environ["UV_DEFAULT_INDEX"] = "https://mirror.example"
        used("-i https://index.example/simple", "UV_EXTRA_INDEX_URL", "https://more.example https://index.example/simple", index)
        self.assertIn("UV_DEFAULT_INDEX=https://mirror.example\n", self.seen("environment"))

    def test_the_indexes_of_the_users_files_are_before_those_of_the_model(self):
        home = self.folder / "home"
        os.environ.update(HOME=str(home))
        for name in ("XDG_CONFIG_HOME", "UV_CONFIG_FILE", "UV_NO_CONFIG"):
            os.environ.pop(name, None)
        self.write("m/requirements.txt", "-i https://index.example/simple\nnumpy\n")
        text = """
            extra-index-url = ["https://e.example"]
            [[index]]
            url = "https://me:secretword@a.example/simple"
            name = "a"
            [[index]]
            url = "https://b.example"
            explicit = true
            [[index]]
            url = "https://c.example"
            DEFAULT
            [pip]
            extra-index-url = ["https://d.example"]
        """
        self.write("home/.config/uv/uv.toml", text.replace("DEFAULT", ""))
        self.pack("m")
        seen = self.seen("environment")
        self.assertIn("UV_INDEX=a=https://me:secretword@a.example/simple https://c.example https://e.example https://d.example\n", seen)
        self.assertIn("UV_DEFAULT_INDEX=https://index.example/simple\n", seen)
        self.write("home/.config/uv/uv.toml", text.replace("DEFAULT", "default = true"))
        self.pack("m")
        seen = self.seen("environment")
        self.assertIn("UV_INDEX=a=https://me:secretword@a.example/simple https://e.example https://d.example\n", seen)
        self.assertIn("UV_EXTRA_INDEX_URL=https://index.example/simple\n", seen)
        self.assertNotIn("UV_DEFAULT_INDEX", seen)
        # A model that names no index changes nothing.
        self.write("m/requirements.txt", "numpy\n")
        self.pack("m")
        self.assertNotIn("UV_INDEX=", self.seen("environment"))

    def test_sources_that_only_the_user_may_choose(self):
        def refused(line, problem, hint):
            self.write("m/requirements.txt", f"numpy\n{line}\n")
            with self.assertRaises(RunnerError) as caught:
                self.pack("m")
            self.assertIn(f"line 2 of requirements.txt {problem}", caught.exception.message)
            self.assertEqual(caught.exception.code, "setup")
            self.assertIn(hint, caught.exception.hint)
            self.assertNotIn("secret", repr(caught.exception.causes) + caught.exception.hint + caught.exception.message)

        refused("-i http://me:secret@index.example/simple", "names a source of packages without TLS", "`UV_DEFAULT_INDEX=http://index.example/simple`")
        refused("--trusted-host index.example", "turns off the check", "`UV_INSECURE_HOST=index.example`")
        something = "names a source of packages by something else"
        for value in (
            "https://index.example/;reboot",
            "https://index.example/?token=secret",
            "https://index.example/simple --extra-index-url https://evil.example",
            "https://index.example/simple,https://evil.example",
            "https://index.example/simple#secret",
            "https://me:secret@/simple",
            "https:///simple",
            "ftp://index.example/simple",
            "name=https://index.example/simple",
            "/etc",
            "./folder",
            "file:///etc",
            "pypi",
        ):
            refused(f"--extra-index-url={value}", something, "UV_INDEX")
        refused("--find-links https://a.example/x,y", something, "UV_FIND_LINKS")
        self.assertEqual(self.calls(), [])
        # Of the user's own indexes the line says nothing new, and is left out.
        self.write("m/requirements.txt", "--extra-index-url https://me:secret@index.example/simple/\n--trusted-host index.example\nnumpy\n")
        os.environ.update(UV_INDEX="x=https://other.example y=https://me:pw@index.example/simple", UV_INSECURE_HOST="index.example")
        model = self.pack("m")
        self.assertEqual(self.seen("requirements"), "numpy\nnumpy\n")
        self.assertIn("names a package index", self.report.warnings.pop())
        self.assertNotIn("secret", self.seen("environment"))
        self.assertNotIn("index.example", (model / lock.REQUIREMENTS_LOCK).read_text())
        # As `pip-compile` writes it.
        del os.environ["UV_INDEX"]
        self.write("m/requirements.txt", "-i https://pypi.org/simple/\n--trusted-host localhost\nnumpy\n")
        self.pack("m")
        self.assertEqual(self.report.warnings, [])
        # Without a pack nothing of a model chooses where packages come from.
        self.write("m/requirements.txt", "-i https://index.example/simple\nnumpy\n")
        with self.assertRaises(RunnerError) as caught:
            self.prepare(self.folder / "m")
        self.assertIn("line 1 of requirements.txt says where packages come from", caught.exception.message)

    def test_what_is_not_from_an_index_cannot_be_locked(self):
        for line in ("x @ https://host.example/x.whl", "./x.whl", "-e .", "file:///x.whl"):
            with self.subTest(line=line):
                with self.assertRaises(RunnerError) as caught:
                    compiling._checked(f"# x\n{line} \\\n    {HASH}\n")
                self.assertIn("not from a package index", caught.exception.message)
                self.assertNotIn("host.example", caught.exception.message)

    def test_nothing_is_fetched_that_cannot_be_locked(self):
        for line in ("-e git+https://host.example/x.git", "x @ https://host.example/x.tar.gz", "-e .", "./x", "x[y] @ file:///x"):
            with self.subTest(line=line):
                self.write("m/requirements.txt", f"# a @ b\nnumpy\n{line}\n")
                with self.assertRaises(RunnerError) as caught:
                    self.pack("m")
                self.assertIn("not from a package index", caught.exception.message)
        self.assertEqual(self.calls(), [])

    def test_a_model_with_the_originals_lock_keeps_it(self):
        self.write("m/.carton/carton.lock", "")
        self.assertEqual(self.names(self.pack("m")), [".carton/carton.lock"])

    def test_wheels_that_are_there_are_kept_with_their_lock(self):
        self.write("m/requirements.txt", "numpy\n")
        text = (self.pack("m") / lock.REQUIREMENTS_LOCK).read_text()
        self.write("m/.carton/requirements.lock", text)
        wheel = self.write("m/.carton/wheels/numpy-2.0.0-py3-none-any.whl", "x")
        fields = {"platform": store.platform_tag(), "lock": f"sha256:{lock.parse(text).digest()}"}
        self.write("m/.carton/wheels.lock", lock.Lock(fields, (local_wheels.WheelFile.of(wheel).requirement(),)).text("wheels"))
        kept = self.pack("m", bundle_wheels=True)
        self.assertIn(".carton/wheels/numpy-2.0.0-py3-none-any.whl", self.names(kept))
        # Wheels of another lock are not kept.
        self.write("m/requirements.txt", "numpy>1\n")
        self.assertNotIn(".carton/wheels.lock", self.names(self.pack("m")))


class Trees(Case):
    def build(self, leave_out=lambda name: False):
        tree.build(self.folder / "m", self.folder / "tree", leave_out, self.report)
        return self.folder / "tree"

    def test_links_inside_stay_links_and_others_lead_to_files(self):
        self.write("m/a/weights.bin", "abc")
        self.write("elsewhere/big.bin", "big")
        self.write("elsewhere/sub/x.txt", "x")
        os.symlink("a/weights.bin", self.folder / "m/latest.bin")
        os.symlink("a", self.folder / "m/current")
        os.symlink(self.folder / "elsewhere/big.bin", self.folder / "m/big.bin")
        os.symlink(self.folder / "elsewhere", self.folder / "m/other")
        built = self.build()
        self.assertEqual(os.readlink(built / "latest.bin"), "a/weights.bin")
        self.assertEqual(os.readlink(built / "current"), "a")
        self.assertFalse((built / "a/weights.bin").is_symlink())
        self.assertEqual((built / "a/weights.bin").read_text(), "abc")
        self.assertEqual(os.readlink(built / "big.bin"), str((self.folder / "elsewhere/big.bin").resolve()))
        self.assertFalse((built / "other").is_symlink())
        self.assertEqual((built / "other/sub/x.txt").read_text(), "x")

    def test_links_to_nothing_and_in_circles(self):
        self.write("m/a/x")
        os.symlink("nothing", self.folder / "m/broken")
        with self.assertRaises(RunnerError) as caught:
            self.build()
        self.assertIn("`broken`", caught.exception.message)

    def test_circles(self):
        self.write("m/x")
        (self.folder / "outside").mkdir()
        os.symlink(self.folder / "outside", self.folder / "m/out")
        os.symlink(self.folder / "outside", self.folder / "outside/again")
        with self.assertRaises(RunnerError) as caught:
            self.build()
        self.assertIn("a folder it is in", caught.exception.message)

    def test_a_link_to_what_is_left_out_leads_to_the_file(self):
        self.write("m/.venv/lib/x.py", "x")
        os.symlink(".venv/lib/x.py", self.folder / "m/x.py")
        self.assertEqual((self.build(lambda name: name == ".venv") / "x.py").read_text(), "x")

    def test_scratch_inside_of_the_model(self):
        self.write("m/x")
        tree.build(self.folder / "m", self.folder / "m/tree", lambda name: False, self.report)
        self.assertEqual(os.listdir(self.folder / "m/tree"), ["x"])


if __name__ == "__main__":
    unittest.main()
