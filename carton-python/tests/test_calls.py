"""Calls: how inputs are passed, timeouts, errors, threads, and closing."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import time
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
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
    check(lambda: digits(image=image.astype("f8")), carton.SignatureError, "expected float32, found float64", "astype")
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
    with pytest.raises(carton.RunnerCrashed):
        model(bad=1)
    assert model(sealed)["x"] == 5


# Arrays of `alloc`


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
        echo.alloc(shape=(3,), dtype=np.complex64)


def test_a_symbol_that_the_input_lacks_is_refused(digits: carton.Model) -> None:
    with pytest.raises((carton.InvalidInputError, TypeError), match="bacth"):
        digits.alloc("image", batch=1, bacth=2)


# Timeouts


def test_a_call_that_takes_too_long(noop: MakeNoop) -> None:
    model = noop(delay_ms=20_000, only_with="slow")
    for call in (
        lambda: model(slow=1, timeout=0.2),
        lambda: list(model.stream(slow=1, timeout=0.2)),
        lambda: model(model.seal(slow=1), timeout=0.2),
    ):
        start = time.monotonic()
        with pytest.raises(carton.Timeout) as caught:
            call()
        assert isinstance(caught.value, TimeoutError) and caught.value.hint
        assert 0.15 < time.monotonic() - start < 3
        assert model(x=1)["x"] == 1


def test_the_timeout_of_a_model(noop: MakeNoop) -> None:
    model = noop(timeout=0.2, delay_ms=600, only_with="slow")
    with pytest.raises(carton.Timeout):
        model(slow=1)
    assert model(slow=1, timeout=20)["slow"] == 1


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf"), 1e300])
def test_refused_timeouts(echo: carton.Model, noop_folder: Path, seconds: float) -> None:
    with pytest.raises(carton.InvalidInputError, match="seconds"):
        echo(x=1, timeout=seconds)
    with pytest.raises(carton.InvalidInputError, match="seconds"):
        carton.load(noop_folder, runner="noop", bare=True, timeout=seconds)


# Errors


def test_errors_of_the_model_and_the_runner(noop: MakeNoop) -> None:
    cases: list[tuple[dict[str, Any], type[carton.Error], type[Exception], str]] = [
        ({"fail": "the weights are melting"}, carton.ModelError, RuntimeError, "the weights are melting"),
        ({"panic": True}, carton.ModelError, RuntimeError, "panicked"),
        ({"crash": True, "last_words": "farewell"}, carton.RunnerCrashed, RuntimeError, "farewell"),
        ({"exit": 3}, carton.RunnerCrashed, RuntimeError, "status 3"),
    ]
    for options, kind, builtin, text in cases:
        model = noop(only_with="bad", **options)
        for _ in range(2):
            with pytest.raises(kind, match=text) as caught:
                model(bad=1)
            assert isinstance(caught.value, builtin) and isinstance(caught.value, carton.Error)
            # The next call has a runner that works.
            assert model(x=1)["x"] == 1


@pytest.mark.parametrize("text", ["no", "run", "e", "model"])
def test_the_text_of_an_error_is_never_lost(noop: MakeNoop, text: str) -> None:
    """Also not if the text around it contains it already, as the name of the runner contains `no`."""
    with pytest.raises(carton.ModelError) as caught:
        noop(fail=text)(x=1)
    assert str(caught.value).endswith(f": {text}")


def test_a_model_that_must_not_restart(noop: MakeNoop) -> None:
    model = noop(restart=False, crash=True, only_with="bad")
    for arguments in ({"bad": 1}, {"x": 1}):
        with pytest.raises(carton.RunnerCrashed):
            model(arguments)


def test_errors_of_a_load(noop_folder: Path, digits_path: Path, tmp_path: Path) -> None:
    def check(kind: type[carton.Error], builtin: type[Exception], text: str, *place: Any, **options: Any) -> None:
        with pytest.raises(kind, match=text) as caught:
            carton.load(*place, **options)
        assert isinstance(caught.value, builtin)

    check(carton.MachineError, OSError, "No such file", tmp_path / "missing.carton")
    check(carton.IntegrityError, Exception, "not a carton", noop_folder)
    check(carton.IntegrityError, Exception, "expected manifest hash 00", digits_path, expect="00" * 32)
    check(carton.InvalidInputError, ValueError, "64 hexadecimal digits", digits_path, expect="zz")
    check(carton.NoRunnerError, LookupError, "`nope`", digits_path, runner="nope")
    check(carton.NoRunnerError, LookupError, ">99", digits_path, framework_version=">99")
    check(carton.NoRunnerError, LookupError, "device", digits_path, device=0)
    check(carton.InvalidInputError, ValueError, "version requirement", digits_path, framework_version="latest")
    check(carton.InvalidInputError, ValueError, "signature mode", digits_path, signature="lenient")
    check(carton.InvalidInputError, ValueError, "runner=", noop_folder, bare=True)
    bare: dict[str, Any] = {"runner": "noop", "bare": True}
    check(carton.ModelError, RuntimeError, "out of paper", noop_folder, options={"fail_load": "out of paper"}, **bare)
    check(carton.NoRunnerError, LookupError, "a tape", noop_folder, options={"unavailable": "a tape"}, **bare)
    for location in (5, None, 3.0):
        with pytest.raises(TypeError):
            carton.load(location)  # type: ignore[arg-type]


def test_the_tree_of_exceptions() -> None:
    classes = [value for name in carton.__all__ if isinstance(value := getattr(carton, name), type)]
    errors = [value for value in classes if issubclass(value, Exception)]
    assert len(errors) == 18
    for error in errors:
        assert issubclass(error, carton.Error)
        raised = error("it broke")
        assert raised.hint is None and str(raised) == "it broke"
        raised.hint = "mend it"
        assert str(raised) == "it broke\nhint: mend it"


def test_a_loose_signature(digits_path: Path, pictures: Pictures, caplog: pytest.LogCaptureFixture) -> None:
    with carton.load(digits_path, signature="off") as model, pytest.raises(carton.ModelError):
        model(image=pictures[0][..., :7])
    with caplog.at_level(logging.INFO, "carton"), carton.load(digits_path, signature="warn") as model:
        with pytest.raises(carton.ModelError):
            model(image=pictures[0][..., :7])
        model.ping()
    assert any("expected 8, found 7" in record.getMessage() for record in caplog.records)
    assert all(record.name.startswith("carton") for record in caplog.records)


def test_the_log_of_a_model_goes_to_logging(noop: MakeNoop, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "carton"):
        model = noop(log="a line from the model")
        for _ in range(50):
            model(x=1)
            if "a line from the model" in caplog.text:
                break
    assert "a line from the model" in caplog.text


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


# Closing


def test_a_closed_model(noop: MakeNoop) -> None:
    async def awaited() -> None:
        await model.infer_async(x=1)

    with noop() as model:
        assert not model.closed and "noop" in repr(model)
    assert model.closed and "closed" in repr(model)
    model.close()
    for use in (
        lambda: model(x=1),
        lambda: model.infer(x=1),
        lambda: model.stream(x=1),
        lambda: model.seal(x=1),
        lambda: model.alloc(shape=(1,), dtype="f4"),
        lambda: model.self_test(),
        lambda: model.ping(),
        lambda: model.inputs,
        lambda: model.outputs,
        lambda: model.runner,
        lambda: model.package,
        lambda: asyncio.run(awaited()),
    ):
        with pytest.raises(carton.ClosedError, match="model is closed") as caught:
            use()
        assert isinstance(caught.value, ValueError)


def test_with_passes_exceptions_on(noop: MakeNoop) -> None:
    with pytest.raises(KeyError), noop() as model:
        raise KeyError("mine")
    assert model.closed


def test_closing_while_calls_run(noop: MakeNoop) -> None:
    model = noop(delay_ms=300)
    results: list[Any] = []

    def work() -> None:
        try:
            results.append(model(x=1)["x"] == 1)
        except carton.Error as error:
            results.append(isinstance(error, (carton.ClosedError, carton.RunnerCrashed)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(0.1)
    model.close()
    for thread in threads:
        thread.join(20)
    assert results == [True] * 4


def test_a_model_that_is_dropped_ends_its_runner(noop_folder: Path) -> None:
    def runners() -> int:
        tasks = Path("/proc/self/task").glob("*/children")
        return sum(len(task.read_text().split()) for task in tasks)

    gc.collect()
    before = runners()
    model = carton.load(noop_folder, runner="noop", bare=True)
    assert runners() == before + 1
    stream = model.stream(x=1)
    del model
    assert next(stream)["x"] == 1
    del stream
    end = time.monotonic() + 5
    while runners() > before and time.monotonic() < end:
        time.sleep(0.01)
    assert runners() == before


# What a model says of itself


def test_the_declaration_and_self_tests_of_a_model(digits: carton.Model) -> None:
    (image,), (probabilities,) = digits.inputs, digits.outputs
    assert (image.name, image.dtype, image.shape) == ("image", "float32", ("batch", 1, 8, 8))
    assert (probabilities.name, probabilities.shape) == ("probabilities", ("batch", 10))
    assert "digits" in repr(digits) and digits.runner.startswith("onnx ") and digits.package.model_name == "digits"
    report = digits.self_test()
    assert report["passed"] and [test["name"] for test in report["self_tests"]] == ["one digit", "sixteen digits"]
    assert digits.self_test(rtol=0.5, atol=0.5)["passed"]


def test_progress_of_a_load(digits_path: Path) -> None:
    seen: list[dict[str, Any]] = []
    carton.load(digits_path, progress=lambda **event: seen.append(event)).close()
    assert seen and all(set(event) == {"stage", "done", "total", "unit"} for event in seen)
    with pytest.raises(ZeroDivisionError):
        carton.load(digits_path, progress=lambda **event: 1 / 0)


def test_progress_of_self_tests(digits: carton.Model) -> None:
    seen: list[dict[str, Any]] = []
    digits.self_test(progress=lambda **event: seen.append(event))
    assert seen and seen[-1]["total"] == 2


def test_a_time_to_load(digits_path: Path, tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    # Loading many nodes takes many times longer than the smallest step of a timer, a millisecond.
    names = [f"x{number}" for number in range(20_001)]
    nodes = [onnx.helper.make_node("Identity", [before], [after]) for before, after in zip(names, names[1:])]
    ends = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n"]) for name in (names[0], names[-1])]
    graph = onnx.helper.make_graph(nodes, "slow", ends[:1], ends[1:])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8)
    slow = tmp_path / "slow.onnx"
    onnx.save(model, slow)
    with pytest.raises(carton.Timeout, match="load"):
        carton.load(slow, runner="onnx", bare=True, load_timeout=0.001)
    with carton.load(digits_path, load_timeout=60) as model:
        assert model.runner.startswith("onnx ")
    with pytest.raises(carton.InvalidInputError, match="seconds"):
        carton.load(digits_path, load_timeout=-1)


def test_a_wait_for_shared_memory(noop_folder: Path) -> None:
    with carton.load(noop_folder, runner="noop", bare=True, pool_bytes=1 << 20, pool_wait=0.2) as model:
        first = model.alloc(shape=(900_000,), dtype="uint8")
        began = time.monotonic()
        with pytest.raises(carton.BusyError):
            model.alloc(shape=(900_000,), dtype="uint8")
        assert 0.1 < time.monotonic() - began < 10
        del first
        assert model.alloc(shape=(900_000,), dtype="uint8").shape == (900_000,)


def test_a_model_is_closed_while_threads_look_at_it(digits_path: Path) -> None:
    for _ in range(20):
        model = carton.load(digits_path)

        def look() -> None:
            while not model.closed:
                repr(model)

        threads = [threading.Thread(target=look) for _ in range(3)]
        for thread in threads:
            thread.start()
        time.sleep(0.02)
        model.close()
        for thread in threads:
            thread.join(20)
            assert not thread.is_alive()
