"""What a model may do: options of `load` and `pack`, and a model that tries."""

import os
import shutil
import socket
from pathlib import Path

import carton
import numpy as np
import pytest
from carton import Sandbox


def tries(path, port):
    """Reads a file, connects to a port, and writes a file."""
    import os
    import socket
    import tempfile

    result = []
    try:
        with open(str(path)) as file:
            result.append(file.read())
    except OSError as error:
        result.append(type(error).__name__)
    try:
        socket.create_connection(("127.0.0.1", int(port)), 5).close()
        result.append("connected")
    except OSError as error:
        result.append(type(error).__name__)
    with tempfile.NamedTemporaryFile() as file:
        result.append(os.path.dirname(file.name) == os.environ["HOME"])
    return {"result": np.array([str(item) for item in result], dtype=object)}


@pytest.fixture(scope="module")
def trying(tmp_path_factory):
    """The carton of `tries`, a secret file, and a port where somebody listens."""
    folder = os.environ.get("CARTON_TEST_RUNNERS")
    if not folder or not list(Path(folder).glob("python-*")) or shutil.which("uv") is None:
        pytest.skip("CARTON_TEST_RUNNERS names no folder with a python runner, or there is no uv")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CARTON_RUNNER_DIR", folder)
        patch.setenv("CARTON_RUNNER_DATA_DIR", folder + ".data")
        yield from set_up(tmp_path_factory.mktemp("sandbox"))


def set_up(folder):
    secret = folder / "secret"
    secret.write_text("secret")
    path = folder / "tries.carton"
    example = {"path": "/nothing", "port": 1}
    carton.pack(tries, path, example=example, check=False)
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield path, str(secret), server.getsockname()[1]


#: The errors of a model that uses what it may not: in namespaces the file is missing, elsewhere the access is denied.
REFUSED = {"PermissionError", "FileNotFoundError", "ConnectionRefusedError"}


def results(trying, **options):
    path, secret, port = trying
    with carton.load(path, **options) as model:
        found = model(path=secret, port=port)["result"].tolist()
    return ["refused" if item in REFUSED else item for item in found]


def test_a_model_reads_and_reaches_nothing(trying):
    expected = ["refused", "refused", "True"]
    assert results(trying) == expected
    assert results(trying, sandbox="strict") == expected


def test_a_model_gets_what_is_allowed(trying):
    assert results(trying, sandbox=Sandbox(allow=["network"])) == ["refused", "connected", "True"]
    assert results(trying, sandbox=Sandbox("on", allow=["read=" + trying[1]])) == ["secret", "refused", "True"]
    assert results(trying, sandbox="off")[:2] == ["secret", "connected"]


def variables(names):
    """Returns environment variables."""
    import os

    return {"result": np.array([os.environ.get(str(name), "-") for name in names], dtype=object)}


def test_a_model_gets_the_variables_that_are_passed(trying, tmp_path, monkeypatch):
    path = tmp_path / "variables.carton"
    names = np.array(["OF_CARTON", "PASSED", "OTHER"], dtype=object)
    carton.pack(variables, path, example={"names": names}, options={"env.OF_CARTON": "1"}, check=False)
    monkeypatch.setenv("PASSED", "2")
    monkeypatch.setenv("OTHER", "3")

    def results(**options):
        with carton.load(path, **options) as model:
            return model(names=names)["result"].tolist()

    assert results() == ["1", "-", "-"]
    assert results(sandbox=Sandbox(env=["PASSED", "OF_CARTON=4"])) == ["4", "2", "-"]
    assert results(options={"env.OF_CARTON": 5}) == ["5", "-", "-"]


def test_limits_hold(trying):
    path, secret, port = trying
    with pytest.raises(carton.Error):
        with carton.load(path, sandbox=Sandbox(limits={"open_files": 3})) as model:
            model(path=secret, port=port)


def test_wrong_options_are_named(trying):
    with pytest.raises(carton.InvalidInputError, match="strict"):
        carton.load(trying[0], sandbox="tight")
    with pytest.raises(carton.InvalidInputError, match="everything"):
        carton.load(trying[0], sandbox=Sandbox(allow=["everything"]))
    with pytest.raises(carton.InvalidInputError, match="`NOT_SET` is not set"):
        carton.load(trying[0], sandbox=Sandbox(env=["NOT_SET"]))
    with pytest.raises(carton.InvalidInputError, match="HOME"):
        carton.load(trying[0], sandbox=Sandbox(env=["HOME"]))


def test_values_of_the_wrong_type_are_named():
    """These need no runner."""
    for options, name in (
        ({"mode": 5}, "`sandbox.mode`: expected a text, found a value of type int"),
        ({"allow": "network"}, "`sandbox.allow`: expected a list"),
        ({"allow": [5]}, r"`sandbox.allow\[0\]`: expected a text"),
        ({"env": "PATH=secret"}, "`sandbox.env`: expected a list"),
        ({"limits": {"speed": 1}}, "`sandbox.limits`: there is no limit `speed`"),
        ({"limits": {"memory": "4G"}}, r"`sandbox.limits\['memory'\]`: expected a whole number"),
    ):
        with pytest.raises(carton.InvalidInputError, match=name) as caught:
            Sandbox(**options)
        assert "secret" not in str(caught.value)
    for wrong in (5, ["network"], {"allow": []}):
        with pytest.raises(carton.InvalidInputError, match="`sandbox`: expected a text or a Sandbox"):
            carton.load("none.carton", sandbox=wrong)
        with pytest.raises(carton.InvalidInputError, match="`sandbox`: expected a text or a Sandbox"):
            carton.pack("none.onnx", "none.carton", sandbox=wrong)
    with pytest.raises(carton.InvalidInputError, match="tight"):
        carton.load("none.carton", sandbox="tight")
    assert "secret" not in repr(Sandbox(env=["KEY=secret"]))
