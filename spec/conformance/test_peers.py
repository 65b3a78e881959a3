"""What other implementations say of the corpus: SciPy and NumPy of what sparse and quantized objects stand for, NumPy of how weights are quantized,
Arrow of the indexes of datasets, and the libraries of the formats of which files there are. Each test says which package it misses where it cannot run."""

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

# What the `ztensor` library does otherwise (ztensor.md §7). It checks nothing of three sections. It refuses fields that are null, storage
# types that only 1.1 has, and, in Python, complex numbers.
ZTENSOR_CHECKS_NOTHING_OF = {"5.1", "5.2", "5.4"}
ZTENSOR_ACCEPTS = {
    "into-the-manifest", "over-the-magic", "overlap-from-the-start", "overlap", "cbor-and-more", "nested-65", "self-described-twice",
    "tag-of-a-date", "attribute-twice", "component-twice", "object-twice", "version-10", "version-2", "dense-without-data",
    "complex-over-bytes", "fp8-over-i8", "bool-of-2", "raw-of-another-size", "crc32c-differs", "crc32c-with-sign", "digest-without-algorithm",
    "sha256-differs", "sha256-too-short",
}  # fmt: skip
ZTENSOR_REFUSES = {"fp8-of-1-1", "fp8-of-1-1-in-1-2", "fp8-that-is-the-dtype", "no-minor-version", "null-fields", "logical-types"}
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


def int8_by_numpy(values, per_channel):
    """Integers and scales by the formulas of weights.md §2.2, in NumPy's float32 or float64. Not for numbers whose scale is beyond these."""
    wide = np.float64 if values.dtype == np.float64 else np.float32
    values = values.astype(wide)
    finite = np.where(np.isfinite(values), values, 0)
    axes = tuple(range(1, values.ndim)) if per_channel and values.ndim > 1 and values.size else None
    largest = np.max(np.abs(finite), axis=axes, initial=0, keepdims=axes is not None)
    scale = np.where(largest > 0, wide(127) / np.where(largest > 0, largest, 1), wide(1)).astype(wide)
    scaled = (finite * scale).astype(np.float64)
    integers = np.trunc(scaled)
    integers += np.where(np.abs(scaled - integers) >= 0.5, np.sign(scaled), 0)
    return np.clip(integers, -128, 127).astype(np.int8), scale.astype(np.float64).ravel()


class Weights(unittest.TestCase):
    @unittest.skipUnless(np and deserialize, "numpy, ml_dtypes and safetensors are not installed")
    def test_integers_and_scales_are_those_of_numpy(self):
        n_compared = 0
        for path, case in cases("weights").items():
            # One tensor; of tiny numbers the formula has another step.
            if case["asks"] != "int8" or not path.name.startswith("int8-") or "error" not in case["reads"] or "tiny" in path.name:
                continue
            with self.subTest(case=path.name):
                ((_, stored),) = deserialize((path / "model.safetensors").read_bytes())
                names = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "F8_E5M2": "float8_e5m2"}
                values = np.frombuffer(stored["data"], dtype_of(names[stored["dtype"]])).reshape(stored["shape"])
                integers, scales = int8_by_numpy(values, case["options"]["scales"] == "channel")
                expected = {one["name"]: one for one in case["reads"]["tensors"]}
                self.assertEqual(sha256(integers), expected["a"]["sha256"])
                self.assertEqual(sha256(scales), expected["a.scale"]["sha256"])
                n_compared += 1
        self.assertGreater(n_compared, 20)

    @unittest.skipUnless(np and deserialize, "numpy, ml_dtypes and safetensors are not installed")
    def test_groups_are_those_of_numpy(self):
        n_compared = 0
        for path, case in cases("weights").items():
            if case["asks"] != "int8 in groups" or "reads" not in case:
                continue
            with self.subTest(case=path.name):
                ((_, stored),) = deserialize((path / "model.safetensors").read_bytes())
                dtype = {"F64": np.float64, "F32": np.float32}[stored["dtype"]]
                values = np.frombuffer(stored["data"], dtype).reshape(stored["shape"]).astype(np.float64)
                groups = np.split(values, range(case["options"]["group_size"], len(values), case["options"]["group_size"]))
                finite = [np.where(np.isfinite(group), group, 0) for group in groups]
                scales = [(np.max(np.abs(group), axis=0) / 127).astype(np.float32) for group in finite]
                with np.errstate(all="ignore"):
                    steps = [np.where(scale > 0, group / scale.astype(np.float64), 0) for group, scale in zip(finite, scales)]
                steps = np.concatenate(steps)
                integers = np.trunc(steps) + np.where(np.abs(steps - np.trunc(steps)) >= 0.5, np.sign(steps), 0)
                self.assertEqual(sha256(np.clip(integers, -127, 127).astype(np.int8)), case["reads"]["integers"]["sha256"])
                self.assertEqual(sha256(np.stack(scales)), case["reads"]["scales"]["sha256"])
                n_compared += 1
        self.assertGreater(n_compared, 6)

    @unittest.skipUnless(np and deserialize, "numpy, ml_dtypes and safetensors are not installed")
    def test_statistics_are_those_of_numpy(self):
        n_compared = 0
        for path, case in cases("weights").items():
            if case["asks"] != "statistics":
                continue
            for name, stored in deserialize((path / "model.safetensors").read_bytes()):
                with self.subTest(case=path.name, tensor=name):
                    kinds = {"F": "float", "I": "int", "U": "uint"}
                    word = stored["dtype"]
                    special = {"BOOL": "bool", "BF16": "bfloat16", "F8_E5M2": "float8_e5m2"}
                    values = np.frombuffer(stored["data"], dtype_of(special.get(word) or kinds[word[0]] + word[1:])).astype(np.float64)
                    expected = case["reads"]["statistics"][name]
                    finite = values[np.isfinite(values)]
                    found = [finite.min(), finite.max(), finite.mean(), finite.std()] if finite.size else [None] * 4
                    self.assertEqual(found, [expected[key] for key in ("min", "max", "mean", "standard_deviation")])
                    self.assertEqual(int(np.isnan(values).sum()), expected["nan"])
                    self.assertEqual(int(np.isinf(values).sum()), expected["infinite"])
                    n_compared += 1
        self.assertGreater(n_compared, 10)


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
        accepted, refused = set(), set()
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
                accepted |= {path.stem} if "refused" in case else set()
        unchecked = {
            path.stem
            for path, case in cases("ztensor").items()
            if "refused" in case and case["shows"][0]["section"] in ZTENSOR_CHECKS_NOTHING_OF
        }
        self.assertEqual(accepted, ZTENSOR_ACCEPTS | unchecked)
        self.assertEqual(refused, ZTENSOR_REFUSES)


if __name__ == "__main__":
    unittest.main()
