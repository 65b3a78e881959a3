"""A runner with only sockets, structs and JSON: no shared memory, no passed descriptors.

Written from spec/runner-protocol.md alone. It returns its inputs; a mode as its argument makes it misbehave instead.
"""

import json
import os
import select
import signal
import socket
import struct
import sys
import time

MODE = sys.argv[1] if len(sys.argv) > 1 else "echo"
# How often this runner was started, if the test counts that.
START = int(sys.argv[2]) if len(sys.argv) > 2 else 1
n_calls = 0
host = socket.socket(fileno=0)


def read_exactly(n_bytes):
    data = bytearray()
    while len(data) < n_bytes:
        part = host.recv(n_bytes - len(data))
        if not part:
            os._exit(0)
        data += part
    return bytes(data)


def receive():
    (length,) = struct.unpack("<Q", read_exactly(8))
    frame = read_exactly(length)
    (json_length,) = struct.unpack_from("<I", frame)
    return json.loads(frame[4 : 4 + json_length]), frame[4 + json_length :]


def send(message, id=None, data=b""):
    envelope = {"message": message} if id is None else {"id": id, "message": message}
    text = json.dumps(envelope).encode()
    host.sendall(struct.pack("<QI", 4 + len(text) + len(data), len(text)) + text + data)


def has_more():
    """Whether a message waits behind the one that is being handled."""
    return bool(select.select([host], [], [], 0)[0])


def read_ranges(ranges):
    """Reads every file of the model through the paths that replace descriptors, and checks their lengths."""
    for entry in ranges["entries"]:
        with open(ranges["sources"][entry["source"]]["path"], "rb") as file:
            file.seek(entry["offset"])
            data = file.read(entry["length"])
        send({"log": {"level": "info", "message": f"{entry['path']}: {len(data)} bytes, all {data[0]}"}})


def answer_infer(id, inputs, data):
    global n_calls
    n_calls += 1
    if MODE == "slow-sometimes" and n_calls % 3 == START % 3:
        time.sleep(0.02)
    if MODE == "exit-in-first-run" and START == 1 and n_calls == 5:
        os._exit(7)
    if MODE == "exit-at-25":
        # Any call that holds this number takes the calls along that came before it.
        time.sleep(0.3)
        waiting = host.recv(1 << 20, socket.MSG_PEEK | socket.MSG_DONTWAIT) if has_more() else b""
        if struct.pack("<f", 25) in data + waiting:
            os._exit(7)
    if MODE == "refuse-45" and struct.pack("<f", 45) in data:
        return send({"error": {"code": "failed", "message": "no more", "causes": []}}, id)
    if MODE == "fewer-outputs-later" and n_calls > 1:
        inputs = inputs[1:]
    if MODE == "more-outputs-later" and n_calls > 1:
        inputs = inputs + [inputs[0] | {"name": "more"}]
    if MODE == "exit-in-infer":
        print("I am leaving", file=sys.stderr, flush=True)
        os._exit(7)
    if MODE == "fork-in-infer":
        # The child keeps the socket and the output pipes open.
        if os.fork() == 0:
            time.sleep(1000)
        os._exit(9)
    if MODE == "close-in-infer":
        os.close(0)
        host.detach()
        time.sleep(1000)
    if MODE == "block":
        time.sleep(1000)
    if MODE == "garbage":
        host.sendall(b"\xff" * 100)
        time.sleep(1000)
    if MODE == "huge-frame":
        host.sendall(struct.pack("<QI", 4 << 30, 10) + b"x" * 1000)
        time.sleep(1000)
    if MODE == "half-frame":
        host.sendall(struct.pack("<QI", 1000, 100) + b"{")
        os._exit(0)
    if MODE == "bad-json":
        host.sendall(struct.pack("<QI", 14, 10) + b"{]{]{]{]{]")
        time.sleep(1000)
    if MODE == "unknown-id":
        send({"inferred": {"outputs": []}}, id + 1000)
        time.sleep(1000)
    if MODE == "bad-region":
        shared = {"shared": {"owner": "runner", "region": 5, "offset": 0, "length": 4}}
        outputs = [{"name": "x", "dtype": "float32", "shape": [1], "data": shared}]
        return send({"inferred": {"outputs": outputs}}, id)
    if MODE == "overflowing-shape":
        inline = {"inline": {"offset": 0, "length": 4}}
        outputs = [{"name": "x", "dtype": "float32", "shape": [2**62, 2**62], "data": inline}]
        return send({"inferred": {"outputs": outputs}}, id, b"1234")
    if MODE == "outside-the-frame":
        inline = {"inline": {"offset": 2, "length": 4}}
        outputs = [{"name": "x", "dtype": "float32", "shape": [1], "data": inline}]
        return send({"inferred": {"outputs": outputs}}, id, b"1234")
    send({"inferred": {"outputs": inputs}}, id, data)


def main():
    if MODE == "exit-at-start":
        print("cannot find my framework", file=sys.stderr, flush=True)
        sys.exit(3)
    if MODE == "never-hello":
        time.sleep(1000)
    if MODE == "stopped-at-start":
        os.kill(os.getpid(), signal.SIGSTOP)
    if MODE == "slow-at-start":
        end = time.process_time() + 3
        while time.process_time() < end:
            pass
    if MODE == "fork-at-start":
        if os.fork() == 0:
            time.sleep(1000)
        sys.exit(4)
    if MODE == "garbage-at-start":
        host.sendall(b"GET / HTTP/1.1\r\n\r\n" * 10)
        time.sleep(1000)
    if MODE == "stdout-noise":
        os.write(1, os.urandom(1 << 20))
        print("x" * 100000, file=sys.stderr, flush=True)
    versions = [1] if MODE == "old-version" else [2]
    hello = {"protocol": "carton-runner", "versions": versions, "features": [], "name": "plain", "framework_version": "1.0.0"}
    send({"hello": hello})
    while True:
        envelope, data = receive()
        id = envelope.get("id")
        ((name, body),) = envelope["message"].items()
        if name == "load":
            if MODE == "block-in-load":
                time.sleep(1000)
            ranges = body["files"].get("ranges")
            if ranges is not None:
                read_ranges(ranges)
            send({"loaded": {"max_concurrency": 4 if MODE == "exit-at-25" else 1}}, id)
        elif name == "pack":
            send({"packed": {"path": body["path"]}}, id)
        elif name == "infer":
            answer_infer(id, body["inputs"], data)
        elif name == "ping":
            send({"pong": {}}, id)
        elif name == "shutdown":
            return
        elif name not in ("hello", "cancel", "release", "credit", "unseal"):
            send({"error": {"code": "unknown_message", "message": f"no {name} here", "causes": []}}, id)


main()
