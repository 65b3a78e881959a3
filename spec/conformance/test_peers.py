"""What other implementations say of the corpus: SciPy and NumPy of what sparse and quantized objects stand for, Arrow of the indexes of datasets, and
the libraries of the formats of which files there are. Each test says which package it misses where it cannot run."""

import hashlib
import json
import re
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent

try:
    import ml_dtypes
    import numpy as np
except ImportError:
    np = None
try:
    import scipy.sparse
except ImportError:
    scipy = None
try:
    import pyarrow as pa
    import pyarrow.parquet
except ImportError:
    pa = None
# By name: folders of the corpus are called as these packages are, and can be imported, too.
try:
    from ztensor import Reader
except ImportError:
    Reader = None
try:
    from safetensors import SafetensorError, deserialize
except ImportError:
    deserialize = None

# What the `ztensor` library does otherwise, by section of ztensor.md (§7). It refuses fields that are null, storage types that only 1.1 has, and,
# in Python, complex numbers.
ZTENSOR_ACCEPTS = {"1.3", "1.4", "2.1", "2.2", "2.3", "2.4", "3.2", "3.4", "4.1", "4.3", "5.1", "5.2", "5.4"}
ZTENSOR_REFUSES = {"fp8-of-1-1", "fp8-of-1-1-in-1-2", "no-minor-version", "null-fields", "logical-types"}
# SciPy adds to zeros, so that negative zero becomes zero.
SCIPY_LOSES_A_SIGN = {"sparse-negative-zeros"}


def cases(group):
    """The JSON of each case by the path of its file."""
    return {path.with_suffix(""): json.loads(path.read_text(encoding="utf-8")) for path in sorted((HERE / group).glob("*.json"))}


def sha256(array):
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def dtype_of(name):
    """NumPy's dtype, or that of `ml_dtypes`."""
    return np.dtype(getattr(ml_dtypes, name, name))


def sparse_by_scipy(one, parts):
    """The dense array of a sparse object. SciPy has neither floats of 16 bits, which sums in float32 stand for here, nor FP8, whose bytes do."""
    shape, dtype = one["shape"], dtype_of(one["dense"]["dtype"])
    # The library gives the parts of complex numbers, and FP8 as bytes.
    values = parts["values"].view(dtype)
    if dtype.name in ("float16", "bfloat16"):
        values = values.astype(np.float32)
    elif dtype.name.startswith("float8"):
        values = values.view(np.uint8)
    if one["format"] == "sparse_csr":
        indices, indptr = (parts[role].astype(np.int64) for role in ("indices", "indptr"))
        dense = scipy.sparse.csr_array((values, indices, indptr), shape).toarray()
    elif shape:
        coords = parts["coords"].astype(np.int64).reshape(len(shape), -1)
        dense = scipy.sparse.coo_array((values, tuple(coords)), shape).toarray()
    else:
        dense = np.asarray(values.sum())
    return dense.view(dtype) if dtype.name.startswith("float8") else dense.astype(dtype)


def fields(words, bits):
    """The integers in words of 32 bits, in a dimension behind that of the words."""
    return words.view(np.uint32)[..., None] >> np.arange(0, 32, bits, dtype=np.uint32) & np.uint32(2**bits - 1)


def group_by_numpy(one, parts, attributes):
    """AutoGPTQ's definition: the group's scale times what a weight is beyond its zero point."""
    rows, columns = one["shape"]
    bits, group_size = attributes["bits"], attributes["group_size"]
    each, per_group = 32 // bits, rows if group_size == -1 else group_size
    n_groups = -(-rows // per_group)
    weights = np.moveaxis(fields(parts["packed_weight"].reshape(rows // each, columns), bits), 2, 1).reshape(rows, columns)
    zeros = parts["zeros"]
    if zeros.size != n_groups * columns:
        zeros = fields(zeros.reshape(n_groups, columns // each), bits)
        zeros = zeros if attributes.get("checkpoint_format") == "gptq_v2" else (zeros + 1) % 2**bits
    zeros = zeros.reshape(n_groups, columns).astype(np.float32)
    scales = parts["scales"].reshape(n_groups, columns).astype(np.float32)
    groups = parts.get("g_idx", np.arange(rows) // per_group)
    return scales[groups] * (weights.astype(np.float32) - zeros[groups])


class Dense(unittest.TestCase):
    @unittest.skipUnless(np and scipy and Reader, "numpy, ml_dtypes, scipy and ztensor are not installed")
    def test_is_what_scipy_and_numpy_make_of_the_components(self):
        n_compared = 0
        for path, case in cases("ztensor").items():
            for one in case.get("reads", {}).get("objects", ()):
                if "sha256" not in one.get("dense", {}) or path.stem in SCIPY_LOSES_A_SIGN:
                    continue
                with self.subTest(case=path.stem, object=one["name"]):
                    found = Reader(str(path)).read(one["name"])
                    parts = {role: np.asarray(part) for role, part in found.components.items()}
                    is_group = one["format"] == "quantized_group"
                    dense = group_by_numpy(one, parts, found.attributes) if is_group else sparse_by_scipy(one, parts)
                    self.assertEqual(list(dense.shape), one["dense"]["shape"])
                    self.assertEqual(str(dense.dtype), one["dense"]["dtype"])
                    self.assertEqual(sha256(dense), one["dense"]["sha256"])
                    n_compared += 1
        self.assertGreater(n_compared, 90)


class Index(unittest.TestCase):
    @unittest.skipUnless(pa, "pyarrow is not installed")
    def test_is_what_arrow_reads(self):
        """Also what is wrong with an index is in its rows and columns, but for those that are no Parquet."""
        no_parquet, n_compared = set(), 0
        for path, case in cases("datasets").items():
            index = path / "_tensor_index.parquet"
            if not index.exists():
                continue
            try:
                table = pa.parquet.read_table(index)
                table.validate(full=True)
            except pa.ArrowInvalid:
                no_parquet.add(path.name)
                continue
            if "reads" in case:
                columns = ["tensor_key", "file_name", "shape", "dtype"]
                rows = sorted(table.select(columns).to_pylist(), key=lambda row: (row["tensor_key"].encode(), row["file_name"].encode()))
                self.assertEqual(rows, case["reads"]["index"], path.name)
                n_compared += 1
        self.assertEqual(no_parquet, {"index-no-parquet", "index-cut-off"})
        self.assertGreater(n_compared, 5)


class Libraries(unittest.TestCase):
    @unittest.skipUnless(deserialize, "safetensors is not installed")
    def test_safetensors_accepts_what_the_specification_says_it_accepts(self):
        accepted = set()
        for path, case in cases("safetensors").items():
            try:
                deserialize(path.read_bytes())
            except SafetensorError:
                self.assertIn("refused", case, f"the library refuses {path.name}")
            else:
                accepted |= {path.stem} if "refused" in case else set()
        page = (HERE.parent / "safetensors.md").read_text(encoding="utf-8")
        table = re.findall(r"^\|.*\| *([^|]*) *\|$", page.split("## 8 What only the library accepts")[1], re.MULTILINE)
        self.assertEqual(accepted, {name for row in table[2:] for name in re.findall(r"`([^`]*)`", row)})

    @unittest.skipUnless(Reader, "ztensor is not installed")
    def test_ztensor_accepts_what_the_specification_says_it_accepts(self):
        sections, refused = set(), set()
        for path, case in cases("ztensor").items():
            if path.stem == "end-beyond-64-bits":
                # It panics, with a page of text.
                continue
            try:
                reader = Reader(str(path))
                for name in reader.keys():
                    reader.read(name).components  # noqa: B018
            except (OSError, RuntimeError, ValueError):
                refused |= {path.stem} if "reads" in case else set()
            else:
                sections |= {case["shows"][0]["section"]} if "refused" in case else set()
        self.assertEqual(sections, ZTENSOR_ACCEPTS)
        self.assertEqual(refused, ZTENSOR_REFUSES)


if __name__ == "__main__":
    unittest.main()
