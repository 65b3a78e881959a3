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


if __name__ == "__main__":
    unittest.main()
