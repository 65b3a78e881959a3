"""NVIDIA's load generator calls `carton serve`, compares its answers, and reads its statistics."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
N_REQUESTS = 200
N_AT_ONCE = 4


@pytest.fixture(scope="session")
def perf_analyzer():
    directory = HERE.parents[2] / "target" / "test-perf-analyzer"
    command = ["sh", str(HERE / "perf_analyzer.sh"), str(directory), sys.executable]
    installed = subprocess.run(command, capture_output=True, text=True)
    if installed.returncode != 0:
        pytest.skip(f"perf_analyzer cannot be installed: {installed.stderr.strip()[-300:]}")
    return installed.stdout.strip()


@pytest.fixture(scope="session")
def echoed(tmp_path_factory):
    """Inputs of the model `rows`, and the outputs that must come back."""
    x = {"x": {"content": [0.5, -1.25, 3.0e38], "shape": [3]}}
    path = tmp_path_factory.mktemp("perf-analyzer") / "data.json"
    path.write_text(json.dumps({"data": [x], "validation_data": [x]}))
    return path


def count(name, text):
    """What the load generator found out itself, and what the server told it."""
    return [int(number) for number in re.findall(rf"{name}: (\d+)", text)]


FORMS = {
    "http": ["-i", "http"],
    "http-json": ["-i", "http", "--input-tensor-format", "json", "--output-tensor-format", "json"],
    "grpc": ["-i", "grpc"],
    "grpc-stream": ["-i", "grpc", "--streaming"],
}


@pytest.mark.parametrize("form", FORMS)
def test_it_measures(perf_analyzer, server, echoed, tmp_path, form):
    address = server.grpc if form.startswith("grpc") else server.http
    data = echoed
    if form == "grpc-stream":
        # It would compare the message that ends the answers, too, which has no outputs.
        data = tmp_path / "inputs.json"
        data.write_text(json.dumps({"data": json.loads(echoed.read_text())["data"]}))
    command = [perf_analyzer, "-m", "rows", "-u", address, *FORMS[form], "--input-data", str(data)]
    command += ["--concurrency-range", str(N_AT_ONCE), "--request-count", str(N_REQUESTS)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
    found = ran.stdout + ran.stderr
    assert ran.returncode == 0, found
    assert count("Request count", found) == [N_REQUESTS], found
    # It reads the counters of the server for the first time while its first calls are on their way.
    (n_answered,) = count("Successful request count", found)
    assert N_REQUESTS - N_AT_ONCE <= n_answered <= N_REQUESTS, found


def test_it_compares_answers(perf_analyzer, server, echoed, tmp_path):
    """The answers above were compared: with other outputs to expect, the same calls fail."""
    data = json.loads(echoed.read_text())
    data["validation_data"][0]["x"]["content"][2] = 2.0
    other = tmp_path / "data.json"
    other.write_text(json.dumps(data))
    command = [perf_analyzer, "-m", "rows", "-u", server.http, "-i", "http", "--input-data", str(other)]
    ran = subprocess.run([*command, "--request-count", "20"], capture_output=True, text=True, timeout=120)
    assert ran.returncode != 0, ran.stdout


def test_it_says_what_the_server_says(perf_analyzer, server):
    command = [perf_analyzer, "-m", "unknown", "-u", server.http, "-i", "http"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ran.returncode != 0
    assert "no model `unknown` is served" in ran.stdout + ran.stderr
