"""Making environments, and finding or refusing those that are there, with a fake `uv`."""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path
from unittest import mock

import support  # noqa: F401, finds the host
from carton_runner import environments
from carton_runner.calls import Cancelled
from carton_runner.environments import bytecode, compiling, local_wheels, lock, requirements, store, uv, variables, wheels
from carton_runner.errors import RunnerError
from environment_case import FAKE_UV, HASH, Case, real_uv
from host import Host

PACKAGE = Path(__file__).resolve().parents[1]

#: A process that prepares a model.
PREPARE = """
import sys
sys.path.insert(0, sys.argv[1])
from carton_runner import environments
class Report:
    def info(self, text): pass
    def warn(self, text): pass
    def progress(self, what, done, total): pass
    def is_wanted(self): return True
print(environments.prepare(sys.argv[2], Report())["read"][0])
"""



class Environments(Case):
    def test_one_is_made_once(self):
        model = self.model()
        first = self.prepare(model)
        self.assertEqual(first, self.environment() / "lib/python3.0/site-packages")
        self.assertEqual(len(self.calls()), 2)
        self.assertIn(f"--python {sys.executable}", self.calls()[0])
        self.assertIn("--require-hashes", self.calls()[1])
        self.assertNotIn("--offline", self.calls()[1])
        self.assertEqual(self.prepare(model), first)
        self.assertEqual(len(self.calls()), 2)
        self.model(f"numpy==2.0.1 {HASH}\n")
        self.assertNotEqual(self.prepare(model), first)

    def test_a_model_that_asks_for_nothing_has_none(self):
        model = self.write("bare/model.py").parent
        self.assertIsNone(environments.find(model, self.report))
        self.assertEqual(environments.prepare(model, self.report), {"read": [], "in_use": []})
        self.assertEqual(self.calls(), [])

    def test_a_model_that_was_not_packed_is_locked_once_on_this_machine(self):
        self.write("bare/requirements.txt", "numpy\n")
        first = self.prepare(self.folder / "bare")
        calls = len(self.calls())
        self.assertEqual(self.prepare(self.folder / "bare"), first)
        self.assertEqual(len(self.calls()), calls)
        self.assertEqual(sorted(os.listdir(self.folder / "bare")), ["requirements.txt"])

    def test_what_is_not_prepared_is_not_made_by_a_load(self):
        self.unprepared(self.model())
        self.write("bare/requirements.txt", "numpy\n")
        self.unprepared(self.folder / "bare")
        self.assertEqual(self.calls(), [])
        self.assertFalse((self.folder / "data").exists())
        self.prepare(self.model())
        complete = self.environment() / "complete"
        complete.unlink()
        self.unprepared(self.model())
        # It exists and cannot be read, as in a process that may not.
        complete.mkdir()
        self.unprepared(self.model())

    def test_what_was_prepared_is_named(self):
        prepared = environments.prepare(self.model(), self.report)
        environment = self.environment()
        self.assertEqual(prepared, {"read": [str(environment)], "in_use": [f"{environment}.lock"]})
        self.assertTrue(Path(f"{environment}.lock").is_file())
        self.write("bare/requirements.txt", "numpy\n")
        prepared = environments.prepare(self.folder / "bare", self.report)
        # Its packages are locked by a text of this machine, which a load reads too.
        self.assertEqual(prepared["read"][0], str(environment))
        (text,) = (self.folder / "data" / store.LOCKS).glob("*.txt")
        self.assertEqual(prepared["read"][1:], [str(text)])
        text.unlink()
        self.unprepared(self.folder / "bare")

    def test_packages_are_built_only_if_that_is_allowed(self):
        self.prepare(self.model())
        self.write("m/requirements.txt", "numpy\n")
        compiling.compile_lock(requirements.Inputs.of(self.folder / "m"), self.report)
        self.assertIn("--no-build", self.calls()[1])
        self.assertIn("--no-build", self.calls()[2])
        os.environ.update(CARTON_ALLOW_BUILD="1", UV_NO_BINARY_PACKAGE="numpy")
        self.prepare(self.model(f"numpy==2.0.1 {HASH}\n"))
        compiling.compile_lock(requirements.Inputs.of(self.folder / "m"), self.report)
        self.assertEqual([call for call in self.calls()[3:] if "--no-build" in call], [])
        self.assertEqual(variables.of_uv()["UV_NO_BINARY_PACKAGE"], "numpy")
        # uv builds such a package even if it is told to build none.
        del os.environ["CARTON_ALLOW_BUILD"]
        self.assertNotIn("UV_NO_BINARY_PACKAGE", variables.of_uv())

    def test_requirements_do_not_allow_building(self):
        for line in ("--no-binary numpy", "--no-binary=:all:", "  --no-binary numpy", "\\\n--no-binary numpy", "--no-binary x,numpy"):
            with self.subTest(line=line):
                for name in ("more.txt", "-x.txt"):
                    self.write("m/more.txt", f"{line}\n" if name == "more.txt" else "")
                    self.write("m/-x.txt", f"{line}\r" if name == "-x.txt" else "")
                    self.write("m/requirements.txt", "numpy\n-r 'more.txt'\r\n-r-x.txt\n")
                    inputs = requirements.Inputs.of(self.folder / "m")
                    with self.assertRaises(RunnerError) as caught:
                        compiling.compile_lock(inputs, self.report)
                    self.assertEqual(caught.exception.code, "setup")
                    self.assertIn("allow building packages from source", caught.exception.hint)
        self.assertEqual(self.calls(), [])
        os.environ["CARTON_ALLOW_BUILD"] = "1"
        compiling.compile_lock(inputs, self.report)
        self.assertIn("--no-binary x --no-binary numpy", self.calls()[0])
        # A comment allows nothing.
        del os.environ["CARTON_ALLOW_BUILD"]
        self.write("m/requirements.txt", "# --no-binary numpy\nnumpy\n--no-binary :none:\n--only-binary :all:\n")
        compiling.compile_lock(requirements.Inputs.of(self.folder / "m"), self.report)
        self.assertNotIn("-binary", self.calls()[1])

    def test_a_package_without_a_wheel(self):
        said = "error: No solution found\\nhint: Wheels are required for `x` because building from source is disabled"
        self.fake(fails=said)
        with self.assertRaises(RunnerError) as caught:
            self.prepare(self.model())
        self.assertIn("a package has no wheel for this platform", caught.exception.message)
        self.assertIn("allow building packages from source", caught.exception.hint)
        self.write("m/requirements.txt", "x\n")
        with self.assertRaises(RunnerError) as caught:
            compiling.compile_lock(requirements.Inputs.of(self.folder / "m"), self.report)
        self.assertEqual(caught.exception.code, "setup")
        self.assertIn("allow building packages from source", caught.exception.hint)

    def test_uv_and_pip_write_to_no_cache_of_the_user(self):
        for name in ("UV_CACHE_DIR", "UV_TOOL_DIR", "UV_PYTHON_INSTALL_DIR", "PIP_CACHE_DIR", "PIP_LOG", "PIP_REPORT"):
            os.environ[name] = str(self.folder / "the user's own")
        os.environ.update(UV_LINK_MODE="symlink", UV_NO_CACHE="1")
        self.prepare(self.model())
        seen = self.seen("environment")
        self.assertIn(f"UV_CACHE_DIR={self.folder}/data/python/uv-cache\n", seen)
        self.assertIn("UV_LINK_MODE=hardlink\n", seen)
        for found in (seen, repr(variables.of_uv()), repr(variables.of_pip())):
            self.assertNotIn("own", found)
            self.assertNotIn("UV_NO_CACHE", found)
        self.assertEqual(variables.of_pip()["UV_CACHE_DIR"], f"{self.folder}/data/python/uv-cache")
        self.assertEqual(variables.of_pip()["PIP_NO_CACHE_DIR"], "1")

    def test_uv_gets_what_is_named_and_nothing_else(self):
        passed = {
            "UV_INDEX_COMPANY_PASSWORD": "a",
            "UV_INDEX": "company=https://index.example/simple",
            "UV_CONFIG_FILE": "/c.toml",
            "NETRC": "/n",
            "https_proxy": "http://proxy.example",
            "LC_ALL": "C",
        }
        others = ("CARTON_KEY_PASSWORD", "CARTON_TOKEN_x", "MYSECRET", "UV_PUBLISH_TOKEN", "UV_ENV_FILE", "UV_LATER_OPTION", "PIP_INDEX_URL")
        os.environ.update(passed)
        os.environ.update((name, "no") for name in others)
        found = variables.of_uv()
        self.assertEqual({name: found.get(name) for name in passed}, passed)
        self.assertEqual([name for name in others if name in found], [])
        self.assertEqual([name for name in others if name in variables.of_pip()], ["PIP_INDEX_URL"])
        # Compilers may need any variable, but not those of the host.
        os.environ.update(CARTON_ALLOW_BUILD="1", UV_NO_BINARY="1", PIP_NO_BINARY="x")
        found = variables.of_uv()
        self.assertEqual([name for name in others if name in found], ["MYSECRET"])
        self.assertIn("UV_NO_BINARY", found)
        self.assertIn("PIP_NO_BINARY", variables.of_pip())

    def test_passwords_are_not_shown(self):
        # uv shows the URLs that packages depend on, with the values of variables.
        os.environ.update(UV_INDEX_X_PASSWORD="hunter 2/", HTTPS_PROXY="http://me:proxy-password@proxy.example")
        self.fake(fails="Consider adding http://evil.example/hunter%202/x.whl, hunter%202%2F, hunter 2/, proxy-password", takes="0")
        with self.assertRaises(RunnerError) as caught:
            self.prepare(self.model())
        self.assertEqual(caught.exception.causes[-1], "Consider adding http://evil.example/***x.whl, ***, ***, ***")

    def test_uv_runs_in_a_folder_of_ours(self):
        # Of the folders of the model and of those above, uv would read the configuration.
        self.write("m/requirements.txt", "numpy\n")
        with mock.patch.object(uv.programs, "run", wraps=uv.programs.run) as run:
            self.prepare(self.model())
            compiling.compile_lock(requirements.Inputs.of(self.folder / "m"), self.report)
        folders = {Path(call.args[1]) for call in run.call_args_list if "--version" not in call.args[0]}
        self.assertEqual(len(folders), 2)
        for folder in folders:
            self.assertTrue(folder.name.startswith("carton-uv-"), folder)
            self.assertFalse(folder.exists())

    def test_modules_are_compiled_and_not_run(self):
        self.write("packages/one.py", f"open({str(self.folder / 'ran')!r}, 'w')\n")
        self.write("packages/sub/two.py", "x = 1\n")
        self.write("packages/python2.py", "print 1\n")
        self.write("packages/zeros.py", "\0")
        command = bytecode.command(self.folder / "packages")
        subprocess.run(command, check=True, timeout=60, env=variables.of("python"))
        tag = sys.implementation.cache_tag
        made = sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*.pyc"))
        expected = [f"packages/__pycache__/one.{tag}.pyc", f"packages/sub/__pycache__/two.{tag}.pyc"]
        self.assertEqual(made, expected)
        self.assertFalse((self.folder / "ran").exists())

    def test_what_would_turn_off_the_checks_does_not_reach_uv(self):
        os.environ.update(UV_NO_VERIFY_HASHES="1", UV_SYSTEM_PYTHON="1", UV_INDEX_URL="https://index.example/simple")
        self.prepare(self.model())
        seen = self.seen("environment")
        self.assertNotIn("UV_NO_VERIFY_HASHES", seen)
        self.assertNotIn("UV_SYSTEM_PYTHON", seen)
        self.assertIn("UV_INDEX_URL=https://index.example/simple", seen)

    def test_offline(self):
        os.environ["CARTON_OFFLINE"] = "1"
        self.prepare(self.model())
        self.assertIn("--offline", self.calls()[1])
        self.fake(fails="error: No solution found when resolving dependencies")
        with self.assertRaises(RunnerError) as caught:
            self.prepare(self.model(f"numpy==9 {HASH}\n"))
        self.assertEqual(caught.exception.code, "network")
        self.assertIn("the network must not be used", caught.exception.message)
        self.assertIn("--bundle-wheels", caught.exception.hint)

    def test_wheels_of_the_model_need_no_network(self):
        model = self.model()
        fields = {"platform": store.platform_tag()}
        wheel = lock.Requirement("numpy", "", "2.0.0", "", ("--hash=sha256:" + "2" * 64,))
        self.write("model/.carton/wheels.lock", lock.Lock(fields, (wheel,)).text("wheels"))
        self.prepare(model)
        for option in ("--offline", "--no-index", "--no-build", f"--find-links {model.resolve()}/.carton/wheels"):
            self.assertIn(option, self.calls()[1])
        self.assertIn("2" * 64, (self.environment() / "requirements.txt").read_text())

    def test_wheels_for_another_platform_are_left_alone(self):
        model = self.model()
        self.write("model/.carton/wheels.lock", f"# platform: elsewhere\nnumpy==2.0.0 {HASH}\n")
        self.prepare(model)
        self.assertNotIn("--no-index", self.calls()[1])

    def test_a_lock_for_another_python(self):
        with self.assertRaises(RunnerError) as caught:
            self.prepare(self.model(f"# python: 3.1\nnumpy==2.0.0 {HASH}\n"))
        self.assertIn("locked for Python 3.1", caught.exception.message)
        self.assertIn("`carton runner install python --python 3.1`", caught.exception.hint)

    def test_no_uv(self):
        os.environ.update(UV=str(self.folder / "nothing"), PATH="", HOME=str(self.folder))
        try:
            uv.find(self.report)
        except RunnerError as error:
            self.assertEqual(error.code, "unavailable")
            self.assertIn("pip install uv", error.hint)
        else:
            self.skipTest("this interpreter has uv itself")

    def test_uv_where_its_installer_puts_it(self):
        os.environ.update(UV=str(self.folder / "nothing"), PATH="", HOME=str(self.folder))
        for place in (".cargo/bin/uv", ".local/bin/uv"):
            self.write(place, FAKE_UV).chmod(0o755)
            self.assertEqual(uv.find(self.report).command, (str(self.folder / place),))
        # A candidate that does not work is skipped.
        self.write(".local/bin/uv", "#!/bin/sh\necho pyenv: no uv >&2; exit 127\n")
        self.assertEqual(uv.find(self.report).command, (str(self.folder / ".cargo/bin/uv"),))

    def test_uv_where_carton_puts_it(self):
        data = self.folder / "data"
        os.environ["CARTON_RUNNER_DATA_DIR"] = str(data)
        # The newest by its numbers, and nothing of an installation in progress.
        for place in ("0.9.7/uv", "0.13.9/uv", ".install-9/uv"):
            self.write(f"data/uv/{place}", FAKE_UV).chmod(0o755)
        # Not by `find`, because the interpreter of this test may have a uv beside it.
        expected = [(str(data / "uv/0.13.9/uv"),), (str(data / "uv/0.9.7/uv"),)]
        self.assertEqual(list(uv._installed_by_carton()), expected)
        (data / "uv/0.13.9/uv").chmod(0o644)
        self.assertEqual(list(uv._installed_by_carton()), expected[1:])

    def test_a_uv_that_does_not_answer(self):
        os.environ.update(UV=str(self.folder / "nothing"), PATH="", HOME=str(self.folder))
        self.write(".local/bin/uv", "#!/bin/sh\nexec /bin/sleep 60\n").chmod(0o755)
        self.write(".cargo/bin/uv", FAKE_UV).chmod(0o755)
        started = time.monotonic()
        with mock.patch.object(uv, "_PATIENCE", 0.3):
            self.assertEqual(uv.find(self.report).command, (str(self.folder / ".cargo/bin/uv"),))
        self.report.is_wanted = lambda: time.monotonic() < started + 1
        with self.assertRaises(Cancelled):
            while True:
                uv.find(self.report)
        self.assertLess(time.monotonic() - started, 30)

    def test_errors_say_what_is_wrong(self):
        def check(said, expected, code):
            self.fake(fails=said)
            with self.assertRaises(RunnerError) as caught:
                self.prepare(self.model())
            self.assertIn(expected, caught.exception.message)
            self.assertEqual(caught.exception.code, code)
            self.assertEqual(caught.exception.causes[-1], said.split("\\n")[-1])
            # Nothing unfinished is left behind.
            folders = [path for path in (self.folder / "data" / store.FOLDER).iterdir() if path.is_dir()]
            self.assertEqual(folders, [])

        check("error: Hash mismatch for `numpy`", "its hash differs", "failed")
        check("error: Failed to fetch: `https://x`\\n  Caused by: dns error", "cannot be fetched", "network")
        check("  x No solution found when resolving dependencies", "no such versions in the package index", "failed")
        check(
            "  x No solution found\\n  x was not found in the package registry", "is not in the package index", "failed"
        )
        check("error: write: No space left on device (os error 28)", "the disk is full", "setup")
        check("x has no wheels with a matching Python ABI tag (e.g., `cp39`)", "no wheel for this platform", "failed")
        check("something else", "uv failed", "failed")


def _wheel(path, name, **files):
    """Writes the wheel of version 1.0 of a package."""
    with zipfile.ZipFile(path, "w") as file:
        for inner, text in files.items():
            file.writestr(inner.replace("__dot__", "."), text)
        info = f"{name}-1.0.dist-info"
        file.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{info}/RECORD", "".join(f"{inner.replace('__dot__', '.')},,\n" for inner in files))


class RealUv(Case):
    """With a real uv, and packages of a folder: whether making an environment runs anything of them."""

    def setUp(self):
        super().setUp()
        found = real_uv()
        if found is None:
            self.skipTest("there is no uv")
        index = self.folder / "index"
        index.mkdir()
        os.environ.update(UV=found, UV_FIND_LINKS=str(index), CARTON_OFFLINE="1")
        self.ran = self.folder / "ran"
        runs = f"open({str(self.ran)!r}, 'w').close()"
        _wheel(index / "calm-1.0-py3-none-any.whl", "calm", calm__dot__py="x = 1\n", calm__dot__pth=f"import os; {runs}\n")
        self.write("source/built-1.0/setup.py", f"{runs}\nfrom setuptools import setup\nsetup(name='built', version='1.0')\n")
        self.write("source/built-1.0/PKG-INFO", "Metadata-Version: 1.1\nName: built\nVersion: 1.0\n")
        with tarfile.open(index / "built-1.0.tar.gz", "w:gz") as archive:
            archive.add(self.folder / "source/built-1.0", "built-1.0")

    def lock_of(self, name):
        (path,) = (self.folder / "index").glob(f"{name}-*")
        return f"{name}==1.0 --hash=sha256:{local_wheels.digest(path)}\n"

    def test_a_wheel_is_installed_and_compiled(self):
        packages = self.prepare(self.model(self.lock_of("calm")))
        self.assertTrue((packages / "calm.py").exists())
        self.assertTrue(list((packages / "__pycache__").glob("calm.*.pyc")))
        self.assertFalse(self.ran.exists())
        self.assertTrue((self.folder / "data/python/uv-cache").is_dir())

    def test_nothing_is_built(self):
        with self.assertRaises(RunnerError) as caught:
            self.prepare(self.model(self.lock_of("built")))
        self.assertIn("has no wheel", caught.exception.message)
        self.assertIn("allow building packages from source", caught.exception.hint)
        # `numpy`, which every lock has, is not in the folder.
        self.write("m/requirements.txt", "built\n")
        with self.assertRaises(RunnerError) as caught:
            compiling.compile_lock(requirements.Inputs.of(self.folder / "m"), self.report)
        self.assertFalse(self.ran.exists())


class Processes(Case):
    def start(self):
        return subprocess.Popen(
            [sys.executable, "-IB", "-c", PREPARE, str(PACKAGE), str(self.folder / "model")],
            env=dict(os.environ),
            stdout=subprocess.PIPE,
            start_new_session=True,
        )

    def test_eight_at_once_make_one(self):
        self.model()
        self.fake(takes="0.5")
        processes = [self.start() for _ in range(8)]
        said = {process.communicate(timeout=60)[0] for process in processes}
        self.assertEqual([process.returncode for process in processes], [0] * 8)
        self.assertEqual(len(said), 1)
        self.assertEqual(len(self.calls()), 2)

    def wait_for(self, path):
        end = time.monotonic() + 30
        while not list((self.folder / "data").glob(f"{store.FOLDER}/*/{path}")):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)

    def test_what_a_kill_left_is_made_anew(self):
        self.model()
        self.fake(takes="60")
        killed = self.start()
        self.wait_for("half")
        os.killpg(killed.pid, signal.SIGKILL)
        killed.communicate()
        self.assertFalse((self.environment() / "complete").exists())
        self.fake(takes="0")
        again = self.start()
        again.communicate(timeout=30)
        self.assertEqual(again.returncode, 0)
        self.assertTrue((self.environment() / "whole").exists())
        self.assertTrue((self.environment() / "complete").exists())

    def test_nobody_begins_while_a_uv_still_writes_whose_runner_is_dead(self):
        self.model()
        self.fake(takes="1.5")
        killed = self.start()
        self.wait_for("half")
        os.kill(killed.pid, signal.SIGKILL)
        begun = time.monotonic()
        self.fake(takes="0")
        again = self.start()
        again.communicate(timeout=30)
        self.assertEqual(again.returncode, 0)
        self.assertGreater(time.monotonic() - begun, 0.8)
        self.assertEqual(len(self.calls()), 4)
        killed.communicate()


    def send_prepare(self, host):
        host.send({"prepare": host.request(self.folder / "model")}, 7)

    def test_a_preparation_that_is_cancelled_ends_uv_and_what_it_started(self):
        self.model()
        # Hosts start a runner as the leader of a process group.
        self.fake(takes="600")
        with Host(env=dict(os.environ), start_new_session=True) as host:
            self.send_prepare(host)
            self.wait_for("half")
            begun = time.monotonic()
            host.send({"cancel": {}}, 7)
            name, fields, _ = host.answer(7)
            self.assertEqual((name, fields["code"]), ("error", "cancelled"))
            self.assertLess(time.monotonic() - begun, 10)
            # uv and its children held the lock too.
            (path,) = (self.folder / "data" / store.FOLDER).glob("*.lock")
            with open(path) as file:
                while True:
                    try:
                        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        break
                    except BlockingIOError:
                        self.assertLess(time.monotonic() - begun, 10)
                        time.sleep(0.01)
            self.assertEqual([path for path in (self.folder / "data" / store.FOLDER).iterdir() if path.is_dir()], [])
            # The runner itself lives on.
            self.assertEqual(host.call({"ping": {}})[0], "pong")

    def lock_of(self, model):
        key = store.Wanted(lock.read(model / lock.REQUIREMENTS_LOCK).lines()).key()
        return self.folder / "data" / store.FOLDER / f"{key}.lock"

    def test_what_was_prepared_is_locked_until_the_process_ends(self):
        place = self.lock_of(self.model())
        for _ in range(2):
            with Host(env=dict(os.environ), start_new_session=True) as host:
                _, prepared, _ = host.prepare(self.folder / "model")
                self.assertEqual(prepared["in_use"], [str(place)])
                with open(place) as file:
                    with self.assertRaises(BlockingIOError):
                        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    # The host takes its own lock meanwhile.
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                self.assertLess(time.time() - place.stat().st_mtime, 60)
            os.utime(place, (0, 0))
            with open(place) as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # A process that loads the model takes no lock, and writes nothing.
        self.write("model/main.py", "def f(): return {}")
        with Host(env=dict(os.environ)) as host:
            host.load(self.folder / "model", {"infer_fn": "f"})
            with open(place) as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.assertEqual(place.stat().st_mtime, 0)
        # As `carton runner prune` does it: the lock is deleted last.
        with open(place) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            waiting = self.start()
            time.sleep(0.5)
            shutil.rmtree(self.environment())
            place.unlink()
        self.assertEqual((waiting.communicate(timeout=30)[1], waiting.returncode), (None, 0))
        self.assertTrue((self.environment() / "complete").exists())
        self.assertTrue(place.exists())

    def test_a_preparation_that_is_cancelled_waits_for_nobody(self):
        path = self.lock_of(self.model())
        self.write(path)
        with open(path) as file, Host(env=dict(os.environ), start_new_session=True) as host:
            fcntl.flock(file, fcntl.LOCK_EX)
            self.send_prepare(host)
            self.assertIn("waiting for another process", host.read()[0]["message"]["log"]["message"])
            host.send({"cancel": {}}, 7)
            name, fields, _ = host.answer(7)
            self.assertEqual((name, fields["code"]), ("error", "cancelled"))


if __name__ == "__main__":
    unittest.main()
