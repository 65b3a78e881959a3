//! The inputs with which fuzzing starts. For each target, our own writers make files with every feature that has its own rule. Files
//! that exist for tests are seeds too ([`FOLDERS`]).

mod cartons;
mod datasets;
mod messages;
mod requests;
mod runners;
mod signatures;
mod tensors;
mod text;

/// A seed for a target.
#[derive(Clone)]
pub struct Seed {
    /// The name of the target.
    pub target: &'static str,
    /// The name of the seed, unique within its target.
    pub name: String,
    /// The content of the seed.
    pub bytes: Vec<u8>,
}

impl Seed {
    fn new(target: &'static str, name: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self { target, name: name.into(), bytes: bytes.into() }
    }
}

/// Folders of the repository whose files with this ending are seeds of a target.
pub const FOLDERS: [(&str, &str, &str); 13] = [
    ("archive", "spec/conformance/cartons", ".carton"),
    ("description", "carton-tensor/src/weights/description", ".toml"),
    ("onnx", "runners/onnx/tests/models", ".onnx"),
    ("onnx_tensors", "carton-tensor/tests/data/onnx", ".onnx"),
    ("onnx_tensors", "runners/onnx/tests/models", ".onnx"),
    ("safetensors", "spec/conformance/safetensors", ".safetensors"),
    ("tensor_file", "carton-tensor/tests/data/onnx", ".onnx"),
    ("tensor_file", "carton-tensor/tests/data/torch", ".pt"),
    ("tensor_file", "carton-tensor/tests/data/ztensor2", ".zt"),
    ("torch", "carton-tensor/tests/data/torch", ".pt"),
    ("ztensor", "carton-tensor/tests/reject/ztensor", ".zt"),
    ("ztensor", "spec/conformance/ztensor", ".zt"),
    ("ztensor2", "carton-tensor/tests/data/ztensor2", ".zt"),
];

/// Returns the seeds of all targets.
pub fn all() -> Vec<Seed> {
    [
        cartons::seeds(),
        datasets::seeds(),
        messages::seeds(),
        requests::seeds(),
        runners::seeds(),
        signatures::seeds(),
        tensors::seeds(),
        text::seeds(),
    ]
    .concat()
}
