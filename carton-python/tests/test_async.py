"""Awaited calls: gathering, cancelling, streams, and loops that come and go."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import carton
from conftest import MakeNoop, RunScript


def test_gather(echo: carton.Model, digits: carton.Model, pictures: tuple[np.ndarray, np.ndarray]) -> None:
    images, expected = pictures

    async def main() -> None:
        outputs = await asyncio.gather(*[echo.infer_async(x=np.full(5000, number)) for number in range(200)])
        assert [int(output["x"][-1]) for output in outputs] == list(range(200))
        outputs = await asyncio.gather(*[digits.infer_async(images[at : at + 1]) for at in range(16)])
        found = np.concatenate([output["probabilities"] for output in outputs])
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)

    asyncio.run(main())


def test_tasks(echo: carton.Model) -> None:
    async def main() -> None:
        task = asyncio.create_task(echo.infer_async(x=1))
        assert (await task)["x"] == 1

    asyncio.run(main())


def test_asyncio_run_takes_a_call(echo: carton.Model) -> None:
    async def main() -> int:
        return int((await echo.infer_async(x=1))["x"])

    assert asyncio.run(main()) == 1


@pytest.mark.skipif(sys.version_info < (3, 11), reason="task groups are in Python 3.11 and later")
def test_a_task_group(echo: carton.Model) -> None:
    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(echo.infer_async(x=number)) for number in range(5)]
        assert [int(task.result()["x"]) for task in tasks] == list(range(5))

    asyncio.run(main())


def test_errors_of_awaited_calls(noop: MakeNoop, digits: carton.Model) -> None:
    async def main() -> None:
        with pytest.raises(carton.SignatureError):
            await digits.infer_async(picture=1)
        with pytest.raises(carton.InvalidInputError, match="complex"):
            await digits.infer_async(image=1j)
        with pytest.raises(carton.ModelError, match="the weights are melting"):
            await noop(fail="the weights are melting").infer_async(x=1)
        with pytest.raises(carton.RunnerCrashedError):
            await noop(crash=True).infer_async(x=1)
        with pytest.raises(TimeoutError):
            await noop(delay_ms=20_000).infer_async(x=1, timeout=0.2)
        results = await asyncio.gather(
            *[noop(fail="the weights are melting").infer_async(x=1) for _ in range(3)], return_exceptions=True
        )
        assert all(isinstance(result, carton.ModelError) for result in results)

    asyncio.run(main())


def test_the_loop_runs_while_a_call_does(noop: MakeNoop) -> None:
    model = noop(delay_ms=400)

    async def main() -> int:
        call = asyncio.ensure_future(model.infer_async(x=1))
        ticks = 0
        while not call.done():
            await asyncio.sleep(0.01)
            ticks += 1
        await call
        return ticks

    assert asyncio.run(main()) > 10


def test_cancelling_a_call_cancels_it_in_the_runner(noop: MakeNoop) -> None:
    model = noop(delay_ms=20_000, only_with="slow", max_concurrency=1)

    async def main() -> None:
        call = asyncio.ensure_future(model.infer_async(slow=1))
        await asyncio.sleep(0.1)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        start = time.monotonic()
        assert (await model.infer_async(x=1, timeout=10))["x"] == 1
        assert time.monotonic() - start < 5
        with pytest.raises((asyncio.TimeoutError, TimeoutError)):
            await asyncio.wait_for(model.infer_async(slow=1), 0.1)
        assert (await model.infer_async(x=1, timeout=10))["x"] == 1
        # Before it began.
        call = asyncio.ensure_future(model.infer_async(x=1))
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(main())


def test_one_of_many_is_cancelled(noop: MakeNoop) -> None:
    model = noop(delay_ms=300)

    async def main() -> None:
        calls = [asyncio.ensure_future(model.infer_async(x=number)) for number in range(6)]
        await asyncio.sleep(0.05)
        calls[2].cancel()
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert isinstance(results.pop(2), asyncio.CancelledError)
        assert [int(result["x"]) for result in results if isinstance(result, dict)] == [0, 1, 3, 4, 5]

    asyncio.run(main())


def test_async_for(noop: MakeNoop) -> None:
    model = noop(stream_items=5)

    async def main() -> None:
        assert [int(item["x"]) async for item in model.stream(x=7)] == [7] * 5
        async for _ in model.stream(x=np.zeros(100_000)):
            break
        gc.collect()
        assert (await model.infer_async(x=1, timeout=10))["x"] == 1

        async def count() -> int:
            return len([item async for item in model.stream(x=np.zeros(1000))])

        assert await asyncio.gather(*[count() for _ in range(10)]) == [5] * 10

    asyncio.run(main())


def test_an_async_stream_that_fails(noop: MakeNoop) -> None:
    model = noop(stream_items=5, fail_after_items=3, fail="the tape is torn")

    async def main() -> None:
        items = []
        with pytest.raises(carton.ModelError, match="the tape is torn"):
            async for item in model.stream(x=1):
                items.append(item)
        assert len(items) == 3

    asyncio.run(main())


def test_cancelling_an_async_stream(noop: MakeNoop) -> None:
    model = noop(delay_ms=20_000, only_with="slow", max_concurrency=1)

    async def main() -> None:
        async def consume() -> None:
            async for _ in model.stream(slow=1):
                pass

        task = asyncio.ensure_future(consume())
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await model.infer_async(x=1, timeout=10))["x"] == 1

    asyncio.run(main())


def test_load_async(digits_path: Path, tmp_path: Path) -> None:
    async def main() -> None:
        first, second = await asyncio.gather(carton.load_async(digits_path), carton.load_async(digits_path))
        with first, second:
            outputs = await second.infer_async(image=np.zeros((2, 1, 8, 8), np.float32))
            assert outputs["probabilities"].shape == (2, 10)
        with pytest.raises(carton.MachineError):
            await carton.load_async(tmp_path / "missing.carton")
        task = asyncio.create_task(carton.load_async(digits_path))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


def test_loops_one_after_another(echo: carton.Model) -> None:
    async def main(number: int) -> int:
        return int((await echo.infer_async(x=number))["x"])

    assert asyncio.run(main(0)) == 0
    gc.collect()
    descriptors = len(os.listdir("/proc/self/fd"))
    assert [asyncio.run(main(number)) for number in range(50)] == list(range(50))
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= descriptors


def test_loops_in_threads(echo: carton.Model) -> None:
    found: list[int] = []

    async def main(number: int) -> None:
        outputs = await asyncio.gather(*[echo.infer_async(x=number) for _ in range(20)])
        found.extend(int(output["x"]) for output in outputs)

    threads = [threading.Thread(target=lambda number=number: asyncio.run(main(number))) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(found) == sorted(list(range(4)) * 20)


def test_a_loop_that_is_closed_with_calls_in_flight(noop: MakeNoop) -> None:
    model = noop(delay_ms=100)

    async def start() -> list["asyncio.Future[dict[str, object]]"]:
        return [asyncio.ensure_future(model.infer_async(x=np.zeros(100_000))) for _ in range(4)]

    for _ in range(3):
        loop = asyncio.new_event_loop()
        calls = loop.run_until_complete(start())
        loop.run_until_complete(asyncio.sleep(0.01))
        for call in calls[:2]:
            call.cancel()
        loop.close()
        del loop, calls
        gc.collect()
    time.sleep(0.3)
    assert model(x=1, timeout=10)["x"] == 1


def test_no_loop_runs(echo: carton.Model) -> None:
    with pytest.raises(RuntimeError, match="no running event loop"):
        echo.infer_async(x=1).send(None)  # type: ignore[attr-defined]


def test_closing_while_calls_are_awaited(noop: MakeNoop) -> None:
    model = noop(delay_ms=200)

    async def main() -> None:
        calls = [asyncio.ensure_future(model.infer_async(x=1)) for _ in range(4)]
        await asyncio.sleep(0.05)
        model.close()
        for result in await asyncio.gather(*calls, return_exceptions=True):
            assert isinstance(result, (dict, carton.ClosedError, carton.RunnerCrashedError)), result

    asyncio.run(main())


def test_another_event_loop(run_script: RunScript) -> None:
    pytest.importorskip("uvloop", reason="uvloop is not installed")
    ended = run_script(
        """
import uvloop
model = noop()
async def main():
    outputs = await asyncio.gather(*[model.infer_async(x=number) for number in range(100)])
    assert [int(output["x"]) for output in outputs] == list(range(100))
uvloop.run(main())
"""
    )
    assert ended.code == 0, ended.stderr
