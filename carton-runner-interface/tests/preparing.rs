//! What the two sides tell each other when something is made for a model before it is loaded.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

use carton_noop_runner::Noop;
use carton_runner_interface::host::{
    CallError, CallOptions, CloseReason, Connection, ConnectionOptions, Event, Files, LoadRequest, LogLevel,
};
use carton_runner_interface::runner::{
    self, Call, Description, Runner, RunnerError, RunnerErrorKind, ServeOptions, serve,
};
use carton_runner_interface::{Options, Prepared, ProtocolError, Tensors, code};
use serde_json::{Value, json};
use support::raw::{RawPeer, hello};
use support::within;

/// Prepares what the options name, and loads nothing.
struct Prepares;

impl Runner for Prepares {
    fn describe() -> Description {
        Description { name: "prepares".to_owned(), framework_version: "1.0.0".to_owned() }
    }

    fn load(_: runner::LoadRequest, _: &Call) -> Result<Self, RunnerError> {
        Err(RunnerError { kind: RunnerErrorKind::Unprepared, ..RunnerError::new("there is no environment") })
    }

    fn prepare(request: runner::LoadRequest, call: &Call) -> Result<Prepared, RunnerError> {
        call.warn("this takes long");
        while request.options.contains_key("for ever") && !call.is_cancelled() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let paths = |name: &str| -> Vec<PathBuf> {
            request.options.get(name).map(|paths| serde_json::from_value(paths.clone()).unwrap()).unwrap_or_default()
        };
        let mut prepared = Prepared::default();
        (prepared.read, prepared.in_use) = (paths("read"), paths("in_use"));
        Ok(prepared)
    }

    fn infer(&self, inputs: Tensors, _: &Call) -> Result<Tensors, RunnerError> {
        Ok(inputs)
    }
}

fn request(options: Value) -> LoadRequest {
    let options: Options = serde_json::from_value(options).unwrap();
    let files = Files::Directory(PathBuf::from("/nowhere"));
    LoadRequest { files, options, device: None, inputs: Vec::new(), outputs: Vec::new() }
}

fn paths(paths: &[&str]) -> Vec<PathBuf> {
    paths.iter().map(PathBuf::from).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_runner_names_what_it_prepared() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let runner = std::thread::spawn(move || serve::<Prepares>(theirs.into(), ServeOptions::default()));
    let (events, logged) = mpsc::channel();
    let options = ConnectionOptions {
        on_event: Some(std::sync::Arc::new(move |event| drop(events.send(event)))),
        ..ConnectionOptions::default()
    };
    let connection = Connection::open(ours.into(), options).await.unwrap();
    let prepared = connection
        .prepare(request(json!({"read": ["/data/a", "/data/b"], "in_use": ["/data/a.lock"]})), CallOptions::default())
        .await
        .unwrap();
    assert_eq!(prepared.read, paths(&["/data/a", "/data/b"]));
    assert_eq!(prepared.in_use, paths(&["/data/a.lock"]));
    let Event::Log { call: Some(_), level: LogLevel::Warn, .. } = logged.recv().unwrap() else { panic!() };
    // Preparing is no load: it can be repeated, and a load is still possible.
    assert_eq!(connection.prepare(request(json!({})), CallOptions::default()).await.unwrap(), Prepared::default());
    let error = connection.load(request(json!({})), CallOptions::default()).await.unwrap_err();
    let CallError::Runner { code, error } = error else { panic!("{error:?}") };
    assert_eq!((code.as_str(), error.kind), (code::UNPREPARED, RunnerErrorKind::Unprepared));
    // It can be cancelled, here by its deadline.
    let error =
        connection.prepare(request(json!({"for ever": 1})), within(Duration::from_millis(50))).await.unwrap_err();
    assert!(matches!(error, CallError::DeadlineExceeded { .. }), "{error:?}");
    // An answer that the host would refuse is not sent.
    let error = connection.prepare(request(json!({"read": ["data"]})), CallOptions::default()).await.unwrap_err();
    let CallError::Runner { code, error } = error else { panic!("{error:?}") };
    assert_eq!(code, code::FAILED);
    assert!(error.message.contains("not absolute"), "{}", error.message);
    drop(connection);
    runner.join().unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_prepares_nothing_by_default() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let runner = std::thread::spawn(move || serve::<Noop>(theirs.into(), ServeOptions::default()));
    let connection = Connection::open(ours.into(), ConnectionOptions::default()).await.unwrap();
    assert_eq!(connection.prepare(request(json!({})), CallOptions::default()).await.unwrap(), Prepared::default());
    drop(connection);
    runner.join().unwrap().unwrap();
}

/// A host whose runner answers `prepare` with `answer`. Returns what the host gets.
async fn answered_with(answer: Value) -> Result<Prepared, CallError> {
    let (raw, socket) = RawPeer::pair();
    let runner = std::thread::spawn(move || {
        raw.send(&hello());
        let (message, ..) = raw.receive_named("prepare");
        raw.send(&json!({"id": message["id"], "message": {"prepared": answer}}));
        assert!(raw.is_closed_by_peer());
    });
    let connection = Connection::open(socket.into(), ConnectionOptions::default()).await.unwrap();
    let answer = connection.prepare(request(json!({})), CallOptions::default()).await;
    drop(connection);
    runner.join().unwrap();
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn the_host_checks_the_paths() {
    assert_eq!(answered_with(json!({})).await.unwrap(), Prepared::default());
    let longest = format!("/{}", "a".repeat(Prepared::PATH_LENGTH_CAP - 1));
    let most = vec![longest.as_str(); Prepared::PATHS_CAP];
    let prepared = answered_with(json!({"read": ["/"], "in_use": most, "newer": 1})).await.unwrap();
    assert_eq!((prepared.read, prepared.in_use), (paths(&["/"]), paths(&most)));
    for (answer, expected) in [
        (json!({"read": ["data/a"]}), "`read` has the path \"data/a\", which is not absolute"),
        (json!({"read": [""]}), "not absolute"),
        (
            json!({"in_use": ["/data/../etc/passwd"]}),
            "`in_use` has the path \"/data/../etc/passwd\", which contains `..`",
        ),
        (json!({"read": ["/data\0/a"]}), "contains NUL"),
        (json!({"read": [format!("{longest}a")]}), "a path of 4096 bytes, more than 4095"),
        (json!({"in_use": vec!["/a"; Prepared::PATHS_CAP + 1]}), "`in_use` has 65 paths, more than 64"),
        (json!({"read": "/data"}), "invalid type"),
    ] {
        let error = answered_with(answer.clone()).await.unwrap_err();
        let CallError::Closed(reason) = &error else { panic!("{answer}: {error:?}") };
        let CloseReason::Protocol(ProtocolError::Malformed { message: Some(name), problem }) = &**reason else {
            panic!("{answer}: {reason:?}")
        };
        assert_eq!(name, "prepared");
        assert!(problem.contains(expected), "{answer}: {problem}");
    }
}
