//! Where fuzzing starts: for each target, files that our own writers make, with everything in them that has a rule of its own. Files that
//! are kept for tests anyway are seeds too ([`FOLDERS`]).

mod cartons;
mod datasets;
mod messages;
mod runners;
mod tensors;
mod text;

/// A file for a target.
#[derive(Clone)]
pub struct Seed {
    /// The target.
    pub target: &'static str,
    /// What it is called among those of the target.
    pub name: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

impl Seed {
    fn new(target: &'static str, name: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self { target, name: name.into(), bytes: bytes.into() }
    }
}

/// Folders of the repository whose files with this ending are seeds of a target.
pub const FOLDERS: [(&str, &str, &str); 6] = [
    ("archive", "spec/conformance/cartons", ".carton"),
    ("description", "carton-tensor/src/weights/description", ".toml"),
    ("onnx", "runners/onnx/tests/models", ".onnx"),
    ("safetensors", "spec/conformance/safetensors", ".safetensors"),
    ("ztensor", "carton-tensor/tests/reject/ztensor", ".zt"),
    ("ztensor", "spec/conformance/ztensor", ".zt"),
];

/// All of them.
pub fn all() -> Vec<Seed> {
    [cartons::seeds(), datasets::seeds(), messages::seeds(), runners::seeds(), tensors::seeds(), text::seeds()].concat()
}
