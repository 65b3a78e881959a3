"""The runner on this interpreter, whatever packages it has: all modules can be imported, and the runner starts and ends."""

import os
import pkgutil
import subprocess
import sys
import unittest

import support
from host import Host, TIMEOUT

PACKAGE = os.path.join(os.path.dirname(support.HERE), "carton_runner")
#: Importing it would run it.
MAIN = "carton_runner.__main__"


class Start(unittest.TestCase):
    def test_every_module_can_be_imported(self):
        names = [module.name for module in pkgutil.walk_packages([PACKAGE], "carton_runner.") if module.name != MAIN]
        self.assertIn("carton_runner.serving", names)
        code = "import sys; sys.path.append(%r); import %s" % (os.path.dirname(PACKAGE), ", ".join(names))
        subprocess.run([sys.executable, "-IB", "-c", code], check=True, timeout=TIMEOUT)

    def test_it_greets_its_host_and_ends_with_it(self):
        with Host() as host:
            self.assertEqual((host.hello["protocol"], host.hello["versions"]), ("carton-runner", [2]))
            self.assertIsNone(host.process.poll())
        self.assertEqual(host.process.returncode, 0)

    def test_in_a_sandbox_multiprocessing_starts_processes_by_spawn(self):
        def run(code):
            path = "import sys; sys.path.append(%r); from carton_runner import start_method; " % os.path.dirname(PACKAGE)
            done = subprocess.run(
                [sys.executable, "-IB", "-c", path + code], stdout=subprocess.PIPE, check=True, timeout=TIMEOUT
            )
            return done.stdout.decode().split()

        later = "start_method.default_to_spawn(); assert 'multiprocessing' not in sys.modules; import multiprocessing; "
        earlier = "import multiprocessing; start_method.default_to_spawn(); "
        for start in (later, earlier):
            said = run(start + "print(multiprocessing.get_start_method(), multiprocessing.get_context().Process.__name__)")
            self.assertEqual(said, ["spawn", "SpawnProcess"])
            # A model can still choose.
            said = run(start + "multiprocessing.set_start_method('fork'); print(multiprocessing.get_start_method())")
            self.assertEqual(said, ["fork"])
        said = run(later + "import multiprocessing.pool; print(type(multiprocessing.__loader__).__name__, len(sys.meta_path))")
        self.assertEqual(said, run("import multiprocessing; print(type(multiprocessing.__loader__).__name__, len(sys.meta_path))"))


if __name__ == "__main__":
    unittest.main()
