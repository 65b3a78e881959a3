"""`carton serve` by the client of KServe, over HTTP and gRPC."""

import asyncio
import base64

import httpx
import numpy as np
import pytest
from conftest import BINARY, TYPES
from kserve import InferenceGRPCClient, InferenceRESTClient, InferInput, InferRequest, RESTConfig
from kserve.protocol.infer_type import RequestedOutput


def over_http(server, call, **options):
    async def run():
        client = InferenceRESTClient(RESTConfig(protocol="v2", retries=0, **options))
        try:
            return await call(client, f"http://{server.http}")
        finally:
            await client.close()

    return asyncio.run(run())


def over_grpc(server, call):
    async def run():
        client = InferenceGRPCClient(server.grpc, retries=0)
        try:
            return await call(client)
        finally:
            await client.close()

    return asyncio.run(run())


def tensor(name, array, datatype="FP32", binary=False):
    value = InferInput(name, list(array.shape), datatype)
    value.set_data_from_numpy(array, binary_data=binary)
    return value


def elements(output):
    """Strings are bytes or text, by the way they were sent."""
    values = output.as_numpy().ravel().tolist()
    return [value.decode() if isinstance(value, bytes) else value for value in values]


def test_health(server):
    async def check(client, url):
        assert await client.is_server_live(url) is True
        assert await client.is_server_ready(url) is True
        assert await client.is_model_ready(url, "digits") is True
        return await client.is_model_ready(url, "nothing")

    try:
        assert over_http(server, check) is False
    except httpx.HTTPStatusError as error:
        assert error.response.status_code in (400, 404)


@pytest.mark.parametrize("binary", [True, False])
def test_infer(server, digit, binary):
    async def call(client, url):
        outputs = [RequestedOutput("probabilities", {"binary_data": binary})]
        request = InferRequest("digits", [tensor("image", digit[0], binary=binary)], "an-id", request_outputs=outputs)
        return await client.infer(url, request, model_name="digits")

    answer = over_http(server, call)
    assert (answer.id, answer.model_name) == ("an-id", "digits")
    np.testing.assert_allclose(answer.outputs[0].as_numpy(), digit[1], atol=1e-5)


@pytest.mark.parametrize("binary", [True, False])
def test_every_datatype(server, binary):
    async def call(client, url):
        request = InferRequest("types", [tensor(name, array, name, binary) for name, array in TYPES.items()])
        return await client.infer(url, request, model_name="types")

    for output in over_http(server, call).outputs:
        assert output.datatype == output.name
        assert elements(output) == TYPES[output.name].ravel().tolist(), output.name


@pytest.mark.parametrize("datatype", BINARY)
def test_what_is_sent_as_bytes_over_grpc(server, datatype):
    model, array = BINARY[datatype]
    request = InferRequest(model, [tensor("x", array, datatype, binary=True)])
    (output,) = over_grpc(server, lambda client: client.infer(request)).outputs
    assert output.datatype == datatype
    assert output.as_numpy().tolist() == array.tolist()


@pytest.mark.parametrize("datatype", BINARY)
def test_what_is_sent_as_bytes(server, datatype):
    """Of what is returned as binary, the client reads no bytes that are not UTF-8. In JSON they are base64."""
    model, array = BINARY[datatype]

    async def call(client, url):
        request = InferRequest(model, [tensor("x", array, datatype, binary=True)])
        return await client.infer(url, request, model_name=model)

    (output,) = over_http(server, call).outputs
    assert output.datatype == datatype
    if datatype == "BYTES":
        assert output.parameters["content_type"] == "base64"
        assert [base64.b64decode(text) for text in output.data] == array.tolist()
    else:
        assert output.as_numpy().tolist() == array.tolist()


def test_lists(server):
    boxes, shapes = np.arange(12, dtype=np.float32), np.array([[2, 4], [1, 4]])
    request = InferRequest("boxes", [tensor("x", boxes), tensor("x.#shapes", shapes, "INT64")])

    async def call(client, url):
        return await client.infer(url, request, model_name="boxes")

    for response in (over_http(server, call), over_grpc(server, lambda client: client.infer(request))):
        elements, found = response.outputs
        assert (elements.name, found.name) == ("x", "x.#shapes")
        assert np.array_equal(elements.as_numpy(), boxes) and np.array_equal(found.as_numpy(), shapes)


def test_numbers_that_json_lacks(server):
    """The client writes null for NaN."""
    array = np.array([np.nan, 1], np.float32)

    async def call(client, url):
        return await client.infer(url, InferRequest("echo", [tensor("x", array)]), model_name="echo")

    np.testing.assert_array_equal(np.array(over_http(server, call).outputs[0].data, np.float32), array)


def test_a_dict_as_request(server, digit):
    async def call(client, url):
        tensor = {"name": "image", "shape": [1, 1, 8, 8], "datatype": "FP32", "data": digit[0].ravel().tolist()}
        return await client.infer(url, {"inputs": [tensor]}, model_name="digits")

    np.testing.assert_allclose(over_http(server, call).outputs[0].as_numpy(), digit[1], atol=1e-5)


def test_http_2(server, digit):
    pytest.importorskip("h2")

    async def call(client, url):
        request = InferRequest("digits", [tensor("image", digit[0])])
        return await client.infer(url, request, model_name="digits")

    np.testing.assert_allclose(over_http(server, call, http2=True).outputs[0].as_numpy(), digit[1], atol=1e-5)


def test_errors(server, digit):
    def check(model, name, status, text):
        async def call(client, url):
            return await client.infer(url, InferRequest(model, [tensor(name, digit[0])]), model_name=model)

        # The client shows what the server says only if the answer is `application/json` and nothing more.
        with pytest.raises(httpx.HTTPStatusError, match=text) as error:
            over_http(server, call)
        assert error.value.response.status_code == status

    check("nothing", "image", 404, "nothing.*404")
    check("digits", "picture", 400, "picture.*400")


def test_grpc(server, digit):
    async def call(client):
        assert await client.is_server_live()
        assert await client.is_server_ready()
        assert await client.is_model_ready("digits")
        return await client.infer(InferRequest("digits", [tensor("image", digit[0])], "an-id"))

    answer = over_grpc(server, call)
    assert (answer.id, answer.model_name) == ("an-id", "digits")
    np.testing.assert_allclose(answer.outputs[0].as_numpy(), digit[1], atol=1e-5)


@pytest.mark.parametrize("binary", [True, False])
def test_every_datatype_over_grpc(server, binary):
    async def call(client):
        return await client.infer(InferRequest("types", [tensor(name, array, name, binary) for name, array in TYPES.items()]))

    for output in over_grpc(server, call).outputs:
        assert elements(output) == TYPES[output.name].ravel().tolist(), output.name
