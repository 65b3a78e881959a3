"""Reading `requirements.txt`: what is understood, what is refused, and which files are read."""

import os
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import support  # noqa: F401, finds the runner
from carton_runner.environments import compiling, dependency_specifiers, lock, requirement_lines, requirements
from carton_runner.environments.dependency_specifiers import NoSpecifier
from carton_runner.errors import RunnerError

ONE, TWO = ("sha256:" + digit * 64 for digit in "12")


class Specifiers(unittest.TestCase):
    def test_what_is_written_anew(self):
        def check(text, expected):
            with self.subTest(text=text):
                self.assertEqual(dependency_specifiers.parse(text).text(), expected)
                self.assertEqual(dependency_specifiers.parse(expected).text(), expected)

        check("numpy", "numpy")
        check("a", "a")
        check("Scikit_Learn.x--y", "Scikit_Learn.x--y")
        check("numpy>=1.26", "numpy>=1.26")
        check("numpy >= 1.26 , <3,!=2.0.*", "numpy>=1.26,<3,!=2.0.*")
        check("numpy (==1.0)", "numpy==1.0")
        check("numpy==1.0,", "numpy==1.0")
        check("x ~= 1.4.5a4", "x~=1.4.5a4")
        check("x===1.0", "x===1.0")
        check("x==v1!2.0.RC1.post2.dev3", "x==v1!2.0.RC1.post2.dev3")
        check("torch==2.3.0+cu121", "torch==2.3.0+cu121")
        check("x==1.0-1", "x==1.0-1")
        check("uvicorn[standard]", "uvicorn[standard]")
        check("x [a, b-c] >=1", "x[a,b-c]>=1")
        check("x[]", "x")
        check("x;os_name=='posix'", "x ; os_name == 'posix'")
        check('x>1;"3.9"<python_version', "x>1 ; '3.9' < python_version")
        check("x ; os.name == 'posix'", "x ; os_name == 'posix'")
        check("x ; python_version not  in '3.9, 3.10'", "x ; python_version not in '3.9, 3.10'")
        check(
            "x ; (sys_platform=='linux' or sys_platform=='darwin')and extra == 'y'",
            "x ; (sys_platform == 'linux' or sys_platform == 'darwin') and extra == 'y'",
        )

    def test_what_is_none(self):
        for text in (
            "",
            "-",
            "numpy=1.26",
            "numpy 1.26",
            "numpy>=",
            "numpy>=1,,<2",
            "numpy>=1.*",
            "numpy==one",
            "numpy==1.0 other",
            "numpy other",
            "-numpy",
            "numpy-",
            "num py",
            "numpy[",
            "numpy[a b]",
            "numpy[a,]",
            "numpy[a]]",
            "numpy @ https://host.example/x.whl",
            "numpy@https://host.example/x.whl",
            "./numpy",
            "numpy.whl/",
            "${NAME}",
            "numpy==${VERSION}",
            "numpy ; os_name == '${NAME}'",
            "numpy ; os_name == '$(x)'",
            "numpy ; os_name == \"it's\"",
            "numpy ;",
            "numpy ; python_version",
            "numpy ; python_version >= 3",
            "numpy ; python_version => '3'",
            "numpy ; 'a' == 'b'",
            "numpy ; os_name = 'a'",
            "numpy ; os_name == 'a",
            "numpy ; os_name == 'a' os_name == 'b'",
            "numpy ; os_name == 'a' and",
            "numpy ; (os_name == 'a'",
            "numpy ; os_name == 'a')",
            "numpy ; nothing == 'a'",
            "numpy ; os_name not 'a'",
            "numpy ; os_name == 'a' # b",
            "numpy\u00e9",
            "numpy==\u0661.0",
            # These letters are equal to `s` and `k` if case is ignored by Unicode's rules.
            "x==1po\u017ft1",
            "\u212aeras",
            "numpy\n--pre",
            "numpy\x0b--pre",
            "numpy\u00a0",
            "numpy\0",
            "n" * (dependency_specifiers.MAX_LENGTH + 1),
            "x ; " + "(" * 1000 + "os_name == 'a'" + ")" * 1000,
        ):
            with self.subTest(text=text[:60]):
                with self.assertRaises(NoSpecifier):
                    dependency_specifiers.parse(text)


class Files(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="carton test ")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.model = self.folder / "m"

    def write(self, path, text):
        path = self.folder / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def read(self, text):
        self.write("m/requirements.txt", text)
        return requirements.Inputs.of(self.model)

    def refused(self, text, expected, hint=""):
        with self.subTest(text=text[:80]):
            with self.assertRaises(RunnerError) as caught:
                self.read(text)
            self.assertIn(expected, caught.exception.message)
            self.assertEqual(caught.exception.code, "setup")
            self.assertIn(hint, caught.exception.hint or "")
            return caught.exception

    def test_a_list_as_people_write_them(self):
        inputs = self.read(
            "\ufeff# What the model needs\r\n"
            "numpy>=1.26,<3   # as tested\r\n"
            "\r\n"
            "scikit-learn \\\r\n"
            "    >= 1.4\r\n"
            "torch==2.3.0 ; sys_platform == 'linux'\r"
            "  uvicorn[standard]\n"
            "\t\n"
            "# caf\u00e9 \\\n"
            "pandas\n"
            "--prefer-binary\n--require-hashes\n--pre\n--only-binary :all:\n"
        )
        expected = "numpy>=1.26,<3\nscikit-learn>=1.4\ntorch==2.3.0 ; sys_platform == 'linux'\nuvicorn[standard]\npandas\n"
        self.assertEqual(requirements.written(inputs.packages), expected)
        self.assertEqual([setting.option for setting in inputs.settings], ["--pre", "--only-binary"])
        self.assertEqual(requirements.written(self.read("").packages), "")

    def test_hashes_are_read(self):
        inputs = self.read(f"x==1 \\\n    --hash={ONE} \\\n      --hash {TWO}\n    # via y\nz\n")
        self.assertEqual(requirements.written(inputs.packages), "x==1\nz\n")
        self.assertEqual(inputs.hashes(), {"x": {ONE, TWO}})
        self.refused("x==1 --hash=md5:" + "1" * 32, "has something that is no hash")
        self.refused("x==1 --hash=sha256:1234", "has something that is no hash")

    def test_only_files_with_the_hashes_of_the_model_are_locked(self):
        inputs = self.read(f"X==1 --hash={ONE}\n")

        def locked(*hashes):
            found = lock.Requirement("x", "", "1", "", tuple(f"--hash={one}" for one in hashes))
            return compiling._with_hashes(lock.Lock({}, (found, found._replace(name="y"))), inputs)

        self.assertEqual([len(one.hashes) for one in locked(ONE, TWO).requirements], [1, 2])
        with self.assertRaises(RunnerError) as caught:
            locked(TWO)
        self.assertIn("no file of `x==1`", caught.exception.message)

    def test_what_is_refused_is_named_with_its_line(self):
        self.refused("numpy\n\nnumpy=1.26\n", "line 3 of requirements.txt is no requirement: '=1.26' has no comparison", "`numpy>=1.26`")
        self.refused("numpy\n--global-option=x\n", "line 2 of requirements.txt has an option", "delete the line")
        self.refused("numpy --config-settings=x\n", "has an option", "`--hash` may stay")
        self.refused("numpy==${VERSION}\n", "has a variable", "write the value itself")
        self.refused("--index-url https://host.example/${TOKEN}/simple\nnumpy\n", "has a variable", "set `UV_DEFAULT_INDEX`")
        self.refused("-r ${HOME}/x.txt\n", "has a variable")
        self.refused("-r https://host.example/x.txt\n", "includes a file from a server", "put the file into the model's folder")
        self.refused("--requirement=file:///x.txt\n", "includes a file from a server")
        self.refused("-r\n", "includes no file")
        self.refused("good # a comment \\\nother\n", "line 1 of requirements.txt has a back slash at the end of a comment")
        for character in "\0\x0b\x0c\x1b\x1c\x1e\x7f\x85\x9b\u2028\u2029":
            self.refused(f"numpy\n# x{character}--pre\n", "line 2 of requirements.txt has the character")
        self.refused("numpy\u00a0\n", "is no requirement")
        self.refused("x" * (requirement_lines.MAX_LINE + 1), "is longer than")
        self.refused("x \\\n" * (requirement_lines.MAX_LINE // 2), "is longer than")
        error = self.refused("x ; 'https://me:secret@host.example'\n", "is no requirement")
        self.assertNotIn("secret", repr(error.causes))
        for line in ("-e .", "--editable=x", "./x", "../x", "/x", "x/y", "C:\\x", "x-1.tar.gz"):
            self.refused(line, "is not from a package index")
        for line in ("x @ file:///x", "x@https://host.example", "x[y] @ file:///x", "-e git+https://host.example/x"):
            self.refused(line, "is not from a package index")

    def test_bytes_that_are_no_text(self):
        self.refused(b"numpy \xff\n", "is not UTF-8")
        self.refused("--no-binary numpy\n".encode("utf-16"), "is UTF-16")

    def test_files_of_the_model_are_included(self):
        self.write("m/sub/base.txt", "x\n-r more.txt\n")
        self.write("m/sub/more.txt", "y\n-r base.txt\n-r ../requirements.txt\n")
        self.write("m/limits.txt", "z<2\n-r sub/limits.txt\n")
        self.write("m/sub/limits.txt", "w<3\n")
        os.symlink("sub/base.txt", self.model / "link.txt")
        inputs = self.read("-r link.txt\n--constraint='limits.txt'\nnumpy\n")
        self.assertEqual(requirements.written(inputs.packages), "numpy\nx\ny\n")
        self.assertEqual(requirements.written(inputs.constraints), "z<2\nw<3\n")
        self.assertEqual(len(inputs.texts), 5)
        # One file can be both.
        inputs = self.read("-r limits.txt\n-c limits.txt\n")
        self.assertEqual(requirements.written(inputs.packages), "z<2\nw<3\n")
        self.assertEqual(requirements.written(inputs.constraints), "z<2\nw<3\n")
        self.assertEqual(len(inputs.texts), 3)

    def test_locks_of_earlier_releases_stay_valid(self):
        self.write("m/more.txt", "y\n")
        inputs = self.read("-r more.txt\nnumpy  # x\n")
        with mock.patch.object(requirements.store, "minor_version", lambda: "3.11"):
            # As the first release computed it.
            self.assertEqual(inputs.digest(), "d8d9276e348ecc2a9e0e72d25c471f14966e6d6bf113aaecee2759c0bb7a46c8")

    def test_no_other_file_is_read(self):
        self.write("token", "ghp_canary\n")
        self.write("m2/x.txt", "x\n")
        os.makedirs(self.model, exist_ok=True)
        os.symlink("../token", self.model / "link.txt")
        os.symlink("..", self.model / "up")
        inside_out = ("../token", "link.txt", "up/token", "../m2/x.txt", ".", "..")
        for path in (*inside_out, self.folder / "token", "/etc/hostname", "/proc/self/environ"):
            self.refused(f"-r {path}\n", "not in the model's folder", "copy the file into the model's folder")
            self.refused(f"-c {path}\n", "not in the model's folder")
        self.refused("-r nothing.txt\n", "cannot read the requirements")
        self.refused("-r up\n", "not in the model's folder")
        os.mkfifo(self.model / "pipe.txt")
        self.refused("-r pipe.txt\n", "cannot read the requirements")
        os.mkdir(self.model / "folder")
        self.refused("-r folder\n", "cannot read the requirements")
        os.unlink(self.model / "requirements.txt")
        os.symlink("../token", self.model / "requirements.txt")
        with self.assertRaises(RunnerError) as caught:
            requirements.Inputs.of(self.model)
        self.assertIn("not in the model's folder", caught.exception.message)

    def test_the_model_itself_may_be_behind_a_link(self):
        self.write("m/more.txt", "y\n")
        self.read("-r more.txt\n")
        os.symlink("m", self.folder / "link")
        self.assertEqual(requirements.written(requirements.Inputs.of(self.folder / "link").packages), "y\n")

    def test_the_size_is_bounded(self):
        for number in range(requirements.MAX_DEPTH + 1):
            self.write(f"m/{number}.txt", f"-r {number + 1}.txt\n")
        self.write(f"m/{requirements.MAX_DEPTH + 1}.txt", "x\n")
        self.refused("-r 0.txt\n", "deep")
        self.read("-r 2.txt\n")
        for number in range(requirements.MAX_FILES):
            self.write(f"m/{number}.txt", "x\n")
        self.refused("".join(f"-r {number}.txt\n" for number in range(requirements.MAX_FILES)), "more than 64 files")
        self.refused("x\n" * (requirements.MAX_LINES + 1), "more than 10000 requirements")
        self.write("m/a.txt", "# " + "x" * 1000 + "\n")
        self.refused("#\n" * (requirements.MAX_REQUIREMENTS_BYTES // 2) + "-r a.txt\n", "bytes")
        self.refused("-r a.txt\n" + "# x\n" * (requirements.MAX_REQUIREMENTS_BYTES // 4), "bytes")

    def test_a_list_cannot_keep_us_busy(self):
        # Each of these takes hours if a run of characters is scanned again from each of its characters.
        n = requirement_lines.MAX_LINE - 100
        blanks, brackets, hashes = "x" + " " * n + "y", "x ; " + "(" * n, "x --hash=" * (n // 9)
        for text in (blanks, brackets, hashes, "a-" * (n // 2), "\\\n" * (n // 2), "x " + "#" * n, "x==" + "1." * (n // 2)):
            try:
                self.read(text)
            except RunnerError:
                pass


if __name__ == "__main__":
    unittest.main()
