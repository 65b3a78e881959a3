//! A host, and a runner that sends the content of the input ([`peer`]). Every call ends with outputs or with an error. The outputs can
//! be read and sent back.

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use carton_runner_interface::Tensors;
use carton_runner_interface::host::{CallOptions, Connection, ConnectionOptions, Files, LoadRequest};
use carton_runner_interface::runner::PackRequest;
use carton_tensor::{NumericTensor, Tensor};

use crate::generate::peer;

/// The limit for frames and for shared memory.
const CAP: u64 = 1 << 20;
/// The most items of one stream that are read.
const MAX_ITEMS: usize = 8;

/// Checks these bytes. Returns whether they are accepted.
pub fn check(input: &[u8]) -> bool {
    let (runner, host) = UnixStream::pair().expect("there are descriptors");
    std::thread::scope(|scope| {
        scope.spawn(|| peer::talk(runner, input));
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("there is memory");
        // The input length selects an option, because it has no other influence on the messages.
        let copy_outputs = input.len().is_multiple_of(2);
        runtime.block_on(use_runner(host, copy_outputs))
    })
}

async fn use_runner(socket: UnixStream, copy_outputs: bool) -> bool {
    let options = ConnectionOptions {
        hello_timeout: Duration::from_secs(5),
        pool_wait: Duration::from_millis(10),
        pool_cap: CAP,
        frame_cap: CAP,
        runner_pool_cap: CAP,
        shared_memory: true,
        copy_outputs,
        ..ConnectionOptions::default()
    };
    let Ok(connection) = Connection::open(socket.into(), options).await else { return false };
    let request = || LoadRequest {
        files: Files::Directory(PathBuf::from("/nowhere")),
        options: Default::default(),
        device: None,
        inputs: Vec::new(),
        outputs: Vec::new(),
    };
    if connection.load(request(), call()).await.is_err() {
        return false;
    }
    let small = NumericTensor::from_vec(vec![1.5_f32; 4], vec![2, 2]).expect("the shape fits");
    let large = NumericTensor::from_vec(vec![1_u8; 1 << 15], vec![1 << 15]).expect("the shape fits");
    let inputs: Tensors = [("x".to_owned(), small.into()), ("y".to_owned(), large.into())].into();
    let outputs = connection.infer(inputs.clone(), call()).await.map(read);
    let is_answered = outputs.is_ok();
    // Outputs in the runner's memory are sent by reference.
    let outputs = outputs.unwrap_or(inputs);
    if let Ok(sealed) = connection.seal(outputs.clone(), call()).await {
        let _ = connection.infer_sealed(&sealed, call()).await.map(read);
    }
    if let Ok(mut stream) = connection.infer_stream(outputs, call()).await {
        for _ in 0..MAX_ITEMS {
            match stream.recv().await {
                Some(Ok(item)) => drop(read(item)),
                _ => break,
            }
        }
    }
    let _ = connection.prepare(request(), call()).await;
    let _ = connection.pack(PackRequest::default(), call()).await;
    let _ = connection.ping(call()).await;
    is_answered
}

/// The end of the peer's messages ends every call, so no deadline is needed. A call that does not end is a hang.
fn call() -> CallOptions {
    CallOptions::default()
}

/// Reads every byte.
fn read(tensors: Tensors) -> Tensors {
    fn sum(tensor: &Tensor) -> u64 {
        match tensor {
            Tensor::Numeric(tensor) => tensor.bytes().iter().map(|&byte| u64::from(byte)).sum(),
            Tensor::String(tensor) => tensor.elements().iter().map(|element| element.len() as u64).sum(),
            Tensor::Nested(tensor) => tensor.elements().iter().map(sum).sum(),
            _ => 0,
        }
    }
    std::hint::black_box(tensors.values().map(sum).sum::<u64>());
    tensors
}
