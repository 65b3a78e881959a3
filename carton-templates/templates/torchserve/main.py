"""Runs an archive of TorchServe (.mar): its handler, called by TorchServe's own loader, without its server.

`body` has the bodies of requests, which the handler gets as one batch, each as `{"body": …}`. `content_type` is that of all of them: TorchServe parses
`application/json` and decodes `text/…`, and the handler gets the bytes of others. `response` has what TorchServe would send: bytes and texts as they
are, tensors as `torch.save` writes them, and everything else as JSON.
"""

import io
import json
import os
import sys
import tempfile
import zipfile

import numpy
import torch
import ts
from ts.metrics.metric_cache_yaml_impl import MetricsCacheYamlImpl
from ts.model_loader import TsModelLoader

#: The archive, beside this file.
MODEL = "model.mar"


class Model:
    def __init__(self):
        # Handlers open the files of the archive by their paths.
        self.folder = tempfile.TemporaryDirectory(prefix="torchserve-")
        with zipfile.ZipFile(os.path.join(os.path.dirname(os.path.abspath(__file__)), MODEL)) as archive:
            archive.extractall(self.folder.name)
        with open(os.path.join(self.folder.name, "MAR-INF", "MANIFEST.json")) as file:
            about = json.load(file)["model"]
        # Handlers measure their calls.
        metrics = MetricsCacheYamlImpl(os.path.join(os.path.dirname(ts.__file__), "configs", "metrics.yaml"))
        metrics.initialize_cache()
        sys.path.insert(0, self.folder.name)
        gpu = 0 if torch.cuda.is_available() else None
        name = about.get("modelName", "model")
        self.service = TsModelLoader().load(name, self.folder.name, about["handler"], gpu, 1, None, True, metrics)

    def infer_with_tensors(self, inputs):
        content_type = str(inputs["content_type"].item()) if "content_type" in inputs else "application/octet-stream"
        requests = []
        for number, body in enumerate(inputs["body"].tolist()):
            parameter = {"name": "body", "value": decoded(body, content_type), "contentType": content_type}
            requests.append({"requestId": str(number).encode(), "parameters": [parameter]})
        headers, batch, numbers = self.service.retrieve_data_for_inference(requests)
        context = self.service.context
        context.request_ids, context.request_processor, context.metrics.request_ids = numbers, headers, numbers
        # Not by `predict`, which makes the same answer of every exception.
        answers = self.service._entry_point(batch, context)
        if not isinstance(answers, list) or len(answers) != len(batch):
            raise ValueError(f"a handler returns a list with an answer to each of the {len(batch)} requests")
        response = numpy.empty(len(answers), object)
        response[:] = [encoded(answer) for answer in answers]
        return {"response": response}

    def signature(self):
        """Asked when the model is packed: the inputs and outputs, with their dtypes and shapes."""
        content_type = {"name": "content_type", "dtype": "string", "shape": [], "optional": True}
        inputs = [{"name": "body", "dtype": "bytes", "shape": ["batch"]}, content_type]
        return {"inputs": inputs, "outputs": [{"name": "response", "dtype": "bytes", "shape": ["batch"]}]}


def decoded(body, content_type):
    """What a handler gets of the body of a request: the bytes as well where they are not what they are said to be."""
    try:
        if content_type == "application/json":
            return json.loads(body.decode("utf-8"))
        return body.decode("utf-8") if content_type.startswith("text") else body
    except ValueError:
        return body


def encoded(answer):
    """What the client gets of a handler's answer."""
    if isinstance(answer, (bytes, bytearray)):
        return bytes(answer)
    if isinstance(answer, str):
        return answer.encode("utf-8")
    if isinstance(answer, torch.Tensor):
        buffer = io.BytesIO()
        torch.save(answer, buffer)
        return buffer.getvalue()
    return json.dumps(answer, indent=2).encode("utf-8")


def get_model():
    return Model()
