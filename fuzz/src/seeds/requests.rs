//! Seeds of calls to a server.

use super::Seed;

const JSON: &str = r#"{"id": "1", "inputs": [{"name": "x", "shape": [2, 2], "datatype": "FP32", "data": [[1, 2.5], ["NaN", -3e-2]]},
 {"name": "s", "shape": [1], "datatype": "BYTES", "data": ["text"]}, {"name": "i", "shape": [], "datatype": "INT64", "data": [7]}],
 "outputs": [{"name": "y", "parameters": {"binary_data": true}}], "parameters": {"timeout": 1000, "binary_data_output": false}}"#;

const BINARY: &str = r#"{"inputs": [{"name": "x", "shape": [2], "datatype": "FP32", "parameters": {"binary_data_size": 8}},
 {"name": "s", "shape": [2], "datatype": "BYTES", "parameters": {"binary_data_size": 9}}], "parameters": {"binary_data_output": true}}"#;

/// A `ModelInferRequest` of `m` with an input `x` of typed contents, and one with raw contents.
const GRPC: [&[u8]; 2] = [
    b"\x0a\x01m\x2a\x17\x0a\x01x\x12\x04FP32\x1a\x01\x02\x2a\x09\x32\x08\0\0\x80\x3f\0\0\0\x40",
    b"\x0a\x01m\x1a\x02id\x2a\x0c\x0a\x01x\x12\x04INT8\x1a\x01\x03\x32\x03\x0a\x01y\x3a\x03\x01\x02\x03",
];

pub(super) fn seeds() -> Vec<Seed> {
    let with_length = |length: usize, body: &[u8]| [&u16::try_from(length).unwrap_or(0).to_le_bytes(), body].concat();
    let binary = [BINARY.as_bytes(), b"\0\0\x80\x3f\0\0\0\0\x01\0\0\0a\0\0\0\0"].concat();
    let [typed, raw] = GRPC;
    vec![
        Seed::new("inference_request", "json", with_length(0, JSON.as_bytes())),
        Seed::new("inference_request", "binary", with_length(BINARY.len(), &binary)),
        Seed::new("grpc_request", "typed", typed),
        Seed::new("grpc_request", "raw", raw),
    ]
}
