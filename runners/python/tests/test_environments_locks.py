"""Reading locks: ours, which may contain only pinned and hashed packages, and those of the original Carton."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from carton_runner.environments import lock, original_lock  # noqa: E402
from carton_runner.errors import RunnerError  # noqa: E402

ONE = "sha256:" + "1" * 64
TWO = "sha256:" + "2" * 64

#: As uv 0.13 writes it.
OF_UV = f"""# inputs: sha256:abc
# python: 3.10
appnope==1.0.0 ; python_full_version < '3.11' and sys_platform == 'darwin' \\
    --hash=sha256:{'a' * 64} \\
    --hash=sha256:{'b' * 64}
    # via -r requirements.txt
numpy==2.2.6 \\
    --hash={ONE}
torch==2.13.0+cpu \\
    --hash={TWO}
"""


class Locks(unittest.TestCase):
    def test_what_uv_writes_is_read(self):
        locked = lock.parse(OF_UV)
        self.assertEqual(locked.fields, {"inputs": "sha256:abc", "python": "3.10"})
        self.assertEqual(locked.names(), ["appnope", "numpy", "torch"])
        self.assertEqual(
            locked.lines(),
            [
                "appnope==1.0.0 ; python_full_version < '3.11' and sys_platform == 'darwin' "
                f"--hash=sha256:{'a' * 64} --hash=sha256:{'b' * 64}",
                f"numpy==2.2.6 --hash={ONE}",
                f"torch==2.13.0+cpu --hash={TWO}",
            ],
        )

    def test_what_is_written_reads_back(self):
        locked = lock.parse(OF_UV)
        again = lock.parse(locked.text("a comment"))
        self.assertEqual(again, locked)
        self.assertEqual(again.digest(), locked.digest())

    def test_an_empty_lock_is_one(self):
        self.assertEqual(lock.parse("").lines(), [])
        self.assertEqual(lock.parse("# only a comment\n\n").lines(), [])

    def test_everything_else_is_refused_with_its_line(self):
        hashed = f" --hash={ONE}"
        for line in (
            "--index-url https://evil.example/simple",
            "--extra-index-url=https://evil.example/simple",
            "--find-links /tmp",
            "-e .",
            "-r ../../etc/passwd",
            "-c constraints.txt",
            "--no-index",
            "--trusted-host evil.example",
            "numpy" + hashed,
            "numpy>=2" + hashed,
            "numpy==2.*" + hashed,
            "numpy===2.0" + hashed,
            "numpy==2.2.6",
            "numpy==2.2.6 --hash=md5:" + "1" * 32,
            "numpy==2.2.6 --hash=sha256:" + "1" * 63,
            "numpy==2.2.6 --hash=sha256:" + "G" * 64,
            "numpy @ https://evil.example/numpy.whl" + hashed,
            "numpy @ file:///tmp/numpy.whl" + hashed,
            "git+https://evil.example/numpy" + hashed,
            "https://evil.example/numpy.whl" + hashed,
            "./numpy.whl" + hashed,
            "/tmp/numpy.whl" + hashed,
            "numpy==${HOME}" + hashed,
            "${NAME}==1" + hashed,
            "numpy==2.2.6 ; sys_platform == '${HOME}'" + hashed,
            "numpy==2.2.6 ;" + hashed,
            "numpy==2.2.6" + hashed + " --config-settings=x",
            "numpy==2.2.6" + hashed + " --global-option=x",
            "numpy==2.2.6 --index-url=https://evil.example" + hashed,
            "numpy==2.2.6 ; x # y" + hashed,
            "numpy==2.2.6\x0b--pre" + hashed,
            "numpy==2.2.6\x85--pre" + hashed,
            "numpy==2.2.6\u2028--pre" + hashed,
            "numpy==2.2.6 other==1" + hashed,
            "numpy[a b]==2.2.6" + hashed,
            "-numpy==2.2.6" + hashed,
        ):
            with self.subTest(line=line):
                with self.assertRaises(RunnerError) as caught:
                    lock.parse(f"# a comment\n\npip==1{hashed}\n{line}\n")
                self.assertIn("line 4 of .carton/requirements.lock", caught.exception.message)

    def test_a_continued_line_hides_nothing(self):
        # A back slash at the end of a comment continues it, as in pip; the package in the next line is not a requirement.
        self.assertEqual(lock.parse(f"# comment \\\nnumpy==1 --hash={ONE}\n").lines(), [])
        with self.assertRaises(RunnerError):
            lock.parse(f"numpy==1 \\\n--index-url=https://evil.example \\\n--hash={ONE}\n")
        with self.assertRaises(RunnerError):
            lock.parse("numpy==1 \\")

    def test_a_lock_cannot_keep_us_busy(self):
        # Each of these takes hours if a run of characters is scanned again from each of its characters.
        for text in (
            f"numpy==1 --hash={ONE}" + " " * (4 << 20) + "x",
            "numpy==1" + " " * (4 << 20) + "x",
            "\\\n" * (1 << 20),
            "a-" * (1 << 20) + "==1",
            "numpy==1 ; " + "(" * (1 << 19),
        ):
            self.assertRaises(RunnerError, lock.parse, text)
        for text in ("a" + " " * (1 << 20), 'x = "' + "\\a" * (1 << 20), "[[" + " " * (1 << 20)):
            self.assertRaises(RunnerError, original_lock.parse, text)

    def test_files_that_cannot_be_read(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "lock"
            self.assertRaises(RunnerError, lock.read, path)
            path.write_bytes(b"\xff\xfe")
            self.assertRaises(RunnerError, lock.read, path)
            path.unlink()
            path.mkdir()
            self.assertRaises(RunnerError, lock.read, path)

    def test_names_are_compared_as_indexes_do(self):
        self.assertEqual(lock.normalized("Scikit_Learn.x--y"), "scikit-learn-x-y")


#: In the form that the original Carton's TOML writer has.
ORIGINAL = """
# THIS FILE IS AUTOGENERATED BY CARTON AND SHOULD NOT BE MANUALLY EDITED
# If you add this lockfile to version control, you MUST also add the entire `.carton` folder

orig_deps_hash = "%(hash)s"

[[lockfile]]
os_name = "posix"
sys_platform = "linux"
platform_machine = "x86_64"
platform_python_implementation = "CPython"
python_version = "3.10"

[[lockfile.locked_deps]]
sha256 = "%(hash)s"
url = "https://files.example/packages/ab/numpy-1.24.2-cp310-cp310-manylinux_2_17_x86_64.whl"

[[lockfile.locked_deps]]
sha256 = "%(hash)s"
bundled_whl_path = ".carton/bundled_wheels/%(hash)s/my_pkg-0.1-py3-none-any.whl"

[[lockfile]]
os_name = 'posix'
sys_platform = 'darwin'
python_version = '3.10'
locked_deps = []
""" % {"hash": "c" * 64}


class OriginalLocks(unittest.TestCase):
    def test_it_is_read_as_toml_is(self):
        parsed = original_lock.parse(ORIGINAL)
        self.assertEqual(parsed.deps_hash, "c" * 64)
        locked = parsed.environments
        self.assertEqual([environment.markers["sys_platform"] for environment in locked], ["linux", "darwin"])
        self.assertEqual(len(locked[0].wheels), 2)
        self.assertEqual(locked[1].wheels, ())
        try:
            import tomllib
        except ImportError:
            self.skipTest("this Python cannot read TOML itself")
        expected = tomllib.loads(ORIGINAL)["lockfile"]
        for found, table in zip(locked, expected):
            wheels = [
                (wheel["sha256"], wheel.get("url"), wheel.get("bundled_whl_path")) for wheel in table.pop("locked_deps")
            ]
            self.assertEqual([tuple(wheel) for wheel in found.wheels], wheels)
            self.assertEqual(found.markers, table)

    def test_strings_with_escapes(self):
        locked = original_lock.parse(ORIGINAL.replace('"3.10"', '"3.\\u0031\\"0\\\\"'))
        self.assertEqual(locked.environments[0].markers["python_version"], '3.1"0\\')

    def test_what_is_not_of_that_form_is_refused(self):
        for line in (
            'x = """',
            "x = '''y'''",
            "x = 1",
            "x = {a = 1}",
            "x = [1, 2]",
            "[table]",
            "[[other]]",
            "[[lockfile.other]]",
            "x",
            'x = "a" # comment',
            'x = "a" y',
            'x = "\\x"',
            "'quoted' = 1",
            'os_name = "a"\nos_name = "b"',
        ):
            with self.subTest(line=line):
                with self.assertRaises(RunnerError) as caught:
                    original_lock.parse(f"[[lockfile]]\n{line}\n")
                self.assertIn("of .carton/carton.lock", caught.exception.message)
        with self.assertRaises(RunnerError):
            original_lock.parse('[[lockfile]]\n[[lockfile.locked_deps]]\nsha256 = "12"\n')
        with self.assertRaises(RunnerError):
            original_lock.parse("[[lockfile.locked_deps]]\n")

    def test_the_environment_that_fits_is_chosen(self):
        locked = original_lock.parse(ORIGINAL)
        here = dict(original_lock.markers(), os_name="posix", sys_platform="darwin", python_version="3.10")
        self.assertIs(original_lock.choose(locked, here), locked.environments[1])
        with self.assertRaises(RunnerError) as caught:
            original_lock.choose(locked, dict(here, python_version="3.12"))
        self.assertIn("python_version 3.10", " ".join(caught.exception.causes))

    def test_wheels_are_in_the_model_or_on_an_https_server(self):
        locked = original_lock.parse(ORIGINAL).environments[0]
        with tempfile.TemporaryDirectory(prefix="a b") as folder:
            model = Path(folder)
            with self.assertRaises(RunnerError) as caught:
                original_lock.lines(locked, model)
            self.assertIn("is not in the model", caught.exception.message)
            bundled = model / ".carton/bundled_wheels" / ("c" * 64)
            bundled.mkdir(parents=True)
            (bundled / "my_pkg-0.1-py3-none-any.whl").write_bytes(b"")
            lines = original_lock.lines(locked, model)
            self.assertEqual(len(lines), 2)
            self.assertRegex(lines[0], r"^my_pkg @ file:///\S+%20b\S+/my_pkg-0.1-py3-none-any.whl --hash=sha256:c{64}$")
            self.assertRegex(lines[1], r"^numpy @ https://files.example/\S+\.whl --hash=sha256:c{64}$")
            self.assertEqual(original_lock.names(locked), ["numpy", "my_pkg"])

            def check(url=None, path=None):
                wheel = original_lock.LockedWheel("c" * 64, url, path)
                with self.assertRaises(RunnerError):
                    original_lock.lines(original_lock.Environment({}, (wheel,)), model)

            whl = "x-1-py3-none-any.whl"
            check(f"http://files.example/{whl}")
            check(f"file:///tmp/{whl}")
            check(f"https://me:secret@files.example/{whl}")
            check(f"https://files.example/{whl} --index-url=https://evil.example")
            check(f"https://files.example/${{HOME}}/{whl}")
            check(f"https:///{whl}")
            check("https://files.example/x-1.tar.gz")
            check(f"https://[::1/{whl}")
            check(f"https://files.example:x/{whl}")
            check(f"git+https://files.example/{whl}")
            check(None, f"../{whl}")
            check(None, f"/tmp/{whl}")
            check(None, f".carton/../../{whl}")
            check(None, "")
            check()


if __name__ == "__main__":
    unittest.main()
