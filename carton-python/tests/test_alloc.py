"""Arrays of `alloc`, which calls take without a copy."""

from __future__ import annotations

from typing import Callable

import numpy as np
import pytest

import carton
from conftest import MakeNoop

Pictures = tuple[np.ndarray, np.ndarray]


def test_alloc_by_declaration(digits: carton.Model, pictures: Pictures) -> None:
    array = digits.alloc("image", batch=16)
    assert (array.shape, array.dtype, array.flags.writeable, array.flags.c_contiguous) == (
        (16, 1, 8, 8), np.float32, True, True,
    )
    assert array.ctypes.data % 64 == 0
    array[...] = pictures[0]
    np.testing.assert_allclose(digits(image=array)["probabilities"], pictures[1], rtol=1e-5, atol=1e-6)
    assert digits.alloc("image", shape=(2, 1, 8, 8)).shape == (2, 1, 8, 8)
    assert digits.alloc("image", dtype="int16", batch=1).dtype == np.int16


@pytest.mark.parametrize("dtype", ["f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"])
def test_alloc_of_every_dtype(echo: carton.Model, dtype: str) -> None:
    array = echo.alloc(shape=(3, 5), dtype=dtype)
    assert (array.dtype, array.shape) == (np.dtype(dtype), (3, 5))
    array[...] = np.arange(15).reshape(3, 5)
    assert np.array_equal(echo(x=array)["x"], np.arange(15).reshape(3, 5))
    assert echo.alloc(shape=(0, 3), dtype=dtype).shape == (0, 3) and echo.alloc(shape=(), dtype=dtype).shape == ()


def test_views_of_alloc(echo: carton.Model) -> None:
    array = echo.alloc(shape=(64, 1024), dtype=np.int32)
    array[...] = np.arange(array.size, dtype=np.int32).reshape(array.shape)
    copy = array.copy()
    views: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "whole": lambda a: a,
        "first rows": lambda a: a[:5],
        "later rows": lambda a: a[7:9],
        "the last row": lambda a: a[-1],
        "one element": lambda a: a[3, 3],
        "reshaped": lambda a: a.reshape(-1, 16),
        "flat": lambda a: a.ravel(),
        "a view of a view": lambda a: a[10:20].reshape(-1)[100:200],
        "columns": lambda a: a[:, 1:9],
        "steps": lambda a: a[::3],
        "backwards": lambda a: a[::-1],
        "transposed": lambda a: a.T,
        "another dtype": lambda a: a.view(np.float32),
        "half the size": lambda a: a.view(np.int16),
        "swapped": lambda a: a.view(">i4"),
        "broadcast": lambda a: np.broadcast_to(a[0], (3, 1024)),
        "nothing": lambda a: a[5:5],
        "unaligned": lambda a: a.view(np.uint8).ravel()[1:5].view(np.int32),
    }
    for what, view in views.items():
        found = echo(x=view(array))["x"]
        expected = np.asarray(view(copy))
        assert found.shape == expected.shape and found.tobytes() == expected.astype(found.dtype).tobytes(), what


def test_an_array_of_alloc_can_be_filled_again(echo: carton.Model) -> None:
    for size in (10, 1_000_000):
        array = echo.alloc(shape=(size,), dtype=np.int64)
        kept = []
        for number in range(4):
            array[:] = number
            kept.append(echo(x=array)["x"])
        # An output is what the model returned, whatever becomes of the input.
        assert [output[-1] for output in kept] == [0, 1, 2, 3]


def test_alloc_of_another_model_and_of_a_closed_one(echo: carton.Model, noop: MakeNoop) -> None:
    model = noop()
    array = model.alloc(shape=(100_000,), dtype=np.float32)
    array[:] = 4
    assert echo(x=array)["x"].sum() == 400_000
    model.close()
    array += 1
    assert echo(x=array)["x"].sum() == 500_000
    with pytest.raises(carton.ClosedError):
        model.alloc(shape=(3,), dtype=np.float32)


def test_refused_allocs(digits: carton.Model, echo: carton.Model) -> None:
    def check(text: str, call: Callable[[], object]) -> None:
        with pytest.raises(carton.InvalidInputError, match=text):
            call()

    check("no input `picture`, but: image", lambda: digits.alloc("picture", batch=1))
    check("pass a value for `batch`", lambda: digits.alloc("image"))
    check("name of an input, or shape= and dtype=", lambda: echo.alloc())
    check("name of an input, or shape= and dtype=", lambda: echo.alloc(shape=(3,)))
    check("too large", lambda: echo.alloc(shape=(1 << 60, 1 << 60), dtype="f8"))
    check("do not fit", lambda: echo.alloc(shape=(1 << 45,), dtype="f8"))
    check("string", lambda: echo.alloc(shape=(3,), dtype=str))
    with pytest.raises((ValueError, OverflowError)):
        echo.alloc(shape=(-1,), dtype="f8")
    with pytest.raises((ValueError, TypeError)):
        echo.alloc(shape=(3,), dtype=np.clongdouble)


def test_a_symbol_that_the_input_lacks_is_refused(digits: carton.Model) -> None:
    with pytest.raises((carton.InvalidInputError, TypeError), match="bacth"):
        digits.alloc("image", batch=1, bacth=2)
