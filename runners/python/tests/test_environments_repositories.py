"""Packages of git repositories: a real `git`, `pip` and `uv`, and a repository on this machine in the place of one on a server."""

import os
import shutil
import subprocess
import unittest

import support  # noqa: F401, finds the runner
from carton_runner import environments
from carton_runner.environments import lock, requirement_lines
from test_environments_sources import ANY, SourcesCase

#: A build backend in the repository itself, so that building fetches nothing.
BACKEND = """
import os, sys
sys.path.insert(0, HERE)
from test_environments_servers import wheel

def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    with open(MARK, "a") as file:
        file.write("built with %s\\n" % sorted(name for name in os.environ if "CARTON_TOKEN" in name))
    name = "built-1.0-py3-none-any.whl"
    with open(os.path.join(wheel_directory, name), "wb") as file:
        file.write(wheel("built", ["limited"]))
    return name
"""
URL = "https://git.example/them/built.git"


@unittest.skipUnless(shutil.which("git"), "there is no git")
class Repositories(SourcesCase):
    def setUp(self):
        super().setUp()
        self.mark = self.folder / "mark"
        here = os.path.dirname(os.path.abspath(__file__))
        for folder in ("repository", "repository/sub"):
            self.write(f"{folder}/backend.py", f"HERE, MARK = {here!r}, {str(self.mark)!r}\n{BACKEND}")
            self.write(
                f"{folder}/pyproject.toml", '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
            )
        self.git("init", "--quiet", "--initial-branch", "main")
        self.git("add", ".")
        self.git("commit", "--quiet", "--message", "one")
        self.git("tag", "--annotate", "--message", "it", "v1")
        self.commit = self.git("rev-parse", "HEAD").strip()
        os.environ.update(
            CARTON_ALLOW_BUILD="1",
            GIT_ALLOW_PROTOCOL="https:file",
            GIT_CONFIG_COUNT="1",
            GIT_CONFIG_KEY_0=f"url.{(self.folder / 'repository').as_uri()}.insteadOf",
            GIT_CONFIG_VALUE_0=URL,
        )

    def git(self, *arguments):
        who = ["-c", "user.name=it", "-c", "user.email=it@host.example"]
        command = ["git", *who, *arguments]
        return subprocess.run(command, cwd=self.folder / "repository", check=True, capture_output=True, text=True).stdout

    def test_a_commit_is_built_once_and_bundled(self):
        self.write_model(f"built @ git+{URL}@{self.commit}\n")
        model = self.pack()
        self.assertEqual(self.locked(model).names(), ["built", "limited", "numpy"])
        self.assertEqual(self.bundled(model), [f"built-1.0-{ANY}.whl"])
        text = (model / lock.REQUIREMENTS_LOCK).read_text()
        self.assertNotIn("git.example", text)
        self.assertNotIn(str(self.folder), text)
        # Code of the package ran, and got no token of the host.
        self.assertEqual(self.mark.read_text(), "built with []\n")
        # Where it is loaded nothing is built, and nobody needs git.
        del os.environ["CARTON_ALLOW_BUILD"]
        self.assertEqual(self.loaded(model), ["built", "limited", "numpy"])
        # Packed again, it needs no permission: the wheel is there.
        shutil.copytree(model, self.folder / "again")
        again = self.pack("again")
        self.assertEqual((again / lock.REQUIREMENTS_LOCK).read_text(), text)
        self.assertEqual(self.bundled(again), self.bundled(model))
        self.assertEqual(self.mark.read_text().count("built"), 1)
        shutil.rmtree(self.folder / "again/.carton/wheels")
        self.assertIn("is built from its repository", self.failed(lambda: self.pack("again")).message)
        os.environ["CARTON_ALLOW_BUILD"] = "1"
        self.assertEqual(
            self.bundled(self.pack("again", bundle_wheels=True)),
            [f"{name}-1.0-{ANY}.whl" for name in ("built", "limited", "numpy")],
        )
        self.assertEqual(self.mark.read_text().count("built"), 2)

    def test_the_ways_to_write_it(self):
        for line in (
            f"git+{URL}@{self.commit}#egg=built",
            f"built@git+{URL}@{self.commit}#subdirectory=sub",
            f"git+{URL}@{self.commit}#subdirectory=sub&egg=built ; python_version > '3'",
        ):
            with self.subTest(line=line):
                self.write_model(f"{line}\n")
                self.assertEqual(self.locked(self.pack()).names(), ["built", "limited", "numpy"])
        (self.folder / "m/requirements.txt").unlink()
        self.write(
            "m/pyproject.toml", f'[project]\nname = "it"\nversion = "1"\ndependencies = ["built @ git+{URL}@{self.commit}"]\n'
        )
        self.assertEqual(self.locked(self.pack()).names(), ["built", "limited", "numpy"])

    def test_without_permission_nothing_is_fetched(self):
        self.write_model(f"built @ git+{URL}@{self.commit}\n")
        os.environ["CARTON_ALLOW_BUILD"] = "0"
        error = self.failed(self.pack)
        self.assertIn("`built`, line 1 of requirements.txt, is built from its repository", error.message)
        self.assertIn("`carton pack --allow build`", error.hint)
        self.assertFalse(self.mark.exists())
        # A model that was not packed here builds nothing, permission or not.
        os.environ["CARTON_ALLOW_BUILD"] = "1"
        error = self.failed(lambda: environments.prepare(self.folder / "m", self.report))
        self.assertIn("not from a package index", error.message)
        self.assertFalse(self.mark.exists())

    def test_a_name_that_may_lead_elsewhere(self):
        for revision, commit in (
            ("@main", self.commit),
            ("@v1", self.commit),
            ("", self.commit),
            ("@nothing", None),
            (f"@{self.commit[:12]}", None),
        ):
            with self.subTest(revision=revision):
                self.write_model(f"built @ git+{URL}{revision}\n")
                error = self.failed(self.pack)
                self.assertIn("expected a commit", error.message)
                self.assertIn(f"`@{commit}`, which is that commit now" if commit else "the 40 digits of a commit", error.hint)
        self.assertFalse(self.mark.exists())

    def test_what_cannot_be_built(self):
        self.write_model(f"other @ git+{URL}@{self.commit}\n")
        error = self.failed(self.pack)
        self.assertIn("`other`, line 1 of requirements.txt, cannot be built", error.message)
        self.assertIn("project name built", "\n".join(error.causes))
        self.write_model(f"built @ git+{URL}@{'0' * 40}\n")
        self.assertIn("cannot be built", self.failed(self.pack).message)
        # A server without TLS, as a submodule might name, is not asked.
        os.environ["GIT_ALLOW_PROTOCOL"] = "https"
        self.write_model(f"built @ git+{URL}@{self.commit}\n")
        self.assertIn("cannot be built", self.failed(self.pack).message)
        os.environ["CARTON_OFFLINE"] = "1"
        self.assertEqual(self.failed(self.pack).code, "network")

    def test_what_is_refused(self):
        for line in (
            f"git+{URL}@{self.commit}",
            f"built @ git+https://me:canary@git.example/built@{self.commit}",
            f"built @ git+http://git.example/built@{self.commit}",
            f"built @ git+ssh://git@git.example/built@{self.commit}",
            f"built @ git+file:///built@{self.commit}",
            f"built @ git+https://git.example/--upload-pack=x@{self.commit}",
            f"built @ git+https://git.example/../x@{self.commit}",
            f"built @ git+{URL}@-x",
            f"built @ git+{URL}@{self.commit}#subdirectory=../x",
            f"built @ git+{URL}@{self.commit}#subdirectory=/x",
            f"built @ git+{URL}@{self.commit}#other=x",
            f"built @ git+{URL}@{self.commit} --hash=sha256:{'0' * 64}",
            f"built @ git+{URL}?x=y@{self.commit}",
        ):
            with self.subTest(line=line):
                self.write_model(f"{line}\n")
                self.assertIn("line 1 of requirements.txt names a repository", self.failed(self.pack).message)
        self.assertFalse(self.mark.exists())
        parsed = list(requirement_lines.parse(f"built[x] @ git+{URL}@v1#subdirectory=a/b ; os_name == 'nt'", "x"))
        self.assertEqual(parsed[0].text(), f"built @ git+{URL}@v1#subdirectory=a/b")


if __name__ == "__main__":
    unittest.main()
