//! Calls over gRPC, on connections that the test writes.

use std::io::Read;
use std::time::{Duration, Instant};

use serde_json::json;

use super::multiplexed::{DATA, END_STREAM, METHOD_POST, Multiplexed};
use super::setting::{BATCHED, Serving, until};

const SERVICE: &str = "/inference.GRPCInferenceService";
const GRPC: (&str, &str) = ("content-type", "application/grpc");

/// A field of a protobuf message that has a length.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut field = vec![number << 3 | 2];
    let mut length = bytes.len();
    while length > 127 {
        field.push((length & 127) as u8 | 128);
        length >>= 7;
    }
    field.push(length as u8);
    [&field, bytes].concat()
}

/// A message with its prefix.
fn framed(message: &[u8]) -> Vec<u8> {
    [&[0], u32::try_from(message.len()).unwrap().to_be_bytes().as_slice(), message].concat()
}

/// A request for the model `m` with rows of zeros.
fn request(n_rows: usize) -> Vec<u8> {
    let mut shape = Vec::new();
    for mut size in [n_rows, 2] {
        while size > 127 {
            shape.push((size & 127) as u8 | 128);
            size >>= 7;
        }
        shape.push(size as u8);
    }
    let input = [field(1, b"x"), field(2, b"FP32"), field(3, &shape)].concat();
    [field(1, b"m"), field(5, &input), field(7, &vec![0; n_rows * 8])].concat()
}

/// Reads until the answer has these bytes.
fn read_until(client: &mut Multiplexed, expected: &[u8]) {
    let (mut answer, mut part, start) = (Vec::new(), [0; 4096], Instant::now());
    while !answer.windows(expected.len()).any(|window| window == expected) {
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", String::from_utf8_lossy(&answer));
        let length = client.0.read(&mut part).unwrap();
        assert!(length > 0, "{:?}", String::from_utf8_lossy(&answer));
        answer.extend_from_slice(&part[..length]);
    }
}

/// A client that sends a large request slowly takes no place that another call could have.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_arrives_holds_no_place() {
    let serving = Serving::noop(BATCHED, json!({}), |spec| spec.max_queue(1)).await;
    let (address, whole) = (serving.grpc.clone(), framed(&request(20_000)));
    let slow = tokio::task::spawn_blocking(move || {
        let mut client = Multiplexed::connect(&address, 1 << 20);
        client.acknowledge();
        client.begin(METHOD_POST, &format!("{SERVICE}/ModelInfer"), GRPC, false);
        let (first, rest) = whole.split_at(100_000);
        first.chunks(10_000).for_each(|chunk| client.send(DATA, 0, 1, chunk));
        (client, rest.to_vec())
    });
    let (mut client, rest) = slow.await.unwrap();
    until(async || serving.metric("carton_call_bytes").await >= 100_000.0).await;
    assert_eq!(serving.metric("nv_inference_pending_request_count").await, 0.0);
    serving.assert_answers().await;
    let answered = tokio::task::spawn_blocking(move || {
        let (last, chunks) = rest.split_at(rest.len() - 1);
        last.chunks(10_000).for_each(|chunk| client.send(DATA, 0, 1, chunk));
        client.send(DATA, END_STREAM, 1, chunks);
        // The name of the output, and its datatype.
        read_until(&mut client, b"FP32");
    });
    answered.await.unwrap();
    assert_eq!(serving.metric("nv_inference_request_success").await, 2.0);
}

/// A message that is no request is answered by an error in the stream, which goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_message_in_a_stream() {
    let serving = Serving::noop(BATCHED, json!({}), |spec| spec).await;
    let address = serving.grpc.clone();
    let answered = tokio::task::spawn_blocking(move || {
        let mut client = Multiplexed::connect(&address, 1 << 20);
        client.begin(METHOD_POST, &format!("{SERVICE}/ModelStreamInfer"), GRPC, false);
        for malformed in [b"\xff".as_slice(), b"\x2a\x7f", b"\x0a\x02\xff\xff"] {
            client.send(DATA, 0, 1, &framed(malformed));
            read_until(&mut client, b"not valid");
        }
        client.send(DATA, 0, 1, &framed(&request(1)));
        read_until(&mut client, b"FP32");
        client
    });
    // Keeps the connection, without which the server would give up the stream.
    let _client = answered.await.unwrap();
    until(async || serving.metric("nv_inference_request_success").await >= 1.0).await;
    assert_eq!(serving.metric("nv_inference_exec_count").await, 1.0);
}
