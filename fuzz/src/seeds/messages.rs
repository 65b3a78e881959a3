//! Seeds of the messages on both sides of a connection.

use carton_runner_interface::fuzzing::write_frame;
use serde_json::{Value, json};

use super::Seed;
use crate::generate::peer::BODY;
use crate::generate::pieces::SEPARATOR;

/// The frames of one side; `None` to wait for a frame of the other side.
type Talk = Vec<Option<(Value, Vec<u8>)>>;

pub(super) fn seeds() -> Vec<Seed> {
    let mut seeds = Vec::new();
    for (name, talk) in from_host() {
        seeds.push(Seed::new("message", format!("host-{name}"), stream(&talk)));
        seeds.push(Seed::new("runner", name, pieces(&talk)));
    }
    for (name, talk) in from_runner() {
        seeds.push(Seed::new("message", format!("runner-{name}"), stream(&talk)));
        seeds.push(Seed::new("host", name, pieces(&talk)));
    }
    seeds
}

/// The frames only, without those whose tensors are in shared memory, which does not exist here.
fn stream(talk: &Talk) -> Vec<u8> {
    let frame = |(json, body): &(Value, Vec<u8>)| write_frame(json.to_string().as_bytes(), body, 1 << 20);
    let is_whole = |(json, _): &&(Value, Vec<u8>)| !json.to_string().contains("\"shared\"");
    talk.iter().flatten().filter(is_whole).flat_map(|part| frame(part).expect("it is short")).collect()
}

fn pieces(talk: &Talk) -> Vec<u8> {
    let piece = |part: &Option<(Value, Vec<u8>)>| match part {
        Some((json, body)) if body.is_empty() => json.to_string().into_bytes(),
        Some((json, body)) => [json.to_string().as_bytes(), &[BODY], body].concat(),
        None => Vec::new(),
    };
    talk.iter().map(piece).collect::<Vec<_>>().join(&SEPARATOR)
}

fn say(message: Value) -> Option<(Value, Vec<u8>)> {
    Some((json!({ "message": message }), Vec::new()))
}

fn call(id: u64, message: Value) -> Option<(Value, Vec<u8>)> {
    with(id, message, Vec::new())
}

fn with(id: u64, message: Value, body: Vec<u8>) -> Option<(Value, Vec<u8>)> {
    Some((json!({"id": id, "message": message}), body))
}

fn hello() -> Option<(Value, Vec<u8>)> {
    say(json!({"hello": {"protocol": "carton-runner", "versions": [2], "features": ["shared_memory", "descriptors"],
        "name": "peer", "framework_version": "1.2.3"}}))
}

/// One tensor of each kind, with their bytes in the frame.
fn tensors() -> (Value, Vec<u8>) {
    let inline = |offset: u64, length: u64| json!({"inline": {"offset": offset, "length": length}});
    let tensors = json!([
        {"name": "n", "dtype": "nested", "inner": [
            {"dtype": "int8", "shape": [1], "data": inline(0, 1)}, {"dtype": "int8", "shape": [], "data": inline(1, 1)},
        ]},
        {"name": "s", "dtype": "string", "shape": [2], "data": inline(64, 26)},
        {"name": "x", "dtype": "float32", "shape": [2, 1], "data": inline(128, 8)},
    ]);
    let mut body = vec![1, 2];
    body.resize(64, 0);
    [0_u64, 1, 2].iter().for_each(|offset| body.extend(offset.to_le_bytes()));
    body.extend(b"ab");
    body.resize(128, 0);
    body.extend([1.5_f32, -2.0].iter().flat_map(|number| number.to_le_bytes()));
    (tensors, body)
}

/// A tensor in the shared memory of this side.
fn shared(owner: &str) -> Value {
    json!([{"name": "x", "dtype": "uint8", "shape": [16], "data":
        {"shared": {"owner": owner, "region": 1, "offset": 64, "length": 16}}}])
}

fn from_host() -> Vec<(&'static str, Talk)> {
    let spec = json!({"name": "x", "dtype": "float32", "shape": ["n", 3, "*"], "internal_name": "x:0"});
    let folder = json!({"load": {"options": {"a": [1, {"b": null}]}, "device": "cpu", "inputs": [spec],
        "files": {"directory": {"path": "/nowhere"}}}});
    let ranges = json!({"load": {"files": {"ranges": {"sources": [{"descriptor": 0}, {"descriptor": 1}],
        "entries": [{"path": "model.onnx", "source": 0, "offset": 64, "length": 128},
                    {"path": "data", "source": 1, "offset": 0, "length": 0}]}}}});
    let (inputs, body) = tensors();
    let with_inputs = |id, message| with(id, message, body.clone());
    vec![
        (
            "calls",
            vec![
                hello(),
                call(9, json!({"prepare": folder["load"]})),
                None,
                call(1, folder),
                None,
                with_inputs(2, json!({"infer": {"inputs": inputs}})),
                with_inputs(3, json!({"seal": {"inputs": inputs}})),
                None,
                call(4, json!({"infer_sealed": {"handle": 1}})),
                with_inputs(5, json!({"infer_stream": {"inputs": inputs, "credits": 1}})),
                call(5, json!({"credit": {"n": 2}})),
                say(json!({"unseal": {"handle": 1}})),
                call(5, json!({"cancel": {}})),
                call(6, json!({"ping": {}})),
                say(json!({"shutdown": {}})),
            ],
        ),
        (
            "memory",
            vec![
                hello(),
                call(1, ranges),
                None,
                say(json!({"map": {"region": 1, "size": 1 << 16}})),
                call(2, json!({"infer": {"inputs": shared("host")}})),
                None,
                Some((json!({"release": [], "message": {"release": {}}}), Vec::new())),
                say(json!({"unmap": {"region": 1}})),
                call(
                    3,
                    json!({"pack": {"path": "/nowhere", "scratch": "/nowhere", "pack_options": {"c": 1}, "inputs": [spec]}}),
                ),
                call(4, json!({"dance": {"steps": [1, 2]}})),
                say(json!({"error": {"code": "protocol", "message": "enough"}})),
            ],
        ),
    ]
}

fn from_runner() -> Vec<(&'static str, Talk)> {
    let (outputs, body) = tensors();
    let with_outputs = |id, message| with(id, message, body.clone());
    let loaded = |id| call(id, json!({"loaded": {"max_concurrency": 4}}));
    let log = say(json!({"log": {"level": "warn", "message": "it is late"}}));
    let progress = call(1, json!({"progress": {"what": "loading", "done": 1, "total": 2}}));
    let packed = json!({"packed": {"path": "/nowhere", "required_framework_version": "=1.0.0", "options": {"a": 1},
        "inputs": [{"name": "x", "dtype": "float32", "shape": "*"}], "mismatches": ["x is y"]}});
    let prepared = json!({"prepared": {"read": ["/nowhere", "/data/x"], "in_use": ["/data/x.lock"]}});
    vec![
        (
            "calls",
            vec![
                hello(),
                None,
                None,
                log,
                progress,
                loaded(1),
                None,
                with_outputs(2, json!({"inferred": {"outputs": outputs}})),
                None,
                call(3, json!({"sealed": {"handle": 1}})),
                None,
                with_outputs(4, json!({"inferred": {"outputs": outputs}})),
                None,
                with_outputs(5, json!({"stream_item": {"outputs": outputs}})),
                call(5, json!({"stream_end": {}})),
                None,
                call(6, prepared),
                None,
                call(7, packed),
                None,
                call(8, json!({"pong": {}})),
            ],
        ),
        (
            "memory",
            vec![
                hello(),
                None,
                None,
                loaded(1),
                say(json!({"map": {"region": 1, "size": 1 << 16}})),
                None,
                call(2, json!({"inferred": {"outputs": shared("runner")}})),
                None,
                say(json!({"unmap": {"region": 1}})),
                call(3, json!({"error": {"code": "failed", "message": "no", "causes": ["why"], "hint": "try"}})),
                None,
                call(4, json!({"error": {"code": "busy", "message": "no"}})),
                say(json!({"ping": {}})),
                call(9, json!({"dance": {"steps": [1, 2]}})),
            ],
        ),
    ]
}
