//! Hostile requests: each is refused in bounded time and memory, and the next honest one is answered.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use carton_server::Limits;
use serde_json::json;

use super::multiplexed::{METHOD_GET, METHOD_POST, Multiplexed};
use super::setting::{BATCHED, Serving, connect, post_request, read_all, reply, request};

const INFER: &str = "/v2/models/m/infer";

/// Limits that a test reaches quickly.
fn small() -> Limits {
    let mut limits = Limits::default();
    limits.body_bytes = 1 << 20;
    limits.header_timeout = Duration::from_millis(500);
    limits.body_pause = Duration::from_millis(500);
    limits.answer_pause = Duration::from_millis(500);
    limits
}

async fn serving(limits: Limits) -> Serving {
    Serving::noop_with(BATCHED, json!({}), |spec| spec, |builder| builder.limits(limits)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_lie() {
    let serving = serving(small()).await;
    let honest = request(&[[1.0, 2.0]]).to_string();
    let header = |size: &str| {
        format!(
            "{{\"inputs\":[{{\"name\":\"x\",\"shape\":[1,2],\"datatype\":\"FP32\",\"parameters\":{{\"binary_data_size\":{size}}}}}]}}"
        )
    };
    let deep =
        format!("{{\"inputs\":[{{\"name\":\"x\",\"shape\":[1,2],\"datatype\":\"FP32\",\"data\":{}", "[".repeat(10_000));
    let deep_parameter =
        format!("{{\"inputs\":[],\"parameters\":{{\"p\":{}{}}}}}", "[".repeat(10_000), "]".repeat(10_000));
    let overflow =
        json!({ "inputs": [{ "name": "x", "datatype": "FP32", "shape": [u32::MAX, u32::MAX, u32::MAX], "data": [] }] });
    let cases: Vec<(&str, Option<String>, String)> = vec![
        ("nothing", None, String::new()),
        ("cut off", None, honest[..honest.len() / 2].to_owned()),
        ("deep lists", None, deep),
        ("deep parameters", None, deep_parameter),
        ("a shape that overflows", None, overflow.to_string()),
        (
            "a huge shape",
            None,
            json!({ "inputs": [{ "name": "x", "datatype": "UINT8", "shape": [1_u64 << 40], "data": [1] }] })
                .to_string(),
        ),
        ("a header longer than the body", Some("100000".to_owned()), honest.clone()),
        ("a header longer than the limit", Some(u64::MAX.to_string()), honest.clone()),
        ("a negative header", Some("-1".to_owned()), honest.clone()),
        ("a header that is no number", Some("x".to_owned()), honest.clone()),
        ("tensors longer than the body", Some(header("8").len().to_string()), header("8") + "1234"),
        ("tensors shorter than the body", Some(header("8").len().to_string()), header("8") + "123456789"),
        ("a size that is not that of the shape", Some(header("4").len().to_string()), header("4") + "1234"),
        (
            "a size that overflows",
            Some(header("18446744073709551616").len().to_string()),
            header("18446744073709551616"),
        ),
        ("bytes that are not UTF-8", None, "\u{fffd}".to_owned()),
    ];
    for (what, length, body) in cases {
        let headers: Vec<(&str, &str)> =
            length.iter().map(|length| ("inference-header-content-length", length.as_str())).collect();
        let start = Instant::now();
        let answer = serving.post(INFER, &headers, body).await;
        assert!([400, 413].contains(&answer.status), "{what}: {answer:?}");
        assert!(!answer.error().is_empty() && start.elapsed() < Duration::from_secs(5), "{what}");
    }
    let mut invalid = honest.clone().into_bytes();
    invalid.push(0xff);
    assert_eq!(serving.post(INFER, &[], invalid).await.status, 400);
    serving.assert_answers().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_are_too_large() {
    let serving = serving(small()).await;
    // A stated size, without the bytes.
    let head = format!("POST {INFER} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 999999999999\r\n\r\n");
    assert_eq!(serving.send(head.into_bytes()).await.status, 413);
    // A size that is not stated: in chunks.
    let chunk = [b"10000\r\n".as_slice(), &[b' '; 0x10000], b"\r\n"].concat();
    let head = format!("POST {INFER} HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n").into_bytes();
    assert_eq!(serving.send([head, chunk.repeat(20)].concat()).await.status, 413);
    // A megabyte of zeros and more, in a kilobyte.
    let mut bomb = Vec::new();
    flate2::read::GzEncoder::new([b' '; 4 << 20].as_slice(), flate2::Compression::best())
        .read_to_end(&mut bomb)
        .unwrap();
    assert!(bomb.len() < 10_000);
    assert_eq!(serving.post(INFER, &[("content-encoding", "gzip")], bomb).await.status, 413);
    // A window of 16 MiB, which a decoder would allocate.
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
    encoder.window_log(24).unwrap();
    encoder.write_all(request(&[[1.0, 2.0]]).to_string().as_bytes()).unwrap();
    let wide = encoder.finish().unwrap();
    assert_eq!(serving.post(INFER, &[("content-encoding", "zstd")], wide).await.status, 400);
    assert_eq!(serving.metric("carton_call_bytes").await, 0.0);
    serving.assert_answers().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_headers() {
    let serving = serving(small()).await;
    let many = "x: y\r\n".repeat(100_000);
    for head in [many, format!("x: {}\r\n", "y".repeat(10 << 20)), format!("{}: y\r\n", "x".repeat(1 << 20))] {
        let answer = serving.send(format!("GET /v2 HTTP/1.1\r\nhost: localhost\r\n{head}\r\n").into_bytes()).await;
        assert_eq!(answer.status, 431, "{answer:?}");
    }
    let long =
        serving.send(format!("GET /{} HTTP/1.1\r\nhost: localhost\r\n\r\n", "y".repeat(1 << 20)).into_bytes()).await;
    assert!([414, 431].contains(&long.status), "{long:?}");
    let noise = serving.send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n".to_vec()).await;
    assert_eq!(noise.status, 400);
    serving.assert_answers().await;
}

/// A client that sends its headers or its body drop by drop is cut off, and holds nothing afterwards.
#[tokio::test(flavor = "multi_thread")]
async fn slow_clients() {
    let serving = serving(small()).await;
    let address = serving.http.clone();
    let (headers, body) = tokio::task::spawn_blocking(move || {
        let drip = |bytes: &[u8]| {
            let mut stream = connect(&address);
            let start = Instant::now();
            for byte in bytes {
                if stream.write_all(&[*byte]).is_err() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(20));
                assert!(start.elapsed() < Duration::from_secs(15), "the server waits for ever");
            }
            (read_all(&mut stream), start.elapsed())
        };
        let head = format!("POST {INFER} HTTP/1.1\r\nhost: localhost\r\nx: {}", "y".repeat(2000));
        let headers = drip(head.as_bytes());
        let mut stream = connect(&address);
        stream
            .write_all(format!("POST {INFER} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 500000\r\n\r\n").as_bytes())
            .unwrap();
        let start = Instant::now();
        while stream.write_all(b" ").is_ok() && start.elapsed() < Duration::from_secs(15) {
            std::thread::sleep(Duration::from_millis(20));
            let mut peeked = [0];
            stream.set_nonblocking(true).unwrap();
            let has_answer = stream.peek(&mut peeked).is_ok();
            stream.set_nonblocking(false).unwrap();
            if has_answer {
                break;
            }
        }
        (headers, (read_all(&mut stream), start.elapsed()))
    })
    .await
    .unwrap();
    assert!(headers.1 < Duration::from_secs(10), "{:?}", headers.1);
    assert!(body.1 < Duration::from_secs(10), "{:?}", body.1);
    let answer = reply(&body.0).unwrap();
    assert_eq!((answer.status, answer.error().as_str()), (408, "the client sends its request too slowly"));
    assert_eq!(serving.metric("carton_call_bytes").await, 0.0);
    serving.assert_answers().await;
}

/// A client that never reads its answer loses its connection, and the answer's memory is free.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read() {
    let mut limits = small();
    limits.body_bytes = 64 << 20;
    let serving = serving(limits).await;
    let n_rows = 4 << 20;
    let header = json!({
        "inputs": [{ "name": "x", "shape": [n_rows, 2], "datatype": "FP32", "parameters": { "binary_data_size": n_rows * 8 } }],
        "parameters": { "binary_data_output": true },
    });
    let header = header.to_string();
    let length = header.len().to_string();
    let body = [header.into_bytes(), vec![0; n_rows * 8]].concat();
    let bytes = post_request(INFER, &[("inference-header-content-length", &length)], &body);
    let mut stream = connect(&serving.http);
    let stream = tokio::task::spawn_blocking(move || {
        stream.write_all(&bytes).unwrap();
        stream
    });
    let stream = stream.await.unwrap();
    let start = Instant::now();
    while serving.metric("nv_inference_request_success").await == 0.0 || serving.metric("carton_call_bytes").await > 0.0
    {
        assert!(start.elapsed() < Duration::from_secs(20), "the answer is held");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    drop(stream);
    serving.assert_answers().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_of_models_are_names() {
    let serving = serving(small()).await;
    for name in
        ["..%2f..%2fetc%2fpasswd", "%00", "m%0a", "https:%2f%2fexample.com%2fx.carton", &"m".repeat(5000), "%ff"]
    {
        for request in
            [serving.get(&format!("/v2/models/{name}")), serving.get(&format!("/v2/models/m/versions/{name}"))]
        {
            let answer = request.await;
            assert!([400, 404, 414, 431].contains(&answer.status), "{name}: {answer:?}");
            assert!(answer.body.len() < 2000);
            // What is too long is refused before it is a request.
            assert!(answer.status > 404 || !answer.error().is_empty());
        }
    }
    serving.assert_answers().await;
}

/// Connections on which nothing, or only the beginning of HTTP/2, is sent, are closed, and so is one of HTTP/2 without further requests.
#[tokio::test(flavor = "multi_thread")]
async fn connections_without_requests() {
    let serving = serving(small()).await;
    for beginning in [b"".as_slice(), b"P", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"] {
        let (address, beginning) = (serving.http.clone(), beginning.to_vec());
        let took = tokio::task::spawn_blocking(move || {
            let mut stream = connect(&address);
            stream.write_all(&beginning).unwrap();
            let start = Instant::now();
            read_all(&mut stream);
            start.elapsed()
        });
        let took = took.await.unwrap();
        assert!(took > Duration::from_millis(300) && took < Duration::from_secs(5), "{took:?}");
    }
    serving.assert_answers().await;
}

/// A request with a name of a megabyte is refused at once.
#[tokio::test(flavor = "multi_thread")]
async fn long_names_cost_nothing() {
    let mut limits = small();
    limits.body_bytes = 64 << 20;
    let serving = serving(limits).await;
    let start = Instant::now();
    let body = json!({ "inputs": [{ "name": "x".repeat(10 << 20), "shape": [1], "datatype": "FP32", "data": [1] }] });
    let reply = serving.post(INFER, &[], body.to_string()).await;
    assert_eq!(reply.status, 400);
    assert!(reply.body.len() < 10_000 && start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

/// A page of another origin cannot make a browser call the server, which needs no leave for such a request.
#[tokio::test(flavor = "multi_thread")]
async fn pages_of_other_origins() {
    let serving = serving(small()).await;
    let body = request(&[[1.0, 2.0]]).to_string();
    let foreign =
        serving.post(INFER, &[("origin", "https://example.com"), ("content-type", "text/plain")], body.clone()).await;
    assert_eq!(foreign.status, 403);
    assert_eq!(serving.post(INFER, &[("origin", "null")], body.clone()).await.status, 403);
    assert_eq!(serving.post(INFER, &[("origin", "http://localhost")], body).await.status, 200);
}

/// A name that somebody makes resolve to this machine is of the server's own origin to a browser, and foreign to the server.
#[tokio::test(flavor = "multi_thread")]
async fn foreign_hosts() {
    let get = async |serving: &Serving, path: &str, heads: &str| {
        serving.send(format!("GET {path} HTTP/1.1\r\n{heads}connection: close\r\n\r\n").into_bytes()).await.status
    };
    let serving = serving(small()).await;
    assert_eq!(get(&serving, "/v2", "host: evil.example:8080\r\norigin: http://evil.example:8080\r\n").await, 403);
    assert_eq!(get(&serving, "http://evil.example/v2", "host: localhost\r\n").await, 403);
    assert_eq!(get(&serving, "/v2/health/live", "host: 10.0.0.1.evil.example\r\n").await, 200);
    assert_eq!(get(&serving, "/v2", "host: 127.0.0.1:8080\r\n").await, 200);
    assert_eq!(get(&serving, "/v2", "host: localhost\r\nhost: evil.example\r\n").await, 400);
    let named = |builder: carton_server::ServerBuilder| builder.allowed_host("models.internal");
    let serving = Serving::noop_with(BATCHED, serde_json::json!({}), |spec| spec, named).await;
    assert_eq!(get(&serving, "/v2", "host: models.internal\r\n").await, 200);
    assert_eq!(get(&serving, "/v2", "host: evil.example\r\n").await, 403);
    let token = |builder: carton_server::ServerBuilder| builder.token("calls-calls-calls");
    let serving = Serving::noop_with(BATCHED, serde_json::json!({}), |spec| spec, token).await;
    assert_eq!(get(&serving, "/v2", "host: evil.example\r\nauthorization: Bearer calls-calls-calls\r\n").await, 200);
}

/// Pages of the origins that the operator allows may, and a browser that asks first needs no token for that.
#[tokio::test(flavor = "multi_thread")]
async fn pages_of_allowed_origins() {
    let allowed = ("origin", "https://app.example.com");
    let build = |builder: carton_server::ServerBuilder| builder.allowed_origin(allowed.1).token("calls-calls-calls");
    let serving = Serving::noop_with(BATCHED, serde_json::json!({}), |spec| spec, build).await;
    let preflight = async |origin: &str| {
        let head = format!(
            "OPTIONS {INFER} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\norigin: {origin}\r\naccess-control-request-method: POST\r\n\
             access-control-request-headers: authorization,content-type\r\n\r\n"
        );
        serving.send(head.into_bytes()).await
    };
    let asked = preflight(allowed.1).await;
    assert_eq!((asked.status, asked.headers["access-control-allow-origin"].as_str()), (200, allowed.1), "{asked:?}");
    assert!(asked.headers["access-control-allow-headers"].contains("authorization"), "{asked:?}");
    assert!(!preflight("https://example.com").await.headers.contains_key("access-control-allow-origin"));
    let (body, token) = (request(&[[1.0, 2.0]]).to_string(), ("authorization", "Bearer calls-calls-calls"));
    let called = serving.post(INFER, &[allowed, token], body.clone()).await;
    assert_eq!((called.status, called.headers["access-control-allow-origin"].as_str()), (200, allowed.1), "{called:?}");
    // What no browser asks is answered as always.
    let options = format!("OPTIONS {INFER} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    assert_eq!(serving.send(options.into_bytes()).await.status, 401);
    // A failure is readable, too.
    let refused = serving.post(INFER, &[allowed], body.clone()).await;
    assert_eq!((refused.status, refused.headers["access-control-allow-origin"].as_str()), (401, allowed.1));
    assert_eq!(serving.post(INFER, &[("origin", "https://example.com"), token], body).await.status, 403);
}

/// As [`small`], for a client that answers no pings.
fn small_without_pings() -> Limits {
    let mut limits = small();
    limits.header_timeout = Duration::from_secs(30);
    limits
}

/// A client of HTTP/2 that grants no window for its answer loses its connection.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_grants_no_window() {
    let serving = serving(small_without_pings()).await;
    let address = serving.http.clone();
    let took = tokio::task::spawn_blocking(move || {
        let mut client = Multiplexed::connect(&address, 0);
        client.ask(METHOD_GET, "/v2/models/m", ("accept", "*/*"), b"");
        let start = Instant::now();
        read_all(&mut client.0);
        start.elapsed()
    });
    let took = took.await.unwrap();
    assert!(took > Duration::from_millis(400) && took < Duration::from_secs(5), "{took:?}");
    serving.assert_answers().await;
}

/// A stream that waits for its model keeps its connection, however long that takes.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_waits_for_its_model() {
    let options = json!({ "delay_ms": 3000, "stream_items": 1 });
    let serving =
        Serving::noop_with(BATCHED, options, |spec| spec, |builder| builder.limits(small_without_pings())).await;
    let (address, body) = (serving.http.clone(), request(&[[1.0, 2.0]]).to_string());
    let answer = tokio::task::spawn_blocking(move || {
        let mut client = Multiplexed::connect(&address, 65535);
        client.ask(METHOD_POST, INFER, ("accept", "text/event-stream"), body.as_bytes());
        let (mut answer, mut part, start) = (Vec::new(), [0; 4096], Instant::now());
        while !answer.windows(6).any(|window| window == b"data: ") && start.elapsed() < Duration::from_secs(10) {
            match client.0.read(&mut part) {
                Ok(length) if length > 0 => answer.extend_from_slice(&part[..length]),
                _ => break,
            }
        }
        (String::from_utf8_lossy(&answer).into_owned(), start.elapsed())
    });
    let (answer, took) = answer.await.unwrap();
    assert!(answer.contains("data: {") && took > Duration::from_secs(2), "{took:?}: {answer}");
}
