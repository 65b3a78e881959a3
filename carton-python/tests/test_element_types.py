"""Tensors of every element type that format version 1 carries in another, beside NumPy, ml_dtypes, pandas and pyarrow: through a model that
declares them and returns its inputs."""

from __future__ import annotations

import gc
import re
import sys
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any, Callable, Iterator

import ml_dtypes
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import carton
from carton import TensorSpec, _carton, _small_floats
from conftest import RunScript

FLOAT8 = ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"]
#: Every dtype of a fixed size that version 1 lacks.
DTYPES: dict[str, np.dtype[Any]] = {
    "bool": np.dtype(bool),
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    **{name: np.dtype(getattr(ml_dtypes, name)) for name in FLOAT8},
    "complex64": np.dtype(np.complex64),
    "complex128": np.dtype(np.complex128),
}

many = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True)

Of = Callable[[str], carton.Model]


@pytest.fixture(scope="module")
def of(noop_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Of]:
    """Models with an input and an output `x` of a dtype, which return their input."""
    models: dict[str, carton.Model] = {}
    folder = tmp_path_factory.mktemp("of")

    def model(dtype: str) -> carton.Model:
        if dtype not in models:
            specs, path = [TensorSpec("x", dtype, "*")], folder / f"{dtype}.carton"
            carton.pack(noop_folder, path, runner="noop", inputs=specs, outputs=specs, check=False)
            models[dtype] = carton.load(path)
        return models[dtype]

    yield model
    for loaded in models.values():
        loaded.close()


def bits(array: Any, dtype: np.dtype[Any]) -> bytes:
    """The bytes of an array. NaN has one pattern, because runners of version 1 get longer floats."""
    found = np.array(array, dtype)
    if dtype.name in ("bfloat16", "float16", *FLOAT8):
        found[np.isnan(found.astype(np.float32))] = np.float32("nan")
    return found.tobytes()


def same(found: Any, expected: np.ndarray) -> None:
    assert isinstance(found, np.ndarray) and (found.dtype, found.shape) == (expected.dtype.newbyteorder("="), expected.shape)
    assert bits(found, found.dtype) == bits(expected, found.dtype)


@st.composite
def arrays(draw: st.DrawFn, name: str) -> np.ndarray:
    dtype = DTYPES[name]
    shape = draw(npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=6))
    elements = draw(npst.arrays(np.uint8, int(np.prod(shape)) * dtype.itemsize))
    if name == "bool":
        elements %= 2
    array = elements.view(dtype).reshape(shape)
    for _ in range(draw(st.integers(0, 2))):
        match draw(st.sampled_from(["transpose", "slice", "reversed", "fortran", "swapped", "broadcast"])):
            case "transpose":
                array = array.T
            case "slice" if array.ndim:
                array = array[:: draw(st.integers(1, 3))]
            case "reversed" if array.ndim:
                array = array[::-1]
            case "fortran" if array.ndim:
                array = np.asfortranarray(array)
            case "swapped" if name in ("float16", "complex64", "complex128"):
                array = array.astype(array.dtype.newbyteorder(">"))
            case "broadcast":
                array = np.broadcast_to(array, (2, *array.shape))
    return array


@many
@given(data=st.data())
@pytest.mark.parametrize("name", DTYPES)
def test_arrays_of_every_layout(of: Of, name: str, data: st.DataObject) -> None:
    sent = data.draw(arrays(name))
    same(of(name)(x=sent)["x"], sent)


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("size", [1, 5000, 300_000])
def test_sizes_scalars_and_outputs_as_inputs(of: Of, name: str, size: int) -> None:
    dtype, model = DTYPES[name], of(name)
    sent = (np.arange(size) % 2).astype(dtype)
    output = model(x=sent)["x"]
    same(output, sent)
    assert not output.flags.writeable
    same(model(x=output)["x"], sent)
    same(model(x=output[::2])["x"], sent[::2])
    same(model(x=sent[0])["x"], sent[0:1].reshape(()))
    with model.seal(x=sent) as sealed:
        same(model(sealed)["x"], sent)
    shared = model.alloc("x", shape=sent.shape)
    assert shared.dtype == dtype
    shared[...] = sent
    same(model(x=shared)["x"], sent)


def test_carriers_are_taken_where_no_value_changes(of: Of) -> None:
    for name in ("float16", "bfloat16", *FLOAT8):
        same(of(name)(x=np.array([0, 1.5, -2], np.float32))["x"], np.array([0, 1.5, -2]).astype(DTYPES[name]))
        with pytest.raises(carton.SignatureError, match=rf"element \[1\].*{name}"):
            of(name)(x=np.array([0, 0.1], np.float32))
    same(of("bool")(x=np.array([0, 1], np.uint8))["x"], np.array([False, True]))
    same(of("complex64")(x=np.array([[1, 2]], np.float32))["x"], np.array([1 + 2j], np.complex64))
    same(of("complex128")(x=1j)["x"], np.array(1j))
    same(of("bool")(x=True)["x"], np.array(True))
    for name, other in (("float16", np.zeros(2)), ("bool", np.zeros(2)), ("bfloat16", np.zeros(2, np.float16)), ("float32", np.zeros(2, bool))):
        with pytest.raises(carton.SignatureError):
            of(name)(x=other)


BLOBS = [b"", b"a", b"\0", b"a\0\0", b"\xff\xfe", b"x" * 100_000]


def test_bytes(of: Of) -> None:
    model = of("bytes")

    def check(sent: Any, expected: Any) -> None:
        found = model(x=sent)["x"]
        assert found.dtype == object and found.tolist() == expected
        assert all(type(element) is bytes for element in found.ravel())
        assert model(x=found)["x"].tolist() == expected

    for blob in BLOBS:
        check(blob, blob)
        check([blob], [blob])
        check(np.bytes_(blob), blob)
    check(BLOBS, BLOBS)
    check(tuple(BLOBS), BLOBS)
    check([[b"a", b"b\0"], [b"", b"d"]], [[b"a", b"b\0"], [b"", b"d"]])
    check(np.array(BLOBS, object), BLOBS)
    check(np.array([b"a", b"bc", b""]), [b"a", b"bc", b""])
    check(np.array([[b"a", b"bc"]]).T, [[b"a"], [b"bc"]])
    check(pa.array(BLOBS), BLOBS)
    for kind in (pa.large_binary(), pa.binary_view(), pa.binary(2)):
        check(pa.array([b"ab", b"c\0"], kind), [b"ab", b"c\0"])
    # Text is its UTF-8, and bytes are text where they are that.
    check(["ü"], ["ü".encode()])
    assert of("string")(x=["a", "ü"])["x"].tolist() == ["a", "ü"]
    assert of("string")(x=np.array([b"a", b"bc"]))["x"].tolist() == ["a", "bc"]
    assert of("string")(np.array([b"a", b"bc"]))["x"].tolist() == ["a", "bc"]
    with pytest.raises(carton.InvalidInputError, match="`x` takes texts.*UTF-8"):
        of("string")(x=b"\xff")
    for mixed in ([b"a", "b"], [b"a", 1], np.array([b"a", None], object)):
        with pytest.raises(carton.InvalidInputError, match="among bytes"):
            model(x=mixed)
    parts = model(x=[[b"a"], [b"b", b"c"]])["x"]
    assert [part.tolist() for part in parts] == [[b"a"], [b"b", b"c"]]


@many
@given(blobs=st.lists(st.binary(max_size=30), max_size=10))
def test_any_bytes(of: Of, blobs: list[bytes]) -> None:
    sent = np.empty(len(blobs), object)
    sent[:] = blobs
    assert of("bytes")(x=sent)["x"].tolist() == blobs


class OnlyDlpack:
    """A tensor of a library that speaks nothing but DLPack, of any strides."""

    def __init__(self, array: np.ndarray, name: str, is_versioned: bool) -> None:
        # The older form cannot say that memory must not be written to.
        array = array if array.flags.writeable or is_versioned else array.copy()
        self._bits, self._name, self._is_versioned = array.view(_small_floats.BITS[name]), name, is_versioned

    def __dlpack__(self, **options: Any) -> Any:
        if options and not self._is_versioned:
            raise TypeError("no arguments")
        return _carton.to_dlpack(self._bits, self._name, self._is_versioned)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


@many
@given(data=st.data())
@pytest.mark.parametrize("name", _small_floats.BITS)
def test_dlpack(of: Of, name: str, data: st.DataObject) -> None:
    sent = data.draw(arrays(name))
    same(of(name)(x=OnlyDlpack(sent, name, data.draw(st.booleans())))["x"], sent)
    # Outputs there and back.
    output = of(name)(x=sent)["x"]
    found, array = _carton.from_dlpack(output.__dlpack__(max_version=data.draw(st.sampled_from([None, (1, 0)]))))
    assert found == name and output.__dlpack_device__() == (1, 0)
    same(array.view(DTYPES[name]), sent)


def test_dlpack_of_other_dtypes(of: Of) -> None:
    for name in ("bool", "float16", "complex64", "complex128"):
        output = of(name)(x=np.ones(3, DTYPES[name]))["x"]
        same(of(name)(x=np.from_dlpack(output))["x"], np.ones(3, DTYPES[name]))
        found, array = _carton.from_dlpack(np.ones((2, 3), DTYPES[name]).T.__dlpack__())
        assert found == name
        same(array, np.ones((3, 2), DTYPES[name]))
    # What NumPy makes of an output is an array of NumPy, which it exports itself.
    floats = of("bfloat16")(x=np.ones(3, ml_dtypes.bfloat16))["x"].astype(np.float32)
    assert np.from_dlpack(floats).tolist() == [1, 1, 1]
    unused = of("bfloat16")(x=np.ones(3, ml_dtypes.bfloat16))["x"]
    released = sys.getrefcount(unused)
    for version in (None, (1, 0)):
        for _ in range(3):
            unused.__dlpack__(max_version=version)
            _carton.from_dlpack(unused.__dlpack__(max_version=version))
    gc.collect()
    assert sys.getrefcount(unused) == released
    with pytest.raises(BufferError, match="another device"):
        unused.__dlpack__(dl_device=(2, 0))


def test_jax(of: Of) -> None:
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    for name in ("bool", "float16", "bfloat16", *FLOAT8, "complex64"):
        sent = jax.numpy.ones((2, 3), DTYPES[name])
        output = of(name)(x=sent)["x"]
        same(output, np.ones((2, 3), DTYPES[name]))
        # NumPy exports no read-only arrays to libraries that cannot be told.
        taken = jax.dlpack.from_dlpack(output if name in _small_floats.BITS else output.copy(), copy=True)
        assert taken.dtype == DTYPES[name] and bool((taken == sent).all())


def test_without_ml_dtypes(of: Of, run_script: RunScript, tmp_path: Path, noop_folder: Path) -> None:
    specs = [TensorSpec("x", "bfloat16", "*")]
    carton.pack(noop_folder, tmp_path / "b.carton", runner="noop", inputs=specs, outputs=specs, check=False)
    ended = run_script(
        f"""
sys.modules["ml_dtypes"] = None
from carton import _carton
with carton.load({str(tmp_path / "b.carton")!r}) as model:
    output = model(x=np.array([1, 2.5], np.float32))["x"]
    print(output, output.dtype, output.shape, len(output))
    name, bits = _carton.from_dlpack(output.__dlpack__(max_version=(1, 0)))
    print(name, bits.tolist())
    again = model(x=output)["x"]
    print(_carton.from_dlpack(again.__dlpack__())[1].tolist())
    for take in (np.asarray, lambda output: output[0], lambda _: model.alloc("x", shape=[2])):
        try:
            take(output)
        except carton.Error as error:
            print(error.hint)
"""
    )
    assert ended.code == 0, ended.stderr
    lines = ended.stdout.splitlines()
    assert lines[0].startswith("<bfloat16 [2]") and lines[0].endswith("bfloat16 (2,) 2")
    assert lines[1:3] == ["bfloat16 [16256, 16416]", "[16256, 16416]"]
    assert len(lines) == 6 and all("pip install ml_dtypes" in line for line in lines[3:])


def test_specs() -> None:
    for name, dtype in DTYPES.items():
        for given_dtype in (name, dtype, dtype.type):
            assert TensorSpec("x", given_dtype).dtype == name
    assert [TensorSpec("x", dtype).dtype for dtype in (bytes, "S", "S5", "bytes")] == ["bytes"] * 4
    for refused, advice in ((ml_dtypes.int4, "int8"), ("int4", "int8"), ("M8[s]", "int64"), ("datetime64[s]", "int64"), ("timestamp", "int64")):
        with pytest.raises(carton.InvalidInputError, match=advice):
            TensorSpec("x", refused)
    assert not hasattr(TensorSpec("x", bool), "element")


def test_types_that_are_refused(of: Of) -> None:
    for value, name, hint in (
        (np.zeros(2, ml_dtypes.int4), "int4", "int8"),
        (np.zeros(2, ml_dtypes.float8_e4m3), "float8_e4m3", "float32"),
        (np.zeros(2, "m8[s]"), "timedelta64", "durations"),
        (np.zeros(2, np.clongdouble), "complex256|clongdouble", "complex128"),
        (pa.array([0], pa.timestamp("s")), "datetime64", "dates"),
    ):
        with pytest.raises(carton.InvalidInputError, match=name) as caught:
            of("float32")(x=value)
        assert hint in (caught.value.hint or "")


def test_columns_of_pandas(of: Of) -> None:
    pd = pytest.importorskip("pandas", reason="pandas is not installed")

    def check(column: Any, expected: Any, dtype: str) -> None:
        found = of(dtype)(x=column)["x"]
        assert found.dtype == (object if dtype in ("string", "bytes") else DTYPES.get(dtype, np.dtype(dtype if dtype != "string" else "O")))
        np.testing.assert_array_equal(found, np.array(expected, found.dtype))

    nan = float("nan")
    check(pd.Series([1, 2], dtype="Int64"), [1, 2], "int64")
    check(pd.Series([1, 2], dtype="UInt8"), [1, 2], "uint8")
    check(pd.Series([True, False], dtype="boolean"), [True, False], "bool")
    check(pd.Series([True, False]), [True, False], "bool")
    check(pd.Series([1.5, None], dtype="Float32"), [1.5, nan], "float32")
    check(pd.Series([1.5, None], dtype="Float64"), [1.5, nan], "float64")
    check(pd.Series(["a", "ü"], dtype="string"), ["a", "ü"], "string")
    check(pd.Series(["a", "b", "a"], dtype="category"), ["a", "b", "a"], "string")
    check(pd.Series([10, 20, 10], dtype="category"), [10, 20, 10], "int64")
    check(pd.Series([1.5, None], dtype="category"), [1.5, nan], "float64")
    check(pd.Series(pd.Categorical([True, False])), [True, False], "bool")
    check(pd.Series(pd.array([3, 4, 3], dtype="Int32")).astype("category"), [3, 4, 3], "int32")
    check(pd.Categorical.from_codes([1, 0], ["no", "yes"]), ["yes", "no"], "string")
    check(pd.Series([b"a\0", b""]), [b"a\0", b""], "bytes")
    check(pd.Series([1, 2], dtype=pd.ArrowDtype(pa.int64())), [1, 2], "int64")
    check(pd.Series([1.5, None], dtype=pd.ArrowDtype(pa.float32())), [1.5, nan], "float32")
    check(pd.Series(["a"], dtype=pd.ArrowDtype(pa.string())), ["a"], "string")
    check(pd.DataFrame({"a": pd.array([1, 2], "Int64"), "b": pd.array([3, 4], "Int64")}), [[1, 3], [2, 4]], "int64")
    check(pd.DataFrame({"a": pd.array([1.5, None], "Float32"), "b": pd.array([3, 4], "Float32")}), [[1.5, 3], [nan, 4]], "float32")
    for column in (
        pd.Series([1, None, 3, None], dtype="Int64", name="c"),
        pd.Series([True, None, False, None], dtype="boolean", name="c"),
        pd.Series(["a", None, "b", None], dtype="string", name="c"),
        pd.Series(["a", None, "b", None], dtype="category", name="c"),
        pd.Series(pd.Categorical.from_codes([0, -1, 0, -1], [7])).rename("c"),
        pd.DataFrame({"a": [1, 2, 3, 4], "c": pd.array([1, None, 3, None], "Int64")}),
    ):
        with pytest.raises(carton.InvalidInputError, match="input `x`: .*column `c` has 2 missing values, the first in row 1") as caught:
            of("int64")(x=column)
        assert "fillna" in (caught.value.hint or "")


# Arrow and tables.


def test_arrow_arrays_of_outputs(of: Of) -> None:
    def check(name: str, sent: Any, expected: Any, kind: pa.DataType) -> None:
        found = pa.array(carton.arrow(of(name)(x=sent)["x"]))
        found.validate(full=True)
        assert (found.type, found.to_pylist()) == (kind, expected)

    check("bool", np.array([[True], [False]]), [[True], [False]], pa.list_(pa.bool_(), 1))
    check("float16", np.array([1.5], np.float16), [1.5], pa.float16())
    check("bfloat16", np.array([1.5], np.float32), [1.5], pa.float32())
    check("float8_e5m2", np.array([[1.5, 2]], np.float32), [[1.5, 2]], pa.list_(pa.float32(), 2))
    check("bytes", [b"a\0", b""], [b"a\0", b""], pa.binary())
    with pytest.raises(carton.InvalidInputError, match="complex"):
        carton.arrow(np.zeros(2, complex))


def test_arrow_arrays_as_inputs(of: Of) -> None:
    same(of("float16")(x=pa.array(np.array([1.5], np.float16)))["x"], np.array([1.5], np.float16))
    same(of("bool")(x=pa.array([True, False]))["x"], np.array([True, False]))
    same(of("bool")(x=pa.ExtensionArray.from_storage(pa.bool8(), pa.array([0, 5], pa.int8())))["x"], np.array([False, True]))
    assert of("string")(x=pa.array(["b", "a", "b"]).dictionary_encode())["x"].tolist() == ["b", "a", "b"]
    assert of("bytes")(x=pa.array([[b"a"], [b"b"]]))["x"].tolist() == [[b"a"], [b"b"]]


def test_tables(of: Of) -> None:
    def check(name: str, column: Any, expected: list[Any], kind: pa.DataType, **options: Any) -> None:
        found = pa.table(of(name).map(pa.table({"x": column}), **options))["x"]
        found.validate(full=True)
        assert found.type == kind
        np.testing.assert_equal(found.to_pylist(), expected)

    half = pa.array(np.array([1, 2.5], np.float16))
    nan = float("nan")
    check("float16", half, [1, 2.5], pa.float16())
    check("float32", half, [1, 2.5], pa.float32())
    check("float16", pa.array([1, 2.5]), [1, 2.5], pa.float16())
    check("bool", pa.array([True, False]), [True, False], pa.bool_())
    check("bool", pa.ExtensionArray.from_storage(pa.bool8(), pa.array([0, 5], pa.int8())), [False, True], pa.bool_())
    check("bool", pa.array([0, 1]), [False, True], pa.bool_())
    check("bytes", pa.array([b"a\0", b""]), [b"a\0", b""], pa.binary())
    for kind in (pa.large_binary(), pa.binary_view(), pa.binary(2), pa.dictionary(pa.int8(), pa.binary())):
        check("bytes", pa.array([b"ab", b"c\0"], pa.binary()).cast(kind) if pa.types.is_dictionary(kind) else pa.array([b"ab", b"c\0"], kind), [b"ab", b"c\0"], pa.binary())
    check("bytes", pa.array(["ü"]), ["ü".encode()], pa.binary())
    check("string", pa.array(["b", "a", "b"]).dictionary_encode(), ["b", "a", "b"], pa.string())
    check("float32", pa.array([1.5, 2.5, 1.5]).dictionary_encode(), [1.5, 2.5, 1.5], pa.float32())
    for name in ("bfloat16", *FLOAT8):
        check(name, pa.array([0.5, -2]), [0.5, -2], pa.float32())
    # Missing values.
    check("float32", pa.array([1.5, None]), [1.5, nan], pa.float32(), null="nan")
    check("float32", pa.array([1, None, 3]), [1, nan, 3], pa.float32(), null="nan")
    check("float64", pa.array([True, None]), [1, nan], pa.float64(), null="nan")
    for name in ("float16", "bfloat16", *FLOAT8):
        check(name, pa.array([1.5, None]), [1.5, nan], pa.float16() if name == "float16" else pa.float32(), null="nan")
    for column, name, options, hint in (
        (pa.array([1.5, None]), "float32", {}, 'null="nan"'),
        (pa.array([1, None]), "int64", {"null": "nan"}, None),
        (pa.array([1, None]), "int64", {}, None),
        (pa.array(["a", None]), "string", {"null": "nan"}, None),
        (pa.array([b"a", None]), "bytes", {}, None),
    ):
        with pytest.raises(carton.InvalidInputError, match="row 1 of column `x`: is null") as caught:
            of(name).map(pa.table({"x": column}), **options).read_all()
        assert (caught.value.hint is None) if hint is None else hint in (caught.value.hint or "")
    with pytest.raises(carton.InvalidInputError, match='null="nan"'):
        of("float32").map(pa.table({"x": half}), null="zero")  # type: ignore[arg-type]


def test_dates_and_times_as_counts(of: Of, noop_folder: Path, tmp_path: Path) -> None:
    def check(name: str, column: pa.Array, unit: Any, **options: Any) -> None:
        # Pandas and NumPy count in the same way.
        found = pa.table(of(name).map(pa.table({"x": column}), times=unit, **options))["x"].to_pylist()
        kind = pa.duration(unit) if pa.types.is_duration(column.type) else pa.timestamp(unit)
        if pa.types.is_time(column.type):
            kind = pa.time64(unit) if unit in ("us", "ns") else pa.time32(unit)
        if getattr(column.type, "tz", None) is not None:
            kind = pa.timestamp(unit, column.type.tz)
        counts = column.cast(kind).cast(pa.int32() if kind.bit_width == 32 else pa.int64())
        np.testing.assert_equal(found, [float("nan") if count is None else count for count in counts.to_pylist()])

    zone = pa.timestamp("us", "Europe/Zurich")
    moments = [datetime(2024, 2, 29, 12, 30, 15), datetime(1969, 12, 31)]
    for unit in ("s", "ms", "us", "ns"):
        for kind in (pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("us"), pa.timestamp("ns"), zone):
            check("int64", pa.array(moments, kind), unit)
        check("int64", pa.array([date(2024, 2, 29), date(1960, 1, 1)], pa.date32()), unit)
        check("int64", pa.array([date(2024, 2, 29)], pa.date64()), unit)
        check("int64", pa.array([time(1, 2, 3)], pa.time32("s")), unit)
        check("int64", pa.array([time(1, 2, 3)], pa.time64("ns")), unit)
        check("int64", pa.array([timedelta(days=-3)], pa.duration("us")), unit)
    check("float64", pa.array([moments[0], None], pa.timestamp("us")), "s", null="nan")
    check("int32", pa.array([date(2024, 2, 29)]), "s")
    # Lists of them, and columns that are kept.
    specs = [TensorSpec("x", "int64", ["n", 2])]
    carton.pack(noop_folder, tmp_path / "t.carton", runner="noop", inputs=specs, outputs=specs, check=False)
    with carton.load(tmp_path / "t.carton") as model:
        pairs = pa.table({"x": pa.array([moments], pa.list_(pa.timestamp("ms"))), "day": pa.array([moments[0]])})
        found = pa.table(model.map(pairs, times="s")).to_pylist()
        assert found == [{"day": moments[0], "x": [1709209815, -86400]}]
    for column, unit, message in (
        (pa.array([moments[0], datetime(2024, 1, 1, 0, 0, 0, 1)], pa.timestamp("us")), "ms", "row 1 of column `x`: is no whole number of milliseconds"),
        (pa.array([moments[0], datetime(2024, 1, 1)], pa.timestamp("us")), "minutes", 'expected times="s", "ms", "us", "ns"'),
        (pa.array([moments[0], None], pa.timestamp("us")), "s", "row 1 of column `x`: is null"),
        (pa.array([date.max]), "ns", "row 0 of column `x`: is no whole number of nanoseconds, or has more than 64 bits"),
    ):
        with pytest.raises(carton.InvalidInputError, match=re.escape(message)):
            of("int64").map(pa.table({"x": column}), times=unit).read_all()


def test_columns_without_any_value(of: Of, noop_folder: Path, tmp_path: Path) -> None:
    nothing = pa.table({"x": pa.nulls(2)})
    np.testing.assert_equal(pa.table(of("float32").map(nothing, null="nan"))["x"].to_pylist(), [float("nan")] * 2)
    for name, options in (("float32", {}), ("int64", {"null": "nan"})):
        with pytest.raises(carton.InvalidInputError, match="row 0 of column `x`: is null"):
            of(name).map(nothing, **options).read_all()
    specs = [TensorSpec("x", "float32", ["n"])]
    carton.pack(noop_folder, tmp_path / "rows.carton", runner="noop", inputs=specs, outputs=specs, check=False)
    with carton.load(tmp_path / "rows.carton") as model:
        assert pa.table(model.map(nothing.slice(0, 0))).schema == pa.schema({"x": pa.float32()})


def test_an_optional_output_that_is_not_returned(noop_folder: Path, tmp_path: Path) -> None:
    def specs(shape: Any) -> tuple[list[TensorSpec], list[TensorSpec]]:
        inputs = [TensorSpec("x", "float32", ["n"])]
        return inputs, [*inputs, TensorSpec("y", "float32", shape, optional=True)]

    for shape, kind in ((["n", 2], pa.list_(pa.float32(), 2)), (["n", "k"], pa.list_(pa.float32())), (["n"], pa.float32())):
        inputs, outputs = specs(shape)
        carton.pack(noop_folder, tmp_path / "o.carton", runner="noop", inputs=inputs, outputs=outputs, check=False)
        with carton.load(tmp_path / "o.carton") as model:
            found = pa.table(model.map(pa.table({"x": [1.0, 2.0]})))
            found.validate(full=True)
            assert (found["y"].type, found.to_pylist()) == (kind, [{"x": 1, "y": None}, {"x": 2, "y": None}])
    inputs, outputs = specs("*")
    carton.pack(noop_folder, tmp_path / "o.carton", runner="noop", inputs=inputs, outputs=outputs, check=False)
    with carton.load(tmp_path / "o.carton") as model, pytest.raises(carton.Error, match="output `y`"):
        pa.table(model.map(pa.table({"x": [1.0, 2.0]})))


def test_lists_with_missing_numbers(of: Of, noop_folder: Path, tmp_path: Path) -> None:
    specs = [TensorSpec("x", "float32", ["n", 2])]
    carton.pack(noop_folder, tmp_path / "l.carton", runner="noop", inputs=specs, outputs=specs, check=False)
    with carton.load(tmp_path / "l.carton") as model:
        for kind in (pa.list_(pa.float64()), pa.list_(pa.float32(), 2), pa.large_list(pa.int16())):
            column = pa.array([[1, None], [None, 4], [5, 6]], kind)
            found = pa.table(model.map(pa.table({"x": column}), null="nan"))["x"].to_pylist()
            np.testing.assert_equal(found, [[1, float("nan")], [float("nan"), 4], [5, 6]])
        with pytest.raises(carton.InvalidInputError, match="row 1 of column `x`: is null"):
            model.map(pa.table({"x": pa.array([[1, 2], None], pa.list_(pa.float32()))}), null="nan").read_all()


def test_tables_that_are_refused(of: Of, noop_folder: Path, tmp_path: Path) -> None:
    def check(name: str, column: pa.Array, message: str, hint: str) -> None:
        with pytest.raises(carton.InvalidInputError, match=message) as caught:
            pa.table(of(name).map(pa.table({"x": column})))
        assert hint in (caught.value.hint or "")

    day = 86_400_000
    for kind in (pa.date32(), pa.date64(), pa.timestamp("s"), pa.time32("s"), pa.duration("ms")):
        for name, hint in (("int64", 'times="us"'), ("string", "cast the column to strings")):
            check(name, pa.array([day], pa.int64() if kind.bit_width == 64 else pa.int32()).cast(kind), "cannot become input `x`", hint)
    check("float64", pa.array([1], pa.decimal128(5, 2)), "cannot become input `x`", "decimals")
    check("complex64", pa.array([[1.0, 2.0]]), "complex", "one value for all rows")
    check("uint8", pa.array([True]), "booleans", "bool")
    # An output of complex numbers.
    path = tmp_path / "c.carton"
    inputs = [TensorSpec("x", "float32", ["n"]), TensorSpec("c", "complex64", ["m"])]
    carton.pack(noop_folder, path, runner="noop", inputs=inputs, outputs=inputs, check=False)
    with carton.load(path) as model:
        rows = pa.table({"x": pa.array([1.0, 2.0])})
        with pytest.raises(carton.InvalidInputError, match="output `c` is complex64"):
            pa.table(model.map(rows, constants={"c": np.zeros(1, np.complex64)}))
        found = pa.table(model.map(rows, constants={"c": np.zeros(1, np.complex64)}, outputs={"x": "y"}))
        assert found["y"].to_pylist() == [1, 2]


def test_permuted_tensors_of_arrow(of: Of, noop_folder: Path, tmp_path: Path) -> None:
    specs = [TensorSpec("x", "float16", ["n", 3, 2])]
    carton.pack(noop_folder, tmp_path / "p.carton", runner="noop", inputs=specs, outputs=specs, check=False)
    kind = pa.fixed_shape_tensor(pa.float16(), [2, 3], permutation=[1, 0])
    stored = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(12, dtype=np.float16)), 6)
    tensors = pa.ExtensionArray.from_storage(kind, stored)
    with carton.load(tmp_path / "p.carton") as model:
        found = pa.table(model.map(pa.table({"x": tensors})))["x"].to_pylist()
    assert found == np.arange(12).reshape(2, 2, 3).swapaxes(1, 2).tolist()


def test_files(of: Of, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    for name, column in (("bool", pa.array([True, False])), ("float16", pa.array(np.ones(2, np.float16))), ("bytes", pa.array([b"", b"\0"]))):
        of(name).map_to(tmp_path / "rows.parquet", pa.table({"x": column}))
        assert pq.read_table(tmp_path / "rows.parquet")["x"].to_pylist() == column.to_pylist()
