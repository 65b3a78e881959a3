"""Calls: how inputs are passed, sealed inputs, streams and threads."""

from __future__ import annotations

import gc
import time
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import Any, Callable

import numpy as np
import pytest

import carton
from conftest import MakeNoop

Pictures = tuple[np.ndarray, np.ndarray]


# How inputs are passed


def test_inputs_by_name_by_position_and_in_a_mapping(digits: carton.Model, pictures: Pictures) -> None:
    images, expected = pictures
    passed: dict[str, Callable[[], dict[str, Any]]] = {
        "name": lambda: digits(image=images),
        "infer": lambda: digits.infer(image=images),
        "position": lambda: digits(images),
        "dict": lambda: digits({"image": images}),
        "another mapping": lambda: digits(MappingProxyType(OrderedDict(image=images))),
        "unpacked dict": lambda: digits(**{"image": images}),
    }
    for how, call in passed.items():
        outputs = call()
        assert list(outputs) == ["probabilities"], how
        np.testing.assert_allclose(outputs["probabilities"], expected, rtol=1e-5, atol=1e-6, err_msg=how)


def test_every_batch_size(digits: carton.Model, pictures: Pictures) -> None:
    images, expected = pictures
    for size in range(len(images) + 1):
        found = digits(image=images[:size])["probabilities"]
        assert found.shape == (size, 10)
        np.testing.assert_allclose(found, expected[:size], rtol=1e-5, atol=1e-6)


def test_an_input_named_timeout_is_passed_in_a_dict(echo: carton.Model) -> None:
    assert echo({"timeout": 3}, timeout=5)["timeout"] == 3
    with pytest.raises(TypeError, match="number of seconds"):
        echo(timeout="soon")


def test_what_is_wrong_with_inputs(digits: carton.Model, echo: carton.Model, pictures: Pictures) -> None:
    image = pictures[0][:1]

    def check(wrong: Callable[[], object], kind: type[carton.Error], *parts: str) -> None:
        with pytest.raises(kind) as caught:
            wrong()
        assert isinstance(caught.value, ValueError)
        for part in parts:
            assert part in str(caught.value)

    check(lambda: digits(image=image[..., :7]), carton.SignatureError, "`image`", "expected 8, found 7", "hint: ")
    check(lambda: digits(image=image.astype("f8")), carton.SignatureError, "expected float32, found float64", "hint: pass `image` as float32")
    check(lambda: digits(picture=image), carton.SignatureError, "`picture`", "`image`", "found nothing")
    check(lambda: digits(), carton.SignatureError, "`image`", "found nothing")
    check(lambda: digits(image, image), carton.SignatureError, "expected at most 1", "found 2")
    check(lambda: digits(image=["a"]), carton.SignatureError, "found string")
    check(lambda: digits(image, image=image), carton.InvalidInputError, "by name or by position")
    # No input is declared whose name could be meant.
    check(lambda: echo(image), carton.SignatureError, "pass inputs by name")
    with pytest.raises(TypeError):
        echo({1: image})


def test_a_call_without_inputs(echo: carton.Model) -> None:
    assert echo() == {} and echo({}) == {}


# Sealed inputs


def test_sealed_inputs_are_those_of_the_time_of_sealing(echo: carton.Model) -> None:
    given = np.arange(100_000, dtype=np.float32)
    allocated = echo.alloc(shape=given.shape, dtype=np.float32)
    allocated[:] = given
    with echo.seal(x=given, y=allocated, s=["a", "b"]) as sealed:
        given[:] = allocated[:] = -1
        for _ in range(3):
            outputs = echo.infer(sealed)
            assert np.array_equal(outputs["x"], np.arange(100_000)) and np.array_equal(outputs["y"], outputs["x"])
            assert outputs["s"].tolist() == ["a", "b"]
        assert list(next(echo.stream(sealed))) == ["s", "x", "y"]
        with pytest.raises(carton.InvalidInputError, match="all the inputs"):
            echo(sealed, z=1)
    with pytest.raises(carton.ClosedError, match="sealed"):
        echo(sealed)
    sealed.close()
    # The outputs are not the sealed tensors' memory.
    assert np.array_equal(outputs["x"], np.arange(100_000))


def test_a_seal_checks_the_signature(digits: carton.Model, pictures: Pictures) -> None:
    with pytest.raises(carton.SignatureError):
        digits(digits.seal(image=pictures[0][..., :7]))
    with digits.seal(pictures[0]) as sealed:
        np.testing.assert_allclose(digits(sealed)["probabilities"], pictures[1], rtol=1e-5, atol=1e-6)


def test_sealed_inputs_survive_the_death_of_the_runner(noop: MakeNoop) -> None:
    model = noop(crash=True, only_with="bad")
    sealed = model.seal(x=5)
    with pytest.raises(carton.RunnerCrashedError):
        model(bad=1)
    assert model(sealed)["x"] == 5


# Streams


def test_a_stream(noop: MakeNoop) -> None:
    model = noop(stream_items=5)
    assert [int(item["x"]) for item in model.stream(x=7)] == [7] * 5
    with model.stream({"x": 7}, timeout=20) as stream:
        assert next(stream)["x"] == 7
    with pytest.raises(StopIteration):
        next(stream)
    stream.close()
    # A stream that is dropped half-way lets the next call through.
    next(model.stream(x=np.zeros(100_000)))
    gc.collect()
    assert model(x=1, timeout=10)["x"] == 1


def test_a_stream_that_fails(noop: MakeNoop) -> None:
    model = noop(stream_items=5, fail_after_items=3, fail="the tape is torn")
    stream, items = model.stream(x=1), []
    with pytest.raises(carton.ModelError, match="the tape is torn"):
        for item in stream:
            items.append(item)
    assert len(items) == 3 and list(stream) == []


def test_closing_a_stream_cancels_a_wait_in_another_thread(noop: MakeNoop) -> None:
    model = noop(delay_ms=20_000)
    stream = model.stream(x=1)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(lambda: list(stream))
        time.sleep(0.2)
        start = time.monotonic()
        stream.close()
        ended = waiting.exception(timeout=30)
        assert time.monotonic() - start < 3
        assert ended is None or isinstance(ended, carton.Error)


# Threads


def test_many_threads_share_a_model(digits: carton.Model, echo: carton.Model, pictures: Pictures) -> None:
    images, expected = pictures

    def work(number: int) -> None:
        for turn in range(10):
            at = (number + turn) % 16
            found = digits(image=images[at : at + 1])["probabilities"]
            np.testing.assert_allclose(found, expected[at : at + 1], rtol=1e-5, atol=1e-6)
            sent = np.full(20_000, number * 100 + turn)
            assert np.array_equal(echo(x=sent)["x"], sent)

    with ThreadPoolExecutor(12) as pool:
        list(pool.map(work, range(12)))


def test_calls_release_the_interpreter(noop: MakeNoop) -> None:
    model = noop(delay_ms=400)
    start = time.monotonic()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: model(x=number), range(8)))
    assert time.monotonic() - start < 2
