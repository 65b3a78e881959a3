//! Arbitrary bytes as an ONNX model. If a file is accepted, another ONNX reader finds the same inputs and outputs.

use std::collections::BTreeSet;

use rten_onnx::onnx::{ModelProto, ValueInfoProto};

use crate::model_file::{GraphValue, ModelFile};

/// Checks these bytes. Returns whether they are accepted.
pub fn check(bytes: &[u8]) -> bool {
    let Ok(file) = ModelFile::parse(bytes) else { return false };
    let ours = |values: Vec<GraphValue>| -> Vec<String> { values.into_iter().map(|value| value.name).collect() };
    let (inputs, outputs) = (ours(file.inputs), ours(file.outputs));
    // The other reader refuses some fields that this one skips.
    let Ok(ModelProto { graph: Some(graph), .. }) = ModelProto::parse_buf(bytes) else { return true };
    let names = |values: &[ValueInfoProto]| -> Vec<String> {
        values.iter().map(|value| value.name.clone().unwrap_or_default()).collect()
    };
    assert_eq!(outputs, names(&graph.output));
    // Inputs with a value in the file need not be provided. The other reader does not know sparse values.
    let constants: BTreeSet<&str> =
        graph.initializer.iter().map(|tensor| tensor.name.as_deref().unwrap_or_default()).collect();
    let found = names(&graph.input);
    let expected: Vec<&String> = found.iter().filter(|name| !constants.contains(name.as_str())).collect();
    assert!(inputs.iter().all(|name| expected.contains(&name)), "{inputs:?}, {expected:?}");
    if !has_sparse_values(bytes) {
        assert!(inputs.iter().eq(expected.iter().copied()), "{inputs:?}, {expected:?}");
    }
    true
}

/// Whether there may be a field of sparse values, which has number 15 and a length.
fn has_sparse_values(bytes: &[u8]) -> bool {
    bytes.contains(&(15 << 3 | 2))
}
