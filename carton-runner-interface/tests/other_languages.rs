//! A runner that was written from the specification alone, in another language.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use carton_runner_interface::host::{CallError, CallOptions, Connection, ConnectionOptions, code};
use carton_tensor::{BoolByte, Tensor};
use serde_json::json;
use support::{floats, load, same_all, strings, tensors, within};

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_of_sixty_lines_of_python_works() {
    if Command::new("python3").arg("--version").output().is_err() {
        eprintln!("skipped: there is no python3");
        return;
    }
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut child = Command::new("python3")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/minimal_runner.py"))
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .spawn()
        .unwrap();
    let connection = Connection::open(ours.into(), ConnectionOptions::default()).await.unwrap();
    assert_eq!(connection.peer().name, "minimal");
    load(&connection, json!({"any": "thing"})).await.unwrap();
    let inputs = tensors([("large", floats(1 << 20)), ("text", strings(&["a\0b", "🦀", ""], &[3]))]);
    let outputs = connection.infer(inputs.clone(), CallOptions::default()).await.unwrap();
    assert!(same_all(&inputs, &outputs));
    // It takes the dtypes of format version 1 alone, so it gets the carriers of others, and sends them back.
    let mask = Tensor::from_vec(vec![BoolByte(1), BoolByte(0)], vec![2]).unwrap();
    let natives = tensors([
        ("mask", mask),
        ("half", Tensor::scalar(carton_tensor::f16::from_f32(0.5))),
        ("complex", Tensor::scalar(carton_tensor::Complex::new(1.0_f32, -2.0))),
        ("bytes", Tensor::from_bytes([b"\0\xff"], vec![1]).unwrap()),
    ]);
    let outputs = connection.infer(natives, CallOptions::default()).await.unwrap();
    let carriers = tensors([
        ("mask", Tensor::from_vec(vec![1_u8, 0], vec![2]).unwrap()),
        ("half", Tensor::scalar(0.5_f32)),
        ("complex", Tensor::from_vec(vec![1.0_f32, -2.0], vec![2]).unwrap()),
        ("bytes", strings(&["AP8="], &[1])),
    ]);
    assert!(same_all(&carriers, &outputs));
    let error = connection.seal(inputs, CallOptions::default()).await.err().unwrap();
    assert!(matches!(&error, CallError::Runner { code, .. } if code == code::UNKNOWN_MESSAGE), "{error:?}");
    connection.ping(CallOptions::default()).await.unwrap();
    connection.shutdown(within(Duration::from_secs(10))).await.unwrap();
    assert!(child.wait().unwrap().success());
}
