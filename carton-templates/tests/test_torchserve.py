"""The template of TorchServe's archives beside TorchServe's own code, which answers a request in a worker of its server."""

import json
import struct
import subprocess
import sys
from pathlib import Path

import numpy
import pytest
import torch
from written import check_signature, written

NET = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 2)

    def forward(self, x):
        return self.linear(x)
"""

#: Answers with what the content type of the request asks for.
HANDLER = """
import json
import torch
from ts.torch_handler.base_handler import BaseHandler

class Rows(BaseHandler):
    def preprocess(self, data):
        bodies = [row["body"] for row in data]
        parsed = [json.loads(body) if isinstance(body, (bytes, str)) else body for body in bodies]
        return torch.tensor([row["x"] for row in parsed])

    def postprocess(self, found):
        rows = found.tolist()
        kind = self.context.get_all_request_header(0).get("body", {}).get("content-type")
        if kind == "text/plain":
            return [str(row) for row in rows]
        if kind == "application/json":
            return [{"y": row} for row in rows]
        return [row.numpy().tobytes() for row in found] if kind == "application/octet-stream" else list(found)
"""


@pytest.fixture(scope="module", params=["eager", "script"])
def archive(request, tmp_path_factory):
    """An archive that TorchServe's own tool makes, of a module's code and weights, or of TorchScript."""
    folder = tmp_path_factory.mktemp(request.param)
    (folder / "net.py").write_text(NET)
    (folder / f"{request.param}_handler.py").write_text(HANDLER)
    scope = {}
    exec(NET, scope)
    torch.manual_seed(0)
    net = scope["Net"]()
    command = [str(Path(sys.executable).parent / "torch-model-archiver"), "--model-name", "model", "--version", "1.0"]
    command += ["--handler", f"{request.param}_handler.py", "--export-path", str(folder)]
    if request.param == "eager":
        torch.save(net.state_dict(), folder / "net.pt")
        command += ["--model-file", "net.py", "--serialized-file", "net.pt"]
    else:
        torch.jit.trace(net, torch.zeros(1, 3)).save(folder / "net.pt")
        command += ["--serialized-file", "net.pt"]
    subprocess.run(command, cwd=folder, check=True)
    return written(folder, "torchserve", MODEL="model.mar")


def of_worker(model, bodies, content_type):
    """The bodies of the responses in the message that a worker sends to the server."""
    module = sys.modules[type(model).__module__]
    parameters = [{"name": "body", "value": module.decoded(body, content_type), "contentType": content_type} for body in bodies]
    requests = [{"requestId": b"%d" % number, "parameters": [parameter]} for number, parameter in enumerate(parameters)]
    model.service.set_cl_socket(None)
    message, place, found = bytes(model.service.predict(requests)), 0, []

    def number():
        nonlocal place
        place += 4
        return struct.unpack("!i", message[place - 4 : place])[0]

    def text():
        nonlocal place
        length = number()
        place += length
        return message[place - length : place]

    assert number() == 200, text()
    text()
    for _ in bodies:
        for part in (text, text, number, text):
            part()
        for _ in range(number()):
            text(), text()
        found.append(text())
    assert number() == -1
    return found


@pytest.mark.parametrize("content_type", ["application/json", "text/plain", "application/octet-stream", "application/x-tensor"])
def test_the_same_as_a_worker(archive, content_type):
    bodies = [json.dumps({"x": row}).encode() for row in ([1.0, 2.0, 3.0], [-1.0, 0.5, 0.0])]
    body = numpy.empty(2, object)
    body[:] = bodies
    inputs = {"body": body, "content_type": numpy.array(content_type, object)}
    found = archive.infer_with_tensors(inputs)
    check_signature(archive, inputs, found)
    assert found["response"].tolist() == of_worker(archive, bodies, content_type)
    if content_type == "application/octet-stream":
        without = archive.infer_with_tensors({"body": body})
        assert without["response"].tolist() == found["response"].tolist()


def test_the_error_of_a_handler_is_that_of_the_call(archive):
    body = numpy.array([b"{}"], object)
    with pytest.raises(KeyError, match="x"):
        archive.infer_with_tensors({"body": body})
    # Bytes that are no JSON reach the handler.
    with pytest.raises(json.JSONDecodeError):
        archive.infer_with_tensors({"body": numpy.array([b"{"], object), "content_type": numpy.array("application/json", object)})
