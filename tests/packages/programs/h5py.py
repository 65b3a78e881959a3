# Files, which HDF5 locks.
# part: quick
# requires: h5py==3.16.0
import tempfile

import h5py
import numpy as np


def run():
    with tempfile.TemporaryDirectory() as folder:
        with h5py.File(f"{folder}/data.h5", "w") as file:
            file.create_dataset("x", data=np.arange(10000.0).reshape(100, 100), chunks=(10, 10), compression="gzip")
            file.attrs["scale"] = 0.5
        with h5py.File(f"{folder}/data.h5") as file:
            return {"numbers": [file["x"][3:5, 7:9].sum() * file.attrs["scale"], file["x"].shape[0]]}
