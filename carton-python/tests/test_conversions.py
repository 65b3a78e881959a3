"""What becomes a tensor, and what it becomes again: beside NumPy, through a model that returns its inputs."""

from __future__ import annotations

import array as standard_array
import decimal
import gc
import weakref
from typing import Any, Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import carton

DTYPES = ["f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]

many = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True
)


def same(found: Any, expected: np.ndarray) -> None:
    """The same elements bit for bit, in the byte order of this machine."""
    native = expected.astype(expected.dtype.newbyteorder("="))
    assert isinstance(found, np.ndarray)
    assert (found.dtype, found.shape) == (native.dtype, native.shape)
    assert found.dtype.isnative and found.tobytes() == native.tobytes()


@st.composite
def layouts(draw: st.DrawFn) -> np.ndarray:
    """Arrays of every dtype, shape, stride and byte order."""
    dtype = np.dtype(draw(st.sampled_from(DTYPES))).newbyteorder(draw(st.sampled_from("<>")))
    shape = draw(npst.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=7))
    elements = draw(npst.arrays(np.uint8, int(np.prod(shape)) * dtype.itemsize))
    array = elements.view(dtype).reshape(shape)
    for _ in range(draw(st.integers(0, 3))):
        match draw(st.sampled_from(["transpose", "slice", "fortran", "read-only", "unaligned", "broadcast", "axes"])):
            case "transpose":
                array = array.T
            case "slice":
                array = array[draw(npst.basic_indices(array.shape, allow_newaxis=True, allow_ellipsis=True))]
                array = np.asarray(array)
            case "fortran":
                array = np.asfortranarray(array) if array.ndim else array
            case "read-only":
                array = array.view()
                array.flags.writeable = False
            case "unaligned":
                memory = np.empty(array.nbytes + 1, np.uint8)
                shifted = memory[1:].view(array.dtype).reshape(array.shape)
                shifted[...] = array
                array = shifted
            case "broadcast" if array.ndim < 5:
                array = np.broadcast_to(array, (2, *array.shape))
            case "axes":
                array = array[np.newaxis, ...]
    return array


@many
@given(sent=layouts())
def test_arrays_of_every_layout(echo: carton.Model, sent: np.ndarray) -> None:
    before = sent.tobytes()
    same(echo(x=sent)["x"], sent)
    assert sent.tobytes() == before


@settings(many, max_examples=40)
@given(sent=layouts(), repeats=st.integers(1, 3000))
def test_large_arrays_of_every_layout(copying: carton.Model, sent: np.ndarray, repeats: int) -> None:
    sent = np.broadcast_to(sent, (repeats, *sent.shape))
    same(copying(x=sent)["x"], sent)
    same(copying(x=np.ascontiguousarray(sent))["x"], sent)


@settings(many, max_examples=60)
@given(sent=npst.arrays(np.int32, npst.array_shapes(min_dims=1, max_dims=3, max_side=6)), data=st.data())
def test_slices_of_alloc(echo: carton.Model, sent: np.ndarray, data: st.DataObject) -> None:
    array = echo.alloc(shape=sent.shape, dtype=np.int32)
    array[...] = sent
    index = data.draw(npst.basic_indices(sent.shape, allow_newaxis=True))
    same(echo(x=array[index])["x"], np.asarray(sent[index]))


@settings(many, max_examples=60)
@given(data=st.data(), shape=npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
def test_strings(echo: carton.Model, data: st.DataObject, shape: tuple[int, ...]) -> None:
    count = int(np.prod(shape))
    strings = data.draw(st.lists(st.text(max_size=20), min_size=count, max_size=count))
    sent = np.empty(count, dtype=object)
    sent[:] = strings
    sent = sent.reshape(shape)
    found = echo(x=sent)["x"]
    assert (found.dtype, found.shape) == (np.dtype(object), shape)
    assert found.ravel().tolist() == strings and all(type(string) is str for string in found.ravel())
    if count and len(shape) == 1:
        assert echo(x=strings)["x"].tolist() == strings


def test_kinds_of_string_arrays(echo: carton.Model) -> None:
    words = ["", "a", "ü€🎉", "two words", "a" * 100_000]
    kinds: dict[str, Any] = {
        "list": words,
        "tuple": tuple(words),
        "U": np.array(words),
        "swapped": np.array(words).astype(np.array(words).dtype.newbyteorder(">")),
        "object": np.array(words, dtype=object),
        "strides": np.array([word for word in words for _ in range(2)])[::2],
        "str_": [np.str_(word) for word in words],
    }
    if hasattr(np.dtypes, "StringDType"):
        kinds["StringDType"] = np.array(words, dtype=np.dtypes.StringDType())
    for kind, sent in kinds.items():
        assert echo(x=sent)["x"].tolist() == words, kind
    assert echo(x=[["a", "b"], ["c", "d"]])["x"].shape == (2, 2)
    assert echo(x="alone")["x"].shape == () and echo(x="alone")["x"].item() == "alone"
    assert echo(x=np.array([], dtype=object))["x"].shape == (0,)
    assert echo(x="a\0b")["x"].item() == "a\0b"
    with pytest.raises(ValueError):
        echo(x="\ud800")


@pytest.mark.parametrize("dtype", DTYPES)
def test_zero_size(echo: carton.Model, dtype: str) -> None:
    for shape in ((0,), (0, 3), (3, 0), (2, 0, 5)):
        same(echo(x=np.zeros(shape, dtype))["x"], np.zeros(shape, dtype))
        same(echo(x=np.zeros((*shape, 4), dtype)[..., ::2])["x"], np.zeros((*shape, 2), dtype))


def test_scalars(echo: carton.Model) -> None:
    for sent, dtype in ((3, "i8"), (-3, "i8"), (2**63, "u8"), (1.5, "f8"), (float("nan"), "f8")):
        same(echo(x=sent)["x"], np.array(sent, dtype))
    for name in DTYPES:
        same(echo(x=np.dtype(name).type(3))["x"], np.array(3, name))
        same(echo(x=np.array(3, name))["x"], np.array(3, name))


def test_special_numbers_keep_their_bits(echo: carton.Model) -> None:
    for dtype, bits in ((np.float32, np.uint32), (np.float64, np.uint64)):
        patterns = np.array([0, 1 << (bits(0).nbytes * 8 - 1), *np.array([np.inf, -np.inf, np.nan], dtype).view(bits)], bits)
        patterns = np.append(patterns, patterns[-1] | bits(1))
        same(echo(x=patterns.view(dtype))["x"], patterns.view(dtype))


def test_sequences(echo: carton.Model) -> None:
    same(echo(x=[1, 2, 3])["x"], np.array([1, 2, 3]))
    same(echo(x=((1.0, 2), (3, 4)))["x"], np.array([[1.0, 2], [3, 4]]))
    same(echo(x=[np.float32(1), np.float32(2)])["x"], np.array([1, 2], np.float32))
    same(echo(x=range(4))["x"], np.arange(4))
    same(echo(x=standard_array.array("f", [1, 2]))["x"], np.array([1, 2], np.float32))
    same(echo(x=memoryview(b"abc"))["x"], np.array([97, 98, 99], np.uint8))
    same(echo(x=bytearray(b"abc"))["x"], np.array([97, 98, 99], np.uint8))


def test_nested_tensors(echo: carton.Model) -> None:
    parts = [np.zeros(2), np.ones((3,)), np.empty(0)]
    found = echo(x=parts)["x"]
    assert isinstance(found, list)
    for part, expected in zip(found, parts, strict=True):
        same(part, expected)
    assert [part.tolist() for part in echo(x=[["a"], ["b", "c"]])["x"]] == [["a"], ["b", "c"]]
    # What came out goes in again.
    assert [part.tolist() for part in echo(x=found)["x"]] == [[0, 0], [1, 1, 1], []]
    with pytest.raises(carton.InvalidInputError, match="element 1 of a nested tensor is int64"):
        echo(x=[np.zeros(2), np.zeros(3, int)])


def test_subclasses_of_arrays(echo: carton.Model, tmp_path: Any) -> None:
    mapped = np.memmap(tmp_path / "mapped", np.float32, "w+", shape=(3, 2000))
    mapped[:] = np.arange(6000).reshape(3, 2000)
    found = echo(x=mapped)["x"]
    assert type(found) is np.ndarray
    same(found, np.asarray(mapped))
    same(echo(x=np.ma.array([1, 2]))["x"], np.array([1, 2]))


@pytest.mark.parametrize("n", [3, 100_000])
def test_masked_elements_are_refused(echo: carton.Model, n: int) -> None:
    masked = np.ma.array(np.zeros(n), mask=[True] + [False] * (n - 1))
    for array in (masked, masked[::-1]):
        with pytest.raises(carton.InvalidInputError, match="masked"):
            echo(x=array)


class OnlyDlpack:
    """What a library has that knows nothing of NumPy."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()


class OnDevice(OnlyDlpack):
    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)

    def __dlpack__(self, **options: Any) -> Any:
        raise BufferError("the tensor is on a GPU")


@settings(many, max_examples=60)
@given(sent=layouts())
def test_dlpack(echo: carton.Model, sent: np.ndarray) -> None:
    native = sent.astype(sent.dtype.newbyteorder("="))
    same(echo(x=OnlyDlpack(native))["x"], native)
    same(echo(x=OnlyDlpack(native[::-1] if native.ndim else native))["x"], native[::-1] if native.ndim else native)


def test_dlpack_memory_is_released(echo: carton.Model) -> None:
    class Array(np.ndarray):
        pass

    for size in (10, 1_000_000):
        array = np.zeros(size).view(Array)
        released = weakref.ref(array)
        echo(x=OnlyDlpack(array))
        echo(x=array)
        del array
        gc.collect()
        assert released() is None


def test_refused_dlpack(echo: carton.Model) -> None:
    with pytest.raises(carton.InvalidInputError, match="on a GPU"):
        echo(x=OnDevice(np.zeros(3)))


def test_an_array_api_library(echo: carton.Model) -> None:
    xp = pytest.importorskip("array_api_strict", reason="array_api_strict is not installed")
    sent = xp.reshape(xp.arange(12, dtype=xp.float32), (3, 4))
    same(echo(x=sent)["x"], np.arange(12, dtype=np.float32).reshape(3, 4))


def test_arrow(echo: carton.Model) -> None:
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    for dtype in DTYPES:
        numbers = np.arange(1000).astype(dtype)
        same(echo(x=pa.array(numbers))["x"], numbers)
        same(echo(x=pa.array(numbers)[5:50])["x"], numbers[5:50])
        same(echo(x=pa.chunked_array([numbers[:300], numbers[300:]]))["x"], numbers)
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        assert echo(x=pa.array(["a", "ü"], kind))["x"].tolist() == ["a", "ü"], kind
    assert echo(x=pa.chunked_array([["a"], ["b"]]))["x"].tolist() == ["a", "b"]
    same(echo(x=pa.table({"a": [1, 2]}).column("a"))["x"], np.array([1, 2]))
    for missing in (pa.array([1, None]), pa.array(["a", None]), pa.chunked_array([[1.0], [None]])):
        with pytest.raises(carton.InvalidInputError, match="1 missing value"):
            echo(x=missing)


def test_pandas(echo: carton.Model) -> None:
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    for dtype in DTYPES:
        same(echo(x=pd.Series(np.arange(5).astype(dtype)))["x"], np.arange(5).astype(dtype))
    same(echo(x=pd.Series([1, 2], dtype="Int64"))["x"], np.array([1, 2]))
    same(echo(x=pd.Series([1.5, None]))["x"], np.array([1.5, np.nan]))
    same(echo(x=pd.DataFrame({"a": [1.0, 2], "b": [3.0, 4]}))["x"], np.array([[1.0, 3], [2, 4]]))
    same(echo(x=pd.DataFrame({"a": [1, 2], "b": [3, 4]})["b"])["x"], np.array([3, 4]))
    same(echo(x=pd.Series([1, 2, 3], index=[5, 6, 7])[1:])["x"], np.array([2, 3]))
    for strings in (pd.Series(["a", "ü"]), pd.Series(["a", "ü"], dtype=object), pd.Series(["a", "ü"], dtype="category")):
        assert echo(x=strings)["x"].tolist() == ["a", "ü"], strings.dtype
    for refused in (
        pd.Series([1, None], dtype="Int64"),
        pd.Series(["a", None]),
        pd.Series(pd.to_datetime(["2020-01-01"])),
        pd.DataFrame({"a": [1], "b": ["x"]}),
    ):
        with pytest.raises(carton.InvalidInputError):
            echo(x=refused)


def test_polars(echo: carton.Model) -> None:
    pl = pytest.importorskip("polars", reason="polars is not installed")
    same(echo(x=pl.Series([1, 2]))["x"], np.array([1, 2]))
    assert echo(x=pl.Series(["a", "b"]))["x"].tolist() == ["a", "b"]
    with pytest.raises(carton.InvalidInputError):
        echo(x=pl.Series([1, None]))


REFUSED: dict[str, tuple[Callable[[], Any], str, str | None]] = {
    "long double": (lambda: np.zeros(3, np.longdouble), "float128|longdouble", "float64"),
    "long complex": (lambda: np.zeros(3, np.clongdouble), "complex256|clongdouble", "complex128"),
    "bytes and strings": (lambda: [b"a", "b"], "among bytes", None),
    "dates": (lambda: np.zeros(3, "M8[s]"), "datetime64", "astype"),
    "records": (lambda: np.zeros(3, [("a", "f4")]), "a", "fields"),
    "None": (lambda: None, "NoneType", None),
    "list with None": (lambda: [1, None], "NoneType", None),
    "strings with None": (lambda: ["a", None], "NoneType", None),
    "strings with numbers": (lambda: ["a", 1], "int", None),
    "object": (lambda: object(), "object", None),
    "decimal": (lambda: decimal.Decimal(1), "Decimal", None),
    "large int": (lambda: 2**70, "more than 64 bits", None),
    "set": (lambda: {1}, "set", None),
    "function": (lambda: print, "builtin_function", None),
    "module": (lambda: np, "module", None),
    "ragged with objects": (lambda: [[1], [1, None]], "NoneType", None),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_values(echo: carton.Model, case: str) -> None:
    make, text, hint = REFUSED[case]
    with pytest.raises(carton.InvalidInputError, match=text) as caught:
        echo(some_name=make())
    assert "`some_name`" in str(caught.value) and isinstance(caught.value, ValueError)
    assert "several shapes" not in str(caught.value)
    if hint is not None:
        assert hint in (caught.value.hint or "")
    # Positional inputs have the same rules.
    with pytest.raises(carton.InvalidInputError):
        echo({"x": make(), "y": 1})


def test_errors_of_objects_that_make_arrays_are_told(echo: carton.Model) -> None:
    class Broken:
        def __array__(self, *_: Any, **__: Any) -> np.ndarray:
            raise ValueError("the disk is on fire")

    with pytest.raises(carton.InvalidInputError, match="the disk is on fire"):
        echo(x=Broken())


def test_a_list_that_holds_itself_is_refused(echo: carton.Model) -> None:
    endless: list[Any] = [1]
    endless.append(endless)
    with pytest.raises((carton.Error, RecursionError)):
        echo(x=endless)


def test_names_of_inputs(echo: carton.Model) -> None:
    for name in ("a", "self", "inputs", "named", "ü", "a/b", "with space", ""):
        assert echo({name: 1})[name] == 1
        assert echo(**{name: 1})[name] == 1
