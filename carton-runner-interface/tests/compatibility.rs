//! Other releases: transcripts of version 2 that must be understood for ever, and a peer that is newer than this one.
//!
//! A line of a transcript is one frame: who sent it, its JSON, its bytes (hex), and the region of shared memory that
//! goes with a `map`. Frames of this side are compared with what was recorded: they may have more fields, never others.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use carton_noop_runner::Noop;
use carton_runner_interface::host::{
    CallError, CallOptions, Connection, ConnectionOptions, Event, Files, LoadRequest, LogLevel,
};
use carton_runner_interface::runner::{PackRequest, ServeOptions, serve};
use carton_runner_interface::{DeclaredTensor, Options, Tensors};
use carton_tensor::{DataType, NestedTensor, NumericTensor};
use rustix::fs::SealFlags;
use serde_json::{Value, json};
use support::raw::{RawPeer, frame, region};
use support::{floats, load, same_all, strings, tensors, within};

struct Line {
    from: String,
    message: Value,
    text: String,
    bytes: Vec<u8>,
    memory: Option<OwnedFd>,
}

fn transcript(name: &str) -> Vec<Line> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts/v2").join(name).with_extension("jsonl");
    let text = std::fs::read_to_string(path).unwrap();
    let hex = |value: &Value| -> Vec<u8> {
        let digits = value.as_str().unwrap_or_default().as_bytes();
        digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
    };
    text.lines()
        .map(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            let memory = line["memory"].as_object().map(|memory| {
                let at = memory["at"].as_u64().unwrap() as usize;
                let bytes = hex(&memory["bytes"]);
                let mut contents = vec![0; memory["size"].as_u64().unwrap() as usize];
                contents[at..at + bytes.len()].copy_from_slice(&bytes);
                region(&contents, SealFlags::SHRINK | SealFlags::GROW)
            });
            let text = line["json"].as_str().unwrap().to_owned();
            let from = line["from"].as_str().unwrap().to_owned();
            Line { from, message: serde_json::from_str(&text).unwrap(), text, bytes: hex(&line["bytes"]), memory }
        })
        .collect()
}

/// Whether `found` says all that `expected` says.
fn covers(found: &Value, expected: &Value) -> bool {
    match (found, expected) {
        (Value::Object(found), Value::Object(expected)) => expected.iter().all(|(key, expected)| {
            // What an empty value says can be left out. Name, version and features of a peer are its own.
            let empty = json!([]) == *expected || json!({}) == *expected;
            let own =
                found.contains_key("versions") && matches!(key.as_str(), "name" | "framework_version" | "features");
            own || found.get(key).map_or(empty, |found| covers(found, expected))
        }),
        (Value::Array(found), Value::Array(expected)) => {
            found.len() == expected.len() && found.iter().zip(expected).all(|(found, expected)| covers(found, expected))
        }
        _ => found == expected,
    }
}

/// Plays one side of a transcript, and checks what the other side says.
fn play(raw: &RawPeer, side: &str, lines: &[Line]) {
    let mut released: Vec<Value> = Vec::new();
    let mut expected_releases: Vec<Value> = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        if line.from == side {
            let descriptors: Vec<&OwnedFd> = line.memory.iter().collect();
            let descriptors: Vec<_> =
                descriptors.iter().map(|&descriptor| std::os::fd::AsFd::as_fd(descriptor)).collect();
            raw.send_bytes(&frame(&line.text, &line.bytes), &descriptors);
            continue;
        }
        // Releases may come with any message, or alone.
        let (mut message, bytes) = loop {
            let (message, bytes, _) = raw.receive().unwrap_or_else(|| panic!("line {index}: {} expected", line.text));
            released.extend(message["release"].as_array().cloned().unwrap_or_default());
            if message["message"].get("release").is_none() {
                break (message, bytes);
            }
        };
        let mut expected = line.message.clone();
        expected_releases.extend(expected["release"].as_array().cloned().unwrap_or_default());
        for message in [&mut expected, &mut message] {
            message.as_object_mut().unwrap().remove("release");
        }
        assert!(covers(&message, &expected), "line {index}: expected {expected}, found {message}");
        assert_eq!(bytes, line.bytes, "line {index}");
    }
    assert_eq!(released, expected_releases);
}

#[test]
fn our_runner_understands_hosts_of_version_2() {
    for name in ["frames", "shared_memory_of_the_host"] {
        let (raw, socket) = RawPeer::pair();
        let runner = std::thread::spawn(move || serve::<Noop>(socket.into(), ServeOptions::default()));
        play(&raw, "host", &transcript(name));
        assert!(raw.is_closed_by_peer());
        runner.join().unwrap().unwrap();
    }
}

async fn recorded_load(connection: &Connection, options: Value) {
    let spec = |value| -> DeclaredTensor { serde_json::from_value(value).unwrap() };
    let request = LoadRequest {
        files: Files::Directory(PathBuf::from("/models/echo")),
        options: serde_json::from_value::<Options>(options).unwrap(),
        device: Some("cpu".to_owned()),
        inputs: vec![
            spec(json!({"name": "floats", "dtype": "float32", "shape": ["batch", 2]})),
            spec(json!({"name": "text", "dtype": "string", "shape": "*", "internal_name": "text:0"})),
        ],
        outputs: vec![],
    };
    let loaded = connection.load(request, CallOptions::default()).await.unwrap();
    assert_eq!(loaded.max_concurrency, 64);
}

#[tokio::test(flavor = "multi_thread")]
async fn our_host_understands_runners_that_use_frames() {
    let (raw, socket) = RawPeer::pair();
    let runner = std::thread::spawn(move || play(&raw, "runner", &transcript("frames")));
    let options = ConnectionOptions { shared_memory: false, ..ConnectionOptions::default() };
    let connection = Connection::open(socket.into(), options).await.unwrap();
    recorded_load(&connection, json!({"stream_items": 2, "colour": "blue"})).await;
    let uint8 = |bytes: &[u8]| NumericTensor::copy_from_bytes(DataType::Uint8, vec![bytes.len()], bytes).unwrap();
    let inputs = tensors([
        ("floats", NumericTensor::from_vec(vec![1.5_f32, -2.0, 0.0, 3.25], vec![2, 2]).unwrap().into()),
        ("nothing", NumericTensor::from_vec(Vec::<i64>::new(), vec![0, 3]).unwrap().into()),
        ("ragged", NestedTensor::new(vec![uint8(&[1, 2, 3]).into(), uint8(&[4]).into()]).unwrap().into()),
        ("scalar", NumericTensor::from_vec(vec![-7_i16], vec![]).unwrap().into()),
        ("text", strings(&["a\0b", "🦀"], &[2])),
    ]);
    let outputs = connection.infer(inputs.clone(), CallOptions::default()).await.unwrap();
    assert!(same_all(&inputs, &outputs));
    let one = tensors([("x", uint8(&[8, 9]).into())]);
    let mut stream = connection.infer_stream(one.clone(), CallOptions::default()).await.unwrap();
    assert!(same_all(&one, &stream.recv().await.unwrap().unwrap()));
    assert!(same_all(&one, &stream.recv().await.unwrap().unwrap()));
    assert!(stream.recv().await.is_none());
    let sealed = connection.seal(one.clone(), CallOptions::default()).await.unwrap();
    let outputs = connection.infer_sealed(&sealed, CallOptions::default()).await.unwrap();
    assert!(same_all(&one, &outputs));
    drop(sealed);
    connection.ping(CallOptions::default()).await.unwrap();
    let request = PackRequest { path: "/home/model".into(), scratch: "/tmp/scratch".into(), ..PackRequest::default() };
    let packed = connection.pack(request, CallOptions::default()).await.unwrap();
    assert_eq!(packed.path, Path::new("/home/model"));
    connection.shutdown(within(Duration::from_secs(10))).await.unwrap();
    runner.join().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn our_host_understands_runners_that_lend_memory() {
    let (raw, socket) = RawPeer::pair();
    let runner = std::thread::spawn(move || play(&raw, "runner", &transcript("shared_memory_of_the_runner")));
    let connection = Connection::open(socket.into(), ConnectionOptions::default()).await.unwrap();
    recorded_load(&connection, json!({})).await;
    let outputs = connection.infer(Tensors::new(), CallOptions::default()).await.unwrap();
    let bytes = outputs["x"].as_numeric().unwrap().bytes();
    assert_eq!((bytes.len(), bytes[15], bytes[16]), (16384, 15, 0));
    let again = connection.infer(outputs, CallOptions::default()).await.unwrap();
    assert_eq!(again["x"].as_numeric().unwrap().bytes()[15], 15);
    drop(again);
    connection.ping(CallOptions::default()).await.unwrap();
    connection.shutdown(within(Duration::from_secs(10))).await.unwrap();
    runner.join().unwrap();
}

/// The hello of a release that does not exist yet, with bytes that mean something to it.
fn newer_hello(raw: &RawPeer) {
    let hello = json!({
        "sent_at": "2031-01-01", "message": {"hello": {
            "protocol": "carton-runner", "versions": [2, 3, 99],
            "features": ["shared_memory", "descriptors", "device_memory", "telepathy"],
            "name": "newer", "framework_version": "9.9.9", "mood": {"good": true},
        }},
    });
    raw.send_with(&hello, b"bytes of a later version", &[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn our_host_works_with_a_newer_runner() {
    let (raw, socket) = RawPeer::pair();
    let runner = std::thread::spawn(move || {
        newer_hello(&raw);
        let (message, ..) = raw.receive_named("load");
        raw.send(&json!({"id": 500, "message": {"telemetry": {"watts": 3}}}));
        let (refusal, ..) = raw.receive_named("error");
        assert_eq!((&refusal["id"], &refusal["message"]["error"]["code"]), (&json!(500), &json!("unknown_message")));
        raw.send(&json!({"message": {"weather": "fine"}}));
        raw.receive_named("error");
        raw.send(&json!({"message": {"log": {"level": "notice", "message": "hm", "colour": 3}}}));
        raw.send(&json!({"id": message["id"], "message": {"loaded": {"max_concurrency": 2, "batching": {"max": 9}}}}));
        let (message, body, _) = raw.receive_named("infer");
        let mut outputs = message["message"]["infer"]["inputs"].clone();
        outputs[0]["layout"] = json!("row_major");
        outputs[0]["data"]["inline"]["checksum"] = json!("abc");
        let answer =
            json!({"id": message["id"], "took_us": 5, "message": {"inferred": {"outputs": outputs, "cost": 1}}});
        raw.send_with(&answer, &body, &[]);
        let (message, ..) = raw.receive_named("infer");
        let error = json!({"code": "quota_exceeded", "message": "too much", "retry_after": 3});
        raw.send(&json!({"id": message["id"], "message": {"error": error}}));
        assert!(raw.is_closed_by_peer());
    });
    let (events, logged) = std::sync::mpsc::channel();
    let options = ConnectionOptions {
        on_event: Some(std::sync::Arc::new(move |event| drop(events.send(event)))),
        ..ConnectionOptions::default()
    };
    let connection = Connection::open(socket.into(), options).await.unwrap();
    assert_eq!((connection.peer().name.as_str(), connection.peer().version), ("newer", 2));
    assert_eq!(connection.peer().features, ["descriptors", "shared_memory"]);
    load(&connection, json!({})).await.unwrap();
    let event = logged.recv_timeout(Duration::from_secs(5)).unwrap();
    assert_eq!(event, Event::Log { call: None, level: LogLevel::Info, message: "hm".to_owned() });
    let inputs = tensors([("x", floats(10))]);
    let outputs = connection.infer(inputs.clone(), CallOptions::default()).await.unwrap();
    assert!(same_all(&inputs, &outputs));
    let error = connection.infer(Tensors::new(), CallOptions::default()).await.unwrap_err();
    assert!(matches!(&error, CallError::Runner { code, .. } if code == "quota_exceeded"), "{error:?}");
    drop(connection);
    runner.join().unwrap();
}

#[test]
fn our_runner_works_with_a_newer_host() {
    let (raw, socket) = RawPeer::pair();
    let runner = std::thread::spawn(move || serve::<Noop>(socket.into(), ServeOptions::default()));
    newer_hello(&raw);
    let (hello, ..) = raw.receive().unwrap();
    assert_eq!(hello["message"]["hello"]["versions"], json!([2]));
    raw.send(&json!({"id": 1, "message": {"batch_infer": {"n": 3}}}));
    let (refusal, ..) = raw.receive_named("error");
    assert_eq!((&refusal["id"], &refusal["message"]["error"]["code"]), (&json!(1), &json!("unknown_message")));
    raw.send(&json!({"id": 2, "trace": "abc", "message": {"load": {
        "files": {"directory": {"path": "/", "read_only": true}}, "priority": 3,
        "inputs": [{"name": "x", "dtype": "uint8", "shape": [2], "doc": "bytes"}],
    }}}));
    raw.receive_named("loaded");
    let inputs = json!([{"name": "x", "dtype": "uint8", "shape": [2], "data": {"inline": {"offset": 1, "length": 2, "crc": 0}}, "unit": "m"}]);
    raw.send_with(&json!({"id": 3, "message": {"infer": {"inputs": inputs, "deadline_ms": 5}}}), &[1, 2, 3], &[]);
    let (answer, body, _) = raw.receive_named("inferred");
    assert_eq!((&answer["id"], &body[..2]), (&json!(3), &[2, 3][..]));
    raw.send(&json!({"message": {"shutdown": {"reason": "done"}}}));
    assert!(raw.is_closed_by_peer());
    runner.join().unwrap().unwrap();
}
