//! What this runner calls itself, and which ONNX it implements.

/// The name of this runner, for `runner_name` of a carton.
pub const RUNNER_NAME: &str = "onnx";

/// The ONNX release this runner implements.
///
/// ONNX Runtime 1.31, the release that these bindings are made for, supports operator sets up to 26 and refuses
/// later ones; `rten` 0.27 has operators up to the same set. Operator set 26 came with ONNX 1.21.
pub const FRAMEWORK_VERSION: &str = "1.21.0";

/// The compatibility version of this runner: the version of the options and of the layout of `model/`.
pub const COMPAT_VERSION: u64 = 1;

/// The newest operator set of [`FRAMEWORK_VERSION`].
pub(crate) const NEWEST_OPERATOR_SET: u64 = 26;

/// The folders in the runners' data folder that the runner reads: the libraries of ONNX Runtime that it installed.
pub const DATA_FOLDERS: &[&str] = &["onnxruntime"];

/// The environment variables that name a library of the user's choice.
pub const LIBRARY_VARIABLES: &[&str] = &["ORT_DYLIB_PATH"];
