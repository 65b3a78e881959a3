"""Timeouts, and the errors of models, runners and loads."""

from __future__ import annotations

import asyncio
import builtins
import logging
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import carton
from conftest import MakeNoop

Pictures = tuple[np.ndarray, np.ndarray]


# Timeouts


def test_a_call_that_takes_too_long(noop: MakeNoop) -> None:
    model = noop(delay_ms=20_000, only_with="slow")
    for call in (
        lambda: model(slow=1, timeout=0.2),
        lambda: list(model.stream(slow=1, timeout=0.2)),
        lambda: model(model.seal(slow=1), timeout=0.2),
    ):
        start = time.monotonic()
        with pytest.raises(carton.TimedOutError) as caught:
            call()
        assert isinstance(caught.value, TimeoutError) and caught.value.hint
        assert 0.15 < time.monotonic() - start < 3
        assert model(x=1)["x"] == 1


def test_the_timeout_of_a_model(noop: MakeNoop) -> None:
    model = noop(timeout=0.2, delay_ms=600, only_with="slow")
    with pytest.raises(carton.TimedOutError):
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
        ({"crash": True, "last_words": "farewell"}, carton.RunnerCrashedError, RuntimeError, "farewell"),
        ({"exit": 3}, carton.RunnerCrashedError, RuntimeError, "status 3"),
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
        with pytest.raises(carton.RunnerCrashedError):
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
        assert issubclass(error, carton.Error) and error.__name__.endswith("Error")
        # `from carton import *` hides no builtin, and nothing is taken for what asyncio raises.
        assert not hasattr(builtins, error.__name__) and not hasattr(asyncio, error.__name__)
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
