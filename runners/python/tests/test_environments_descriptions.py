"""The files that say which packages a model needs: `pylock.toml`, `uv.lock`, `pyproject.toml`, `environment.yml`; which one counts; and the
`pylock.toml` of a carton. The locks come from a real `uv`, and are compared with what it installs of them itself."""

import os
import shutil
import subprocess
import sys
import unittest

import support  # noqa: F401, finds the runner
from carton_runner.environments import (
    conda,
    descriptions,
    exact_locks,
    lock,
    plain_yaml,
    python_versions,
    store,
    toml_files,
    writing_pylock,
)
from carton_runner.environments.writing_original import CannotLock
from carton_runner.errors import RunnerError
from test_environments_servers import sha256, wheel
from test_environments_sources import ANY, SourcesCase

MINOR = store.minor_version()
NEXT = "3.%d" % (sys.version_info[1] + 1)


class DescriptionsCase(SourcesCase):
    def uv(self, *arguments, folder="m"):
        """Runs the real `uv` as a person would, with the test's index."""
        environment = {**os.environ, "UV_CACHE_DIR": str(self.folder / "cache"), "UV_PYTHON_DOWNLOADS": "never"}
        command = [os.environ["UV"], *arguments]
        done = subprocess.run(command, cwd=self.folder / folder, env=environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def refused(self, name, text, expected, hint=""):
        self.write(f"m/{name}", text)
        error = self.failed(self.pack)
        self.assertIn(expected, "\n".join((error.message, *error.causes)))
        self.assertIn(hint, error.hint or "")
        self.assertEqual(error.code, "setup")
        (self.folder / "m" / name).unlink()


class Projects(DescriptionsCase):
    PROJECT = '[project]\nname = "it"\nversion = "1"\nrequires-python = ">=3.9"\ndependencies = ["good>=1", "tool ; sys_platform == \'linux\'"]\n'

    def test_a_project_without_a_lock(self):
        self.write(
            "m/pyproject.toml", self.PROJECT + '[tool.uv]\nconstraint-dependencies = ["limited<2"]\nresolution = "lowest"\n'
        )
        model = self.pack()
        self.assertEqual(self.locked(model).names(), ["good", "limited", "numpy", "tool"])
        self.assertIn("settings of `[tool.uv]` in pyproject.toml are not used: resolution", self.report.warnings[0])
        self.assertIn("the packages of the model are those of pyproject.toml", self.report.texts[0])
        text = (model / lock.REQUIREMENTS_LOCK).read_text()
        self.write("m/.carton/requirements.lock", text)
        self.index.requests.clear()
        self.assertEqual((self.pack() / lock.REQUIREMENTS_LOCK).read_text(), text)
        self.assertEqual(self.index.requests, [])

    def test_the_lock_of_a_project(self):
        # The project's lock has another version than the index would give today.
        self.write("m/pyproject.toml", self.PROJECT)
        self.uv("lock")
        exported = self.uv(
            "export", "--frozen", "--no-emit-project", "--no-header", "--no-annotate", "--format", "requirements-txt"
        )
        self.index.wheels["good-2.0-py3-none-any.whl"] = wheel("good").replace(b"1.0", b"2.0")
        model = self.pack()
        found = [one for one in self.locked(model).requirements if one.name != "numpy"]
        self.assertEqual(found, list(lock.parse(exported).requirements))
        self.assertEqual({one.version for one in found}, {"1.0"})
        self.assertEqual(self.loaded(model), ["good", "limited", "numpy", "tool"])
        self.assertIn("are those of uv.lock", self.report.texts[0])
        # The test's index is the default one of this project.
        text = (self.folder / "m/uv.lock").read_text()
        self.assertIn(self.index.url, text)
        for path in (lock.REQUIREMENTS_LOCK,):
            self.assertNotIn(self.index.url, (model / path).read_text())

    def test_an_old_lock_of_a_project(self):
        self.write("m/pyproject.toml", self.PROJECT)
        self.uv("lock")
        self.write("m/pyproject.toml", self.PROJECT.replace("good>=1", "good>=1,<9").replace('"tool ', '"numpy", "tool '))
        error = self.failed(self.pack)
        self.assertIn("uv.lock was made from other dependencies than pyproject.toml has: good, numpy", error.message)
        self.assertIn("uv lock", error.hint)

    def test_extras_of_a_locked_project(self):
        self.index.wheels["limited-1.0-py3-none-any.whl"] = wheel("limited", ["tool ; extra == 'x'"])
        self.write(
            "m/pyproject.toml",
            '[project]\nname = "it"\nversion = "1"\nrequires-python = ">=3.9"\ndependencies = ["limited[x]"]\n',
        )
        self.uv("lock")
        self.assertEqual(self.locked(self.pack()).names(), ["limited", "numpy", "tool"])

    def test_nothing_of_a_lock_reaches_uv_as_it_is(self):
        self.write("m/pyproject.toml", self.PROJECT)
        self.uv("lock")
        text = (self.folder / "m/uv.lock").read_text()
        for before, after, expected in (
            ('name = "limited"', 'name = "${MYSECRET}"', "where a name belongs"),
            ("source = { registry", "source = { git", "is not from a package index (git)"),
            ("source = { registry", "source = { directory", "is not from a package index (directory)"),
            ("version = 1\n", "version = 2\n", "has the version '2'"),
            ('hash = "sha256:', 'hash = "md5:', "where a hash belongs"),
            ('version = "1.0"', 'version = "1.0 @ x"', "where a version belongs"),
            ("sys_platform == 'linux'", "sys_platform == '${MYSECRET}'", "a condition that is not read"),
        ):
            with self.subTest(after=after):
                self.assertIn(before, text)
                self.refused("uv.lock", text.replace(before, after), expected)
        found = exact_locks.read_uv_lock(text, None)
        self.assertNotIn(self.index.url, "".join(found.project))
        self.assertEqual(toml_files.parse(found.project[1], "x")["package"][0]["name"], "good")

    def test_a_project_that_is_refused(self):
        head = '[project]\nname = "it"\nversion = "1"\n'
        self.refused(
            "pyproject.toml",
            head + f'requires-python = ">={NEXT}"\n',
            f"requires Python `>={NEXT}`, and this is Python {MINOR}",
            "carton runner install python --python 3.",
        )
        self.refused("pyproject.toml", head + 'requires-python = "newest"\n', "a comparison of Python's version")
        self.refused("pyproject.toml", head + 'dynamic = ["dependencies"]\n', "that a build backend makes")
        self.refused(
            "pyproject.toml", "[tool.poetry.dependencies]\nnumpy = '*'\n", "`[tool.poetry]`, which is not read", "poetry export"
        )
        self.refused("pyproject.toml", "[project\n", "is not TOML")
        self.refused("pyproject.toml", "x = " + "[" * 100_000, "pyproject.toml")
        for text in ("-e .", "-r x.txt", "numpy\\nother", "numpy # x", "${MYSECRET}", "x @ https://host.example/x.whl", ""):
            self.refused("pyproject.toml", f'{head}dependencies = ["{text}"]\n', "")
        index = '[[tool.uv.index]]\nname = "a"\nurl = "https://index.example/simple"\nexplicit = true\n'
        self.refused("pyproject.toml", f'{head}dependencies = ["good"]\n{index}', "an `explicit` index", "uv lock")
        git = '[tool.uv.sources]\nGood = { git = "https://host.example/x.git" }\n'
        self.refused("pyproject.toml", f'{head}dependencies = ["good"]\n{git}', "`good`, which `[tool.uv.sources]`")
        self.refused("pyproject.toml", f'{head}[tool.uv]\noverride-dependencies = ["x"]\n', "override-dependencies", "uv lock")

    def test_sources_of_a_project(self):
        theirs = self.server(other=wheel("other"))
        self.write_bytes(f"m/wheels/special-1.0-{ANY}.whl", wheel("special", ["limited"]))
        self.write(
            "m/pyproject.toml",
            f'[project]\nname = "it"\nversion = "1"\nrequires-python = ">=3.9"\ndependencies = ["special", "other"]\n[[tool.uv.index]]\nurl = "{theirs.url}/simple"\n'
            f'[tool.uv.sources]\nspecial = {{ path = "wheels/special-1.0-{ANY}.whl" }}\n',
        )
        model = self.pack()
        self.assertEqual(self.locked(model).names(), ["limited", "numpy", "other", "special"])
        self.assertEqual(self.bundled(model), [f"special-1.0-{ANY}.whl"])
        self.assertIn(f"`[tool.uv]` of pyproject.toml names a package index on `{theirs.url}`", self.report.warnings[0])
        # The same by the project's lock.
        self.uv("lock")
        again = self.pack(bundle_wheels=True)
        self.assertIn("are those of uv.lock", self.report.texts[-5] + "".join(self.report.texts))
        self.assertEqual(self.locked(again).names(), ["limited", "numpy", "other", "special"])
        self.assertEqual(len(self.bundled(again)), 4)


class Pylocks(DescriptionsCase):
    def test_a_lock_of_another_tool(self):
        self.write("m/in.txt", "good\ntool ; sys_platform == 'win32'\nlimited ; sys_platform != 'win32'\n")
        self.uv("pip", "compile", "--universal", "--format", "pylock.toml", "in.txt", "-o", "pylock.toml")
        model = self.pack()
        locked = self.locked(model)
        self.assertEqual(locked.names(), ["good", "limited", "numpy", "tool"])
        of_tool = [one for one in locked.requirements if one.name == "tool"][0]
        self.assertEqual(of_tool.marker, "sys_platform == 'win32'")
        self.assertEqual(of_tool.hashes, (f"--hash=sha256:{sha256(self.index.wheels['tool-1.0-py3-none-any.whl'])}",))
        self.assertEqual(self.loaded(model), ["good", "limited", "numpy"])

    def test_a_wheel_that_it_names(self):
        data = wheel("special")
        self.write_bytes(f"m/wheels/special-1.0-{ANY}.whl", data)
        text = 'lock-version = "1.0"\n[[packages]]\nname = "special"\nversion = "1.0"\nwheels = [{ path = "wheels/special-1.0-%s.whl", hashes = { sha256 = "%s" } }]\n'
        self.write("m/pylock.toml", text % (ANY, sha256(data)))
        model = self.pack()
        self.assertEqual(self.bundled(model), [f"special-1.0-{ANY}.whl"])
        self.assertEqual(self.loaded(model), ["numpy", "special"])
        self.refused("pylock.toml", text % (ANY, "0" * 64), "is not the file whose hash")

    def test_what_is_refused(self):
        head = 'lock-version = "1.0"\n[[packages]]\nname = "x"\nversion = "1"\n'
        files = 'wheels = [{ url = "https://h.example/x-1-py3-none-any.whl", hashes = { sha256 = "%s" } }]\n' % ("1" * 64)
        self.refused("pylock.toml", 'lock-version = "2.0"\n', "has the lock-version '2.0'")
        self.refused("pylock.toml", f'requires-python = ">={NEXT}"\n{head}{files}', "requires Python")
        self.refused("pylock.toml", f'{head}requires-python = "<3"\n{files}', "the package `x` of pylock.toml requires Python")
        self.refused("pylock.toml", f'{head}[packages.vcs]\ntype = "git"\n', "(`vcs`)")
        self.refused("pylock.toml", f'{head}[packages.archive]\nurl = "https://x"\n', "(`archive`)")
        self.refused("pylock.toml", head, "has no files")
        self.refused("pylock.toml", head + files.replace("1" * 64, "1"), "without a SHA-256")
        self.refused("pylock.toml", head.replace('"x"', '"${MYSECRET}"') + files, "where the name of a package belongs")
        self.refused(
            "pylock.toml",
            f"{head}marker = \"'dev' in dependency_groups\"\n{files}",
            "is not read",
            "without extras and dependency groups",
        )
        self.refused("pylock.toml", f"{head}marker = 1\n{files}", "is not read")

    def test_the_lock_that_other_installers_read(self):
        written = writing_pylock.written
        one, two = "1" * 64, "2" * 64
        locked = lock.parse(f"a==1.0 ; os_name == 'posix' --hash=sha256:{one}\nb==2.0 --hash=sha256:{two}\n")
        block = lambda name, version, **files: {"name": name, "version": version, **files}  # noqa: E731
        url = "https://files.example/{}-py3-none-any.whl"
        a = block(
            "a",
            "1.0",
            wheels=[{"url": url.format("a-1.0"), "size": 3, "hashes": {"sha256": one}}, {"url": "x", "hashes": {"sha256": two}}],
        )
        b = block("b", "2.0", sdist={"url": "https://files.example/b-2.0.tar.gz", "hashes": {"sha256": two}})
        text = written([a, b], locked, {"index.example"})
        parsed = toml_files.parse(text, "x")
        self.assertEqual(parsed["lock-version"], "1.0")
        self.assertEqual(parsed["requires-python"], f"=={MINOR}.*")
        self.assertEqual(
            parsed["packages"][0],
            block(
                "a",
                "1.0",
                marker="os_name == 'posix'",
                wheels=[{"name": "a-1.0-py3-none-any.whl", "url": url.format("a-1.0"), "size": 3, "hashes": {"sha256": one}}],
            ),
        )
        self.assertEqual(parsed["packages"][1]["sdist"]["name"], "b-2.0.tar.gz")
        # It reads as the lock that it was made of.
        self.assertEqual(exact_locks.read_pylock(text).requirements, locked.requirements)
        path = self.write("written.toml", text)
        self.assertTrue(writing_pylock.is_of(path, locked))
        self.assertFalse(writing_pylock.is_of(path, lock.parse(f"a==1.0 --hash=sha256:{one}\n")))
        for bad in (
            "https://me:pw@files.example/a-1.0-py3-none-any.whl",
            "http://files.example/a-1.0-py3-none-any.whl",
            url.format("a-1.0") + "?token=x",
            "https://index.example/a-1.0-py3-none-any.whl",
        ):
            a["wheels"][0]["url"] = bad
            with self.assertRaises(CannotLock):
                written([a, b], locked, {"index.example"})
        with self.assertRaises(CannotLock):
            written([b], locked, set())

    def test_a_model_of_wheels_can_be_installed_by_another_installer(self):
        for name in ("numpy", "special"):
            self.write_bytes(f"m/wheels/{name}-1.0-{ANY}.whl", wheel(name))
        self.write_model("--no-index\n--find-links wheels\nspecial\n")
        model = self.pack()
        (self.folder / "carton").mkdir()
        shutil.copytree(model, self.folder / "carton/model")
        self.uv("venv", "--python", sys.executable, "env", folder=".")
        self.uv("pip", "sync", "--no-index", "--python", "env/bin/python", "carton/model/.carton/pylock.toml", folder=".")
        found = sorted(path.name for path in (self.folder / "env").glob("lib/python*/site-packages/*.dist-info"))
        self.assertEqual(found, ["numpy-1.0.dist-info", "special-1.0.dist-info"])
        # It is kept as long as the lock is.
        again = self.pack("carton/model")
        self.assertEqual((again / writing_pylock.PYLOCK).read_text(), (model / writing_pylock.PYLOCK).read_text())
        self.write("carton/model/.carton/pylock.toml", "lock-version = '1.0'\n")
        self.assertFalse((self.pack("carton/model") / writing_pylock.PYLOCK).exists())

    def test_a_private_index_is_not_named(self):
        self.write_model("good\n")
        self.assertFalse((self.pack() / writing_pylock.PYLOCK).exists())
        self.assertIn("the carton has no .carton/pylock.toml: the wheel of `good` is not at a plain https URL", self.report.texts)


class Conda(DescriptionsCase):
    def test_the_part_of_pip(self):
        self.write("m/more.txt", "tool\n")
        self.write(
            "m/environment.yml",
            f"# made by hand\nname: it\nchannels:\n  - conda-forge\ndependencies:\n  - python={MINOR}\n  - numpy>=1,<2  # both\n  - cudatoolkit=11.8\n  - pip\n"
            "  - conda-forge::ffmpeg\n  - pip:\n    - good\n    - \"limited<2 ; python_version > '3'\"\n    - -r more.txt\nvariables:\n  A: b\nprefix: /opt/it\n",
        )
        model = self.pack()
        self.assertEqual(self.locked(model).names(), ["good", "limited", "numpy", "tool"])
        self.assertIn(
            "conda's packages in environment.yml are not in the carton: cudatoolkit=11.8, conda-forge::ffmpeg; what",
            self.report.warnings[0],
        )
        self.assertIn("--opt env.NAME=VALUE", self.report.warnings[1])
        self.assertIn("are those of environment.yml", self.report.texts[0])

    def test_another_python(self):
        for version in (f"={NEXT}", f"={NEXT}.4", f"=={NEXT}.*", f">={NEXT}", "=3.99", "=2.7", f"={MINOR}1"):
            with self.subTest(version=version):
                self.refused(
                    "environment.yml", f"dependencies:\n- python{version}\n", "line 2 of environment.yml requires Python"
                )
        for version in (f"={MINOR}", f"={MINOR}.0", f"=={MINOR}.99", f">={MINOR}", f"={MINOR}.*", ""):
            conda.parse(f"dependencies:\n- python{version}\n", "x")

    def test_versions_of_conda(self):
        def check(spec, expected):
            self.assertEqual([line for _, line in conda.parse(f"dependencies:\n  - {spec}\n", "x").lines], expected)

        check("numpy", ["numpy"])
        check("numpy=1.26", ["numpy==1.26.*"])
        check("numpy=1.26.*", ["numpy==1.26.*"])
        check("numpy=1.26.4=py311h64a7726_0", ["numpy==1.26.4"])
        check("numpy=1.26.*=py311h64a7726_0", ["numpy==1.26.*"])
        check("numpy==1.26.4", ["numpy==1.26.4"])
        check("conda-forge::numpy>=1.26,<2", ["numpy>=1.26,<2"])
        check("scipy=1.11", [])
        for spec in ("numpy=1.26|1.25", "numpy 1.26", "numpy=latest"):
            with self.assertRaises(RunnerError):
                conda.parse(f"dependencies:\n  - {spec}\n", "x")

    def test_lines_of_pip_keep_their_places_and_rules(self):
        head = "dependencies:\n  - pip:\n"
        self.refused(
            "environment.yml",
            f"{head}    - numpy\n    - x @ https://host.example/x.whl\n",
            "line 4 of environment.yml, is not from a package index",
        )
        self.refused("environment.yml", f"{head}    - ${{MYSECRET}}\n", "line 3 of environment.yml has a variable")
        self.refused("environment.yml", f"{head}    - -r ../x.txt\n", "not in the model's folder")
        self.refused("environment.yml", f"{head}    - --trusted-host h.example\n", "turns off")

    def test_what_is_no_environment(self):
        self.refused("environment.yml", "x: y\n", "has the key `x`")
        self.refused("environment.yml", "dependencies:\n  - a:\n    - b\n", "something else than a package or `pip:`")
        self.refused("environment.yml", "dependencies:\n  - pip:\n    - - b\n", "something else than a list of texts")
        self.refused("environment.yml", "dependencies: x\n", "something else than a list")
        self.refused("environment.yml", "- x\n", "has no `dependencies:`")


class Yaml(unittest.TestCase):
    def test_it_is_read_as_yaml_is(self):
        def plain(value):
            content = value.content
            if isinstance(content, dict):
                return {key: plain(one) for key, one in content.items()}
            return [plain(one) for one in content] if isinstance(content, list) else content

        for text, expected in (
            ("", None),
            ("---\na: b\n", {"a": "b"}),
            ("a:\n- b\n-  c # d\n", {"a": ["b", "c"]}),
            ("a:\n  - b:\n    - c\n    - d\n  - e\nf: g#h\n", {"a": [{"b": ["c", "d"]}, "e"], "f": "g#h"}),
            ("a:\n  - b: c\n    d: e\n", {"a": [{"b": "c", "d": "e"}]}),
            ("a:\nb: []\nc: ~\n", {"a": None, "b": [], "c": None}),
            ("a: 'it''s # x'\nb: \"c # d\"  # e\n", {"a": "it's # x", "b": "c # d"}),
            ("a:\n  - --pre\n  - -r x\n  - x ; y == 'z'\n", {"a": ["--pre", "-r x", "x ; y == 'z'"]}),
            ("a:\r\n  - b\r\n", {"a": ["b"]}),
            ("a:\n  -\n    - b\n", {"a": [["b"]]}),
        ):
            with self.subTest(text=text):
                self.assertEqual(plain(plain_yaml.parse(text, "x")), expected)
                try:
                    import yaml
                except ImportError:
                    continue
                self.assertEqual(yaml.safe_load(text), expected)

    def test_all_else_is_refused_with_its_line(self):
        for text in (
            "a: &b c", "a: *b", "a: !!str b", "a: |", "a: >-", "a: [b, c]", "a: {b: c}", "a: @b", "a: `b", "a: b: c", "a: \"b\\n\"", "a: 'b",
            "\ta: b", "a:\n\t- b", "a", "a: b\na: c", "a:\n  - b\n c: d", "a: b\n  c: d", "a: %b", "a: b\x00", "? a", "a:\n  - b\n  c: d",
            "- a\nb: c", "a: b\n...\nc: d", "a: b\n---\nc: d", "<<: x",
        ):  # fmt: skip
            with self.subTest(text=text), self.assertRaises(RunnerError) as caught:
                plain_yaml.parse(text, "x")
            self.assertRegex(caught.exception.message, "^line [0-9]+ of x ")

    def test_a_file_cannot_keep_us_busy(self):
        for text in ("a:\n" * 20_000, "- " * 4000 + "a", "a: " + "b" * 20_000, "".join(" " * n + "a:\n" for n in range(1000))):
            with self.assertRaises(RunnerError):
                plain_yaml.parse(text, "x")


class Order(DescriptionsCase):
    def test_which_file_counts(self):
        files = {
            "environment.yml": "dependencies:\n  - pip:\n    - good\n",
            "pyproject.toml": '[project]\nname = "it"\nversion = "1"\ndependencies = ["limited"]\n',
            "requirements.txt": "tool\n",
            "pylock.toml": 'lock-version = "1.0"\n[[packages]]\nname = "x"\nversion = "1"\nwheels = [{ url = "https://h.example/x-1-py3-none-any.whl", hashes = { sha256 = "%s" } }]\n'
            % ("1" * 64),
        }
        expected = {"environment.yml": "good", "pyproject.toml": "limited", "requirements.txt": "tool", "pylock.toml": "x"}
        for name, text in files.items():
            self.write(f"m/{name}", text)
            self.report.texts.clear()
            inputs = descriptions.read(self.folder / "m", self.report)
            named = [one.name for one in inputs.pinned] or [one.specifier.name for one in inputs.packages]
            self.assertEqual(named, [expected[name]])
            (said,) = self.report.texts
            self.assertTrue(said.startswith(f"the packages of the model are those of {name}"), said)
        self.assertEqual(
            said, "the packages of the model are those of pylock.toml; not from requirements.txt, pyproject.toml, environment.yml"
        )
        # A file that only configures tools says nothing, and neither does a lock without its project.
        shutil.rmtree(self.folder / "m")
        self.write("m/pyproject.toml", "[tool.ruff]\nline-length = 100\n")
        self.write("m/uv.lock", "version = 1\n")
        self.assertEqual(descriptions.read(self.folder / "m", self.report).packages, ())
        self.assertIn("has no `[project]`", self.report.warnings[-1])

    def test_comparisons_are_those_of_pip(self):
        try:
            from pip._vendor.packaging.specifiers import SpecifierSet
        except ImportError:
            self.skipTest("this interpreter has no pip")
        versions = [(3, minor, patch) for minor in (1, 9, 10, 11, 12) for patch in (0, 1, 7)]
        for operator in ("==", "!=", "<=", ">=", "<", ">", "~="):
            for version in ("3", "3.1", "3.10", "3.11", "3.11.0", "3.11.7", "3.11.*", "3.*", "4", "2.7", "3.11.7.0"):
                if (version.endswith("*") and operator not in ("==", "!=")) or (operator == "~=" and "." not in version):
                    continue
                parsed = python_versions._parsed(operator + version)
                expected = [".".join(map(str, one)) in SpecifierSet(operator + version) for one in versions]
                self.assertEqual([python_versions._holds(parsed, one) for one in versions], expected, operator + version)
        for text in ("~=3", "==", "3.11", ">=3.11.*", "=3.11", ">=3.11rc1", ">=x"):
            self.assertIsNone(python_versions._parsed(text), text)

    def test_the_versions_of_python(self):
        here = "%d.%d.%d" % sys.version_info[:3]
        for comparison in (
            ">=3.9",
            f"=={MINOR}.*",
            f"~={MINOR}.0",
            f"=={here}",
            f"<={here}",
            "!=3.1.*",
            f"<{NEXT}",
            ">3.1",
            f"~={MINOR}",
            "<4",
        ):
            python_versions.check([comparison], "x")
        for comparison in (f">={NEXT}", f"=={NEXT}.*", f"<{MINOR}", f">{here}", f"!={MINOR}.*", f"!={here}", "~=2.7", f"<{here}"):
            with self.assertRaises(RunnerError) as caught:
                python_versions.check([">=3", comparison], "x")
            self.assertIn("requires Python", caught.exception.message)
        with self.assertRaises(RunnerError) as caught:
            python_versions.check([f">={NEXT},<{NEXT}.99".split(",")[0], f"<={NEXT}.99"], "x")
        for command in (
            f"carton runner install python --python {NEXT}",
            f"uv python install {NEXT}",
            f"pyenv install {NEXT}",
            f"apt-get install python{NEXT}",
        ):
            self.assertIn(command, caught.exception.hint)


if __name__ == "__main__":
    unittest.main()
