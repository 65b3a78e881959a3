"""Tables of Arrow's extension types, and the values that pyarrow reads of them.

    extension_types.py make DIRECTORY     write tables
    extension_types.py check DIRECTORY    compare the datasets that were written of them
"""

import pathlib
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors.numpy import load_file

folder = pathlib.Path(sys.argv[2])
N_ROWS = 7


def permuted(array, order):
    """The same array for NumPy and pyarrow, whose elements lie in memory with the dimensions in another order."""
    axes = [0, *(1 + axis for axis in order)]
    return np.ascontiguousarray(array.transpose(axes)).transpose(np.argsort(axes))


def columns():
    random = np.random.default_rng(5)
    for dtype in ("float32", "float64", "float16", "int8", "uint16", "int64"):
        for shape, order in [((2, 3), (1, 0)), ((2, 3, 4), (2, 1, 0)), ((2, 3, 4), (0, 2, 1)), ((2, 3, 4, 5), (1, 0, 3, 2)), ((70, 300), (1, 0))]:
            array = random.integers(0, 100, (N_ROWS, *shape)).astype(dtype)
            name = f"{dtype}-{'x'.join(map(str, shape))}-{''.join(map(str, order))}"
            for kind, values in (("plain", array), ("permuted", permuted(array, order))):
                column = pa.FixedShapeTensorArray.from_numpy_ndarray(values)
                assert np.array_equal(column.to_numpy_ndarray(), array)
                yield f"{name}-{kind}", column, array
    # Made without NumPy's strides.
    kind = pa.fixed_shape_tensor(pa.int32(), [2, 3, 4], permutation=[2, 1, 0], dim_names=["a", "b", "c"])
    stored = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(N_ROWS * 24, dtype="int32")), 24)
    column = pa.ExtensionArray.from_storage(kind, stored)
    yield "named", column, column.to_numpy_ndarray()
    scalars = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(N_ROWS, dtype="int32")), 1)
    yield "scalars", pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.int32(), []), scalars), np.arange(N_ROWS, dtype="int32")
    bits = pa.array([bool(bit) for bit in random.integers(0, 2, N_ROWS * 6)])
    kind = pa.fixed_shape_tensor(pa.bool_(), [2, 3], permutation=[1, 0])
    flags = np.array(bits.to_pylist()).reshape(N_ROWS, 2, 3).transpose(0, 2, 1)
    yield "flags", pa.ExtensionArray.from_storage(kind, pa.FixedSizeListArray.from_arrays(bits, 6)), flags
    bytes_ = pa.array([0, 1, 2, -1, 0, 127, 1], pa.int8())
    column = pa.ExtensionArray.from_storage(pa.bool8(), bytes_)
    yield "bool8", column, column.to_numpy(zero_copy_only=False)
    # As Ray's tensors are stored, which need Ray to be written by it.
    yield "ray", RayTensors.array(np.arange(N_ROWS * 6, dtype="float32").reshape(N_ROWS, 2, 3)), np.arange(N_ROWS * 6, dtype="float32").reshape(N_ROWS, 2, 3)


def ambiguous():
    """Columns that pyarrow itself does not read as what it wrote: it writes the inverse of the permutation that Arrow specifies."""
    array = np.arange(N_ROWS * 24, dtype="float32").reshape(N_ROWS, 2, 3, 4)
    for order in ((1, 2, 0), (2, 0, 1)):
        column = pa.FixedShapeTensorArray.from_numpy_ndarray(permuted(array, order))
        try:
            is_same = np.array_equal(column.to_numpy_ndarray(), array)
        except pa.ArrowInvalid:
            is_same = False
        assert not is_same, "pyarrow reads what it wrote: see whether permutations can be read now"
        yield f"refused-{''.join(map(str, order))}", column


class RayTensors(pa.ExtensionType):
    def __init__(self, shape):
        self.shape = shape
        super().__init__(pa.large_list(pa.float32()), "ray.data.arrow_tensor_v2")

    def __arrow_ext_serialize__(self):
        return str(list(self.shape)).encode()

    @classmethod
    def __arrow_ext_deserialize__(cls, storage, serialized):
        raise NotImplementedError

    @classmethod
    def array(cls, values):
        stored = pa.array(values.reshape(len(values), -1).tolist(), pa.large_list(pa.float32()))
        return pa.ExtensionArray.from_storage(cls(values.shape[1:]), stored)


def make():
    for name, column in [*((name, column) for name, column, _ in columns()), *ambiguous()]:
        # A slice of a larger column, of several chunks.
        table = pa.table({"x": pa.chunked_array([column[:0], column[:3], column[3:]])})
        pq.write_table(table, folder / f"{name}.parquet", row_group_size=4)
        for extension, writer in (("arrow", pa.ipc.new_file), ("arrows", pa.ipc.new_stream)):
            with writer(folder / f"{name}.{extension}", table.schema) as file:
                file.write_table(table)


def check():
    checked = 0
    for name, _, expected in columns():
        for extension in ("parquet", "arrow", "arrows"):
            (shard,) = (folder / f"{name}.{extension}.dataset").glob("part-*.safetensors")
            found = load_file(shard)["x"]
            assert (found.dtype, found.shape) == (expected.dtype, expected.shape), (name, extension, found.dtype, found.shape)
            assert np.array_equal(found, expected), (name, extension)
            checked += 1
    print(checked, "columns are the same")


{"make": make, "check": check}[sys.argv[1]]()
