"""The GPUs that a model sees, and devices that cannot be used."""

import os
import shutil
import subprocess
import tempfile
import time
import unittest
from unittest import mock

import support
from carton_runner import devices
from carton_runner.calls import Cancelled
from carton_runner.errors import RunnerError
from host import Host

#: The file that NVIDIA's driver creates for its first GPU.
HAS_GPU = os.path.exists("/dev/nvidia0")


class Devices(unittest.TestCase):
    def shown(self, device, given):
        with mock.patch.object(devices, "_GIVEN", given):
            return devices._shown(device)

    def test_an_index_counts_the_gpus_that_are_visible(self):
        self.assertEqual(self.shown("1", None), "1")
        self.assertEqual(self.shown("1", "2, GPU-5a"), "GPU-5a")
        self.assertEqual(self.shown("GPU-1b", "2"), "GPU-1b")
        self.assertEqual(self.shown("MIG-GPU-1b/2/0", "2"), "MIG-GPU-1b/2/0")
        for device, given, n_gpus in (("2", "2,3", 2), ("0", "", 0)):
            with self.assertRaisesRegex(RunnerError, f"`{device}` is not there: CUDA_VISIBLE_DEVICES shows {n_gpus} GPUs"):
                self.shown(device, given)

    def test_what_names_no_device(self):
        for device in ("foo", "", "-1", "cuda:0", "1e3", "٣", "9" * 5000, "GPU-", "GPU-1,2", "CPU"):
            with self.subTest(device=device[:10]):
                with self.assertRaises(RunnerError) as caught:
                    devices.choose(device, lambda: True)
                self.assertIn("names no device: expected `cpu`", caught.exception.message)
                self.assertEqual(caught.exception.code, "unavailable")

    def test_no_device_and_the_cpu(self):
        for given in ("before", "", None):
            with mock.patch.dict(os.environ), mock.patch.object(devices, "_GIVEN", given):
                devices.choose("cpu", lambda: True)
                self.assertEqual(os.environ["CUDA_VISIBLE_DEVICES"], "")
                # A load that failed leaves nothing behind.
                devices.choose(None, lambda: True)
                self.assertEqual(os.environ.get("CUDA_VISIBLE_DEVICES"), given)

    def test_without_nvidias_driver(self):
        with tempfile.NamedTemporaryFile() as there, mock.patch.object(devices, "_DRIVER", "libcuda-that-is-nowhere.so"):
            with mock.patch.object(devices, "_OF_AMD", there.name):
                self.assertIsNone(devices._problem("0", lambda: True))
            with mock.patch.object(devices, "_OF_AMD", there.name + "-not"):
                self.assertIn("libcuda-that-is-nowhere.so", devices._problem("0", lambda: True))

    def test_a_driver_that_does_not_answer(self):
        with mock.patch.object(devices, "_ASK", "import time; time.sleep(60)"):
            started = time.monotonic()
            with self.assertRaises(Cancelled):
                devices._problem("0", lambda: False)
            with mock.patch.object(devices, "_PATIENCE", 0.3):
                self.assertIn("timed out after 0.3 seconds", devices._problem("0", lambda: True))
            self.assertLess(time.monotonic() - started, 30)


#: A substitute driver with two GPUs that interprets ``CUDA_VISIBLE_DEVICES`` as NVIDIA's does. Its answers are those that the
#: interface of CUDA's driver specifies for such a machine.
DRIVER = r"""
#include <stdlib.h>
#include <string.h>
static int count;
int cuInit(unsigned flags) {
    const char *shown = getenv("CUDA_VISIBLE_DEVICES");
    if (!shown) count = 2;
    else if (!strcmp(shown, "0") || !strcmp(shown, "1") || !strcmp(shown, "GPU-5a")) count = 1;
    else return shown[0] == '7' ? 999 : 100;
    return 0;
}
int cuDeviceGetCount(int *n) { *n = count; return 0; }
"""


@unittest.skipUnless(shutil.which("cc"), "there is no C compiler to make a driver with")
class Driver(unittest.TestCase):
    def test_what_the_driver_says(self):
        with tempfile.TemporaryDirectory() as folder:
            command = ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", os.path.join(folder, "libcuda.so.1")]
            subprocess.run(command, input=DRIVER.encode(), check=True)
            variables = {"LD_LIBRARY_PATH": folder, "CUDA_VISIBLE_DEVICES": "before"}
            with mock.patch.dict(os.environ, variables), mock.patch.object(devices, "_GIVEN", None):
                for device in ("0", "1", "GPU-5a"):
                    devices.choose(device, lambda: True)
                    self.assertEqual(os.environ["CUDA_VISIBLE_DEVICES"], device)
                for device, reason in (("2", "it lists no such GPU"), ("GPU-6", "it lists no such GPU"), ("7", "error 999")):
                    with self.assertRaises(RunnerError) as caught:
                        devices.choose(device, lambda: True)
                    self.assertEqual(caught.exception.causes, (f"the driver of NVIDIA's GPUs says: {reason}",))
                # The GPUs that were shown before stay visible.
                self.assertEqual(os.environ["CUDA_VISIBLE_DEVICES"], "GPU-5a")


@support.needs_numpy
class Loading(support.ModelTest):
    def load(self, device):
        self.write("main.py", "import os\ndef f(): return {'seen': os.environ['CUDA_VISIBLE_DEVICES']}")
        with Host() as host:
            loaded = host.load(self.folder, {"infer_fn": "f"}, device=device)
            return loaded, host.call({"infer": {"inputs": []}}) if loaded[0] == "loaded" else None

    @unittest.skipIf(os.path.exists(devices._OF_AMD), "with GPUs of AMD only frameworks know which there are")
    def test_a_gpu_that_is_not_there(self):
        for device in ("99", "GPU-00000000-0000-0000-0000-000000000000"):
            fields = self.error(self.load(device)[0], f"device `{device}` cannot be used", "NVIDIA", "use the device `cpu`")
            self.assertEqual(fields["code"], "unavailable")

    def test_the_first_gpu(self):
        loaded, answer = self.load("0")
        if HAS_GPU:
            self.assertEqual(loaded[0], "loaded", loaded)
            self.assertTrue(answer[2].endswith(b"0"), answer)
        else:
            self.assertEqual(self.error(loaded, "device `0` cannot be used")["code"], "unavailable")


if __name__ == "__main__":
    unittest.main()
