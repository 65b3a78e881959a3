"""Models: closing them, and what they say of themselves."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import carton
from conftest import MakeNoop


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
            results.append(isinstance(error, (carton.ClosedError, carton.RunnerCrashedError)))

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
    assert report.ok and [test.name for test in report.tests] == ["one digit", "sixteen digits"]
    assert (report.passed, report.ran, report.failed) == (2, 0, 0)
    assert digits.self_test(rtol=0.5, atol=0.5).ok
    (test, _), ((output,), _) = report.tests, (test.outputs for test in report.tests)
    assert (test.outcome, test.error, output.name, output.ok) == ("passed", None, "probabilities", True)
    assert output.max_abs_diff is not None and output.max_abs_diff < 1e-4
    assert repr(report) == "SelfTestReport(ok=True, passed=2, ran=0, failed=0)"
    assert repr(test) == "SelfTestResult(name='one digit', outcome='passed', error=None)"
    plain = json.loads(json.dumps(dataclasses.asdict(report)))
    assert plain["tests"][0]["outputs"][0]["ok"] is True
    with pytest.raises(dataclasses.FrozenInstanceError):
        report.ok = False  # type: ignore[misc]


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
    with pytest.raises(carton.TimedOutError, match="load"):
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
