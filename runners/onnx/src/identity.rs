//! What this runner calls itself.

/// The name of this runner, for `runner_name` of a carton.
pub const RUNNER_NAME: &str = "onnx";

/// The compatibility version of this runner: the version of the options and of the layout of `model/`.
pub const COMPAT_VERSION: u64 = 1;

/// The folders in the runners' data folder that the runner reads: the libraries of ONNX Runtime that it installed.
pub(crate) const DATA_FOLDERS: &[&str] = &["onnxruntime"];

/// The environment variables that name a library of the user's choice.
pub const LIBRARY_VARIABLES: &[&str] = &["ORT_DYLIB_PATH"];
