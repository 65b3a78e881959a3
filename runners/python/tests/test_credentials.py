"""Credentials of package indexes are for the process that makes environments, which never runs a model. The host gives them to no other
process."""

import os
import unittest
from pathlib import Path

import support
from host import Host, prepared
from environment_case import Case

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


#: Names of variables that are not set for a process that loads a model.
PATTERNS = ("UV", "PIP_", "NETRC", "HTTPS_PROXY")


class Credentials(Case):
    def with_credentials(self, **variables):
        return {**os.environ, **VARIABLES, **variables}

    def without_credentials(self, **variables):
        clean = {name: value for name, value in os.environ.items() if not name.startswith(PATTERNS)}
        return {**clean, **variables}

    def pack(self, host):
        self.write("m/main.py", "def f(): pass\n")
        scratch = self.folder / "scratch"
        scratch.mkdir(exist_ok=True)
        return host.call({"pack": {"path": str(self.folder / "m"), "scratch": str(scratch), "options": {"infer_fn": "f"}}})

    def refused(self, answer, expected):
        self.assertEqual(answer[0], "error", answer)
        self.assertIn(expected, answer[1]["message"])

    @support.needs_numpy
    @support.needs_linux
    def test_a_model_finds_none(self):
        import numpy

        model = self.model()
        self.write("model/main.py", LOOKS.replace("SECRET", HIDDEN, 1))
        with Host(env=self.without_credentials(), start_new_session=True) as host:
            self.assertEqual(host.load(model, {"infer_fn": "f"})[1]["code"], "unprepared")
        packages = str(Path(numpy.__file__).parents[1])
        self.fake(packages=packages)
        name, fields, _ = prepared(model, env=self.with_credentials())
        self.assertEqual(name, "prepared", fields)
        # uv got them.
        seen = (self.folder / "fake/environment").read_text()
        self.assertIn(VARIABLES["UV_INDEX_URL"], seen)
        self.assertIn(f"NETRC={VARIABLES['NETRC']}", seen)
        with Host(env=self.without_credentials(), start_new_session=True) as host:
            self.assertEqual(host.load(model, {"infer_fn": "f"})[0], "loaded", host.printed())
            found = host.outputs(*host.call({"infer": {"inputs": []}}))
            values = {name: data for name, (_, _, data) in found.items()}
        # A string of rank 0: its two offsets, then the text.
        self.assertEqual(values["found"][16:], b"")
        self.assertEqual(values["names"][16:], b"")
        self.assertEqual(int.from_bytes(values["n_sockets"], "little"), 1)
        self.assertGreater(int.from_bytes(values["n_seen"], "little"), 10)

    @support.needs_numpy
    def test_variables_that_a_host_passes_by_mistake_are_removed(self):
        self.write("model/main.py", LOOKS.replace("SECRET", HIDDEN, 1))
        with Host(env=self.with_credentials(), start_new_session=True) as host:
            self.assertEqual(host.load(self.folder / "model", {"infer_fn": "f"})[0], "loaded", host.printed())
            found = host.outputs(*host.call({"infer": {"inputs": []}}))
        self.assertEqual(found["names"][2][16:], b"")
        self.assertNotIn(b"os.environ", found["found"][2])

    def test_what_was_asked_for_is_still_there_for_a_second_attempt(self):
        model = self.model()
        self.fake(fails="error: dns error")
        with Host(env=self.with_credentials(), start_new_session=True) as host:
            for _ in range(2):
                self.assertEqual(host.prepare(model)[1]["code"], "network")
        self.assertEqual(len(self.calls()), 2)
        self.assertIn(SECRET, (self.folder / "fake/environment").read_text())

    def test_packing_has_them(self):
        with Host(env=self.with_credentials(), start_new_session=True) as host:
            name, packed, _ = self.pack(host)
            self.assertEqual(name, "packed", packed)
        self.assertIn(SECRET, (self.folder / "fake/environment").read_text())

    def test_a_process_that_has_prepared_or_packed_loads_nothing(self):
        model = self.model()
        self.write("model/main.py", f"open({str(self.folder / 'ran')!r}, 'w')\ndef f(): return {{}}\n")
        with Host(env=self.with_credentials(), start_new_session=True) as host:
            self.assertEqual(host.prepare(model)[0], "prepared")
            self.assertEqual(host.prepare(model)[0], "prepared")
            self.refused(host.load(model, {"infer_fn": "f"}), "has prepared or packed a model, and loads none")
        with Host(env=self.with_credentials(), start_new_session=True) as host:
            self.assertEqual(self.pack(host)[0], "packed")
            self.refused(host.load(model, {"infer_fn": "f"}), "has prepared or packed a model, and loads none")
        self.assertFalse((self.folder / "ran").exists())

    def test_a_process_that_has_run_a_model_prepares_nothing(self):
        model = self.model()
        self.write("failing/main.py", "raise ValueError\n")
        with Host(env=self.with_credentials(), start_new_session=True) as host:
            self.assertEqual(host.load(self.folder / "failing", {"infer_fn": "f"})[0], "error")
            self.refused(host.prepare(model), "has run a model, and prepares none")
            self.refused(self.pack(host), "has run a model, and prepares none")
        self.assertEqual(self.calls(), [])


if __name__ == "__main__":
    unittest.main()
