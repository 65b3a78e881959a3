//! The no-op runner as a process: how it starts, what it inherits, and how it ends.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use carton_runner_interface::Tensors;
use carton_runner_interface::host::{
    CallError, CallOptions, CloseReason, Connection, ConnectionOptions, Files, LoadRequest,
};
use carton_tensor::NumericTensor;
use serde_json::json;

async fn start(options: serde_json::Value) -> (Child, Connection) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_carton-noop-runner"))
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let connection = Connection::open(ours.into(), ConnectionOptions::default()).await.unwrap();
    let request = LoadRequest {
        files: Files::Directory(PathBuf::from("/nowhere")),
        options: serde_json::from_value(options).unwrap(),
        device: None,
        inputs: Vec::new(),
        outputs: Vec::new(),
    };
    connection.load(request, CallOptions::default()).await.unwrap();
    (child, connection)
}

fn ends(child: &mut Child) -> ExitStatus {
    let deadline = Instant::now() + Duration::from_secs(10);
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    panic!("the runner did not end");
}

#[tokio::test(flavor = "multi_thread")]
async fn it_answers_and_ends_with_its_host() {
    let (mut child, connection) = start(json!({"copy": true})).await;
    assert_eq!(connection.peer().name, "noop");
    let tensor = NumericTensor::from_vec((0..1 << 20).collect::<Vec<i32>>(), vec![1 << 20]).unwrap();
    let inputs = Tensors::from([("x".to_owned(), tensor.clone().into())]);
    let outputs = connection.infer(inputs, CallOptions::default()).await.unwrap();
    assert_eq!(outputs["x"].as_numeric().unwrap().bytes(), tensor.bytes());
    drop(connection);
    assert!(ends(&mut child).success());
    // Tensors can still be read after their runner has ended.
    assert_eq!(outputs["x"].as_numeric().unwrap().bytes(), tensor.bytes());
}

#[tokio::test(flavor = "multi_thread")]
async fn it_ends_at_once_even_in_the_middle_of_a_call() {
    let (mut child, connection) = start(json!({"delay_ms": 600_000, "ignore_cancel": true})).await;
    let call = connection.infer(Tensors::new(), CallOptions { deadline: Some(Instant::now()) });
    assert!(matches!(call.await, Err(CallError::DeadlineExceeded { .. })));
    drop(connection);
    ends(&mut child);
}

#[tokio::test(flavor = "multi_thread")]
async fn its_death_fails_the_call() {
    for (option, value) in [("crash", json!(true)), ("exit", json!(3))] {
        let (mut child, connection) = start(json!({ option: value })).await;
        let error = connection.infer(Tensors::new(), CallOptions::default()).await.unwrap_err();
        let CallError::Closed(reason) = error else { panic!("{error:?}") };
        assert!(matches!(*reason, CloseReason::EndOfFile), "{reason:?}");
        assert!(!ends(&mut child).success());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn its_socket_is_not_its_standard_input_and_is_not_inherited() {
    let (mut child, connection) = start(json!({})).await;
    let folder = format!("/proc/{}/fd", child.id());
    assert_eq!(std::fs::read_link(format!("{folder}/0")).unwrap(), PathBuf::from("/dev/null"));
    let mut n_sockets = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let entry = entry.unwrap();
        let target = std::fs::read_link(entry.path()).unwrap_or_default();
        if target.to_string_lossy().starts_with("socket:") {
            n_sockets += 1;
            let info = format!("/proc/{}/fdinfo/{}", child.id(), entry.file_name().to_string_lossy());
            let info = std::fs::read_to_string(info).unwrap();
            let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap().trim();
            assert_ne!(u64::from_str_radix(flags, 8).unwrap() & 0o2_000_000, 0, "close-on-exec: {flags}");
        }
    }
    assert_eq!(n_sockets, 1);
    connection.shutdown(CallOptions { deadline: Some(Instant::now() + Duration::from_secs(10)) }).await.unwrap();
    assert!(ends(&mut child).success());
}

#[test]
fn it_says_that_it_is_not_started_by_hand() {
    let output = Command::new(env!("CARGO_BIN_EXE_carton-noop-runner")).stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(text, "noop: standard input is not a socket; runners are started by carton, not by hand\n");
}
