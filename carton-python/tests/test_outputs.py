"""Outputs: arrays over shared memory that nobody can damage, and that outlive their model."""

from __future__ import annotations

import ctypes
import gc
from typing import Any

import numpy as np
import pytest

import carton
from conftest import MakeNoop, RunScript

# In bytes: copied at once, copied into memory of its own, and mapped.
SIZES = [8, 4096, 100_000, 10_000_000]


@pytest.fixture(params=["echo", "copying"])
def model(request: pytest.FixtureRequest) -> carton.Model:
    """A model whose outputs are the host's memory, and one whose outputs are the runner's."""
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize("size", SIZES)
def test_outputs_are_read_only(model: carton.Model, size: int) -> None:
    sent = np.arange(size // 8)
    output = model(x=sent)["x"]
    assert type(output) is np.ndarray and not output.flags.writeable and output.flags.c_contiguous
    assert np.array_equal(output, sent)
    with pytest.raises(ValueError, match="read-only"):
        output[0] = 1
    with pytest.raises(ValueError):
        output.setflags(write=True)
    with pytest.raises(ValueError):
        output[:1].setflags(write=True)
    assert memoryview(output).readonly
    # A copy is the caller's.
    copy = output.copy()
    copy[0] = 5


@pytest.mark.parametrize("size", SIZES)
def test_outputs_outlive_the_model(noop: MakeNoop, size: int) -> None:
    sent = np.arange(size // 8)
    model = noop(copy=True)
    kept = [model(x=sent + number)["x"] for number in range(3)]
    views = [output[1:][::-1] for output in kept]
    model.close()
    del model
    gc.collect()
    for number, output in enumerate(kept):
        assert np.array_equal(output, sent + number)
    del kept, output
    gc.collect()
    for number, view in enumerate(views):
        assert np.array_equal(view, (sent + number)[1:][::-1])


def test_outputs_outlive_a_crash_of_the_runner(noop: MakeNoop) -> None:
    model = noop(copy=True, crash=True, only_with="bad")
    sent = np.arange(1_000_000)
    output = model(x=sent)["x"]
    with pytest.raises(carton.RunnerCrashedError):
        model(bad=1)
    assert np.array_equal(output, sent)
    assert np.array_equal(model(x=output)["x"], sent)


@pytest.mark.parametrize("size", SIZES)
def test_writing_to_an_output_harms_nothing(model: carton.Model, size: int) -> None:
    """Other libraries ignore that an array is read-only. What they write is seen in that array alone."""
    sent = np.arange(size // 8)
    inputs = {"x": sent, "y": sent + 1}
    outputs, others = model(inputs), model(inputs)
    x = outputs["x"]
    ctypes.memset(x.ctypes.data, 0xFF, x.nbytes)
    assert (x == -1).all()
    assert np.array_equal(outputs["y"], sent + 1)
    assert np.array_equal(others["x"], sent) and np.array_equal(others["y"], sent + 1)
    assert np.array_equal(sent, np.arange(size // 8))
    again = model(inputs)
    assert np.array_equal(again["x"], sent) and np.array_equal(again["y"], sent + 1)


def test_the_same_input_twice(model: carton.Model) -> None:
    sent = np.arange(1_000_000)
    outputs = model(x=sent, y=sent)
    ctypes.memset(outputs["x"].ctypes.data, 0, 80)
    assert np.array_equal(outputs["y"], sent)


@pytest.mark.parametrize("size", SIZES)
def test_outputs_fed_back(model: carton.Model, echo: carton.Model, size: int) -> None:
    sent = np.arange(size // 8, dtype=np.float64)
    value = sent
    for _ in range(20):
        value = model(x=value)["x"]
    assert np.array_equal(value, sent)
    assert np.array_equal(echo(x=value[1:])["x"], sent[1:])
    assert np.array_equal(echo(x=value[::-1])["x"], sent[::-1])
    assert np.array_equal(echo(x=value.reshape(1, -1))["x"], sent.reshape(1, -1))


@pytest.mark.parametrize("size", SIZES)
def test_an_output_fed_back_is_what_the_array_shows(
    model: carton.Model, size: int, request: pytest.FixtureRequest
) -> None:
    """Also after another library wrote to it, as `torch.from_dlpack(output).add_(1)` does.

    Large outputs that are in the runner's memory are passed on as the runner has them: looking for pages that were written would cost as
    much as a copy.
    """
    sent = np.arange(size // 8)
    output = model(x=sent)["x"]
    ctypes.memset(output.ctypes.data, 0, 8)
    output_now = output.copy()
    ctypes.memset(output.ctypes.data, 0xFF, 8)
    assert output[0] == -1 and output_now[0] == 0
    is_mapped = size >= 128 << 10 and "copying" in request.node.name
    assert np.array_equal(model(x=output)["x"], sent if is_mapped else output)


@pytest.mark.parametrize("size", SIZES)
def test_an_output_does_not_follow_the_input_that_it_returns(model: carton.Model, size: int) -> None:
    """An array of `alloc` is filled again between calls. Outputs that return it keep what they were, also as inputs."""
    array = model.alloc(shape=(size // 8,), dtype=np.int64)
    array[:] = 3
    output = model(x=array)["x"]
    array[:] = 7
    assert (output == 3).all()
    assert (model(x=output)["x"] == 3).all()


def test_large_outputs(copying: carton.Model) -> None:
    sent = np.random.default_rng(0).integers(0, 255, 64 << 20, dtype=np.uint8)
    outputs = [copying(x=sent)["x"] for _ in range(3)]
    for output in outputs:
        assert np.array_equal(output, sent)


def test_buffers_and_dlpack(model: carton.Model) -> None:
    sent = np.arange(300_000, dtype=np.float32).reshape(3, -1)
    output = model(x=sent)["x"]
    assert memoryview(output).tobytes() == sent.tobytes()
    taken: Any = np.from_dlpack(output)
    assert not taken.flags.writeable
    assert taken.ctypes.data == output.ctypes.data
    del output
    gc.collect()
    assert np.array_equal(taken, sent)


def test_an_array_api_library_takes_outputs(model: carton.Model) -> None:
    xp = pytest.importorskip("array_api_strict", reason="array_api_strict is not installed")
    sent = np.arange(100_000, dtype=np.float32)
    taken = xp.from_dlpack(model(x=sent)["x"])
    assert np.array_equal(np.asarray(taken), sent)
    assert np.array_equal(model(x=taken)["x"], sent)


def test_arrow_takes_outputs(model: carton.Model) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    sent = np.arange(100_000, dtype=np.float32)
    assert pyarrow.array(model(x=sent)["x"]).to_pylist() == sent.tolist()


def test_strings_and_nested_outputs_are_read_only(model: carton.Model) -> None:
    outputs = model(s=["a", "b"], n=[np.zeros(2), np.ones(3)])
    with pytest.raises(ValueError):
        outputs["s"][0] = "c"
    assert [item.tolist() for item in outputs["n"]] == [[0, 0], [1, 1, 1]]
    assert not any(item.flags.writeable for item in outputs["n"])


def test_outputs_live_to_the_end_of_the_interpreter(run_script: RunScript) -> None:
    ended = run_script(
        """
import atexit
model = noop(copy=True)
output = model(x=np.arange(1_000_000))["x"]
model.close()
atexit.register(lambda: print(output.sum()))
"""
    )
    assert (ended.code, ended.stdout.strip()) == (0, str(sum(range(1_000_000)))), ended.stderr
