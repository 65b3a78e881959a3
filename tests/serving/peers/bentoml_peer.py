"""BentoML: a service with one worker, `async` so that no thread is started for a call, no batching, without metrics, traces and access log.

It has neither binary tensors of this protocol nor gRPC. The models come from the variable MODELS because BentoML imports this file itself.
"""

import os
import sys

import numpy as np

if __name__ == "__main__":
    from onnx_session import arguments

    options = arguments()
    os.environ["MODELS"] = " ".join("=".join(model) for model in options.models)
    os.environ["BENTOML_DO_NOT_TRACK"] = "True"
    command = ["serve", "bentoml_peer:Models", "--host", "127.0.0.1", "--port", str(options.http), "--working-dir"]
    command.append(os.path.dirname(os.path.abspath(__file__)))
    os.execv(sys.executable, [sys.executable, "-m", "bentoml", *command])

import bentoml
from onnx_session import open_session

(MODEL, PATH) = os.environ["MODELS"].split()[0].split("=", 1)


@bentoml.service(
    workers=1, metrics={"enabled": False}, logging={"access": {"enabled": False}}, traffic={"timeout": 60}
)
class Models:
    def __init__(self):
        self.session = open_session(PATH)
        self.output_names = [output.name for output in self.session.get_outputs()]

    @bentoml.api(route=f"/v2/models/{MODEL}/infer")
    async def infer(self, inputs: list[dict]) -> dict:
        arrays = {tensor["name"]: np.asarray(tensor["data"], np.float32).reshape(tensor["shape"]) for tensor in inputs}
        outputs = zip(self.output_names, self.session.run(None, arrays))
        return {
            "model_name": MODEL,
            "outputs": [
                {"name": name, "datatype": "FP32", "shape": list(array.shape), "data": array.ravel().tolist()}
                for name, array in outputs
            ],
        }
