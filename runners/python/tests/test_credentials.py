"""Credentials of package indexes reach the programs that make environments, and not the process that runs the model."""

import os
import socket
import sys
import unittest
from pathlib import Path

import support
from carton_runner import keeper
from carton_runner.errors import RunnerError
from host import Host
from test_environments import Case

#: Searches everything that a process can read without special rights.
LOOKS = r'''
import os

def f():
    seen = {"os.environ": repr(os.environ).encode()}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/stat" % pid) as file:
                fields = file.read().rpartition(")")[2].split()
            # The processes of the runner: its group, without the host.
            if int(fields[2]) == os.getpgrp() or int(pid) == os.getpid() or int(fields[1]) == os.getpid():
                with open("/proc/%s/environ" % pid, "rb") as file:
                    seen["environ of %s" % pid] = file.read()
        except OSError:
            pass
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
        for line in maps:
            place, rights, *_ = line.split()
            start, end = (int(part, 16) for part in place.split("-"))
            if rights.startswith("rw") and end - start < 1 << 28 and "[v" not in line:
                try:
                    memory.seek(start)
                    seen["memory at " + place] = memory.read(end - start)
                except OSError:
                    pass
    # Assembled from parts, so that the search does not find its own text.
    secret = bytes(byte ^ 1 for byte in SECRET)
    found = [where for where, data in seen.items() if data.count(secret) > 0]
    sockets = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            if os.readlink("/proc/self/fd/" + fd).startswith("socket:"):
                sockets.append(fd)
        except OSError:
            pass
    names = [name for name in os.environ if name.startswith(("UV_", "PIP_", "NETRC"))]
    return {"found": "\n".join(found), "names": "\n".join(names), "n_sockets": len(sockets), "n_seen": len(seen)}
'''

#: The value of the variables, and the form in which the model has it.
SECRET = "hunter2-of-the-index"
HIDDEN = repr(bytes(byte ^ 1 for byte in SECRET.encode()))
VARIABLES = {
    "UV_INDEX_URL": f"https://me:{SECRET}@index.example/simple",
    "PIP_INDEX_URL": f"https://me:{SECRET}@index.example/simple",
    "NETRC": f"/home/me/{SECRET}",
    "HTTPS_PROXY": f"http://me:{SECRET}@proxy.example",
}


@support.needs_numpy
@support.needs_linux
class Credentials(Case):
    def values(self, host):
        answer = host.call({"infer": {"inputs": []}})
        self.assertEqual(answer[0], "inferred", answer)
        found = host.outputs(*answer)
        return {name: data for name, (_, _, data) in found.items()}

    def check(self, host):
        values = self.values(host)
        # A string of rank 0: its two offsets, then the text.
        self.assertEqual(values["found"][16:], b"")
        self.assertEqual(values["names"][16:], b"")
        self.assertEqual(int.from_bytes(values["n_sockets"], "little"), 1)
        self.assertGreater(int.from_bytes(values["n_seen"], "little"), 10)

    def host(self, **variables):
        return Host(env={**os.environ, **VARIABLES, **variables}, start_new_session=True)

    def test_a_model_finds_none_where_an_environment_was_made(self):
        import numpy

        model = self.model()
        self.write("model/main.py", LOOKS.replace("SECRET", HIDDEN, 1))
        with self.host(FAKE_PACKAGES=str(Path(numpy.__file__).parents[1])) as host:
            loaded = host.load(model, {"infer_fn": "f"})
            self.assertEqual(loaded[0], "loaded", (loaded, host.printed()))
            self.check(host)
        # uv got them.
        seen = (self.folder / "fake/environment").read_text()
        self.assertIn(VARIABLES["UV_INDEX_URL"], seen)
        self.assertIn(f"NETRC={VARIABLES['NETRC']}", seen)

    def test_a_model_finds_none_where_none_was_to_be_made(self):
        self.write("model/main.py", LOOKS.replace("SECRET", HIDDEN, 1))
        with self.host() as host:
            self.assertEqual(host.load(self.folder / "model", {"infer_fn": "f"})[0], "loaded")
            self.check(host)

    def test_what_was_asked_for_is_still_there_for_a_second_attempt(self):
        model = self.model()
        with self.host(FAKE_FAILS="error: dns error") as host:
            for _ in range(2):
                self.assertEqual(host.load(model, {"infer_fn": "f"})[1]["code"], "network")
        self.assertEqual(len(self.calls()), 2)

    def test_packing_has_them(self):
        self.write("m/main.py", "def f(): pass\n")
        scratch = self.folder / "scratch"
        scratch.mkdir()
        with self.host() as host:
            fields = {"path": str(self.folder / "m"), "scratch": str(scratch), "options": {"infer_fn": "f"}}
            fields["inputs"] = [{"name": "x", "dtype": "float32", "shape": []}]
            name, packed, _ = host.call({"pack": fields})
            self.assertEqual(name, "packed", packed)
            self.assertEqual(len(packed["mismatches"]), 1)
        self.assertIn(SECRET, (self.folder / "fake/environment").read_text())

    def test_without_credentials_the_process_is_started_once(self):
        clean = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
        self.write("model/main.py", "def f(): return {}")
        with Host(env=clean) as host:
            host.load(self.folder / "model", {"infer_fn": "f"})
            environ = Path(f"/proc/{host.process.pid}/environ").read_bytes()
            self.assertNotIn(b"CARTON_PYTHON_KEEPER", environ)
        with self.host() as host:
            environ = Path(f"/proc/{host.process.pid}/environ").read_bytes()
            self.assertIn(b"CARTON_PYTHON_KEEPER", environ)
            self.assertNotIn(SECRET.encode(), environ)


class Keeping(unittest.TestCase):
    def test_what_the_keeper_cannot_do_is_said(self):
        ours, theirs = socket.socketpair()
        process = os.fork()
        if process == 0:
            try:
                ours.close()
                keeper.serve(theirs)
            finally:
                os._exit(0)
        theirs.close()
        kept = keeper.Keeper(ours, process)
        try:
            with self.assertRaisesRegex(OSError, "no-such-program"):
                kept.start(["/no-such-program"], "/", "uv", 2, ())
            # There is no program to end, or to wait for.
            for ask in (keeper._Program(kept).kill, keeper._Program(kept).wait):
                with self.assertRaises(RunnerError) as caught:
                    ask()
                self.assertIn("has no attribute", caught.exception.causes[0])
            program = kept.start([sys.executable, "-c", "raise SystemExit(3)"], "/", "uv", 2, ())
            self.assertEqual(program.wait(), 3)
        finally:
            kept.end()


if __name__ == "__main__":
    unittest.main()
