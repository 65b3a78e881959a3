//! Calls: JSON and bytes in every dtype, chosen outputs, streams, encodings, and what is refused.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use carton_core::DataType;
use serde_json::{Value, json};

use super::setting::{BATCHED, Reply, Serving, connect, data, reply, request};

/// The dtypes of cartons, by their names in the protocol, with two elements each in JSON and as bytes.
fn elements() -> Vec<(DataType, &'static str, Value, Vec<u8>)> {
    fn bytes<const SIZE: usize>(elements: [[u8; SIZE]; 2]) -> Vec<u8> {
        elements.concat()
    }
    vec![
        (DataType::Float32, "FP32", json!([1.5, -0.25]), bytes([1.5_f32.to_le_bytes(), (-0.25_f32).to_le_bytes()])),
        (DataType::Float64, "FP64", json!([1.5, 1e300]), bytes([1.5_f64.to_le_bytes(), 1e300_f64.to_le_bytes()])),
        (DataType::Int8, "INT8", json!([-128, 127]), bytes([[128], [127]])),
        (DataType::Int16, "INT16", json!([-32768, 1]), bytes([i16::MIN.to_le_bytes(), 1_i16.to_le_bytes()])),
        (DataType::Int32, "INT32", json!([i32::MIN, 1]), bytes([i32::MIN.to_le_bytes(), 1_i32.to_le_bytes()])),
        (
            DataType::Int64,
            "INT64",
            json!([i64::MIN, i64::MAX]),
            bytes([i64::MIN.to_le_bytes(), i64::MAX.to_le_bytes()]),
        ),
        (DataType::Uint8, "UINT8", json!([0, 255]), bytes([[0], [255]])),
        (DataType::Uint16, "UINT16", json!([0, 65535]), bytes([[0, 0], [255, 255]])),
        (DataType::Uint32, "UINT32", json!([1, u32::MAX]), bytes([1_u32.to_le_bytes(), u32::MAX.to_le_bytes()])),
        (DataType::Uint64, "UINT64", json!([1, u64::MAX]), bytes([1_u64.to_le_bytes(), u64::MAX.to_le_bytes()])),
        (DataType::String, "BYTES", json!(["", "ä"]), b"\0\0\0\0\x02\0\0\0\xc3\xa4".to_vec()),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn every_dtype_in_json_and_in_bytes() {
    let declare = |(dtype, name, ..): &(DataType, &str, Value, Vec<u8>)| {
        let spec = format!("name = \"{name}\"\ndtype = \"{dtype}\"\nshape = [2]\n");
        format!("[[input]]\n{spec}[[output]]\n{spec}")
    };
    let serving = Serving::noop(&elements().iter().map(declare).collect::<String>(), json!({}), |spec| spec).await;
    let metadata = serving.get("/v2/models/m").await.json();
    let inputs = metadata["inputs"].as_array().unwrap();
    assert!(
        inputs.iter().all(|input| input["name"] == input["datatype"] && input["shape"] == json!([2])),
        "{metadata}"
    );

    let in_json = |(_, name, data, _): &(DataType, &str, Value, Vec<u8>)| json!({ "name": name, "datatype": name, "shape": [2], "data": data });
    let inputs: Vec<Value> = elements().iter().map(in_json).collect();
    let reply = serving.post("/v2/models/m/infer", &[], json!({ "inputs": inputs }).to_string()).await;
    for output in reply.json()["outputs"].as_array().unwrap() {
        let (.., expected, _) = elements().into_iter().find(|element| output["name"] == element.1).unwrap();
        assert_eq!((&output["data"], &output["datatype"]), (&expected, &output["name"]));
    }

    // Every other input in bytes, and all outputs.
    let mut bytes = Vec::new();
    let mixed = elements().into_iter().enumerate().map(|(index, element)| {
        if index % 2 == 0 {
            return in_json(&element);
        }
        bytes.extend_from_slice(&element.3);
        json!({ "name": element.1, "datatype": element.1, "shape": [2], "parameters": { "binary_data_size": element.3.len() } })
    });
    let header =
        json!({ "inputs": mixed.collect::<Vec<_>>(), "parameters": { "binary_data_output": true } }).to_string();
    let length = header.len().to_string();
    let reply = serving
        .post(
            "/v2/models/m/infer",
            &[("Inference-Header-Content-Length", &length)],
            [header.into_bytes(), bytes].concat(),
        )
        .await;
    let (header, mut rest) = binary(&reply);
    for output in header["outputs"].as_array().unwrap() {
        let (.., expected) = elements().into_iter().find(|element| output["name"] == element.1).unwrap();
        let size = usize::try_from(output["parameters"]["binary_data_size"].as_u64().unwrap()).unwrap();
        let (found, behind) = rest.split_at(size);
        assert_eq!(found, expected, "{output}");
        rest = behind;
    }
    assert!(rest.is_empty());
}

/// The JSON of a binary answer, and what follows it.
fn binary(reply: &Reply) -> (Value, &[u8]) {
    assert_eq!(
        (reply.status, reply.headers["content-type"].as_str()),
        (200, "application/octet-stream"),
        "{}",
        reply.text()
    );
    let length: usize = reply.headers["inference-header-content-length"].parse().unwrap();
    let (json, rest) = reply.body.split_at(length);
    (serde_json::from_slice(json).unwrap(), rest)
}

/// A tensor that is large enough for shared memory, in both directions.
#[tokio::test(flavor = "multi_thread")]
async fn large_tensors() {
    let serving = Serving::noop(BATCHED, json!({}), |spec| spec).await;
    let values: Vec<f32> = (0..600_000_u32).map(|value| value as f32).collect();
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let header = json!({
        "inputs": [{ "name": "x", "datatype": "FP32", "shape": [300_000, 2], "parameters": { "binary_data_size": bytes.len() } }],
        "outputs": [{ "name": "x", "parameters": { "binary_data": true } }],
    });
    let header = header.to_string();
    let length = header.len().to_string();
    let body = [header.as_bytes(), &bytes].concat();
    let reply = serving.post("/v2/models/m/infer", &[("Inference-Header-Content-Length", &length)], body).await;
    assert!(binary(&reply).1 == bytes);
    let json = json!({ "inputs": [{ "name": "x", "datatype": "FP32", "shape": [300_000, 2], "data": values }] });
    let reply = serving.post("/v2/models/m/infer", &[], json.to_string()).await;
    let found: Vec<f32> = serde_json::from_value(data(&reply)).unwrap();
    assert!(found == values);
}

/// The path, headers and body of a call, and the status of its answer.
type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a str, u16);

/// The server answers plain paths of calls without the router that finds encoded ones.
#[tokio::test(flavor = "multi_thread")]
async fn encoded_paths_are_answered_as_plain_ones() {
    let origin = "https://app.example.com";
    let serving = Serving::noop_with(BATCHED, json!({}), |spec| spec, |builder| builder.allowed_origin(origin)).await;
    let right = request(&[[1.0, 2.0]]).to_string();
    let origins = [("origin", origin)];
    let events = [("accept", "text/event-stream")];
    let cases: [Case<'_>; 8] = [
        ("m/infer", &[], &right, 200),
        ("m/versions/1/infer", &[], &right, 200),
        ("m/infer", &events, &right, 200),
        ("m/infer", &origins, &right, 200),
        ("m/infer", &[("origin", "https://example.com")], &right, 403),
        ("m/infer", &[], "{", 400),
        ("mm/infer", &[], &right, 404),
        ("m/versions/9/infer", &[], &right, 404),
    ];
    for (path, headers, body, status) in cases {
        let plain = serving.post(&format!("/v2/models/{path}"), headers, body).await;
        let encoded = serving.post(&format!("/v2/models/{}", path.replacen('m', "%6d", 1)), headers, body).await;
        let of = |reply: Reply| {
            let mut headers = reply.headers;
            headers.remove("date");
            (reply.status, headers, reply.body)
        };
        assert_eq!(plain.status, status, "{path} {plain:?}");
        assert_eq!(of(plain), of(encoded), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_chosen_outputs_and_metadata() {
    let serving = Serving::noop(BATCHED, json!({}), |spec| spec.version("7")).await;
    let mut asked = request(&[[1.0, 2.0]]);
    asked["id"] = json!("call 1");
    asked["outputs"] = json!([{ "name": "x" }]);
    let reply = serving.post("/v2/models/m/versions/7/infer", &[], asked.to_string()).await.json();
    assert_eq!(
        reply,
        json!({ "model_name": "m", "model_version": "7", "id": "call 1",
            "outputs": [{ "name": "x", "datatype": "FP32", "shape": [1, 2], "data": [1.0, 2.0] }] })
    );
    asked["outputs"] = json!([{ "name": "y" }]);
    let reply = serving.post("/v2/models/m/infer", &[], asked.to_string()).await;
    assert_eq!((reply.status, reply.error().as_str()), (400, "the model has no output `y`"));
    for (path, status) in [
        ("/v2", 200),
        ("/v2/health/live", 200),
        ("/v2/health/ready", 200),
        ("/v2/models/m", 200),
        ("/v2/models/m/versions/7", 200),
        ("/v2/models/m/ready", 200),
        ("/v2/models/m/versions/7/ready", 200),
        ("/v2/models/m/config", 200),
        ("/v2/models/m/stats", 200),
        ("/v2/models/stats", 200),
        ("/v2/models/m/versions/1", 404),
        ("/v2/models/n", 404),
        ("/v2/models/m/infer", 405),
        ("/v3", 404),
    ] {
        let reply = serving.get(path).await;
        assert_eq!(reply.status, status, "{path}");
        assert!(reply.json().is_object());
    }
    let config = serving.get("/v2/models/m/config").await.json();
    assert_eq!((&config["max_batch_size"], &config["input"][0]["dims"]), (&json!(32), &json!([2])));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_contradicts_the_signature() {
    let serving = Serving::noop(BATCHED, json!({}), |spec| spec).await;
    let check = async |input: Value, expected: &str| {
        let reply = serving.post("/v2/models/m/infer", &[], json!({ "inputs": [input] }).to_string()).await;
        assert_eq!(reply.status, 400, "{reply:?}");
        assert!(reply.error().contains(expected), "{}", reply.error());
    };
    check(
        json!({ "name": "x", "datatype": "FP32", "shape": [1, 3], "data": [1, 2, 3] }),
        "dimension 1: expected 2, found 3",
    )
    .await;
    check(
        json!({ "name": "x", "datatype": "INT32", "shape": [1, 2], "data": [1, 2] }),
        "expected float32, found int32",
    )
    .await;
    check(json!({ "name": "y", "datatype": "FP32", "shape": [1, 2], "data": [1, 2] }), "`x`").await;
    check(json!({ "name": "x", "datatype": "FP32", "shape": [1, 2], "data": [1] }), "expected 2 elements").await;
    let reply = serving.post("/v2/models/m/infer", &[], "{\"inputs\": []}").await;
    assert_eq!(reply.status, 400);
    serving.assert_answers().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_are_events() {
    let serving = Serving::noop(BATCHED, json!({ "stream_items": 3 }), |spec| spec).await;
    let stream = async |serving: &Serving| {
        let body = request(&[[1.0, 2.0]]).to_string();
        serving.post("/v2/models/m/infer", &[("accept", "text/event-stream")], body).await
    };
    let reply = stream(&serving).await;
    assert_eq!(reply.headers["content-type"], "text/event-stream");
    let text = reply.text();
    let items: Vec<Value> = text
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|json| serde_json::from_str(json).unwrap())
        .collect();
    assert_eq!(items.len(), 3);
    assert_eq!(serving.metric("nv_inference_exec_count").await, 1.0);
    assert!(items.iter().all(|item| item["outputs"][0]["data"] == json!([1.0, 2.0])));

    let options = json!({ "stream_items": 3, "fail_after_items": 1, "fail": "no more" });
    let serving = Serving::noop(BATCHED, options, |spec| spec).await;
    let text = stream(&serving).await.text();
    let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert_eq!(lines[1..], ["event: error", "data: {\"error\":\"the model failed: no more\"}"]);
    let statistics = serving.get("/v2/models/m/stats").await.json()["model_stats"][0]["inference_stats"].clone();
    assert_eq!((&statistics["fail"]["count"], &statistics["success"]["count"]), (&json!(1), &json!(0)));
    assert!(statistics["fail"]["ns"].as_u64().unwrap() > 0, "{statistics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn encodings_both_ways() {
    let serving = Serving::noop(BATCHED, json!({}), |spec| spec).await;
    let rows: Vec<[f32; 2]> = (0..500_u16).map(|row| [row.into(), 0.5]).collect();
    let plain = request(&rows).to_string().into_bytes();
    let mut gzip = Vec::new();
    flate2::read::GzEncoder::new(plain.as_slice(), flate2::Compression::fast()).read_to_end(&mut gzip).unwrap();
    let mut deflate = Vec::new();
    flate2::read::ZlibEncoder::new(plain.as_slice(), flate2::Compression::fast()).read_to_end(&mut deflate).unwrap();
    let zstd = zstd::stream::encode_all(plain.as_slice(), 1).unwrap();
    let expected = data(&serving.post("/v2/models/m/infer", &[], plain.clone()).await);
    // Names of encodings may be in capitals.
    let reply = serving.post("/v2/models/m/infer", &[("content-encoding", "GZip")], gzip.clone()).await;
    assert_eq!(data(&reply), expected);
    for (encoding, body) in [("gzip", gzip), ("deflate", deflate), ("zstd", zstd), ("identity", plain)] {
        let headers = [("content-encoding", encoding), ("accept-encoding", encoding)];
        let reply = serving.post("/v2/models/m/infer", &headers, body).await;
        assert_eq!(reply.status, 200, "{encoding}: {}", reply.text());
        let mut decoded = Vec::new();
        match encoding {
            "gzip" => flate2::read::GzDecoder::new(reply.body.as_slice()).read_to_end(&mut decoded).map(drop),
            "deflate" => flate2::read::ZlibDecoder::new(reply.body.as_slice()).read_to_end(&mut decoded).map(drop),
            "zstd" => zstd::stream::copy_decode(reply.body.as_slice(), &mut decoded),
            _ => reply.body.as_slice().read_to_end(&mut decoded).map(drop),
        }
        .unwrap();
        assert_eq!(
            reply.headers.get("content-encoding").map(String::as_str),
            Some(encoding).filter(|it| *it != "identity")
        );
        let decoded: Value = serde_json::from_slice(&decoded).unwrap();
        assert_eq!(decoded["outputs"][0]["data"], expected);
    }
    let reply = serving.post("/v2/models/m/infer", &[("content-encoding", "br")], "x").await;
    assert_eq!((reply.status, reply.error().contains("gzip, deflate or zstd")), (415, true));
    let reply = serving.post("/v2/models/m/infer", &[("content-encoding", "gzip")], "not gzip").await;
    assert_eq!(reply.status, 400, "{reply:?}");
}

/// What a model says reaches the client, and the paths in it do not.
#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_fails() {
    let options = json!({ "fail": "cannot read /srv/secret/weights.bin: too wide" });
    let serving = Serving::noop(BATCHED, options, |spec| spec).await;
    let reply = serving.call(&[[1.0, 2.0]]).await;
    assert_eq!((reply.status, reply.error().as_str()), (500, "the model failed: cannot read …: too wide"));
    assert_eq!(serving.metric("nv_inference_request_failure").await, 1.0);
    assert_eq!(serving.metric("nv_inference_request_success").await, 0.0);
}

/// Reads one answer of a stated length, and nothing behind it.
fn next_reply(stream: &mut TcpStream) -> Reply {
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        answer.extend(byte);
    }
    let head = reply(&answer).unwrap();
    let mut body = vec![0; head.headers["content-length"].parse().unwrap()];
    stream.read_exact(&mut body).unwrap();
    Reply { body, ..head }
}

/// A request that is refused before its body was read leaves the connection usable, or says that it does not.
#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_nobody_reads() {
    let serving = Serving::noop(BATCHED, json!({}), |spec| spec).await;
    let address = serving.http.clone();
    tokio::task::spawn_blocking(move || {
        let call = |stream: &mut TcpStream, path: &str, body: &[u8], more: &str| {
            let head =
                format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n{more}\r\n", body.len());
            stream.write_all(head.as_bytes()).unwrap();
            // The server has answered already when the body comes, if it does not wait for it.
            std::thread::sleep(Duration::from_millis(50));
            // A server that ends the connection may have done so.
            let _ = stream.write_all(body);
            next_reply(stream)
        };
        let right = request(&[[1.0, 2.0]]).to_string();
        let mut stream = connect(&address);
        for (path, more, status) in [
            ("/v2/models/unknown/infer", "", 404),
            ("/v2/models/m/ready", "", 405),
            ("/v2/models/m/infer", "content-encoding: lzma\r\n", 415),
            ("/v2/models/m/infer", "origin: https://example.com\r\n", 403),
            ("/v2/models/m/infer", "x-request-timeout-ms: soon\r\n", 400),
            ("/v2/models/m/infer", "", 200),
        ] {
            let reply = call(&mut stream, path, right.as_bytes(), more);
            assert_eq!(reply.status, status, "{path} {more} {reply:?}");
            assert!(!reply.headers.contains_key("connection"), "{reply:?}");
        }
        for (body, more) in [(vec![b' '; 1 << 20], ""), (right.into_bytes(), "expect: 100-continue\r\n")] {
            let reply = call(&mut connect(&address), "/v2/models/unknown/infer", &body, more);
            assert_eq!((reply.status, reply.headers["connection"].as_str()), (404, "close"), "{reply:?}");
        }
    })
    .await
    .unwrap();
}
