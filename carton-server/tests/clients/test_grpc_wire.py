"""What clients of gRPC cannot send: `carton serve` answers each of it in bounded time and memory."""

import socket
import struct
import time
from pathlib import Path

import pytest
from tritonclient.grpc import service_pb2

connection = pytest.importorskip("h2.connection")
config = pytest.importorskip("h2.config")
events = pytest.importorskip("h2.events")

SERVICE = "/inference.GRPCInferenceService/"
# The limits of a server that is started without any of its own.
MAX_MESSAGE = 256 << 20
PAUSE = 10


class Connection:
    """A connection of HTTP/2 whose frames the test writes."""

    def __init__(self, server):
        host, port = server.grpc.split(":")
        self.socket = socket.create_connection((host, int(port)))
        self.state = connection.H2Connection(config.H2Configuration(client_side=True))
        self.state.initiate_connection()
        self.flush()

    def flush(self):
        self.socket.sendall(self.state.data_to_send())

    def start(self, method, *data, content_type="application/grpc", headers=(), end=False):
        stream = self.state.get_next_available_stream_id()
        head = [(":method", "POST"), (":scheme", "http"), (":path", SERVICE + method), (":authority", "x")]
        self.state.send_headers(stream, [*head, ("content-type", content_type), ("te", "trailers"), *headers])
        for part in data:
            self.state.send_data(stream, part)
        if end:
            self.state.end_stream(stream)
        self.flush()
        return stream

    def answer_to(self, method, *data, **options):
        self.start(method, *data, **options)
        return self.answer()

    def answer(self, limit=PAUSE + 5):
        """The headers and trailers of the first stream that ends, and the seconds until then."""
        start, found = time.monotonic(), {}
        while True:
            self.socket.settimeout(max(0.01, start + limit - time.monotonic()))
            for event in self.state.receive_data(self.socket.recv(1 << 16)):
                if isinstance(event, (events.ResponseReceived, events.TrailersReceived)):
                    text = lambda value: value.decode() if isinstance(value, bytes) else value
                    found |= {text(name): text(value) for name, value in event.headers}
                if isinstance(event, (events.StreamEnded, events.StreamReset)):
                    self.flush()
                    return found, time.monotonic() - start
            self.flush()


def message(data, flag=0):
    return struct.pack(">BI", flag, len(data)) + data


def announced(n_bytes):
    return struct.pack(">BI", 0, n_bytes)


@pytest.fixture
def request_of_x():
    request = service_pb2.ModelInferRequest(model_name="stream")
    request.inputs.add(name="x", datatype="FP32", shape=[3])
    request.raw_input_contents.append(bytes(12))
    return request.SerializeToString()


def memory(server):
    pages = Path(f"/proc/{server.process.pid}/statm").read_text().split()[1]
    return int(pages) * 4096


def status(server, *data, **options):
    found, _ = Connection(server).answer_to("ModelInfer", *data, **options)
    return int(found["grpc-status"])


def test_messages_that_are_none(server, request_of_x):
    assert status(server, message(request_of_x), end=True) == 0
    assert status(server, end=True) == 3
    assert status(server, message(request_of_x)[:20], end=True) == 3
    assert status(server, message(b"\xff" * 100), end=True) == 3
    # A field that claims more bytes than there are.
    assert status(server, message(b"\x0a\xff\xff\xff\xff\x0f"), end=True) == 3
    assert status(server, message(request_of_x, flag=1), end=True) == 3
    assert status(server, message(request_of_x, flag=2), end=True) == 3
    assert status(server, message(request_of_x) * 2, end=True) == 3
    assert status(server, headers=[("grpc-encoding", "snappy")]) == 12
    assert status(server, message(b"junk", flag=1), headers=[("grpc-encoding", "gzip")], end=True) == 3


def test_requests_that_are_not_grpc(server):
    found, _ = Connection(server).answer_to("ModelInfer", content_type="application/json")
    assert found[":status"] == "415"
    found, _ = Connection(server).answer_to("Nothing", end=True)
    assert found["grpc-status"] == "12"


def test_announced_messages_take_no_memory(server):
    assert status(server, announced(MAX_MESSAGE + 1)) == 8
    before = memory(server)
    client = Connection(server)
    for _ in range(100):
        client.start("ModelInfer", announced(MAX_MESSAGE - 1), b"\x0a")
    time.sleep(0.5)
    assert memory(server) - before < 64 << 20


def test_many_small_parts(server):
    before = memory(server)
    for part in (b"\x2a\x00", b"\x32\x00", b"\x3a\x00", b"\x22\x00"):
        assert status(server, *[message(b"\x0a\x01x" + part * 20_000)[at : at + 16384] for at in range(0, 40_008, 16384)], end=True) == 3
    assert memory(server) - before < 64 << 20


@pytest.mark.parametrize("method", ["ModelInfer", "ModelStreamInfer"])
def test_a_client_that_pauses_in_a_message(server, method, request_of_x):
    found, seconds = Connection(server).answer_to(method, message(request_of_x)[:9])
    assert found["grpc-status"] == "4"
    assert PAUSE - 2 < seconds < PAUSE + 2


def test_a_stream_may_pause_between_messages(server, request_of_x):
    client = Connection(server)
    stream = client.start("ModelStreamInfer")
    time.sleep(PAUSE + 1)
    client.state.send_data(stream, message(request_of_x), end_stream=True)
    client.flush()
    found, _ = client.answer()
    assert found["grpc-status"] == "0"
