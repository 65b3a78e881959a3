"""LitServe: one process that takes requests and one worker that runs the model, no batching, without its client file and access log.

It has neither binary tensors nor gRPC.
"""

import litserve
import numpy as np
from onnx_session import arguments, open_session


class OnnxApi(litserve.LitAPI):
    def __init__(self, name, path):
        super().__init__(api_path=f"/v2/models/{name}/infer")
        self.name, self.path = name, path

    def setup(self, device):
        self.session = open_session(self.path)

    def decode_request(self, request):
        (tensor,) = request["inputs"]
        return {tensor["name"]: np.asarray(tensor["data"], np.float32).reshape(tensor["shape"])}

    def predict(self, inputs):
        return self.session.run(None, inputs)

    def encode_response(self, outputs):
        names = [output.name for output in self.session.get_outputs()]
        return {
            "model_name": self.name,
            "outputs": [
                {"name": name, "datatype": "FP32", "shape": output.shape, "data": output.ravel().tolist()}
                for name, output in zip(names, outputs)
            ],
        }


if __name__ == "__main__":
    options = arguments()
    apis = [OnnxApi(name, path) for name, path in options.models]
    server = litserve.LitServer(apis, accelerator="cpu", workers_per_device=1)
    server.run(
        host="127.0.0.1", port=options.http, num_api_servers=1, generate_client_file=False, log_level="warning", access_log=False
    )
