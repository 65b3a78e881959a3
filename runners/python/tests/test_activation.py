"""Which GPUs a model sees."""

import os
import unittest
from unittest import mock

import support  # noqa: F401, finds the runner
from carton_runner import activation
from carton_runner.errors import RunnerError


class Devices(unittest.TestCase):
    def check(self, device, shown, expected):
        with mock.patch.dict(os.environ, CUDA_VISIBLE_DEVICES="before"), mock.patch.object(activation, "_VISIBLE", shown):
            activation.choose_device(device)
            self.assertEqual(os.environ["CUDA_VISIBLE_DEVICES"], expected, (device, shown))

    def test_an_index_counts_the_gpus_that_are_visible(self):
        self.check(None, "3", "before")
        self.check("cpu", "3", "")
        self.check("1", "", "1")
        self.check("1", "2, GPU-5a", "GPU-5a")
        self.check("GPU-1b", "2", "GPU-1b")
        with self.assertRaisesRegex(RunnerError, "device `2` is not there: CUDA_VISIBLE_DEVICES shows 2 GPUs"):
            self.check("2", "2,3", None)


if __name__ == "__main__":
    unittest.main()
