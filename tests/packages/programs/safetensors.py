# part: quick
# requires: safetensors==0.8.0 numpy==2.4.6
import tempfile

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file


def run():
    with tempfile.TemporaryDirectory() as folder:
        save_file({"w": np.arange(100, dtype="float32").reshape(10, 10), "b": np.ones(3)}, f"{folder}/w.safetensors")
        with safe_open(f"{folder}/w.safetensors", "numpy") as file:
            return {"numbers": [file.get_slice("w")[2:4].sum(), file.get_tensor("b").sum(), len(file.keys())]}
