"""MLServer: a runtime of our own, in the server's process (`parallel_workers=0`: with one model a worker only adds a hop), no batching,
without metrics and access log."""

import asyncio

from mlserver import MLModel, MLServer, ModelSettings, Settings
from mlserver.codecs import NumpyCodec
from mlserver.settings import ModelParameters
from mlserver.types import InferenceResponse
from onnx_session import arguments, open_session


class OnnxModel(MLModel):
    async def load(self):
        self.session = open_session(self.settings.parameters.uri)
        self.output_names = [output.name for output in self.session.get_outputs()]
        return True

    async def predict(self, payload):
        inputs = {tensor.name: NumpyCodec.decode_input(tensor) for tensor in payload.inputs}
        outputs = zip(self.output_names, self.session.run(None, inputs))
        return InferenceResponse(
            model_name=self.name, id=payload.id, outputs=[NumpyCodec.encode_output(name, array) for name, array in outputs]
        )


async def main():
    options = arguments()
    settings = Settings(
        host="127.0.0.1",
        http_port=options.http,
        grpc_port=options.grpc,
        metrics_endpoint=None,
        parallel_workers=0,
        debug=False,
        grpc_max_message_length=64 << 20,
    )
    models = [
        ModelSettings(name=name, implementation=OnnxModel, parameters=ModelParameters(uri=path)) for name, path in options.models
    ]
    await MLServer(settings).start(models)


if __name__ == "__main__":
    asyncio.run(main())
