"""Starts `carton serve` with the models of the tests.

CARTON_PROGRAM names the program `carton`; without it the one in target/debug is taken.
"""

import contextlib
import os
import queue
import re
import subprocess
import threading
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

REPOSITORY = Path(__file__).parents[3]
DIGITS = REPOSITORY / "examples" / "digits"
# Loading the models is part of starting.
START_LIMIT = 60

# Both clients register messages of the same names, so that one process can only have one: `./run` calls pytest twice.
KSERVE = "test_kserve.py"
ALL = [path.name for path in Path(__file__).parent.glob("test_*.py")]
collect_ignore = [name for name in ALL if (name == KSERVE) != (os.environ.get("CARTON_TEST_CLIENT") == "kserve")]

# The datatypes of the protocol that have a form in JSON with every client, and the elements of an input of shape [2, 2]: the extremes of each.
TYPES = {
    dtype.upper(): np.array([[np.iinfo(dtype).min, np.iinfo(dtype).max], [0, 1]], dtype)
    for dtype in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
} | {
    "FP32": np.array([[0.1, -2.5e-38], [3.4e38, -0.0]], np.float32),
    "FP64": np.array([[0.1, -2.5e-300], [1.7e308, -0.0]], np.float64),
    "BYTES": np.array([["", "two words"], ["naïve ☃", 'a\n"b"\\']], np.object_),
    "BOOL": np.array([[True, False], [False, True]]),
}
# What clients send as bytes alone: the dtype of the model's input, and its elements.
BINARY = {
    "FP16": ("float16", np.array([0.1, -0.0, 65504, 6e-8], np.float16)),
    "BYTES": ("bytes", np.array([b"\xff\xd8\0", b"", b"text"], np.object_)),
}
# The dtypes that models of one input have.
ONE_TYPE = ["bool", "float16", "bfloat16", "float8_e5m2", "complex64", "float64", "bytes"]
# What a carton.toml calls those that have another name there.
DTYPES = {"FP32": "float32", "FP64": "float64", "BYTES": "string"}


@dataclass
class Server:
    """A running `carton serve`."""

    process: subprocess.Popen
    http: str = ""
    grpc: str = ""
    lines: list = field(default_factory=list)

    def url(self, path):
        return f"http://{self.http}/{path}"

    def is_ready(self):
        try:
            urllib.request.urlopen(self.url("v2/health/ready"), timeout=5).close()
            return True
        except OSError:
            return False


def program():
    path = Path(os.environ.get("CARTON_PROGRAM") or REPOSITORY / "target" / "debug" / "carton")
    if not path.exists():
        pytest.skip(f"{path} does not exist: build it, or set CARTON_PROGRAM")
    return str(path)


@pytest.fixture(scope="session")
def environment(tmp_path_factory):
    """Without the user's runners, cache and configuration."""
    home = tmp_path_factory.mktemp("home")
    own = {name: value for name, value in os.environ.items() if not name.startswith("CARTON_")}
    return own | {
        "CARTON_CONFIG_PATH": os.devnull,
        "CARTON_CACHE_DIR": str(home / "cache"),
        "CARTON_RUNNER_DIR": str(home / "runners"),
        "NO_PROXY": "127.0.0.1,localhost",
    }


def tensors(kind, *specs):
    """The lines of a carton.toml for inputs or outputs."""
    return "".join(f'[[{kind}]]\nname = "{name}"\ndtype = "{dtype}"\nshape = {shape}\n' for name, dtype, shape in specs)


@pytest.fixture(scope="session")
def cartons(environment, tmp_path_factory):
    """The models: digits, and others that return their inputs."""
    folder = tmp_path_factory.mktemp("cartons")

    def pack(name, model, *arguments):
        command = [program(), "pack", str(model), "-o", str(folder / f"{name}.carton"), "--no-check", *arguments]
        subprocess.run(command, env=environment, check=True, capture_output=True)
        return folder / f"{name}.carton"

    def echo(name, *specs, **options):
        (folder / "model.bin").write_bytes(b"-")
        metadata = folder / f"{name}.toml"
        metadata.write_text(f'model_name = "{name}"\n' + tensors("input", *specs) + tensors("output", *specs))
        opts = [argument for option, value in options.items() for argument in ("--opt", f"{option}={value}")]
        return pack(name, folder / "model.bin", "--runner", "noop", "--metadata", str(metadata), *opts)

    every_type = [(name, DTYPES.get(name, name.lower()), '["n", 2]') for name in TYPES]
    numbers = ("x", "float32", '["n"]')
    return {
        "digits": pack("digits", DIGITS / "model.onnx", "--runner", "onnx", "--metadata", str(DIGITS / "carton.toml")),
        "types": echo("types", *every_type),
        # Each has one input and output, of the dtype that it is called.
        **{dtype: echo(dtype, ("x", dtype, '["n"]')) for dtype in ONE_TYPE},
        # Two inputs and outputs, of which a request may choose one.
        "pair": echo("pair", numbers, ("y", "int64", '["n"]')),
        "echo": echo("echo", numbers),
        # Lists of tensors, of which those of one shape are a tensor, too.
        "boxes": echo("boxes", ("x", "float32", '["*", "*", 4]')),
        "words": echo("words", ("x", "string", '["*", "*"]')),
        "rows": echo("rows", ("x", "float32", '["n", 3]')),
        # Returns its input three times.
        "stream": echo("stream", numbers, stream_items=3),
        "broken-stream": echo("broken-stream", numbers, stream_items=3, fail="no more", fail_after_items=1),
        # Long enough to be compressed, were it not an error.
        "failing": echo("failing", numbers, fail="the weather is bad" + ", very bad" * 150),
        "slow": echo("slow", numbers, delay_ms=3000),
    }


@contextlib.contextmanager
def serve(environment, models, *arguments, wait=True):
    """Runs `carton serve` on free ports until the end of the block. With `wait` the models are ready when the block begins."""
    command = [program(), "serve", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", *arguments]
    command += [f"{name}={path}" for name, path in models.items()]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    server, lines = Server(process), queue.Queue()

    def read():
        for line in process.stderr:
            server.lines.append(line)
            lines.put(line)
        lines.put("")

    threading.Thread(target=read, daemon=True).start()
    try:
        end = time.monotonic() + START_LIMIT
        while not (server.http and server.grpc):
            try:
                line = lines.get(timeout=max(0, end - time.monotonic()))
            except queue.Empty:
                line = ""
            assert line, f"carton serve does not listen:\n{''.join(server.lines)}"
            if match := re.search(r"listening on (http|grpc)s?://(\S+)", line):
                setattr(server, match[1], match[2])
        while wait and not server.is_ready():
            assert time.monotonic() < end, f"carton serve does not get ready:\n{''.join(server.lines)}"
            time.sleep(0.05)
        yield server
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            raise


@pytest.fixture(scope="session")
def server(environment, cartons):
    with serve(environment, cartons) as running:
        yield running


@pytest.fixture
def administered(environment, cartons):
    """A server whose models clients may load and unload."""
    with serve(environment, {"digits": cartons["digits"], "pair": cartons["pair"]}, "--repository-api") as running:
        yield running


@pytest.fixture(scope="session")
def digit():
    """A picture of a digit, and its probabilities as another implementation computed them."""
    return np.load(DIGITS / "image.npy"), np.load(DIGITS / "probabilities.npy")


@pytest.fixture(scope="session")
def sixteen_digits():
    cases = np.load(DIGITS / "cases.npz")
    return cases["images"], cases["probabilities"]
