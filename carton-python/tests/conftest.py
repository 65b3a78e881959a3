"""What the tests share: cartons that are packed here, models of the no-op runner, and scripts in interpreters of their own.

The environment is set before `carton` is imported: no test reads or writes the cache, the runners or the configuration of the user.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Iterator

_STATE = tempfile.TemporaryDirectory(prefix="carton-tests-")
os.environ["CARTON_CACHE_DIR"] = os.path.join(_STATE.name, "cache")
os.environ["CARTON_RUNNER_DIR"] = os.path.join(_STATE.name, "runners")
os.environ["CARTON_CONFIG_PATH"] = os.path.join(_STATE.name, "config.toml")
Path(os.environ["CARTON_CONFIG_PATH"]).touch()

import numpy as np  # noqa: E402
import pytest  # noqa: E402

import carton  # noqa: E402

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

MakeNoop = Callable[..., carton.Model]


@pytest.fixture(scope="session")
def digits_folder() -> Path:
    """The example: a model, its metadata, and what ONNX Runtime makes of sixteen pictures."""
    return EXAMPLES / "digits"


@pytest.fixture(scope="session")
def digits_path(tmp_path_factory: pytest.TempPathFactory, digits_folder: Path) -> Path:
    """The example as a carton, with its self-tests."""
    path = tmp_path_factory.mktemp("digits") / "digits.carton"
    carton.pack(digits_folder / "model.onnx", path, runner="onnx", metadata=digits_folder / "carton.toml")
    return path


@pytest.fixture(scope="session")
def digits(digits_path: Path) -> Iterator[carton.Model]:
    with carton.load(digits_path) as model:
        yield model


@pytest.fixture(scope="session")
def pictures(digits_folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Sixteen pictures, float32 [16, 1, 8, 8], and their probabilities, float32 [16, 10]."""
    with np.load(digits_folder / "cases.npz") as cases:
        return cases["images"], cases["probabilities"]


@pytest.fixture(scope="session")
def noop_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the no-op runner takes for a model."""
    folder = tmp_path_factory.mktemp("noop")
    (folder / "model").write_text("nothing")
    return folder


@pytest.fixture(scope="session")
def echo(noop_folder: Path) -> Iterator[carton.Model]:
    """A model that returns its inputs."""
    with carton.load(noop_folder, runner="noop", bare=True) as model:
        yield model


@pytest.fixture(scope="session")
def copying(noop_folder: Path) -> Iterator[carton.Model]:
    """A model that returns its inputs in memory of its own."""
    with carton.load(noop_folder, runner="noop", bare=True, options={"copy": True}) as model:
        yield model


@pytest.fixture
def noop(noop_folder: Path) -> Iterator[MakeNoop]:
    """Loads models of the no-op runner with options (see its documentation), and closes them after the test."""
    models: list[carton.Model] = []

    def load(*, timeout: float | None = None, restart: bool = True, **options: Any) -> carton.Model:
        model = carton.load(noop_folder, runner="noop", bare=True, options=options, timeout=timeout, restart=restart)
        models.append(model)
        return model

    yield load
    for model in models:
        model.close()


@dataclass(frozen=True)
class Ended:
    """How a script ended. `code` is its exit status, or the negative number of the signal that killed it."""

    code: int
    stdout: str
    stderr: str


RunScript = Callable[..., Ended]


def processes_with(mark: str) -> list[int]:
    """The processes whose PATH contains the mark; runners inherit it."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid():
            try:
                environment = Path("/proc", entry, "environ").read_bytes()
            except OSError:
                continue
            if mark.encode() in environment:
                found.append(int(entry))
    return found


def gone(mark: str, *, within: float) -> bool:
    """Whether no marked process is left. It may take them a moment."""
    end = time.monotonic() + within
    while processes_with(mark):
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


@pytest.fixture
def run_script(tmp_path: Path, noop_folder: Path, digits_path: Path) -> RunScript:
    """Runs a script in an interpreter of its own, and checks that it leaves no process.

    The script has `carton`, `np`, and the function `noop(**options)`, which loads a model of the no-op runner.
    """
    preamble = f"""
import asyncio, os, signal, sys, threading, time
import numpy as np
import carton

DIGITS = {str(digits_path)!r}

def noop(**options):
    return carton.load({str(noop_folder)!r}, runner="noop", bare=True, options=options)
"""

    def run(text: str, *, seconds: float = 30) -> Ended:
        mark = f"carton-test-{uuid.uuid4().hex}"
        script = tmp_path / f"{mark}.py"
        script.write_text(preamble + text)
        environment = dict(os.environ, PATH=f"{os.environ.get('PATH', '')}:/{mark}")
        try:
            process = subprocess.run(
                [sys.executable, str(script)], env=environment, capture_output=True, text=True, timeout=seconds
            )
        except subprocess.TimeoutExpired as error:
            pytest.fail(f"the script hangs: {error.stdout!r} {error.stderr!r}")
        finally:
            left_none = gone(mark, within=5)
        assert left_none, f"the script left processes: {process.stderr}"
        return Ended(process.returncode, process.stdout, process.stderr)

    return run
