"""Memory and descriptors over many calls."""

from __future__ import annotations

import asyncio
import gc
import os
import time
from pathlib import Path
from typing import Callable

import numpy as np
import pytest

import carton
from conftest import MakeNoop

# What measuring itself may change: pages of the allocators, and of the tables of the interpreter.
ALLOWED = 4 << 20
CALLS = 100_000
# A debug build on a busy machine makes fewer, in seconds.
LONGEST = 15.0
MIB = 1 << 20


def resident() -> int:
    """The memory of this process in bytes, that of shared mappings included."""
    fields = Path("/proc/self/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")


def mappings() -> int:
    return len(Path("/proc/self/maps").read_text().splitlines())


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def threads() -> int:
    return len(os.listdir("/proc/self/task"))


def check(work: Callable[[], object], times: int, *, allowed: int = ALLOWED) -> None:
    """Runs work many times, and compares with what there was after a tenth of them."""
    for _ in range(max(times // 10, 2)):
        work()
    gc.collect()
    before = (resident(), descriptors(), mappings(), threads(), len(gc.get_objects()))
    end = time.monotonic() + LONGEST
    for done in range(times):
        work()
        if time.monotonic() > end and done > times // 5:
            break
    gc.collect()
    after = (resident(), descriptors(), mappings(), threads(), len(gc.get_objects()))
    assert after[0] - before[0] < allowed, f"{(after[0] - before[0]) / times:.0f} bytes each time"
    assert after[1] <= before[1], "descriptors"
    assert after[2] - before[2] < 20, "mappings"
    # A thread that has just finished its work is not always found idle.
    assert after[3] <= before[3] + 4, "threads"
    assert after[4] - before[4] < 200, "objects"


def test_empty_calls(echo: carton.Model) -> None:
    """A hundred thousand of them: a leak of fifty bytes would show."""
    check(echo, CALLS)


def test_calls_of_every_size(echo: carton.Model, copying: carton.Model) -> None:
    arrays = [np.zeros(size, np.uint8) for size in (0, 10, 5000, 200_000, 2 * MIB)]

    def work() -> None:
        for array in arrays:
            echo(x=array, s=["a", "b"])
            copying(x=array)

    check(work, 200, allowed=16 << 20)


def test_failing_calls(digits: carton.Model, noop: MakeNoop) -> None:
    model = noop(fail="the weights are melting")

    def work() -> None:
        for call in (lambda: digits(picture=1), lambda: digits(image=1j), lambda: model(x=np.zeros(10_000))):
            with pytest.raises(carton.Error):
                call()

    check(work, 300)


def test_alloc_is_released(echo: carton.Model) -> None:
    def work() -> None:
        array = echo.alloc(shape=(32 * MIB,), dtype=np.uint8)
        array[::4096] = 1
        kept = array[5:]
        del array
        assert kept[4091] == 1

    # 8 GiB in all, of the 4 that a model may have.
    check(work, 256, allowed=80 << 20)


def test_outputs_are_released(copying: carton.Model, echo: carton.Model) -> None:
    sent = np.ones(32 * MIB, np.uint8)

    def work() -> None:
        output = copying(x=sent)["x"]
        view = output[MIB:]
        del output
        assert view[-1] == 1
        assert echo(x=view)["x"][-1] == 1

    check(work, 20, allowed=200 << 20)


def test_many_outputs_are_held_and_released(copying: carton.Model) -> None:
    def work() -> None:
        outputs = [copying(x=np.full(50_000, number, np.float32))["x"] for number in range(100)]
        assert [int(output[-1]) for output in outputs] == list(range(100))

    check(work, 8, allowed=48 << 20)


def test_sealed_inputs_are_released(echo: carton.Model) -> None:
    sent = np.ones(32 * MIB, np.uint8)
    forgotten = [True, False]

    def work() -> None:
        sealed = echo.seal(x=sent)
        echo(sealed)
        forgotten.reverse()
        if forgotten[0]:
            sealed.close()

    check(work, 40, allowed=200 << 20)


def test_streams_are_released(noop: MakeNoop) -> None:
    model = noop(stream_items=3)

    def work() -> None:
        assert len(list(model.stream(x=np.zeros(1000)))) == 3
        next(model.stream(x=np.zeros(1000)))
        model.stream(x=np.zeros(1000))

    check(work, 300, allowed=8 << 20)


def test_awaited_calls(echo: carton.Model, noop: MakeNoop) -> None:
    slow = noop(delay_ms=1000)

    async def main() -> None:
        await asyncio.gather(*[echo.infer_async(x=np.zeros(1000)) for _ in range(50)])
        cancelled = asyncio.ensure_future(slow.infer_async(x=np.zeros(1000)))
        await asyncio.sleep(0)
        cancelled.cancel()

    check(lambda: asyncio.run(main()), 100, allowed=8 << 20)


def test_models_are_released(noop_folder: Path) -> None:
    def work() -> None:
        model = carton.load(noop_folder, runner="noop", bare=True)
        model(x=np.zeros(1000))
        model.close()

    check(work, 30, allowed=8 << 20)


def test_opened_cartons_are_released(digits_path: Path) -> None:
    def work() -> None:
        package = carton.open(digits_path)
        package.tensor(package.tensors[0])
        package.example("a two")
        package.self_test("one digit")
        package.info()

    check(work, 100)


def test_tensor_files_are_released(tmp_path: Path) -> None:
    path = tmp_path / "weights.npz"
    np.savez(path, a=np.zeros(10_000))

    def work() -> None:
        file = carton.tensors.open(path)
        array = file["a"]
        file.close()
        assert array[-1] == 0

    check(work, 300)
