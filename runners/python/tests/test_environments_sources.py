"""The sources of packages while a model is packed: indexes with passwords, pages of links and wheels of the model, by a real `uv` and `pip`."""

import base64
import os
import shutil
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import support  # noqa: F401, finds the runner
from carton_runner import environments, packing
from carton_runner.environments import gathering, lock, original_lock, requirements, sources, variables
from test_environments_servers import ServerCase, _Handler, sha256, wheel

#: The file names of a wheel for all platforms, and of one for a platform that no test runs on.
ANY, ELSEWHERE = "py3-none-any", "cp39-abi3-macosx_11_0_arm64"


class _Guarded(_Handler):
    """Asks for a user and a password, which the server has."""

    def do_GET(self):
        expected = "Basic " + base64.b64encode(self.server.login.encode()).decode()
        if self.headers.get("Authorization") == expected:
            super().do_GET()
            return
        self.server.requests.append(f"{self.requestline}\n{self.headers}")
        self.send_response(401)
        self.send_header("WWW-Authenticate", 'Basic realm="x"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_HEAD = do_GET


class SourcesCase(ServerCase):
    def setUp(self):
        super().setUp()
        for name in [name for name in os.environ if name.startswith("PIP_")]:
            del os.environ[name]
        self.write("m/model.py", "def get_model(): pass\n")

    def guarded(self, login, **wheels):
        server = self.server(**wheels)
        server.RequestHandlerClass, server.login = _Guarded, login
        return server

    def pack(self, path="m", **options):
        scratch = Path(tempfile.mkdtemp(dir=self.folder))
        return gathering.gather(self.folder / path, scratch, options, self.report).model

    def write_bytes(self, path, data):
        path = self.folder / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path

    def locked(self, model):
        return lock.read(model / lock.REQUIREMENTS_LOCK)

    def bundled(self, model):
        return sorted(path.name for path in (model / lock.WHEELS).glob("*"))

    def loaded(self, model):
        """The packages that a carton with this model installs where nothing is known of its sources."""
        carton = self.folder / "unpacked"
        shutil.rmtree(carton, ignore_errors=True)
        shutil.copytree(model, carton)
        packages = environments.prepare(carton, self.report) and environments.find(carton, self.report)
        return sorted(path.name.split("-")[0] for path in packages.glob("*.dist-info"))


class Indexes(SourcesCase):
    def test_the_wheels_come_from_the_indexes_of_the_lock(self):
        theirs = self.guarded("me:file-password", special=wheel("special", ["limited"]))
        address = theirs.url.partition("://")[2]
        self.write_model(f"--extra-index-url http://me:file-password@{address}/simple\nspecial\n")
        model = self.pack()
        self.assertEqual(self.locked(model).names(), ["limited", "numpy", "special"])
        (warning,) = self.report.warnings
        self.assertIn(f"line 1 of requirements.txt names a package index on `{theirs.url}`", warning)
        self.assertIn("UV_INDEX", warning)
        bundled = self.pack(bundle_wheels=True)
        names = [f"{name}-1.0-py3-none-any.whl" for name in ("limited", "numpy", "special")]
        self.assertEqual(self.bundled(bundled), names)
        self.assertEqual(self.locked(bundled), self.locked(model))
        for path in (lock.REQUIREMENTS_LOCK, lock.WHEELS_LOCK):
            text = (bundled / path).read_text()
            self.assertNotIn("file-password", text)
            self.assertNotIn(address, text)
        self.assertNotIn("file-password", "\n".join((*self.report.texts, *self.report.warnings)))
        # It gets its own password and no other, and is asked for nothing that the user's index has.
        self.assertIn("Authorization: Basic " + base64.b64encode(b"me:file-password").decode(), theirs.seen())
        self.assertEqual(
            theirs.seen().count("Authorization"), theirs.seen().count(base64.b64encode(b"me:file-password").decode())
        )
        self.assertNotIn("/limited", theirs.seen())
        self.assertNotIn("/numpy", theirs.seen())
        # Loading asks nobody.
        del os.environ["UV_INDEX"], os.environ["UV_DEFAULT_INDEX"]
        before = (len(theirs.requests), len(self.index.requests))
        self.assertEqual(self.loaded(bundled), ["limited", "numpy", "special"])
        self.assertEqual((len(theirs.requests), len(self.index.requests)), before)
        self.assert_nothing_is_lost()

    def test_a_password_of_the_user_is_for_the_users_index_alone(self):
        mine = self.guarded("canary-user:canary-index-password", secret=wheel("secret"))
        os.environ["UV_INDEX"] = f"company={mine.url}/simple"
        theirs = self.server(secret=wheel("secret", ["evil"]), other=wheel("other"))
        self.write_model(f"--extra-index-url {theirs.url}/simple\nsecret\nother\n")
        model = self.pack(bundle_wheels=True)
        self.assertEqual(self.bundled(model), [f"{name}-1.0-py3-none-any.whl" for name in ("numpy", "other", "secret")])
        self.assertIn(f"sha256:{sha256(mine.wheels['secret-1.0-py3-none-any.whl'])}", (model / lock.WHEELS_LOCK).read_text())
        # pip sends it too, although the variable has a name that only uv knows.
        self.assertIn("pip/", mine.seen())
        for text in ("canary", "Authorization", "/secret"):
            self.assertNotIn(text, theirs.seen())
        self.assertIn("GET /simple/other/", theirs.seen())

    def test_an_index_of_the_users_files_is_before_that_of_the_model(self):
        del os.environ["UV_INDEX"]
        mine = self.guarded("me:canary-in-a-file", secret=wheel("secret"))
        address = mine.url.partition("://")[2]
        self.write("home/.config/uv/uv.toml", f'[[index]]\nurl = "http://me:canary-in-a-file@{address}/simple"\n')
        theirs = self.server(secret=wheel("secret", ["evil"]), other=wheel("other"))
        self.write_model(f"--extra-index-url {theirs.url}/simple\nsecret\nother\n")
        model = self.pack()
        self.assertIn(
            f"sha256:{sha256(mine.wheels['secret-1.0-py3-none-any.whl'])}", (model / lock.REQUIREMENTS_LOCK).read_text()
        )
        self.assertNotIn("Authorization", theirs.seen())
        self.assertNotIn("/secret", theirs.seen())

    def test_a_login_in_netrc_is_for_its_host(self):
        # `localhost` and `127.0.0.1` are two hosts for that file.
        self.write("home/.netrc", "machine localhost\nlogin me\npassword canary-of-netrc\n").chmod(0o600)
        theirs = self.server(other=wheel("other"))
        self.write_model(f"--extra-index-url {theirs.url}/simple\nother\n")
        self.pack(bundle_wheels=True)
        self.assertNotIn("Authorization", theirs.seen())

    def test_a_wrong_password_is_not_shown(self):
        theirs = self.guarded("me:other", special=wheel("special"))
        address = theirs.url.partition("://")[2]
        self.write_model(f"--extra-index-url http://me:file-password@{address}/simple\nspecial\n")
        error = self.failed(self.pack)
        shown = "\n".join((error.message, *error.causes, error.hint or "", *self.report.texts, *self.report.warnings))
        self.assertNotIn("file-password", shown)

    def test_a_user_who_has_configured_pip_alone(self):
        os.environ["PIP_INDEX_URL"] = os.environ.pop("UV_DEFAULT_INDEX")
        del os.environ["UV_INDEX"]
        self.write_model(f"-i {self.index.url}/simple\ngood\n")
        model = self.pack(bundle_wheels=True)
        self.assertEqual(self.bundled(model), [f"{name}-1.0-py3-none-any.whl" for name in ("good", "limited", "numpy")])

    def test_what_a_program_says_is_shown_without_logins(self):
        urls = ("https://me:pass%21word@index.example/simple", "https://token123@index.example/links")
        added = sources.Sources(indexes=urls[:1], links=urls[1:])
        said = f"cannot fetch {urls[0]} and {urls[1]}: pass!word token123 pass%21word"
        shown = variables.without_passwords(said, added)
        for secret in ("pass!word", "pass%21word", "token123"):
            self.assertNotIn(secret, shown)
        self.assertIn("https://me:***@index.example/simple", shown)

    def test_a_page_of_links(self):
        theirs = self.server(special=wheel("special"))
        self.write_model(f"--find-links {theirs.url}/simple/special\nspecial\n")
        model = self.pack(bundle_wheels=True)
        self.assertEqual(self.bundled(model), [f"{name}-1.0-py3-none-any.whl" for name in ("numpy", "special")])

    def test_without_an_index_the_wheels_of_the_model_are_all(self):
        self.write_bytes("m/wheels/numpy-1.0-py3-none-any.whl", wheel("numpy"))
        self.write_bytes("m/wheels/special-1.0-py3-none-any.whl", wheel("special"))
        self.write_model("--no-index\n--find-links ./wheels\nspecial\n")
        self.assertEqual(len(self.bundled(self.pack())), 2)
        self.assertEqual(self.index.requests, [])


class LocalWheels(SourcesCase):
    def setUp(self):
        super().setUp()
        self.special = wheel("special", ["limited"])
        self.write_bytes(f"m/wheels/special-1.0-{ANY}.whl", self.special)

    def check(self, line, names=("limited", "numpy", "special")):
        self.write_model(f"{line}\n")
        model = self.pack()
        (requirement,) = [one for one in self.locked(model).requirements if one.name == "special"]
        self.assertEqual((requirement.version, requirement.hashes), ("1.0", (f"--hash=sha256:{sha256(self.special)}",)))
        self.assertEqual(self.bundled(model), [f"special-1.0-{ANY}.whl"])
        # The file is there once.
        self.assertEqual(os.readlink(model / lock.WHEELS / f"special-1.0-{ANY}.whl"), f"../../wheels/special-1.0-{ANY}.whl")
        self.assertFalse((model / lock.WHEELS_LOCK).exists())
        self.assertNotIn(str(self.folder), (model / lock.REQUIREMENTS_LOCK).read_text())
        self.assertEqual(self.report.warnings, [])
        self.index.requests.clear()
        self.assertEqual(self.loaded(model), list(names))
        # Its name may be a secret.
        self.assertNotIn("/special", self.index.seen())
        return model

    def test_a_wheel_by_its_path(self):
        file = f"special-1.0-{ANY}.whl"
        for line in (
            f"./wheels/{file}",
            f"wheels/{file}",
            f"special @ file:./wheels/{file}",
            f"Special@file:wheels/{file}",
            f"special @ {self.folder.as_uri()}/m/wheels/{file}",
            f"file://localhost{self.folder.as_uri()[7:]}/m/wheels/{file}",
            f"./wheels/{file} ; python_version >= '3.0' --hash=sha256:{sha256(self.special)}",
            "--find-links ./wheels\nspecial",
            "-f wheels\nspecial==1.0",
            "--find-links=file:wheels\nspecial",
        ):
            with self.subTest(line=line):
                self.check(line)
        # No index is asked for a package that has a path.
        self.index.requests.clear()
        self.write_model(f"./wheels/{file}\nlimited<2\n")
        self.pack()
        self.assertNotIn("special", self.index.seen())

    def test_the_path_is_of_the_file_with_the_line_or_of_the_model(self):
        self.write("m/lists/more.txt", f"../wheels/special-1.0-{ANY}.whl\n")
        self.check("-r lists/more.txt")
        self.write("m/lists/more.txt", f"./wheels/special-1.0-{ANY}.whl\n")
        self.check("-r lists/more.txt")

    def test_extras_and_conditions_stay(self):
        self.special = wheel("special", ["limited", "good ; extra == 'x'"])
        self.write_bytes(f"m/wheels/special-1.0-{ANY}.whl", self.special)
        self.check(f"special[x] @ file:wheels/special-1.0-{ANY}.whl", ("good", "limited", "numpy", "special"))
        self.write_model(f"./wheels/special-1.0-{ANY}.whl ; sys_platform == 'win32'\n")
        self.assertEqual(self.locked(self.pack()).names(), ["numpy"])

    def test_wheels_for_several_platforms(self):
        other = wheel("special")
        self.write_bytes(f"m/wheels/special-1.0-{ELSEWHERE}.whl", other)
        self.write_model("--find-links wheels\nspecial\n")
        model = self.pack()
        self.assertEqual(self.bundled(model), [f"special-1.0-{ELSEWHERE}.whl", f"special-1.0-{ANY}.whl"])
        self.assertEqual(self.loaded(model), ["limited", "numpy", "special"])
        # With all wheels of this platform in the carton, the other one is in no lock of them.
        model = self.pack(bundle_wheels=True)
        self.assertEqual(len(self.bundled(model)), 4)
        self.assertNotIn(sha256(other), (model / lock.WHEELS_LOCK).read_text())
        before = len(self.index.requests)
        self.assertEqual(self.loaded(model), ["limited", "numpy", "special"])
        self.assertEqual(len(self.index.requests), before)

    def test_a_wheel_of_the_model_is_not_mistaken_for_another(self):
        # The index has a file of the same name.
        self.index.wheels[f"special-1.0-{ANY}.whl"] = wheel("special", ["evil"])
        model = self.check(f"./wheels/special-1.0-{ANY}.whl")
        (requirement,) = [one for one in self.locked(model).requirements if one.name == "special"]
        self.assertEqual(len(requirement.hashes), 1)

    def test_packed_again(self):
        self.write_model(f"./wheels/special-1.0-{ANY}.whl\n")
        model = self.pack()
        carton = self.folder / "again"
        shutil.copytree(model, carton)
        self.index.requests.clear()
        again = self.pack("again")
        self.assertEqual(self.locked(again), self.locked(model))
        self.assertEqual(self.bundled(again), self.bundled(model))
        self.assertEqual(self.index.requests, [])
        # Another wheel of the same name and version is another package.
        changed = wheel("special", ["good"])
        (carton / f"wheels/special-1.0-{ANY}.whl").unlink()
        self.write_bytes(f"again/wheels/special-1.0-{ANY}.whl", changed)
        self.assertEqual(self.locked(self.pack("again")).names(), ["good", "limited", "numpy", "special"])

    def test_a_model_that_was_not_packed(self):
        self.write_model(f"./wheels/special-1.0-{ANY}.whl\n")
        packages = self.prepare(self.folder / "m")
        self.assertTrue((packages / "special-1.0.dist-info").exists())

    def test_the_lock_of_the_original_names_them(self):
        self.write_model(f"--no-index\n./wheels/special-1.0-{ANY}.whl\n--find-links wheels\n")
        self.write_bytes(f"m/wheels/numpy-1.0-{ANY}.whl", wheel("numpy"))
        self.write_bytes(f"m/wheels/limited-1.0-{ANY}.whl", wheel("limited"))
        scratch = Path(tempfile.mkdtemp(dir=self.folder))
        packed = packing.pack(self.folder / "m", scratch, {}, {}, None, None, self.report)
        self.assertEqual(packed["runner_compat_version"], packing.OF_THE_ORIGINAL)
        (environment,) = original_lock.read(Path(packed["path"]) / original_lock.CARTON_LOCK).environments
        paths = sorted(one.bundled_path for one in environment.wheels)
        self.assertEqual(paths, [f".carton/wheels/{name}-1.0-{ANY}.whl" for name in ("limited", "numpy", "special")])

    def test_wheels_of_the_user_that_no_index_has(self):
        self.write_bytes(f"mine/private-1.0-{ANY}.whl", wheel("private"))
        self.write_bytes(f"mine/other-1.0-{ANY}.whl", wheel("other"))
        os.environ["UV_FIND_LINKS"] = f"{self.folder / 'mine'},{self.folder / 'nothing'}"
        (self.folder / "nothing").mkdir()
        self.write_model("private\ngood\n")
        model = self.pack()
        self.assertEqual(self.bundled(model), [f"private-1.0-{ANY}.whl"])
        del os.environ["UV_FIND_LINKS"]
        self.assertEqual(self.loaded(model), ["good", "limited", "numpy", "private"])

    def test_what_is_refused(self):
        self.write_bytes(f"outside/special-1.0-{ANY}.whl", self.special)
        os.symlink(self.folder / f"outside/special-1.0-{ANY}.whl", self.folder / f"m/special-1.0-{ANY}.whl")
        os.symlink(self.folder / "outside", self.folder / "m/outside")
        os.mkfifo(self.folder / f"m/pipe-1.0-{ANY}.whl")
        self.write("m/special.whl")

        def refused(line, expected):
            with self.subTest(line=line), mock.patch("subprocess.Popen", side_effect=AssertionError("a program is started")):
                self.write_model(f"numpy\n{line}\n")
                error = self.failed(self.pack)
                self.assertIn(expected, error.message)
                self.assertEqual(error.code, "setup")

        refused(f"./special-1.0-{ANY}.whl", "line 2 of requirements.txt, is not in the model's folder")
        refused(f"../outside/special-1.0-{ANY}.whl", "is not in the model's folder")
        refused(f"special @ {self.folder.as_uri()}/outside/special-1.0-{ANY}.whl", "is not in the model's folder")
        refused("--find-links outside", "is not in the model's folder")
        refused("--find-links /", "is not in the model's folder")
        refused("--find-links nothing", "does not exist")
        refused(f"./nothing-1.0-{ANY}.whl", "does not exist")
        refused(f"./nothing%00-1.0-{ANY}.whl", "no wheel by its name")
        refused("file:%00/nothing-1.0-py3-none-any.whl", "does not exist")
        refused(f"./pipe-1.0-{ANY}.whl", "cannot read the wheel")
        refused("./special.whl", "no wheel by its name")
        refused(f"other @ file:wheels/special-1.0-{ANY}.whl", "names `other`, and its wheel is of `special`")
        refused(f"./wheels/special-1.0-{ANY}.whl --hash=sha256:{'0' * 64}", "is not the file whose hash the line has")
        refused(f"special @ https://host.example/special-1.0-{ANY}.whl", "not from a package index")
        refused(f"special @ file://host.example/special-1.0-{ANY}.whl", "not from a package index")
        refused(f"./${{HOME}}/special-1.0-{ANY}.whl", "has a variable")
        refused(f"special @ file:wheels/special-1.0-{ANY}.whl ; nonsense", "is no requirement")

    def test_the_digest_of_a_lock_depends_on_the_wheels(self):
        model = self.write_model("--find-links wheels\nspecial\n")
        before = requirements.Inputs.of(model).digest()
        self.write_bytes(f"m/wheels/special-1.0-{ANY}.whl", wheel("special"))
        self.assertNotEqual(requirements.Inputs.of(model).digest(), before)


if __name__ == "__main__":
    unittest.main()
