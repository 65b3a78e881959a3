"""`carton serve` over HTTP by curl: requests that clients' libraries do not make."""

import gzip
import http.client
import json
import subprocess
import zlib
from dataclasses import dataclass

import numpy as np
import pytest
import zstandard
from conftest import serve

DIGITS = "v2/models/digits/infer"
ECHO = "v2/models/echo/infer"


@dataclass
class Answer:
    status: int
    headers: dict
    body: bytes

    def json(self):
        assert self.headers["content-type"] == "application/json"
        return json.loads(self.body)

    def error(self, status):
        """The text of an error in the form of the protocol."""
        assert self.status == status, self
        found = self.json()
        assert isinstance(found["error"], str) and found["error"], found
        return found["error"]


def parse_head(text):
    # Of several answers on one connection, such as 100 Continue, the last.
    status, *lines = text.strip().split("\r\n\r\n")[-1].split("\r\n")
    headers = dict(line.split(":", 1) for line in lines)
    return int(status.split()[1]), {name.lower(): value.strip() for name, value in headers.items()}


@pytest.fixture
def curl(server, tmp_path):
    def run(path, body=None, *arguments):
        head, answer = tmp_path / "head", tmp_path / "answer"
        answer.write_bytes(b"")
        command = ["curl", "--silent", "--show-error", "--max-time", "30", "--dump-header", head, "--output", answer]
        if body is not None:
            command += ["--data-binary", "@-"]
        result = subprocess.run([*command, *arguments, server.url(path)], input=body, capture_output=True)
        assert result.returncode == 0, result.stderr.decode()
        return Answer(*parse_head(head.read_bytes().decode()), answer.read_bytes())

    return run


def tensor(name, array, **others):
    return {"name": name, "shape": list(array.shape), "datatype": "FP32", "data": array.ravel().tolist()} | others


def request(*inputs, **others):
    return json.dumps({"inputs": list(inputs)} | others).encode()


@pytest.fixture
def image(digit):
    return tensor("image", digit[0])


def probabilities(answer):
    assert answer.status == 200, answer
    (output,) = answer.json()["outputs"]
    assert (output["name"], output["datatype"], output["shape"]) == ("probabilities", "FP32", [1, 10])
    return np.array(output["data"], np.float32)


def test_health(curl):
    assert curl("v2/health/live").json() == {"live": True}
    assert curl("v2/health/ready").json() == {"ready": True}
    assert curl("v2/models/digits/ready").status == 200
    assert curl("v2/models/digits/versions/1/ready").status == 200
    assert curl("v2/models/nothing/ready").status in (400, 404)
    for path in ("v2", "v2/"):
        assert set(curl(path).json()) == {"name", "version", "extensions"}


def test_ready_means_that_all_models_are(environment, cartons):
    models = {name: cartons[name] for name in ("digits", "types", "pair", "echo")}
    for _ in range(5):
        with serve(environment, models, "--repository-api", wait=False) as server:
            # One connection, because curl takes longer to start than models do.
            connection = http.client.HTTPConnection(server.http)

            def ask(verb, path):
                connection.request(verb, f"/{path}")
                answer = connection.getresponse()
                return answer.status, json.loads(answer.read())

            while ask("GET", "v2/health/ready") != (200, {"ready": True}):
                pass
            _, index = ask("POST", "v2/repository/index")
            assert {model["name"]: model["state"] for model in index} == dict.fromkeys(models, "READY")


# curl says `application/x-www-form-urlencoded` unless told otherwise; with an empty value it says nothing.
@pytest.mark.parametrize("content_type", ["application/json", "", "application/x-www-form-urlencoded", "text/plain"])
def test_the_content_type_does_not_matter(curl, image, digit, content_type):
    answer = curl(DIGITS, request(image, id="one"), "--header", f"Content-Type:{content_type}")
    np.testing.assert_allclose(probabilities(answer), digit[1][0], atol=1e-5)
    found = answer.json()
    assert (found["model_name"], found["model_version"], found["id"]) == ("digits", "1", "one")


def test_nested_data(curl, digit):
    """The protocol lets a client nest the elements as the shape is nested."""
    nested = tensor("image", digit[0]) | {"data": digit[0].tolist()}
    np.testing.assert_allclose(probabilities(curl(DIGITS, request(nested))), digit[1][0], atol=1e-5)


def test_http_2(curl, image, digit):
    answer = curl(DIGITS, request(image), "--http2-prior-knowledge")
    np.testing.assert_allclose(probabilities(answer), digit[1][0], atol=1e-5)


def test_chunked(curl, image, digit):
    answer = curl(DIGITS, request(image), "--header", "Transfer-Encoding: chunked")
    np.testing.assert_allclose(probabilities(answer), digit[1][0], atol=1e-5)


def test_a_large_body_after_the_server_says_continue(curl):
    x = np.arange(400_000, dtype=np.float32)
    answer = curl(ECHO, request(tensor("x", x)), "--header", "Expect: 100-continue")
    assert np.array_equal(answer.json()["outputs"][0]["data"], x)


ENCODERS = {"gzip": gzip.compress, "deflate": zlib.compress, "zstd": zstandard.compress}


@pytest.mark.parametrize("encoding", ENCODERS)
def test_encoded_requests(curl, image, digit, encoding):
    body = ENCODERS[encoding](request(image))
    answer = curl(DIGITS, body, "--header", f"Content-Encoding: {encoding}")
    np.testing.assert_allclose(probabilities(answer), digit[1][0], atol=1e-5)
    assert curl(DIGITS, b"not encoded", "--header", f"Content-Encoding: {encoding}").error(400)


def test_an_unknown_encoding(curl, image):
    assert "brotli" in curl(DIGITS, request(image), "--header", "Content-Encoding: brotli").error(415)


DECODERS = {
    "gzip": gzip.decompress,
    "deflate": zlib.decompress,
    "zstd": lambda body: zstandard.ZstdDecompressor().decompressobj().decompress(body),
}


@pytest.mark.parametrize("encoding", DECODERS)
def test_encoded_answers(curl, encoding):
    x = np.zeros(10_000, np.float32)
    answer = curl(ECHO, request(tensor("x", x)), "--header", f"Accept-Encoding: {encoding}")
    assert answer.headers["content-encoding"] == encoding
    assert len(answer.body) < 5000
    assert np.array_equal(json.loads(DECODERS[encoding](answer.body))["outputs"][0]["data"], x)


def test_only_tensors_are_encoded(curl):
    """tritonclient with asyncio says that it takes gzip, and decodes only answers with tensors."""
    x = np.zeros(1, np.float32)
    for answer in (
        curl("v2/models/types", None, "--header", "Accept-Encoding: gzip"),
        curl("v2/models/types/config", None, "--header", "Accept-Encoding: gzip"),
        curl("v2/models/stats", None, "--header", "Accept-Encoding: gzip"),
        curl("v2/models/failing/infer", request(tensor("x", x)), "--header", "Accept-Encoding: gzip"),
    ):
        assert len(answer.body) > 1100
        assert "content-encoding" not in answer.headers
        answer.json()


def test_a_small_bomb(curl):
    """Compressed to a thousandth, larger than the server accepts when it is decoded."""
    bomb = gzip.compress(b'{"inputs": [' + b" " * (300 << 20))
    assert curl(DIGITS, bomb, "--header", "Content-Encoding: gzip").error(413)


def test_unknown_paths_and_models(curl, image):
    assert "nothing" in curl("v2/models/nothing/infer", request(image)).error(404)
    assert "nothing" in curl("v2/models/nothing").error(404)
    assert curl("v2/models/digits/versions/9").error(404)
    assert curl("v2/models/digits/versions/9/infer", request(image)).error(404)
    assert curl("v3").error(404)
    assert curl("v2/models/..%2f..%2fetc/infer", request(image)).error(404)


def test_wrong_verbs(curl, image):
    assert curl(DIGITS).error(405)
    assert curl("v2/health/live", b"").error(405)
    assert curl(DIGITS, None, "--request", "DELETE").error(405)
    assert curl("v2/repository/index").error(405)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"{}",
        b'{"inputs": {}}',
        b'{"inputs": []}',
        b'{"inputs": [{}]}',
        b'{"inputs": [], "inputs": []}',
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"inputs": ' + b'{"a":' * 100_000,
    ],
)
def test_bodies_that_are_no_requests(curl, body):
    assert curl(DIGITS, body).error(400)


def test_inputs_that_do_not_fit(curl, digit):
    image = tensor("image", digit[0])

    def check(*inputs, text="image"):
        assert text in curl(DIGITS, request(*inputs)).error(400)

    check(image | {"shape": [1, 1, 8, 9]})
    check(image | {"shape": [1, 64]})
    check(image | {"shape": [-1, 1, 8, 8]})
    check(image | {"shape": [1 << 40, 1 << 40, 8, 8]})
    check(image | {"shape": [0, 1, 8, 8]})
    check(image | {"shape": "1"}, text="valid")
    check(image | {"datatype": "FP64"})
    check(image | {"datatype": "fp32"})
    check(image | {"datatype": "FP99"})
    check(image | {"data": image["data"][:-1]})
    check(image | {"data": [*image["data"][:-1], "1"]})
    check(image | {"data": [*image["data"][:-1], "one"]})
    check(image | {"datatype": "COMPLEX64"}, text="FP32")
    check(image | {"data": 1})
    check({key: value for key, value in image.items() if key != "data"})
    check(image, image)
    check(image, image | {"name": "other"}, text="other")
    check(image | {"name": "picture"}, text="picture")


def test_numbers_out_of_range(curl):
    def check(data, datatype="INT8", name="INT8"):
        return curl("v2/models/types/infer", request({"name": name, "shape": [1, 2], "datatype": datatype, "data": data}))

    assert "INT8" in check([1, 128]).error(400)
    assert "INT8" in check([1, 1.5]).error(400)
    assert "UINT8" in check([1, -1], "UINT8", "UINT8").error(400)
    assert "UINT64" in check([1, 1 << 64], "UINT64", "UINT64").error(400)
    assert "BOOL" in check([True, 2], "BOOL", "BOOL").error(400)
    assert "INT8" in check([1, None]).error(400)


def test_numbers_that_json_lacks(curl):
    body = b'{"inputs": [{"name": "x", "shape": [4], "datatype": "FP32", "data": [NaN, -Infinity, null, "Infinity"]}]}'
    (output,) = curl(ECHO, body).json()["outputs"]
    assert output["data"] == ["NaN", "-Infinity", "NaN", "Infinity"]


def test_short_floats_in_json(curl):
    def call(model, datatype, data):
        return curl(f"v2/models/{model}/infer", request({"name": "x", "shape": [len(data)], "datatype": datatype, "data": data}))

    # Decimals are rounded to the nearest, as for every type of floats.
    halves = call("float16", "FP16", [0.1, 65519]).json()["outputs"][0]["data"]
    assert np.array_equal(np.array(halves, np.float16), np.array([0.1, 65504], np.float16))
    assert "FP16" in call("float16", "FP16", [65520]).error(400)
    assert call("bfloat16", "BF16", [0.5, "NaN"]).json()["outputs"][0]["data"] == [0.5, "NaN"]


def test_booleans_are_0_or_1(curl):
    head = request({"name": "x", "shape": [2], "datatype": "BOOL", "parameters": {"binary_data_size": 2}})
    header = f"Inference-Header-Content-Length: {len(head)}"
    assert curl("v2/models/bool/infer", head + b"\1\0", "--header", header).json()["outputs"][0]["data"] == [True, False]
    assert "neither 0 nor 1" in curl("v2/models/bool/infer", head + b"\1\2", "--header", header).error(400)


def binary(x, **parameters):
    value = {"name": "x", "shape": [len(x)], "datatype": "FP32", "parameters": {"binary_data_size": 4 * len(x)} | parameters}
    return request(value), x.astype("<f4").tobytes()


def test_header_length(curl):
    head, tail = binary(np.arange(4))

    def call(body, length):
        return curl(ECHO, body, "--header", f"Inference-Header-Content-Length: {length}")

    answer = call(head + tail, len(head))
    assert answer.json()["outputs"][0]["data"] == [0, 1, 2, 3]
    for length in (len(head) - 1, len(head) + 1, 0, len(head + tail) + 1, 1 << 70, -1, "x", "", " "):
        # curl leaves out a header without a value; then binary inputs have no bytes.
        assert call(head + tail, length).error(400)
    assert call(head + tail[:-1], len(head)).error(400)
    assert call(head + tail + b"\0", len(head)).error(400)
    for size in (0, 15, 17, -1, 1 << 62, "16", None):
        head, _ = binary(np.arange(4), binary_data_size=size)
        assert call(head + tail, len(head)).error(400)


def test_bytes_that_are_no_strings(curl):
    def call(tail):
        head = request({"name": "BYTES", "shape": [1, 2], "datatype": "BYTES", "parameters": {"binary_data_size": len(tail)}})
        return curl("v2/models/types/infer", head + tail, "--header", f"Inference-Header-Content-Length: {len(head)}")

    one = b"\1\0\0\0a"
    for tail in (b"", one, one + one + one, one + b"\2\0\0\0a", one + b"\xff\xff\xff\xff", one + b"\1\0\0\0\xff"):
        assert "BYTES" in call(tail).error(400)


def test_binary_answers(curl):
    """`binary_data` of an output, and `binary_data_output` for all; a client that asks for neither gets JSON."""
    x = tensor("x", np.arange(4, dtype=np.float32))
    expected = np.arange(4).astype("<f4").tobytes()
    for chosen in (
        {"outputs": [{"name": "x", "parameters": {"binary_data": True}}]},
        {"parameters": {"binary_data_output": True}},
    ):
        answer = curl(ECHO, request(x, **chosen))
        assert answer.headers["content-type"] == "application/octet-stream"
        length = int(answer.headers["inference-header-content-length"])
        (output,) = json.loads(answer.body[:length])["outputs"]
        assert output["parameters"] == {"binary_data_size": 16} and "data" not in output
        assert answer.body[length:] == expected
    chosen = {"outputs": [{"name": "x", "parameters": {"binary_data": False}}], "parameters": {"binary_data_output": True}}
    assert curl(ECHO, request(x, **chosen)).json()["outputs"][0]["data"] == [0, 1, 2, 3]


def test_the_repository_is_closed_by_default(curl):
    for path in ("v2/repository/index", "v2/repository/models/digits/load", "v2/repository/models/digits/unload"):
        assert curl(path, b"").error(403)
        assert curl(path, b"{}").error(403)
    assert curl("v2/models/digits/ready").status == 200


def test_metrics(curl, image):
    before, _, after = curl("metrics"), curl(DIGITS, request(image)), curl("metrics")
    assert before.headers["content-type"].startswith(("text/plain", "application/openmetrics-text"))

    def count(answer):
        lines = [line for line in answer.body.decode().splitlines() if line.startswith("nv_inference_request_success")]
        return sum(float(line.split()[-1]) for line in lines if 'model="digits"' in line)

    assert count(after) == count(before) + 1
