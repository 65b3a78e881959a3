"""The smallest runner that spec/runner-protocol.md section 8 allows: standard library only, no shared memory."""

import json
import os
import socket
import struct

sock = socket.socket(fileno=os.dup(0))
null = os.open("/dev/null", os.O_RDONLY)
os.dup2(null, 0)
stream = sock.makefile("rb")


def send(message, identifier=None, body=b""):
    envelope = {"message": message}
    if identifier is not None:
        envelope["id"] = identifier
    text = json.dumps(envelope).encode()
    sock.sendall(struct.pack("<QI", 4 + len(text) + len(body), len(text)) + text + body)


def receive():
    header = stream.read(12)
    if len(header) < 12:
        raise SystemExit(0)
    length, json_length = struct.unpack("<QI", header)
    text = stream.read(json_length)
    body = stream.read(length - 4 - json_length)
    envelope = json.loads(text)
    ((name, fields),) = envelope["message"].items()
    return envelope.get("id"), name, fields, body


send({"hello": {"protocol": "carton-runner", "versions": [2], "features": [], "name": "minimal", "framework_version": "1.0.0"}})
_, name, fields, _ = receive()
assert name == "hello" and 2 in fields["versions"]
while True:
    identifier, name, fields, body = receive()
    if name == "load":
        send({"loaded": {"max_concurrency": 1}}, identifier)
    elif name == "infer":
        send({"inferred": {"outputs": fields["inputs"]}}, identifier, body)
    elif name == "ping":
        send({"pong": {}}, identifier)
    elif name == "shutdown":
        raise SystemExit(0)
    elif identifier is not None and name not in ("cancel", "credit"):
        send({"error": {"code": "unknown_message", "message": f"cannot {name}"}}, identifier)
