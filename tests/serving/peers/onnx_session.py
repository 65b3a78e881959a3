"""What the peers have in common: the models of the command line, on ONNX Runtime with one thread each.

    python PEER.py --http PORT --grpc PORT NAME=MODEL.onnx...
"""

import argparse
import sys

import onnxruntime


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--http", type=int, required=True)
    parser.add_argument("--grpc", type=int, required=True)
    parser.add_argument("models", nargs="+", type=lambda text: tuple(text.split("=", 1)))
    options = parser.parse_args()
    # KServe parses the command line too, when it is imported.
    del sys.argv[1:]
    return options


def open_session(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    # Threads that spin between calls would take the processor from the server.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
