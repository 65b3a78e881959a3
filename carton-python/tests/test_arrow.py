"""Arrow arrays as outputs and inputs, through the PyCapsule interface, beside pyarrow and polars."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import carton
from conftest import MakeNoop, RunScript

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")


class Capsules:
    """An Arrow value that has the PyCapsule interface and nothing else."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __getattr__(self, name: str) -> Any:
        if name in ("__arrow_c_array__", "__arrow_c_stream__"):
            return getattr(self._value, name)
        raise AttributeError(name)


def values(array: np.ndarray) -> Any:
    return array.tolist() if array.ndim else [array.item()]


@pytest.mark.parametrize("dtype", ["f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"])
@pytest.mark.parametrize("shape", [(), (0,), (5,), (3, 4), (2, 3, 4), (0, 3), (2, 0, 3)])
def test_numbers_of_every_shape(echo: carton.Model, dtype: str, shape: tuple[int, ...]) -> None:
    sent = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    output = echo(x=sent)["x"]
    array = pa.array(carton.arrow(output))
    array.validate(full=True)
    assert array.to_pylist() == values(sent)
    leaf = array
    while pa.types.is_fixed_size_list(leaf.type):
        leaf = leaf.flatten()
    assert leaf.type == pa.from_numpy_dtype(dtype)
    if sent.size:
        assert leaf.buffers()[1].address == output.ctypes.data, "it is a copy"
    # And back.
    if shape:
        np.testing.assert_array_equal(echo(x=array)["x"], sent)
        np.testing.assert_array_equal(echo(x=Capsules(array))["x"], sent)


def test_other_layouts_and_strings(echo: carton.Model) -> None:
    grid = np.arange(12, dtype=">i4").reshape(3, 4)
    assert pa.array(carton.arrow(grid.T[::-1])).to_pylist() == grid.T[::-1].tolist()
    shifted = np.frombuffer(bytes(1) + np.arange(3.0).tobytes(), np.uint8)[1:].view(np.float64)
    assert not shifted.flags.aligned and pa.array(carton.arrow(shifted)).to_pylist() == [0, 1, 2]
    words = echo(x=[["a", "ü€"], ["", "two words"]])["x"]
    assert pa.array(carton.arrow(words)).type == pa.list_(pa.string(), 2)
    assert pa.array(carton.arrow(words)).to_pylist() == words.tolist()
    with pytest.raises(carton.InvalidInputError, match="nested"):
        carton.arrow(echo(x=[np.zeros(2), np.zeros(3)])["x"])
    bools = np.array([[True, False], [False, False], [True, True]])
    assert pa.array(carton.arrow(bools)).type == pa.list_(pa.bool_(), 2)
    assert pa.array(carton.arrow(bools.T)).to_pylist() == bools.T.tolist()


def test_all_outputs_are_a_record_batch(digits: carton.Model, echo: carton.Model, pictures: tuple[np.ndarray, np.ndarray]) -> None:
    outputs = digits(pictures[0])
    batch = pa.record_batch(carton.arrow(outputs))
    assert batch.schema.names == ["probabilities"] and batch.num_rows == 16
    assert pa.schema(carton.arrow(outputs)) == batch.schema
    assert len(carton.arrow(outputs)) == 16 and "16" in repr(carton.arrow(outputs))
    with pytest.raises(carton.InvalidInputError, match="length"):
        carton.arrow({"a": np.zeros(3), "b": np.zeros(2)})
    polars = pytest.importorskip("polars", reason="polars is not installed")
    frame = polars.DataFrame(carton.arrow({"n": np.arange(3), "word": ["a", "b", "c"], "grid": np.zeros((3, 2, 2))}))
    assert frame["n"].to_list() == [0, 1, 2] and frame["grid"].to_list()[2] == [[0, 0], [0, 0]]
    assert polars.Series(carton.arrow(outputs["probabilities"])).len() == 16


def test_arrays_outlive_the_model_and_may_be_written_to(noop: MakeNoop) -> None:
    model = noop(copy=True)
    sent = np.arange(100_000, dtype=np.float32)
    output = model(x=sent)["x"]
    array = pa.array(carton.arrow(output))
    model.close()
    del output, model
    gc.collect()
    assert np.array_equal(array.to_numpy(), sent)
    # A consumer that ignores that Arrow arrays do not change.
    import ctypes

    ctypes.memset(array.buffers()[1].address, 1, 1000)
    assert array[0].as_py() != 0


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (pa.array([1, 2, 3])[1:], [2, 3]),
        (pa.array(["a", "ü"], pa.large_string()), ["a", "ü"]),
        (pa.array(["a", "long enough to be elsewhere"], pa.string_view()), ["a", "long enough to be elsewhere"]),
        (pa.array([[1, 2], [3, 4], [5, 6]])[1:], [[3, 4], [5, 6]]),
        (pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.int8(), 2))[1:], [[3, 4], [5, 6]]),
        (pa.array([[["a"]], [["b"]]], pa.large_list(pa.list_(pa.string()))), [[["a"]], [["b"]]]),
        (pa.chunked_array([[1.5], [], [2.5, 3]]), [1.5, 2.5, 3]),
        (pa.chunked_array([pa.array([[1, 2]]), pa.array([[3, 4]])]), [[1, 2], [3, 4]]),
    ],
)
def test_inputs_that_have_capsules_alone(echo: carton.Model, value: Any, expected: Any) -> None:
    assert echo(x=Capsules(value))["x"].tolist() == expected
    assert echo(x=value)["x"].tolist() == expected


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (pa.array([1, None]), "1 missing value"),
        (pa.array([[1], [None]], pa.list_(pa.int8(), 1)), "1 missing value"),
        (pa.array([None, "a", None]), "2 missing values"),
        (pa.array([[1], [2, 3]]), "several lengths: 1 and 2"),
        (pa.array([{"a": 1}]), "Struct"),
        (pa.table({"a": [1]}), "Struct"),
        (pa.chunked_array([], pa.int32()), "without any chunk"),
        (pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16], pa.binary(16))), "extension type `arrow.uuid`"),
        (pa.ExtensionArray.from_storage(pa.opaque(pa.int64(), "a", "b"), pa.array([1, 2])), "extension type `arrow.opaque`"),
        (
            pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.int8(), [2]), pa.array([[1, 2], None], pa.list_(pa.int8(), 2))),
            "element 1 is null",
        ),
    ],
)
def test_inputs_that_are_no_tensors(echo: carton.Model, value: Any, message: str) -> None:
    with pytest.raises(carton.InvalidInputError, match=message):
        echo(x=Capsules(value))


@pytest.mark.parametrize("chunked", [False, True])
def test_tensors_have_the_elements_that_pyarrow_reads(echo: carton.Model, chunked: bool) -> None:
    tensors = np.arange(5 * 24, dtype=np.float32).reshape(5, 2, 3, 4)
    for order in [(0, 1, 2), (0, 2, 1), (1, 0, 2), (2, 1, 0)]:
        axes = [0, *(1 + axis for axis in order)]
        same = np.ascontiguousarray(tensors.transpose(axes)).transpose(np.argsort(axes))
        array = pa.FixedShapeTensorArray.from_numpy_ndarray(same)
        assert np.array_equal(array.to_numpy_ndarray(), tensors)
        value = pa.chunked_array([array[:2], array[2:]]) if chunked else array
        for sent in (value, Capsules(value)):
            np.testing.assert_array_equal(echo(x=sent)["x"], tensors)
        np.testing.assert_array_equal(echo(x=value[1:])["x"], tensors[1:])
    # pyarrow itself does not read these as what it wrote.
    channels_last = np.ascontiguousarray(tensors.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    with pytest.raises(carton.InvalidInputError, match=r"its permutation \[1, 2, 0\] is not its own inverse"):
        echo(x=pa.FixedShapeTensorArray.from_numpy_ndarray(channels_last))


def test_what_extension_types_mean(echo: carton.Model) -> None:
    """NumPy would be given the values as they are stored."""
    for storage, kind in ((pa.array([1, 2]), pa.opaque(pa.int64(), "a", "b")), (pa.array([b"0" * 16], pa.binary(16)), pa.uuid())):
        with pytest.raises(carton.InvalidInputError, match=f"values of extension type `{kind.extension_name}` cannot become tensors"):
            echo(x=pa.ExtensionArray.from_storage(kind, storage))
    assert echo(x=pa.ExtensionArray.from_storage(pa.json_(), pa.array(["{}", "[1]"])))["x"].tolist() == ["{}", "[1]"]


def test_objects_that_only_claim_to_have_capsules(echo: carton.Model) -> None:
    class Claims:
        def __init__(self, answer: Any) -> None:
            self.answer = answer

        def __arrow_c_array__(self, requested_schema: object = None) -> Any:
            return self.answer

    schema, array = pa.array([1]).__arrow_c_array__()
    for answer in (None, (1, 2), (array, schema), (schema, schema), (schema,)):
        with pytest.raises((carton.InvalidInputError, TypeError, ValueError)):
            echo(x=Claims(answer))
    # An array can be taken out of its capsule once.
    taken = Claims(pa.array([1, 2]).__arrow_c_array__())
    assert echo(x=taken)["x"].tolist() == [1, 2]
    with pytest.raises(carton.InvalidInputError):
        echo(x=taken)


def test_arrow_arrays_live_to_the_end_of_the_interpreter(run_script: RunScript) -> None:
    ended = run_script(
        """
import pyarrow
with noop(copy=True) as model:
    kept = pyarrow.array(carton.arrow(model(x=np.ones(100_000))["x"]))
print(kept[0])
"""
    )
    assert (ended.code, ended.stdout) == (0, "1.0\n"), ended.stderr
