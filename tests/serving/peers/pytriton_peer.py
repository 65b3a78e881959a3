"""pytriton, which is Triton's server with models in Python: one process for each model, Triton's dynamic batching (at most 64, no delay)
because that is how pytriton is used, without metrics.

Needs the interpreter of Debian 12: the server that its package holds is linked against that libpython.
"""

import tempfile
from pathlib import Path

import numpy as np
from onnx_session import arguments, open_session
from pytriton.decorators import batch
from pytriton.model_config import DynamicBatcher, ModelConfig, Tensor
from pytriton.triton import Triton, TritonConfig


def bind(triton, name, path):
    session = open_session(path)
    output_names = [output.name for output in session.get_outputs()]

    @batch
    def infer(**inputs):
        return dict(zip(output_names, session.run(None, inputs)))

    def tensor(value):
        # The batch dimension is Triton's own.
        return Tensor(name=value.name, dtype=np.float32, shape=tuple(value.shape[1:]))

    triton.bind(
        model_name=name,
        infer_func=infer,
        inputs=[tensor(value) for value in session.get_inputs()],
        outputs=[tensor(value) for value in session.get_outputs()],
        config=ModelConfig(max_batch_size=64, batcher=DynamicBatcher(max_queue_delay_microseconds=0)),
        strict=False,
    )


if __name__ == "__main__":
    options = arguments()
    config = TritonConfig(
        http_address="127.0.0.1", http_port=options.http, grpc_port=options.grpc, allow_metrics=False, log_verbose=0
    )
    with tempfile.TemporaryDirectory() as folder, Triton(config=config, workspace=Path(folder) / "workspace") as triton:
        for name, path in options.models:
            bind(triton, name, path)
        triton.serve()
