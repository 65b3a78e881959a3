"""`carton serve` over HTTP by tritonclient, with and without asyncio."""

import base64

import ml_dtypes
import numpy as np
import pytest
import tritonclient.http as blocking
import tritonclient.http.aio as asynchronous
from calling import Blocking, same
from conftest import BINARY, TYPES
from tritonclient.utils import InferenceServerException

Input, Output = blocking.InferInput, blocking.InferRequestedOutput


def connect(module, server):
    if module is blocking:
        return blocking.InferenceServerClient(server.http, concurrency=4)
    return Blocking(lambda: asynchronous.InferenceServerClient(server.http))


@pytest.fixture(params=[blocking, asynchronous], ids=["blocking", "asyncio"])
def module(request):
    return request.param


@pytest.fixture
def client(module, server):
    client = connect(module, server)
    yield client
    client.finish() if module is asynchronous else client.close()


def tensor(name, array, datatype="FP32", binary=True):
    value = Input(name, list(array.shape), datatype)
    value.set_data_from_numpy(array, binary_data=binary)
    return value


def refused(status, text=""):
    """The client raises an error with this status, whose text the server wrote."""
    return pytest.raises(InferenceServerException, match=rf"(?s)^\[{status}\](?!.*occurred in the client).*{text}")


def test_health(client):
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("digits")
    assert client.is_model_ready("digits", "1")
    assert not client.is_model_ready("digits", "2")
    assert not client.is_model_ready("nothing")


def test_metadata(client):
    server = client.get_server_metadata()
    assert server["name"] == "carton" and server["version"]
    assert "binary_tensor_data" in server["extensions"]
    model = client.get_model_metadata("digits")
    assert model == client.get_model_metadata("digits", "1")
    assert (model["name"], model["versions"]) == ("digits", ["1"])
    assert model["platform"]
    assert model["inputs"] == [{"name": "image", "datatype": "FP32", "shape": [-1, 1, 8, 8]}]
    assert model["outputs"] == [{"name": "probabilities", "datatype": "FP32", "shape": [-1, 10]}]
    types = client.get_model_metadata("types")
    assert {spec["name"]: spec["datatype"] for spec in types["inputs"]} == {name: name for name in TYPES}


def test_configuration(client):
    """What load generators read: `dims` lack the batch dimension if there is one."""
    config = client.get_model_config("digits")
    assert config["name"] == "digits"
    batched = config["max_batch_size"] > 0
    (image,) = config["input"]
    assert image["name"] == "image"
    assert image["data_type"] == "TYPE_FP32"
    assert image["dims"] == ([1, 8, 8] if batched else [-1, 1, 8, 8])
    (probabilities,) = config["output"]
    assert probabilities["dims"] == ([10] if batched else [-1, 10])
    types = client.get_model_config("types")["input"]
    assert {spec["name"]: spec["data_type"] for spec in types}["BYTES"] == "TYPE_STRING"


def test_statistics_count_calls(client, digit):
    def stats():
        (found,) = client.get_inference_statistics("digits")["model_stats"]
        return found

    before = stats()
    for _ in range(3):
        client.infer("digits", [tensor("image", digit[0])])
    after = stats()
    assert (after["name"], after["version"]) == ("digits", "1")
    assert after["inference_count"] - before["inference_count"] == 3
    assert 1 <= after["execution_count"] - before["execution_count"] <= 3
    for kind in ("success", "queue", "compute_input", "compute_infer", "compute_output"):
        assert set(after["inference_stats"][kind]) >= {"count", "ns"}
    success = [found["inference_stats"]["success"] for found in (before, after)]
    assert success[1]["count"] - success[0]["count"] == 3
    assert success[1]["ns"] > success[0]["ns"]
    names = {found["name"] for found in client.get_inference_statistics()["model_stats"]}
    assert {"digits", "types"} <= names


@pytest.mark.parametrize("binary_input", [True, False])
@pytest.mark.parametrize("binary_output", [True, False])
def test_every_datatype(client, binary_input, binary_output):
    inputs = [tensor(name, array, name, binary_input) for name, array in TYPES.items()]
    outputs = [Output(name, binary_data=binary_output) for name in TYPES]
    result = client.infer("types", inputs, outputs=outputs)
    for name, array in TYPES.items():
        assert result.get_output(name)["datatype"] == name
        assert ("data" in result.get_output(name)) != binary_output
        assert same(result.as_numpy(name), array), name


@pytest.mark.parametrize("datatype", BINARY)
def test_what_is_sent_as_bytes(client, datatype):
    model, array = BINARY[datatype]
    (spec,) = client.get_model_metadata(model)["inputs"]
    assert (spec["datatype"], spec["shape"]) == (datatype, [-1])
    (spec,) = client.get_model_config(model)["input"]
    assert spec["data_type"] == {"BYTES": "TYPE_STRING"}.get(datatype, f"TYPE_{datatype}")
    result = client.infer(model, [tensor("x", array, datatype)])
    assert result.as_numpy("x").tolist() == array.tolist()


def test_bytes_in_json(client):
    """An output that is no text is base64, which it says. As an input, base64 says the same."""
    _, array = BINARY["BYTES"]
    result = client.infer("bytes", [tensor("x", array, "BYTES")], outputs=[Output("x", binary_data=False)])
    output = result.get_output("x")
    assert output["parameters"]["content_type"] == "base64"
    assert [base64.b64decode(text) for text in output["data"]] == array.tolist()
    texts = np.array([base64.b64encode(element).decode() for element in array], np.object_)
    value = tensor("x", texts, "BYTES", binary=False)
    value._parameters["content_type"] = "base64"
    assert client.infer("bytes", [value]).as_numpy("x").tolist() == array.tolist()
    plain = np.array(["a", "naïve"], np.object_)
    result = client.infer("bytes", [tensor("x", plain, "BYTES", binary=False)], outputs=[Output("x", binary_data=False)])
    assert result.get_output("x")["data"] == plain.tolist() and "parameters" not in result.get_output("x")


def test_short_floats(client):
    array = np.array([0.1, -2.5, 3e38], ml_dtypes.bfloat16)
    result = client.infer("bfloat16", [tensor("x", array, "BF16")])
    assert np.array_equal(np.asarray(result.as_numpy("x"), np.float32), array.astype(np.float32))
    half = np.array([0.1, 2], np.float16)
    result = client.infer("float16", [tensor("x", half, "FP16", binary=False)], outputs=[Output("x", binary_data=False)])
    assert np.array_equal(np.array(result.get_output("x")["data"], np.float16), half)


@pytest.mark.parametrize("binary", [True, False])
def test_lists(client, binary):
    """The protocol has no lists: one whose tensors differ in shape is its elements and its shapes."""

    def check(model, datatype, elements, shapes):
        sent = [tensor("x", elements, datatype, binary), tensor("x.#shapes", np.array(shapes), "INT64", binary)]
        for outputs in (None, [Output("x", binary_data=binary)]):
            result = client.infer(model, sent, outputs=outputs)
            assert [output["name"] for output in result.get_response()["outputs"]] == ["x", "x.#shapes"]
            assert same(result.as_numpy("x"), elements)
            assert result.as_numpy("x.#shapes").tolist() == shapes

    check("boxes", "FP32", np.arange(12, dtype=np.float32), [[2, 4], [1, 4]])
    check("boxes", "FP32", np.arange(4, dtype=np.float32), [[0, 4], [1, 4]])
    check("words", "BYTES", np.array(["a", "naïve", ""], np.object_), [[1], [2]])
    # Lists of one shape, and empty ones, are tensors.
    for elements, shapes, expected in ((np.ones(8, np.float32), [[1, 4], [1, 4]], [2, 1, 4]), (np.ones(0, np.float32), np.zeros((0, 2)), [0, 0, 4])):
        shapes = tensor("x.#shapes", np.array(shapes, np.int64), "INT64", binary)
        result = client.infer("boxes", [tensor("x", elements, "FP32", binary), shapes])
        assert [(output["name"], output["shape"]) for output in result.get_response()["outputs"]] == [("x", expected)]
    for shapes in ([[3, 4]], [[1, 2, 4]], [[-1, 4]], [1, 4]):
        with refused(400, "input `x`"):
            client.infer("boxes", [tensor("x", np.ones(8, np.float32), "FP32"), tensor("x.#shapes", np.array(shapes), "INT64")])
    with refused(400, "x.#shapes"):
        client.infer("boxes", [tensor("x.#shapes", np.array([[1, 4]]), "INT64")])


def test_types_that_hold_what_is_sent(client):
    """Shorter types, and those that carry a type of the model: exactly, or not at all."""

    def sent(model, array, datatype, returned):
        result = client.infer(model, [tensor("x", array, datatype)])
        assert result.get_output("x")["datatype"] == returned
        return np.asarray(result.as_numpy("x")).astype(array.dtype).tolist()

    half = np.array([0.5, -2], np.float16)
    for array, datatype in ((half, "FP16"), (half.astype(np.float32), "FP32"), (np.arange(3, dtype=np.int32), "INT32")):
        assert sent("float64", array, datatype, "FP64") == array.tolist()
    assert sent("float16", half.astype(np.float32), "FP32", "FP16") == half.tolist()
    assert sent("float8_e5m2", half.astype(np.float32), "FP32", "FP32") == half.tolist()
    assert sent("bool", np.array([1, 0], np.uint8), "UINT8", "BOOL") == [1, 0]
    pairs = np.array([[1, -2], [0.5, 3]], np.float32)
    assert client.get_model_metadata("complex64")["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 2]}]
    assert sent("complex64", pairs, "FP32", "FP32") == pairs.tolist()
    for model, array, datatype in (
        ("float16", np.array([0.1], np.float32), "FP32"),
        ("bool", np.array([2], np.uint8), "UINT8"),
        ("float64", np.array([1], np.int64), "INT64"),
    ):
        with refused(400, "x"):
            client.infer(model, [tensor("x", array, datatype)])


def test_numbers_that_json_lacks(client):
    array = np.array([np.nan, np.inf, -np.inf, 1], np.float32)
    for model in ("echo", "float64"):
        result = client.infer(model, [tensor("x", array, binary=False)], outputs=[Output("x", binary_data=False)])
        np.testing.assert_array_equal(np.array(result.get_output("x")["data"], np.float64), array)


def test_json_and_binary_in_one_request(client):
    inputs = [tensor(name, array, name, index % 2 == 0) for index, (name, array) in enumerate(TYPES.items())]
    outputs = [Output(name, binary_data=index % 3 == 0) for index, name in enumerate(TYPES)]
    result = client.infer("types", inputs, outputs=outputs)
    assert {output["name"] for output in result.get_response()["outputs"]} == set(TYPES)
    for name, array in TYPES.items():
        assert same(result.as_numpy(name), array), name


def test_bytes_need_not_be_ascii(client):
    texts = np.array([["", "ü" * 1000], ["\t", "🦀"]], np.object_)
    for binary in (True, False):
        inputs = [tensor(name, array if name != "BYTES" else texts, name, binary) for name, array in TYPES.items()]
        assert same(client.infer("types", inputs).as_numpy("BYTES"), texts)


def test_binary_is_the_default_answer(client, digit):
    """A request that names no outputs asks for binary ones by the parameter `binary_data_output`."""
    result = client.infer("digits", [tensor("image", digit[0])])
    (output,) = result.get_response()["outputs"]
    assert output["parameters"]["binary_data_size"] == 40
    np.testing.assert_allclose(result.as_numpy("probabilities"), digit[1], atol=1e-5)


def test_batches(client, sixteen_digits):
    images, probabilities = sixteen_digits
    result = client.infer("digits", [tensor("image", images)])
    np.testing.assert_allclose(result.as_numpy("probabilities"), probabilities, atol=1e-5)


def test_requested_outputs(client):
    x, y = np.arange(3, dtype=np.float32), np.arange(3, dtype=np.int64)
    inputs = [tensor("x", x), tensor("y", y, "INT64")]
    result = client.infer("pair", inputs, outputs=[Output("y", binary_data=False)])
    assert [output["name"] for output in result.get_response()["outputs"]] == ["y"]
    result = client.infer("pair", inputs, outputs=[Output("y"), Output("x", binary_data=False)])
    assert {output["name"] for output in result.get_response()["outputs"]} == {"x", "y"}
    assert same(result.as_numpy("x"), x) and same(result.as_numpy("y"), y)
    with refused(400, "z"):
        client.infer("pair", inputs, outputs=[Output("z")])


def test_request_ids_and_versions(client, digit):
    response = client.infer("digits", [tensor("image", digit[0])], model_version="1", request_id="abc-1").get_response()
    assert (response["id"], response["model_name"], response["model_version"]) == ("abc-1", "digits", "1")
    assert client.infer("digits", [tensor("image", digit[0])]).get_response().get("id", "") == ""


def test_parameters_are_accepted(client, digit):
    parameters = {"text": "a", "number": 1, "truth": True}
    result = client.infer("digits", [tensor("image", digit[0])], parameters=parameters, priority=1)
    np.testing.assert_allclose(result.as_numpy("probabilities"), digit[1], atol=1e-5)


@pytest.mark.parametrize("algorithm", ["gzip", "deflate"])
@pytest.mark.parametrize("binary", [True, False])
def test_compression(client, algorithm, binary):
    x = np.zeros(10_000, np.float32)
    result = client.infer(
        "echo",
        [tensor("x", x, binary=binary)],
        outputs=[Output("x", binary_data=binary)],
        request_compression_algorithm=algorithm,
        response_compression_algorithm=algorithm,
    )
    assert same(result.as_numpy("x"), x)


def test_empty_and_large_tensors(client):
    for array in (np.zeros(0, np.float32), np.arange(8 << 20, dtype=np.float32)):
        assert same(client.infer("echo", [tensor("x", array)]).as_numpy("x"), array)


def test_several_calls_at_once(server, digit):
    with blocking.InferenceServerClient(server.http, concurrency=16) as client:
        calls = [client.async_infer("digits", [tensor("image", digit[0])]) for _ in range(64)]
        for call in calls:
            np.testing.assert_allclose(call.get_result().as_numpy("probabilities"), digit[1], atol=1e-5)


def test_errors(client, digit):
    image = digit[0]
    with refused(404, "nothing"):
        client.infer("nothing", [tensor("image", image)])
    with refused(404):
        client.infer("digits", [tensor("image", image)], model_version="7")
    with refused(404):
        client.get_model_metadata("nothing")
    with refused(404):
        client.get_model_config("nothing")
    with refused(400, "picture"):
        client.infer("digits", [tensor("picture", image)])
    with refused(400, "image"):
        client.infer("digits", [tensor("image", image[:, :, :4])])
    with refused(400, "image"):
        client.infer("digits", [tensor("image", image.astype(np.float64), "FP64")])
    with refused(400):
        client.infer("digits", [])
    with refused(400, "image.*bool"):
        client.infer("digits", [tensor("image", image > 0.5, "BOOL")])
    with refused("5..", "the weather is bad"):
        client.infer("failing", [tensor("x", np.zeros(1, np.float32))])


def test_timeout_of_a_request(client):
    """The parameter `timeout` is in microseconds. Another request is answered afterwards."""
    with refused("50[34]"):
        client.infer("slow", [tensor("x", np.zeros(1, np.float32))], timeout=200_000)


def test_repository_is_closed_by_default(client):
    for call in (client.get_model_repository_index, lambda: client.load_model("digits"), lambda: client.unload_model("digits")):
        with refused(403):
            call()
    assert client.is_model_ready("digits")


def test_repository(module, administered, digit):
    client = connect(module, administered)
    index = client.get_model_repository_index()
    assert {(model["name"], model["version"], model["state"]) for model in index} == {
        ("digits", "1", "READY"),
        ("pair", "1", "READY"),
    }
    client.unload_model("digits")
    assert not client.is_model_ready("digits")
    assert client.is_model_ready("pair")
    states = {model["name"]: model["state"] for model in client.get_model_repository_index()}
    assert states.get("digits", "UNAVAILABLE") == "UNAVAILABLE"
    with pytest.raises(InferenceServerException):
        client.infer("digits", [tensor("image", digit[0])])
    client.load_model("digits")
    assert client.is_model_ready("digits")
    result = client.infer("digits", [tensor("image", digit[0])])
    np.testing.assert_allclose(result.as_numpy("probabilities"), digit[1], atol=1e-5)
    with refused("40[04]"):
        client.load_model("nothing")
    client.finish() if module is asynchronous else client.close()
