//! Connections over each transport, for the suites of this folder.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "each suite uses a part"
)]

#[cfg(target_os = "linux")]
pub mod raw;

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use carton_noop_runner::Noop;
use carton_runner_interface::host::{CallOptions, Connection, ConnectionOptions, Files, LoadRequest, Loaded};
use carton_runner_interface::runner::{ServeError, ServeOptions, serve};
use carton_runner_interface::{Options, Tensors, Transport};
use carton_tensor::{NumericTensor, StringTensor, Tensor};

/// What carries the frames, and whether shared memory is used.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Socket,
    InMemory,
    SocketWithoutSharedMemory,
}

pub const KINDS: [Kind; 3] = [Kind::Socket, Kind::InMemory, Kind::SocketWithoutSharedMemory];

pub fn ends(kind: Kind) -> (Transport, Transport) {
    match kind {
        Kind::InMemory => Transport::in_memory(),
        _ => {
            let (host, runner) = UnixStream::pair().unwrap();
            (host.into(), runner.into())
        }
    }
}

/// A noop runner in this process, and a connection to it.
pub struct Pair {
    pub connection: Connection,
    pub runner: JoinHandle<Result<(), ServeError>>,
}

pub async fn connect(kind: Kind, host: ConnectionOptions, runner: ServeOptions) -> Pair {
    let (host_end, runner_end) = ends(kind);
    let shared_memory = runner.shared_memory && !matches!(kind, Kind::SocketWithoutSharedMemory);
    let runner = ServeOptions { shared_memory, ..runner };
    let runner = std::thread::spawn(move || serve::<Noop>(runner_end, runner));
    let connection = Connection::open(host_end, host).await.unwrap();
    Pair { connection, runner }
}

/// A connection with a model loaded with `options`, a JSON object.
pub async fn loaded(kind: Kind, options: serde_json::Value) -> Pair {
    loaded_with(kind, options, ConnectionOptions::default(), ServeOptions::default()).await
}

pub async fn loaded_with(
    kind: Kind,
    options: serde_json::Value,
    host: ConnectionOptions,
    runner: ServeOptions,
) -> Pair {
    let pair = connect(kind, host, runner).await;
    load(&pair.connection, options).await.unwrap();
    pair
}

pub async fn load(
    connection: &Connection,
    options: serde_json::Value,
) -> Result<Loaded, carton_runner_interface::host::CallError> {
    let options: Options = serde_json::from_value(options).unwrap();
    let request = LoadRequest {
        files: Files::Directory(PathBuf::from("/nowhere")),
        options,
        device: None,
        inputs: Vec::new(),
        outputs: Vec::new(),
    };
    connection.load(request, CallOptions::default()).await
}

pub fn within(duration: Duration) -> CallOptions {
    CallOptions { deadline: Some(Instant::now() + duration) }
}

pub fn floats(n: usize) -> Tensor {
    NumericTensor::from_vec((0..n).map(|index| index as f32).collect(), vec![n]).unwrap().into()
}

pub fn strings(elements: &[&str], shape: &[usize]) -> Tensor {
    StringTensor::new(elements.iter().map(|&element| element.to_owned()).collect(), shape.to_vec()).unwrap().into()
}

pub fn tensors<const N: usize>(named: [(&str, Tensor); N]) -> Tensors {
    named.into_iter().map(|(name, tensor)| (name.to_owned(), tensor)).collect()
}

/// Equality of everything: kinds, dtypes, shapes, bytes.
pub fn same(one: &Tensor, other: &Tensor) -> bool {
    match (one, other) {
        (Tensor::Numeric(one), Tensor::Numeric(other)) => {
            one.dtype() == other.dtype() && one.shape() == other.shape() && one.bytes() == other.bytes()
        }
        (Tensor::String(one), Tensor::String(other)) => one == other,
        (Tensor::Bytes(one), Tensor::Bytes(other)) => one == other,
        (Tensor::Nested(one), Tensor::Nested(other)) => {
            one.elements().len() == other.elements().len()
                && one.elements().iter().zip(other.elements()).all(|(one, other)| same(one, other))
        }
        _ => false,
    }
}

pub fn same_all(one: &Tensors, other: &Tensors) -> bool {
    one.len() == other.len()
        && one.iter().zip(other).all(|((name, one), (other_name, other))| name == other_name && same(one, other))
}

/// Waits until `condition` holds; says whether it did.
pub fn eventually(condition: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + Duration::from_secs(5);
    while Instant::now() < deadline {
        if condition() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    condition()
}
