//! A server for one test, and a client that sends what the test says, byte by byte.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use carton_server::{Address, ModelSpec, Server, ServerBuilder, ServerError, ServerHandle};
use carton_tests::place::TestPlace;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub(crate) const RUNNER: &str = env!("CARGO_BIN_EXE_carton-test-runner");

/// A signature with a batch dimension.
pub(crate) const BATCHED: &str = r#"
[[input]]
name = "x"
dtype = "float32"
shape = ["n", 2]
[[output]]
name = "x"
dtype = "float32"
shape = ["n", 2]
"#;

/// A server that runs.
pub(crate) struct Serving {
    pub(crate) place: TestPlace,
    pub(crate) handle: ServerHandle,
    pub(crate) http: String,
    pub(crate) grpc: String,
    stop: Option<oneshot::Sender<()>>,
    running: JoinHandle<Result<(), ServerError>>,
}

/// An answer over HTTP/1.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    /// The message of a failure in the form of the protocol, which has nothing else.
    pub(crate) fn error(&self) -> String {
        let value = self.json();
        let object = value.as_object().unwrap();
        assert_eq!(object.len(), 1, "{value}");
        object["error"].as_str().unwrap().to_owned()
    }
}

impl Serving {
    /// Serves the carton that `pack_noop` makes of `metadata` as `m`, as `spec` changes it.
    pub(crate) async fn noop(metadata: &str, options: Value, spec: impl FnOnce(ModelSpec) -> ModelSpec) -> Self {
        Self::noop_with(metadata, options, spec, |builder| builder).await
    }

    pub(crate) async fn noop_with(
        metadata: &str,
        options: Value,
        spec: impl FnOnce(ModelSpec) -> ModelSpec,
        build: impl FnOnce(ServerBuilder) -> ServerBuilder,
    ) -> Self {
        let place = TestPlace::new(RUNNER);
        let carton = place.pack_noop(metadata).await;
        let spec = spec(model(&place, carton, options));
        Self::start(place, build(Server::builder().model(spec))).await
    }

    /// Starts a server that also listens on free ports, and waits until it is ready.
    pub(crate) async fn start(place: TestPlace, builder: ServerBuilder) -> Self {
        let serving = Self::begin(place, builder).await;
        let start = Instant::now();
        while !serving.handle.is_ready() {
            assert!(
                !serving.running.is_finished() && start.elapsed() < Duration::from_secs(60),
                "the server is not ready"
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        serving
    }

    /// As [`start`](Self::start), without waiting.
    pub(crate) async fn begin(place: TestPlace, builder: ServerBuilder) -> Self {
        let builder = builder.http("127.0.0.1:0".parse().unwrap()).grpc("127.0.0.1:0".parse().unwrap());
        let server = builder.bind().await.unwrap();
        let tcp = |addresses: Vec<Address>| {
            let tcp = addresses.into_iter().find_map(|address| match address {
                Address::Tcp(address) => Some(address),
                Address::Unix(_) => None,
            });
            tcp.unwrap()
        };
        let (http, grpc, handle) = (tcp(server.http_addresses()), tcp(server.grpc_addresses()), server.handle());
        let (stop, stopped) = oneshot::channel();
        let running = tokio::spawn(server.run(async { drop(stopped.await) }));
        Self { place, handle, http, grpc, stop: Some(stop), running }
    }

    /// Asks the server to end.
    pub(crate) fn stop(&mut self) {
        self.stop.take();
    }

    /// Waits until the server has ended.
    pub(crate) async fn ended(self) -> Result<(), ServerError> {
        self.running.await.unwrap()
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.send(format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").into_bytes()).await
    }

    pub(crate) async fn post(&self, path: &str, headers: &[(&str, &str)], body: impl Into<Vec<u8>>) -> Reply {
        self.send(post_request(path, headers, &body.into())).await
    }

    /// Calls the model `m` with a tensor `x` of these rows.
    pub(crate) async fn call(&self, rows: &[[f32; 2]]) -> Reply {
        self.post("/v2/models/m/infer", &[], request(rows).to_string()).await
    }

    /// Sends bytes, and reads the answer.
    pub(crate) async fn send(&self, bytes: Vec<u8>) -> Reply {
        let address = self.http.clone();
        tokio::task::spawn_blocking(move || {
            let mut stream = connect(&address);
            // A server that refuses a request may close before it has read all of it.
            let _ = stream.write_all(&bytes);
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer);
            reply(&answer).unwrap_or_else(|| panic!("no answer: {:?}", String::from_utf8_lossy(&answer)))
        })
        .await
        .unwrap()
    }

    /// The value of a metric of the model `m`.
    pub(crate) async fn metric(&self, name: &str) -> f64 {
        let text = self.get("/metrics").await.text();
        let of = |line: &str| line.strip_prefix(name).filter(|rest| rest.starts_with(['{', ' '])).map(str::to_owned);
        let values = text.lines().filter_map(of).map(|rest| rest.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap());
        values.sum()
    }

    /// Asserts that the server still answers an honest call.
    pub(crate) async fn assert_answers(&self) {
        let reply = self.call(&[[1.0, 2.0]]).await;
        assert_eq!((reply.status, data(&reply)), (200, json!([1.0, 2.0])), "{reply:?}");
    }
}

/// Waits until `condition` holds.
pub(crate) async fn until(mut condition: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    while !condition().await {
        assert!(start.elapsed() < Duration::from_secs(30), "it does not become true");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A model called `m`, with options of its runner.
pub(crate) fn model(place: &TestPlace, carton: PathBuf, options: Value) -> ModelSpec {
    let options = options.as_object().unwrap().clone().into_iter();
    ModelSpec::of_load("m", place.load(carton).options(options))
}

pub(crate) fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream
}

pub(crate) fn post_request(path: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut head =
        format!("POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {}\r\n", body.len());
    headers.iter().for_each(|(name, value)| head.push_str(&format!("{name}: {value}\r\n")));
    [head.as_bytes(), b"\r\n", body].concat()
}

/// A request for the model `m`.
pub(crate) fn request(rows: &[[f32; 2]]) -> Value {
    let data: Vec<f32> = rows.as_flattened().to_vec();
    json!({ "inputs": [{ "name": "x", "shape": [rows.len(), 2], "datatype": "FP32", "data": data }] })
}

/// The data of the first output.
pub(crate) fn data(reply: &Reply) -> Value {
    reply.json()["outputs"][0]["data"].clone()
}

/// Reads all that the server sends until it closes the connection.
pub(crate) fn read_all(stream: &mut TcpStream) -> Vec<u8> {
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}

/// The client has left.
pub(crate) fn leave(stream: &TcpStream) {
    stream.shutdown(Shutdown::Both).unwrap();
}

/// Parses an answer of HTTP/1, in chunks or not.
pub(crate) fn reply(answer: &[u8]) -> Option<Reply> {
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&answer[..end]).ok()?;
    let mut lines = head.lines();
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let headers: BTreeMap<String, String> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
        .collect();
    let mut rest = &answer[end + 4..];
    let mut body = Vec::new();
    if headers.get("transfer-encoding").is_some_and(|encoding| encoding == "chunked") {
        while let Some(line) = rest.windows(2).position(|window| window == b"\r\n") {
            let length = usize::from_str_radix(std::str::from_utf8(&rest[..line]).ok()?, 16).ok()?;
            body.extend_from_slice(&rest[line + 2..line + 2 + length]);
            rest = &rest[line + 4 + length..];
        }
    } else {
        body.extend_from_slice(rest);
    }
    Some(Reply { status, headers, body })
}
