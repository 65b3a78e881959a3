"""`carton serve` over gRPC on a Unix socket, and with TLS and certificates of clients, by the library of gRPC."""

import subprocess
import time

import grpc
import pytest
from conftest import serve
from tritonclient.grpc import service_pb2, service_pb2_grpc

ALONE = service_pb2.ModelReadyRequest(name="echo")


def is_ready(channel, limit=30):
    """Whether the model is ready before the limit, in seconds."""
    stub, end = service_pb2_grpc.GRPCInferenceServiceStub(channel), time.monotonic() + limit
    while True:
        if stub.ModelReady(ALONE, timeout=limit, wait_for_ready=True).ready:
            return True
        assert time.monotonic() < end
        time.sleep(0.05)


def test_unix_socket(environment, cartons, tmp_path):
    # Otherwise the library sends the path as the name of the host, which is none.
    socket, options = f"unix:{tmp_path / 'carton.sock'}", [("grpc.default_authority", "localhost")]
    with serve(environment, {"echo": cartons["echo"]}, "--grpc", socket):
        with grpc.insecure_channel(socket, options) as channel:
            assert is_ready(channel)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """A root, and a server and a client with certificates of it, made by OpenSSL."""
    folder = tmp_path_factory.mktemp("certificates")

    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    key = ["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    openssl(*key, "-x509", "-days", "2", "-subj", "/CN=root", "-keyout", "root.key", "-out", "root.pem")
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1\nbasicConstraints=CA:FALSE\n")
    for name in ("server", "client"):
        openssl(*key, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        signed = ["x509", "-req", "-in", f"{name}.csr", "-CA", "root.pem", "-CAkey", "root.key", "-CAcreateserial"]
        openssl(*signed, "-days", "2", "-extfile", "names", "-out", f"{name}.pem")
    return folder


def test_tls_and_certificates_of_clients(environment, cartons, certificates):
    def read(name):
        return (certificates / name).read_bytes()

    def channel(server, *client):
        return grpc.secure_channel(server.grpc, grpc.ssl_channel_credentials(read("root.pem"), *client))

    tls = ["--tls-certificate", certificates / "server.pem", "--tls-key", certificates / "server.key"]
    own = read("client.key"), read("client.pem")
    for arguments, client in ((tls, ()), ([*tls, "--tls-client-roots", certificates / "root.pem"], own)):
        with serve(environment, {"echo": cartons["echo"]}, *map(str, arguments), wait=False) as server:
            with channel(server, *client) as known:
                assert is_ready(known)
            if client:
                with channel(server) as unknown, pytest.raises(grpc.RpcError) as error:
                    service_pb2_grpc.GRPCInferenceServiceStub(unknown).ModelReady(ALONE, timeout=5)
                assert error.value.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
