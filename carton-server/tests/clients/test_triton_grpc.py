"""`carton serve` over gRPC by tritonclient, with and without asyncio, and by the calls that it is made of."""

import queue
import time

import grpc
import ml_dtypes
import numpy as np
import pytest
import tritonclient.grpc as blocking
import tritonclient.grpc.aio as asynchronous
from calling import Blocking, same
from conftest import BINARY, TYPES
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException

Input, Output = blocking.InferInput, blocking.InferRequestedOutput


def connect(module, server):
    if module is blocking:
        return blocking.InferenceServerClient(server.grpc)
    return Blocking(lambda: asynchronous.InferenceServerClient(server.grpc))


@pytest.fixture(params=[blocking, asynchronous], ids=["blocking", "asyncio"])
def module(request):
    return request.param


@pytest.fixture
def client(module, server):
    client = connect(module, server)
    yield client
    client.finish() if module is asynchronous else client.close()


@pytest.fixture
def stub(server):
    """The calls themselves, for requests that tritonclient does not make."""
    with grpc.insecure_channel(server.grpc) as channel:
        yield service_pb2_grpc.GRPCInferenceServiceStub(channel)


def tensor(name, array, datatype="FP32"):
    value = Input(name, list(array.shape), datatype)
    value.set_data_from_numpy(array)
    return value


def refused(code, text=""):
    return pytest.raises(InferenceServerException, match=rf"(?s)^\[StatusCode.{code}\].*{text}")


def test_health(client):
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("digits")
    assert client.is_model_ready("digits", "1")
    for name, version in (("digits", "2"), ("nothing", "")):
        try:
            assert not client.is_model_ready(name, version)
        except InferenceServerException as error:
            assert error.status() == "StatusCode.NOT_FOUND"


def test_metadata(client):
    server = client.get_server_metadata()
    assert server.name == "carton" and server.version
    model = client.get_model_metadata("digits", as_json=True)
    assert (model["name"], model["versions"]) == ("digits", ["1"])
    # 64-bit integers are text in the JSON of protobuf.
    assert model["inputs"] == [{"name": "image", "datatype": "FP32", "shape": ["-1", "1", "8", "8"]}]
    assert model["outputs"] == [{"name": "probabilities", "datatype": "FP32", "shape": ["-1", "10"]}]


def test_configuration(client):
    config = client.get_model_config("digits").config
    assert config.name == "digits"
    (image,), (probabilities,) = config.input, config.output
    batched = config.max_batch_size > 0
    assert (image.name, image.data_type) == ("image", blocking.model_config_pb2.TYPE_FP32)
    assert list(image.dims) == ([1, 8, 8] if batched else [-1, 1, 8, 8])
    assert list(probabilities.dims) == ([10] if batched else [-1, 10])


def test_statistics_count_calls(client, digit):
    def stats():
        (found,) = client.get_inference_statistics("digits").model_stats
        return found

    before = stats()
    client.infer("digits", [tensor("image", digit[0])])
    after = stats()
    assert after.inference_count - before.inference_count == 1
    assert after.execution_count - before.execution_count == 1
    assert after.inference_stats.success.count - before.inference_stats.success.count == 1
    assert after.inference_stats.success.ns > before.inference_stats.success.ns
    assert len(client.get_inference_statistics().model_stats) > 1


def test_every_datatype(client):
    result = client.infer("types", [tensor(name, array, name) for name, array in TYPES.items()])
    for name, array in TYPES.items():
        assert result.get_output(name).datatype == name
        assert same(result.as_numpy(name), array), name


@pytest.mark.parametrize("datatype", BINARY)
def test_what_is_sent_as_bytes(client, datatype):
    model, array = BINARY[datatype]
    assert client.get_model_metadata(model).inputs[0].datatype == datatype
    expected = {"BYTES": "TYPE_STRING"}.get(datatype, f"TYPE_{datatype}")
    assert client.get_model_config(model).config.input[0].data_type == getattr(blocking.model_config_pb2, expected)
    result = client.infer(model, [tensor("x", array, datatype)])
    assert result.as_numpy("x").tolist() == array.tolist()


def test_lists(client):
    boxes, shapes = np.arange(12, dtype=np.float32), np.array([[2, 4], [1, 4]])
    result = client.infer("boxes", [tensor("x", boxes, "FP32"), tensor("x.#shapes", shapes, "INT64")])
    assert np.array_equal(result.as_numpy("x"), boxes) and np.array_equal(result.as_numpy("x.#shapes"), shapes)


def test_short_floats(client):
    array = np.array([0.1, -2.5, 3e38], ml_dtypes.bfloat16)
    result = client.infer("bfloat16", [tensor("x", array, "BF16")])
    assert np.array_equal(np.asarray(result.as_numpy("x"), np.float32), array.astype(np.float32))
    result = client.infer("float64", [tensor("x", array, "BF16")])
    assert result.as_numpy("x").tolist() == array.astype(np.float64).tolist()


CONTENTS = {
    "BOOL": "bool_contents",
    "INT8": "int_contents",
    "INT16": "int_contents",
    "INT32": "int_contents",
    "INT64": "int64_contents",
    "UINT8": "uint_contents",
    "UINT16": "uint_contents",
    "UINT32": "uint_contents",
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    "BYTES": "bytes_contents",
}


def typed_request(model, **arrays):
    """A request whose elements are in the fields for their types."""
    request = service_pb2.ModelInferRequest(model_name=model)
    for name, (datatype, array) in arrays.items():
        value = request.inputs.add(name=name, datatype=datatype, shape=array.shape)
        elements = array.ravel().tolist()
        if datatype == "BYTES":
            elements = [element if isinstance(element, bytes) else element.encode() for element in elements]
        getattr(value.contents, CONTENTS[datatype]).extend(elements)
    return request


def test_every_datatype_in_typed_contents(stub):
    request = typed_request("types", **{name: (name, array) for name, array in TYPES.items()})
    result = blocking.InferResult(stub.ModelInfer(request))
    for name, array in TYPES.items():
        assert same(result.as_numpy(name), array), name


def test_bytes_in_typed_contents(stub):
    _, array = BINARY["BYTES"]
    result = blocking.InferResult(stub.ModelInfer(typed_request("bytes", x=("BYTES", array))))
    assert result.as_numpy("x").tolist() == array.tolist()


def test_batches(client, sixteen_digits):
    images, probabilities = sixteen_digits
    result = client.infer("digits", [tensor("image", images)])
    np.testing.assert_allclose(result.as_numpy("probabilities"), probabilities, atol=1e-5)


def test_requested_outputs(client):
    x, y = np.arange(3, dtype=np.float32), np.arange(3, dtype=np.int64)
    inputs = [tensor("x", x), tensor("y", y, "INT64")]
    result = client.infer("pair", inputs, outputs=[Output("y")])
    assert [output.name for output in result.get_response().outputs] == ["y"]
    result = client.infer("pair", inputs, outputs=[Output("y"), Output("x")])
    assert {output.name for output in result.get_response().outputs} == {"x", "y"}
    assert same(result.as_numpy("x"), x) and same(result.as_numpy("y"), y)
    with refused("INVALID_ARGUMENT", "z"):
        client.infer("pair", inputs, outputs=[Output("z")])


def test_request_ids_versions_and_parameters(client, digit):
    result = client.infer(
        "digits",
        [tensor("image", digit[0])],
        model_version="1",
        request_id="abc-1",
        parameters={"text": "a", "number": 1, "truth": True},
        headers={"x-request": "1"},
    )
    response = result.get_response()
    assert (response.id, response.model_name, response.model_version) == ("abc-1", "digits", "1")


@pytest.mark.parametrize("algorithm", ["gzip", "deflate"])
def test_compression(client, algorithm):
    x = np.zeros(10_000, np.float32)
    assert same(client.infer("echo", [tensor("x", x)], compression_algorithm=algorithm).as_numpy("x"), x)


def test_large_messages(client):
    """32 MiB there and back: eight times what gRPC libraries take by default."""
    x = np.arange(8 << 20, dtype=np.float32)
    assert same(client.infer("echo", [tensor("x", x)]).as_numpy("x"), x)
    empty = np.zeros(0, np.float32)
    assert same(client.infer("echo", [tensor("x", empty)]).as_numpy("x"), empty)


def test_errors(client, digit):
    image = digit[0]
    with refused("NOT_FOUND", "nothing"):
        client.infer("nothing", [tensor("image", image)])
    with refused("NOT_FOUND"):
        client.infer("digits", [tensor("image", image)], model_version="7")
    with refused("NOT_FOUND"):
        client.get_model_metadata("nothing")
    with refused("NOT_FOUND"):
        client.get_model_config("nothing")
    with refused("INVALID_ARGUMENT", "picture"):
        client.infer("digits", [tensor("picture", image)])
    with refused("INVALID_ARGUMENT", "image"):
        client.infer("digits", [tensor("image", image[:, :, :4])])
    with refused("INVALID_ARGUMENT", "image"):
        client.infer("digits", [tensor("image", image.astype(np.float64), "FP64")])
    with refused("INVALID_ARGUMENT"):
        client.infer("digits", [])
    with refused("INVALID_ARGUMENT", "image.*bool"):
        client.infer("digits", [tensor("image", image > 0.5, "BOOL")])
    with pytest.raises(InferenceServerException, match="the weather is bad"):
        client.infer("failing", [tensor("x", np.zeros(1, np.float32))])


def test_malformed_requests(stub):
    def check(change):
        request = service_pb2.ModelInferRequest(model_name="echo")
        request.inputs.add(name="x", datatype="FP32", shape=[2])
        change(request)
        with pytest.raises(grpc.RpcError) as error:
            stub.ModelInfer(request)
        assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT, error.value

    def raw(*contents):
        return lambda request: request.raw_input_contents.extend(contents)

    def both(request):
        request.inputs[0].contents.fp32_contents.extend([1, 2])
        request.raw_input_contents.append(bytes(8))

    def shape(*sizes):
        def change(request):
            request.inputs[0].shape[:] = sizes
            request.raw_input_contents.append(bytes(8))

        return change

    check(lambda request: None)
    check(raw(bytes(7)))
    check(raw(bytes(12)))
    check(raw(bytes(8), bytes(8)))
    check(both)
    check(shape(-1))
    check(shape(1 << 62))
    check(shape(1 << 31, 1 << 31, 1 << 31))
    check(shape(2, 1))
    check(lambda request: request.inputs[0].contents.fp32_contents.extend([1, 2, 3]))
    check(lambda request: request.inputs[0].contents.int_contents.extend([1, 2]))


def test_deadline(client):
    start = time.monotonic()
    with refused("DEADLINE_EXCEEDED"):
        client.infer("slow", [tensor("x", np.zeros(1, np.float32))], client_timeout=0.3)
    assert time.monotonic() - start < 2


def stream(module, server, *requests, **options):
    """The answers to requests of one stream, in their order: results or errors."""
    if module is blocking:
        answers = queue.Queue()
        with blocking.InferenceServerClient(server.grpc) as client:
            client.start_stream(lambda result, error: answers.put(error or result), **options)
            for request in requests:
                client.async_stream_infer(**request)
            # Waits for the answers.
            client.stop_stream()
        return list(answers.queue)
    client = connect(module, server)

    async def collect():
        async def all_requests():
            for request in requests:
                yield dict(request)

        return [error or result async for result, error in client.client.stream_infer(all_requests(), **options)]

    try:
        return client.loop.run_until_complete(collect())
    finally:
        client.finish()


def test_stream(module, server):
    x = np.arange(5, dtype=np.float32)
    requests = [dict(model_name="stream", inputs=[tensor("x", x + number)], request_id=str(number)) for number in range(4)]
    answers = stream(module, server, *requests)
    assert len(answers) == 12
    for number in range(4):
        of_request = [answer for answer in answers if answer.get_response().id == str(number)]
        assert len(of_request) == 3
        assert all(same(answer.as_numpy("x"), x + number) for answer in of_request)


def test_stream_of_a_model_that_answers_once(module, server, digit):
    (answer,) = stream(module, server, dict(model_name="digits", inputs=[tensor("image", digit[0])]))
    np.testing.assert_allclose(answer.as_numpy("probabilities"), digit[1], atol=1e-5)


def test_failure_in_a_stream_does_not_end_it(module, server):
    x = np.arange(5, dtype=np.float32)
    answers = stream(
        module,
        server,
        dict(model_name="nothing", inputs=[tensor("x", x)], request_id="a"),
        dict(model_name="broken-stream", inputs=[tensor("x", x)], request_id="b"),
        dict(model_name="stream", inputs=[tensor("x", x)], request_id="c"),
    )
    failures = [answer for answer in answers if isinstance(answer, InferenceServerException)]
    results = [answer.get_response().id for answer in answers if not isinstance(answer, InferenceServerException)]
    assert len(failures) == 2
    assert "nothing" in str(failures[0]) and "no more" in str(failures[1])
    assert sorted(results) == ["b", "c", "c", "c"]


def test_repository_is_closed_by_default(client):
    for call in (client.get_model_repository_index, lambda: client.load_model("digits"), lambda: client.unload_model("digits")):
        with refused("PERMISSION_DENIED"):
            call()
    assert client.is_model_ready("digits")


def test_repository(module, administered, digit):
    client = connect(module, administered)
    index = client.get_model_repository_index().models
    assert {(model.name, model.version, model.state) for model in index} == {("digits", "1", "READY"), ("pair", "1", "READY")}
    client.unload_model("digits")
    with pytest.raises(InferenceServerException):
        client.infer("digits", [tensor("image", digit[0])])
    client.load_model("digits")
    assert client.is_model_ready("digits")
    result = client.infer("digits", [tensor("image", digit[0])])
    np.testing.assert_allclose(result.as_numpy("probabilities"), digit[1], atol=1e-5)
    with pytest.raises(InferenceServerException):
        client.load_model("nothing")
    client.finish() if module is asynchronous else client.close()
