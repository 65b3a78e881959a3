//! A runner that was written from the specification alone, in another language.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use carton_runner_interface::host::{CallError, CallOptions, Connection, ConnectionOptions, code};
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
    let error = connection.seal(inputs, CallOptions::default()).await.err().unwrap();
    assert!(matches!(&error, CallError::Runner { code, .. } if code == code::UNKNOWN_MESSAGE), "{error:?}");
    connection.ping(CallOptions::default()).await.unwrap();
    connection.shutdown(within(Duration::from_secs(10))).await.unwrap();
    assert!(child.wait().unwrap().success());
}
