//! Peers that break the protocol, by mistake or on purpose. Whatever they do costs a clear error and the connection,
//! never a hang, a panic, a descriptor or a mapping.
//!
//! One test function: it counts the descriptors and mappings of the whole process.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use carton_noop_runner::Noop;
use carton_runner_interface::Tensors;
use carton_runner_interface::host::{CallError, CallOptions, CloseReason, Connection, ConnectionOptions};
use carton_runner_interface::runner::{ServeOptions, serve};
use rustix::fs::SealFlags;
use serde_json::{Value, json};
use support::raw::{RawPeer, frame, hello, region};
use support::{eventually, floats, load, tensors, within};

const SEALED: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

/// Descriptors, and mappings of shared memory, of this process.
fn resources() -> (usize, usize) {
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap().count();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    (descriptors, maps.lines().filter(|line| line.contains("memfd:")).count())
}

/// What a runner does once the host has called it: the number of the call is given.
type Answer = Box<dyn FnOnce(&RawPeer, u64) + Send>;

/// A host with a runner that answers one call with `answer`. The call must fail, and the connection close with a reason
/// that has `expected` in it.
async fn host_survives(what: &str, expected: &str, answer: Answer) {
    let before = resources();
    {
        let (raw, socket) = RawPeer::pair();
        let runner = std::thread::spawn(move || {
            raw.send(&hello());
            let (message, ..) = raw.receive_named("load");
            raw.send(&json!({"id": message["id"], "message": {"loaded": {"max_concurrency": 4}}}));
            let (message, ..) = raw.receive_named("infer");
            answer(&raw, message["id"].as_u64().unwrap());
            assert!(raw.is_closed_by_peer());
        });
        let connection = Connection::open(socket.into(), ConnectionOptions::default()).await.unwrap();
        load(&connection, json!({})).await.unwrap();
        // Other users of the connection learn of its end too.
        let other = connection.clone();
        let inputs = tensors([("x", floats(100_000))]);
        // Not by the deadline: by the runner's fault, whenever that was seen.
        let error = connection.infer(inputs, within(Duration::from_secs(60))).await.unwrap_err();
        let CallError::Closed(reason) = error else { panic!("{what}: {error:?}") };
        let text = chain(&*reason);
        assert!(text.contains(expected), "{what}: {text}");
        let error = other.ping(CallOptions::default()).await.unwrap_err();
        assert!(matches!(error, CallError::Closed(_)), "{what}");
        drop(other);
        drop(connection);
        runner.join().unwrap();
    }
    assert!(
        eventually(|| {
            let now = resources();
            now.0 <= before.0 && now.1 <= before.1
        }),
        "{what}: {before:?} became {:?}",
        resources()
    );
}

/// A runner with a host that sends `messages` once the hellos are exchanged. It must end with `expected`.
fn runner_survives(what: &str, expected: &str, act: impl FnOnce(&RawPeer)) {
    let before = resources();
    {
        let (raw, socket) = RawPeer::pair();
        let runner = std::thread::spawn(move || serve::<Noop>(socket.into(), ServeOptions::default()));
        raw.send(&hello());
        raw.send(&json!({"id": 1, "message": {"load": {"files": {"directory": {"path": "/"}}}}}));
        raw.receive_named("loaded");
        act(&raw);
        assert!(raw.is_closed_by_peer(), "{what}");
        let text = match runner.join().unwrap() {
            Ok(()) => "the host is gone".to_owned(),
            Err(error) => chain(&error),
        };
        assert!(text.contains(expected), "{what}: {text}");
    }
    assert!(eventually(|| resources() == before), "{what}: {before:?} became {:?}", resources());
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

/// A tensor `x` of `dtype` and `shape` at `data`.
fn tensor(dtype: &str, shape: &Value, data: &Value) -> Value {
    json!([{"name": "x", "dtype": dtype, "shape": shape, "data": data}])
}

fn shared(owner: &str, region: u64, offset: u64, length: u64) -> Value {
    json!({"shared": {"owner": owner, "region": region, "offset": offset, "length": length}})
}

fn inline(offset: u64, length: u64) -> Value {
    json!({"inline": {"offset": offset, "length": length}})
}

fn map(region: u64, size: u64) -> Value {
    json!({"message": {"map": {"region": region, "size": size}}})
}

/// The ways to get tensors wrong, as (what, expected, inputs or outputs, bytes of the frame). Region 9 has 4096 bytes.
fn bad_tensors() -> Vec<(&'static str, &'static str, Value, Vec<u8>)> {
    let max = u64::MAX;
    let strings = |offsets: &[u64], text: &[u8]| {
        let mut block: Vec<u8> = offsets.iter().flat_map(|offset| offset.to_le_bytes()).collect();
        block.extend(text);
        block
    };
    let string_case = |what, expected, shape: Value, block: Vec<u8>| {
        (what, expected, tensor("string", &shape, &inline(0, block.len() as u64)), block)
    };
    let case = |what, expected, tensors| (what, expected, tensors, vec![0; 64]);
    vec![
        case(
            "outside region",
            "do not lie inside region 9",
            tensor("uint8", &json!([4097]), &shared("runner", 9, 0, 4097)),
        ),
        case("end outside", "do not lie inside region 9", tensor("uint8", &json!([4]), &shared("runner", 9, 4093, 4))),
        case(
            "offset overflow",
            "do not lie inside region 9",
            tensor("uint8", &json!([4]), &shared("runner", 9, max, 4)),
        ),
        case("no region", "region 8 was never mapped", tensor("uint8", &json!([4]), &shared("runner", 8, 0, 4))),
        case("not lent", "do not lie inside a lent buffer", tensor("uint8", &json!([4]), &shared("host", 77, 0, 4))),
        case("shape overflow", "too large", tensor("float64", &json!([max, 2]), &inline(0, 16))),
        case("byte overflow", "too large", tensor("float64", &json!([1_u64 << 61]), &inline(0, 8))),
        case("shape and length", "needs 12 bytes, found 8", tensor("float32", &json!([3]), &inline(0, 8))),
        case("misaligned", "not aligned", tensor("float32", &json!([1]), &shared("runner", 9, 2, 4))),
        case("outside frame", "do not lie inside the 64 bytes", tensor("uint8", &json!([65]), &inline(0, 65))),
        case("inline overflow", "do not lie inside the 64 bytes", tensor("uint8", &json!([4]), &inline(max - 1, 4))),
        case("no data", "it has no data", json!([{"name": "x", "dtype": "uint8", "shape": [1]}])),
        (
            "a boolean of 2",
            "element 1 is neither 0 nor 1",
            tensor("bool", &json!([2]), &inline(0, 2)),
            [vec![1, 2], vec![0; 62]].concat(),
        ),
        case("a half of a byte", "needs 2 bytes, found 1", tensor("float16", &json!([1]), &inline(0, 1))),
        case(
            "misaligned complex",
            "not aligned to 4 bytes",
            tensor("complex64", &json!([1]), &shared("runner", 9, 2, 8)),
        ),
        case("unknown dtype", "unknown dtype", tensor("float8", &json!([1]), &inline(0, 1))),
        case("negative shape", "malformed", tensor("uint8", &json!([-1]), &inline(0, 1))),
        case(
            "twice",
            "it is there twice",
            json!([
                {"name": "x", "dtype": "uint8", "shape": [1], "data": inline(0, 1)},
                {"name": "x", "dtype": "uint8", "shape": [1], "data": inline(1, 1)},
            ]),
        ),
        case(
            "nested in nested",
            "nested tensor inside",
            json!([
                {"name": "x", "dtype": "nested", "inner": [{"dtype": "nested", "inner": []}]},
            ]),
        ),
        case(
            "mixed nested",
            "element 1",
            json!([{"name": "x", "dtype": "nested", "inner": [
                {"dtype": "uint8", "shape": [1], "data": inline(0, 1)},
                {"dtype": "int8", "shape": [1], "data": inline(0, 1)},
            ]}]),
        ),
        string_case("strings without offsets", "cannot hold the offsets", json!([2]), strings(&[0, 1], b"ab")),
        string_case("many strings", "cannot hold the offsets", json!([1_u64 << 60]), strings(&[0, 1], b"a")),
        string_case("offset beyond text", "does not lie inside", json!([1]), strings(&[0, 5], b"ab")),
        string_case("offsets go back", "does not lie inside", json!([2]), strings(&[0, 2, 1], b"ab")),
        string_case("first offset", "does not start at 0", json!([1]), strings(&[1, 2], b"ab")),
        string_case("text left over", "the text at 2", json!([1]), strings(&[0, 1], b"ab")),
        (
            "bytes beyond the text",
            "does not lie inside",
            tensor("bytes", &json!([1]), &inline(0, 18)),
            strings(&[0, 5], b"ab"),
        ),
        string_case("not UTF-8", "not UTF-8", json!([1]), strings(&[0, 2], b"\xff\xfe")),
    ]
}

/// The ways to get anything else wrong.
type BadFrames = Box<dyn FnOnce(&RawPeer) + Send>;

fn bad_frames() -> Vec<(&'static str, &'static str, BadFrames)> {
    fn with_region(size: u64, seals: SealFlags) -> BadFrames {
        Box::new(move |raw| {
            raw.send_with(&map(1, size), &[], &[&region(&[0; 4096], seals)]);
        })
    }
    let bytes = |bytes: Vec<u8>| -> BadFrames {
        Box::new(move |raw| {
            raw.send_bytes(&bytes, &[]);
        })
    };
    let message = |message: Value| -> BadFrames {
        Box::new(move |raw| {
            raw.send(&message);
        })
    };
    let mut huge = (5_u64 << 30).to_le_bytes().to_vec();
    huge.extend([0; 64]);
    let mut short = 20_u64.to_le_bytes().to_vec();
    short.extend(100_u32.to_le_bytes());
    vec![
        ("garbage", "above the limit", bytes(vec![0xAB; 4096])),
        ("zeros", "cannot hold", bytes(vec![0; 4096])),
        ("a frame of 5 GiB", "above the limit", bytes(huge)),
        ("json longer than the frame", "cannot hold 100 bytes of JSON", bytes(short)),
        ("no json", "malformed message", bytes(frame("", &[]))),
        ("not json", "malformed message", bytes(frame("{\"message\":", &[]))),
        (
            "not utf-8",
            "malformed message",
            bytes({
                let mut bytes = frame("{\"message\":{\"log__\":{}}}", &[]);
                bytes[25] = 0xFF;
                bytes
            }),
        ),
        ("deeply nested", "malformed message", bytes(frame(&"[".repeat(100_000), &[]))),
        ("two messages", "two messages", message(json!({"message": {"ping": {}, "pong": {}}}))),
        (
            "fields of the wrong type",
            "malformed message `unmap`",
            message(json!({"message": {"unmap": {"region": "one"}}})),
        ),
        ("hello again", "sent before", message(hello())),
        ("memfd without seals", "not sealed", with_region(4096, SealFlags::empty())),
        ("memfd that may shrink", "not sealed", with_region(4096, SealFlags::GROW)),
        ("memfd that is too small", "announced with 1000000 bytes, but has 4096", with_region(1_000_000, SEALED)),
        ("empty region", "cannot have 0 bytes", with_region(0, SEALED)),
        ("region of 2^64 bytes", "bytes of shared memory", with_region(u64::MAX, SEALED)),
        (
            "a region that is no memfd",
            "not a memfd",
            Box::new(|raw| {
                raw.send_with(&map(1, 4096), &[], &[&std::fs::File::open("/dev/zero").unwrap().into()]);
            }),
        ),
        (
            "a region twice",
            "mapped already",
            Box::new(|raw| {
                raw.send_with(&map(1, 4096), &[], &[&region(&[0; 4096], SEALED)]);
                raw.send_with(&map(1, 4096), &[], &[&region(&[0; 4096], SEALED)]);
            }),
        ),
        ("map without descriptor", "names 1 descriptors, 0 came", message(map(1, 4096))),
        ("unmap of nothing", "never mapped", message(json!({"message": {"unmap": {"region": 4}}}))),
        (
            "release of nothing",
            "no lent buffer",
            message(json!({
                "release": [{"region": 1, "offset": 12_345}], "message": {"release": {}},
            })),
        ),
        (
            "surplus descriptors",
            "no lent buffer",
            Box::new(|raw| {
                let surplus: Vec<OwnedFd> = (0..200).map(|_| region(&[0; 64], SEALED)).collect();
                let surplus: Vec<_> = surplus.iter().map(AsFd::as_fd).collect();
                for _ in 0..20 {
                    raw.send_bytes(&frame(&json!({"message": {"release": {}}}).to_string(), &[]), &surplus);
                }
                raw.send(&json!({"release": [{"region": 9, "offset": 0}], "message": {"release": {}}}));
            }),
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_peers_cost_a_clear_error_and_nothing_else() {
    // What threads and allocators make once is not a leak.
    host_survives("warm up", "closed the connection", Box::new(|raw, _| raw.shut_down())).await;

    for (what, expected, outputs, body) in bad_tensors() {
        let answer = outputs.clone();
        let bytes = body.clone();
        host_survives(
            what,
            expected,
            Box::new(move |raw, id| {
                raw.send_with(&map(9, 4096), &[], &[&region(&[0; 4096], SEALED)]);
                raw.send_with(&json!({"id": id, "message": {"inferred": {"outputs": answer}}}), &bytes, &[]);
            }),
        )
        .await;
        // A host that does the same to a runner: it owns the other memory.
        let inputs = outputs.to_string().replace("\"runner\"", "\"HOST\"").replace("\"host\"", "\"runner\"");
        let inputs: Value = serde_json::from_str(&inputs.replace("\"HOST\"", "\"host\"")).unwrap();
        runner_survives(what, expected, |raw| {
            raw.send_with(&map(9, 4096), &[], &[&region(&[0; 4096], SEALED)]);
            raw.send_with(&json!({"id": 2, "message": {"infer": {"inputs": inputs}}}), &body, &[]);
        });
    }
    for (what, expected, act) in bad_frames() {
        host_survives(what, expected, Box::new(|raw, _| act(raw))).await;
    }
    for (what, expected, act) in bad_frames() {
        runner_survives(what, expected, |raw| act(raw));
    }
    answers_to_the_wrong_calls().await;
    calls_that_make_no_sense();
    first_messages().await;
    a_string_that_changes_after_it_was_sent().await;
    text_that_nobody_wrote().await;
    surplus_descriptors_are_closed_at_once().await;
}

/// Memory that was never written to costs a runner nothing, and a copy of it would cost the host all of it.
async fn text_that_nobody_wrote() {
    const LARGEST: u64 = 1 << 30;
    let memory = region(&[], SealFlags::empty());
    rustix::fs::ftruncate(&memory, 3 * LARGEST).unwrap();
    rustix::fs::fcntl_add_seals(&memory, SEALED).unwrap();
    // One descriptor from before the first runner to after the last.
    let memory = Arc::new(memory);
    let text = |offset: u64, length: u64| tensor("string", &json!([]), &shared("runner", 9, offset, length))[0].clone();
    for outputs in [json!([text(0, LARGEST + 1)]), json!([text(0, 3 * LARGEST)])] {
        let memory = Arc::clone(&memory);
        let answer = move |raw: &RawPeer, id| {
            raw.send_with(&map(9, 3 * LARGEST), &[], &[&*memory]);
            raw.send(&json!({"id": id, "message": {"inferred": {"outputs": outputs}}}));
        };
        host_survives("sparse text", "expected at most 1073741824 in one message", Box::new(answer)).await;
    }
}

async fn surplus_descriptors_are_closed_at_once() {
    let (raw, socket) = RawPeer::pair();
    raw.send(&hello());
    let connection = Connection::open(socket.into(), ConnectionOptions::default()).await.unwrap();
    let before = resources();
    {
        let surplus: Vec<OwnedFd> = (0..200).map(|_| region(&[0; 64], SEALED)).collect();
        let surplus: Vec<_> = surplus.iter().map(AsFd::as_fd).collect();
        for _ in 0..20 {
            raw.send_bytes(&frame(&json!({"message": {"release": {}}}).to_string(), &[]), &surplus);
        }
    }
    for id in 0..2 {
        raw.send(&json!({"id": id, "message": {"ping": {}}}));
        raw.receive_named("pong");
    }
    assert_eq!(resources(), before);
    drop(connection);
}

async fn answers_to_the_wrong_calls() {
    for (what, expected, message) in [
        (
            "answer to nothing",
            "call 999, which is not running",
            json!({"id": 999, "message": {"inferred": {"outputs": []}}}),
        ),
        ("answer without id", "no id", json!({"message": {"inferred": {"outputs": []}}})),
        ("item of no stream", "is not a stream", json!({"id": "ID", "message": {"stream_item": {"outputs": []}}})),
        (
            "answer of another kind",
            "is not one it can answer",
            json!({"id": "ID", "message": {"sealed": {"handle": 1}}}),
        ),
        ("a host's message", "only hosts send it", json!({"id": 5, "message": {"infer": {"inputs": []}}})),
        ("refusal", "out of order", json!({"message": {"error": {"code": "protocol", "message": "out of order"}}})),
    ] {
        host_survives(
            what,
            expected,
            Box::new(move |raw, id| {
                let text = message.to_string().replace("\"ID\"", &id.to_string());
                raw.send(&serde_json::from_str(&text).unwrap());
            }),
        )
        .await;
    }
}

fn calls_that_make_no_sense() {
    for (what, expected, messages) in [
        ("a runner's message", "only runners send it", vec![json!({"id": 2, "message": {"stream_end": {}}})]),
        ("no id", "no id", vec![json!({"message": {"infer": {"inputs": []}}})]),
        (
            "descriptor not there",
            "names 1 descriptors, 0 came",
            vec![
                json!({"id": 2, "message": {"load": {"files": {"ranges": {"sources": [{"descriptor": 0}], "entries": []}}}}}),
            ],
        ),
        (
            "no such source",
            "lies in no source",
            vec![json!({"id": 2, "message": {"load": {"files": {"ranges": {
                "sources": [], "entries": [{"path": "a", "source": 0, "offset": 0, "length": 0}],
            }}}}})],
        ),
    ] {
        runner_survives(what, expected, |raw| {
            for message in &messages {
                raw.send(message);
            }
        });
    }
}

async fn first_messages() {
    let no_version = json!({"message": {"hello": {"protocol": "carton-runner", "versions": [7, 8]}}});
    let other = json!({"message": {"hello": {"protocol": "something-else", "versions": [2]}}});
    for (what, expected, message) in [
        ("no version in common", "this side speaks [2], the other one [7, 8]", no_version),
        ("another protocol", "speaks `something-else`", other),
        ("no hello", "expected `hello` as first message, found `ping`", json!({"message": {"ping": {}}})),
        ("unknown first message", "found `greetings`", json!({"message": {"greetings": {}}})),
    ] {
        let before = resources();
        let (raw, socket) = RawPeer::pair();
        raw.send(&message);
        let error = Connection::open(socket.into(), ConnectionOptions::default()).await.err().unwrap();
        assert!(chain(&*error).contains(expected), "{what}: {}", chain(&*error));
        let (raw_host, socket) = RawPeer::pair();
        raw_host.send(&message);
        let error = serve::<Noop>(socket.into(), ServeOptions::default()).unwrap_err();
        assert!(chain(&error).contains(expected), "{what}: {}", chain(&error));
        let (refusal, ..) = raw_host.receive_named("error");
        assert_eq!(refusal["message"]["error"]["code"], "protocol");
        drop((raw, raw_host));
        assert!(eventually(|| resources() == before), "{what}: {before:?} became {:?}", resources());
    }
    let before = resources();
    let (raw, socket) = RawPeer::pair();
    let options = ConnectionOptions { hello_timeout: Duration::from_millis(100), ..ConnectionOptions::default() };
    let error = Connection::open(socket.into(), options).await.err().unwrap();
    assert!(matches!(*error, CloseReason::HelloTimeout(_)), "{error:?}");
    drop(raw);
    assert!(eventually(|| resources() == before));
}

/// The host has read the string before it returns it: later changes are not seen.
async fn a_string_that_changes_after_it_was_sent() {
    let (raw, socket) = RawPeer::pair();
    let memory = region(&[0; 1 << 16], SEALED);
    let writable = memory.try_clone().unwrap();
    let runner = std::thread::spawn(move || {
        raw.send(&hello());
        let (message, ..) = raw.receive_named("load");
        raw.send(&json!({"id": message["id"], "message": {"loaded": {"max_concurrency": 4}}}));
        raw.send_with(&map(1, 1 << 16), &[], &[&memory]);
        let (message, ..) = raw.receive_named("infer");
        let text = "a".repeat((1 << 16) - 16);
        let mut block = [0_u64.to_le_bytes(), (text.len() as u64).to_le_bytes()].concat();
        block.extend(text.as_bytes());
        rustix::io::pwrite(&memory, &block, 0).unwrap();
        let outputs = tensor("string", &json!([1]), &shared("runner", 1, 0, 1 << 16));
        raw.send(&json!({"id": message["id"], "message": {"inferred": {"outputs": outputs}}}));
        raw
    });
    let connection = Connection::open(socket.into(), ConnectionOptions::default()).await.unwrap();
    load(&connection, json!({})).await.unwrap();
    let outputs = connection.infer(Tensors::new(), CallOptions::default()).await.unwrap();
    rustix::io::pwrite(&writable, &[0xFF; 1 << 16], 0).unwrap();
    let text = &outputs["x"].as_string().unwrap().elements()[0];
    assert!(text.bytes().all(|byte| byte == b'a'));
    drop(runner.join().unwrap());
}
