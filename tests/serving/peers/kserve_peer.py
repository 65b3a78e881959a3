"""KServe's server: one process, the model called on the event loop as its examples do, without access log and request latencies."""

import os

from onnx_session import arguments, open_session

# Both are read when kserve is imported.
OPTIONS = arguments()
os.environ["KSERVE_LOGLEVEL"] = "WARNING"

import kserve  # noqa: E402
from kserve.logging import KSERVE_LOG_CONFIG  # noqa: E402

KSERVE_LOG_CONFIG["loggers"]["uvicorn.access"]["level"] = "WARNING"


class OnnxModel(kserve.Model):
    def __init__(self, name, path):
        super().__init__(name)
        self.path = path
        self.load()

    def load(self):
        self.session = open_session(self.path)
        self.output_names = [output.name for output in self.session.get_outputs()]
        self.ready = True
        return True

    async def predict(self, payload, headers=None, response_headers=None):
        inputs = {tensor.name: tensor.as_numpy() for tensor in payload.inputs}
        outputs = []
        for name, array in zip(self.output_names, self.session.run(None, inputs)):
            output = kserve.InferOutput(name, list(array.shape), "FP32")
            # The answer converts it where the request wants no bytes.
            output.set_data_from_numpy(array, binary_data=True)
            outputs.append(output)
        return kserve.InferResponse(
            payload.id or "",
            self.name,
            outputs,
            use_binary_outputs=payload.use_binary_outputs,
            requested_outputs=payload.request_outputs,
        )



if __name__ == "__main__":
    models = [OnnxModel(name, path) for name, path in OPTIONS.models]
    server = kserve.ModelServer(
        http_port=OPTIONS.http, grpc_port=OPTIONS.grpc, workers=1, enable_latency_logging=False
    )
    server.start(models)
