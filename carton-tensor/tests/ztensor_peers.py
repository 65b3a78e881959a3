"""The other side of tests/ztensor/peers.rs: zTensor files of PyPI's ztensor 1.2.3, or of 1.1.1, which is in a folder of its own.

    ztensor_peers.py make 1.1|1.2 FOLDER     writes peer-*.zt and what is in each, as JSON
    ztensor_peers.py check 1.1|1.2 FOLDER    reads ours-*.zt and compares it with the JSON beside it

Tensors in JSON: name, dtype as NumPy calls it, shape, bytes in hexadecimal; `format`; for sparse ones the dense equivalent by SciPy.
"""

import json
import os
import sys

import ml_dtypes
import numpy as np
import scipy.sparse

command, version, folder = sys.argv[1:]
if version == "1.1":
    sys.path.insert(0, os.path.join(sys.prefix, "ztensor-1.1"))
import ztensor

IS_1_1 = version == "1.1"
assert hasattr(ztensor.Writer, "add_sparse_csr") == IS_1_1, f"this is not ztensor {version}: {ztensor.__file__}"

PLAIN = ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool"]


def dtype(name):
    return np.dtype(getattr(ml_dtypes, name)) if name == "bfloat16" else np.dtype(name)


def array(name, shape, seed):
    rng = np.random.default_rng(seed)
    kind = dtype(name)
    n_bytes = int(np.prod(shape)) * kind.itemsize
    raw = rng.integers(0, 2 if name == "bool" else 256, n_bytes, dtype=np.uint8).tobytes()
    return np.frombuffer(raw, kind).reshape(shape).copy()


def described(name, value, **more):
    return {"name": name, "dtype": str(value.dtype), "shape": list(value.shape), "bytes": value.tobytes().hex(), **more}


def sparse(kind, seed):
    rng = np.random.default_rng(seed)
    dense = rng.integers(-9, 9, (7, 5)).astype(kind)
    dense[rng.random(dense.shape) < 0.7] = 0
    return dense


def make_file(path, compress, checksums):
    """A file with every dtype, shape and format that the peer can write; the JSON has them in the order of writing."""
    writer, tensors = ztensor.Writer(path), []

    def add(name, value, checksum):
        # A zero-dimensional array is written as one of one dimension; SciPy and NumPy agree on what is in it.
        value = np.ascontiguousarray(value)
        if IS_1_1:
            writer.add_tensor(name, value, compress=compress)
        else:
            writer.write_numpy(name, value, compress=compress, checksum=checksum)
        tensors.append(described(name, value, format="dense", checksum="none" if IS_1_1 else checksum))

    for number, name in enumerate(PLAIN):
        for shape in [(), (0, 3), (1,), (2, 3, 4), (777,)]:
            checksum = checksums[number % len(checksums)]
            add(f"{name}/{shape}", array(name, shape, number), checksum)
    add("ünïcode \U0001f600", array("int8", (3,), 5), checksums[0])
    for number, kind in enumerate(["float32", "float64", "int32", "uint8"]):
        dense = sparse(kind, number)
        csr, coo = scipy.sparse.csr_matrix(dense), scipy.sparse.coo_matrix(dense)
        coords = np.concatenate([coo.row, coo.col])
        if IS_1_1:
            writer.add_sparse_csr(f"csr/{kind}", csr.data, csr.indices, csr.indptr, csr.shape)
            writer.add_sparse_coo(f"coo/{kind}", coo.data, coords, coo.shape)
        else:
            # It writes whatever type of indices it is given.
            width = [np.uint64, np.uint32, np.int32, np.int64][number]
            parts = {"values": csr.data, "indices": csr.indices.astype(width), "indptr": csr.indptr.astype(width)}
            writer.write(f"csr/{kind}", ztensor.Tensor(parts, shape=csr.shape, dtype=kind, format="sparse_csr"), compress=compress)
            parts = {"values": coo.data, "coords": coords.astype(width)}
            writer.write(f"coo/{kind}", ztensor.Tensor(parts, shape=coo.shape, dtype=kind, format="sparse_coo"), compress=compress)
        tensors.append(described(f"csr/{kind}", dense, format="sparse_csr"))
        tensors.append(described(f"coo/{kind}", dense, format="sparse_coo"))
    if not IS_1_1:
        fp8 = array("uint8", (4, 3), 1)
        for kind in ["f8_e4m3fn", "f8_e5m2", "f8_e4m3fnuz", "f8_e5m2fnuz"] + ["unheard_of"] * ("appended" in path):
            writer.write(f"type/{kind}", ztensor.Tensor({"data": fp8}, type=kind), compress=compress)
            numpy_name = kind.replace("f8", "float8") if kind != "unheard_of" else "uint8"
            tensors.append({**described(f"type/{kind}", fp8, format="dense"), "dtype": numpy_name})
        for kind, part in [("complex64", "float32"), ("complex128", "float64")]:
            value = array(kind, (3, 2), 2)
            writer.write(f"type/{kind}", ztensor.Tensor({"data": value.reshape(-1).view(part)}, shape=[3, 2], type=kind), compress=compress)
            tensors.append(described(f"type/{kind}", value, format="dense"))
    writer.finalize() if IS_1_1 else writer.finish()
    with open(path.replace(".zt", ".json"), "w") as out:
        json.dump({"compress": compress, "tensors": tensors}, out)


def same(given, expected):
    # What 1.1.1 gives frees its memory when it goes, whoever has a view of it.
    found = np.asarray(given)
    assert str(found.dtype) == expected["dtype"], (found.dtype, expected["dtype"])
    # A tensor of no dimensions is given back with one by 1.2.3, which looks whether the shape is empty.
    assert list(found.shape) == expected["shape"] or (expected["shape"] == [] and found.size == 1), (found.shape, expected["shape"])
    assert found.tobytes().hex() == expected["bytes"], "other bytes"


def check_file(path):
    reader = ztensor.Reader(path)
    with open(path.replace(".zt", ".json")) as source:
        tensors = json.load(source)
    names = reader.tensor_names if IS_1_1 else reader.keys()
    assert sorted(names) == sorted(tensor["name"] for tensor in tensors), "other names"
    n_equal, n_errors = 0, 0
    for tensor in tensors:
        name, error = tensor["name"], tensor.get("error")
        try:
            if tensor["format"] == "dense":
                if IS_1_1:
                    same(reader.read_tensor(name, verify_checksum=True), tensor)
                else:
                    same(reader.read_numpy(name), tensor)
            elif IS_1_1:
                same(reader.read_tensor(name).toarray(), tensor)
            else:
                parts = reader.read(name).components
                if tensor["format"] == "sparse_csr":
                    matrix = scipy.sparse.csr_matrix((parts["values"], parts["indices"], parts["indptr"]), tensor["shape"])
                else:
                    matrix = scipy.sparse.coo_matrix((parts["values"], parts["coords"].reshape(2, -1)), tensor["shape"])
                same(matrix.toarray(), tensor)
        except Exception as found:
            text = f"{type(found).__name__}: {found}"
            assert error and any(part in text for part in error.split("|")), f"{path}, {name}: {text}"
            n_errors += 1
        else:
            assert not error, f"{path}, {name}: expected the error {error}"
            n_equal += 1
    print(json.dumps({"file": os.path.basename(path), "equal": n_equal, "errors": n_errors}))


if command == "make":
    for name, compress in [("raw", False), ("zstd", 3)]:
        make_file(os.path.join(folder, f"peer-{name}.zt"), compress, ["none", "crc32c", "sha256"])
    if not IS_1_1:
        path = os.path.join(folder, "peer-appended.zt")
        make_file(path, False, ["none"])
        with ztensor.Writer.append(path) as writer:
            writer.write_numpy("appended", np.arange(5, dtype=np.int16))
        with open(path.replace(".zt", ".json")) as source:
            content = json.load(source)
        content["tensors"].append(described("appended", np.arange(5, dtype=np.int16), format="dense", checksum="none"))
        with open(path.replace(".zt", ".json"), "w") as out:
            json.dump(content, out)
else:
    for name in sorted(os.listdir(folder)):
        if name.startswith("ours-") and name.endswith(".zt"):
            check_file(os.path.join(folder, name))
