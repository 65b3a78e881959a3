//! The types with which both sides describe a model: its tensors, its options, and the requests to load, prepare and pack it. The messages
//! `load`, `prepare`, `prepared`, `pack` and `packed` carry them (spec/runner-protocol.md, "What each message says").

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use carton_tensor::{DataType, SymbolicShape, Tensors};
use serde::{Deserialize, Serialize};

/// The value of an option: any JSON value. This type does not change as long as the protocol is JSON.
pub type OptionValue = serde_json::Value;

/// Options of a model (`[runner.opts]`, overridden at load), by name.
pub type Options = BTreeMap<String, OptionValue>;

/// One declared input or output of a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeclaredTensor {
    /// The name callers use.
    pub name: String,
    /// The element type.
    pub dtype: DataType,
    /// The shapes that it may have.
    pub shape: SymbolicShape,
    /// The name inside the model, if it differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub internal_name: Option<String>,
}

impl DeclaredTensor {
    /// The name that the model itself uses.
    #[must_use]
    pub fn model_name(&self) -> &str {
        self.internal_name.as_deref().unwrap_or(&self.name)
    }
}

/// A request to load a model, or to prepare that. `F` is the form of the files: a host names them, a runner gets them opened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadRequest<F> {
    /// The model's files.
    pub files: F,
    /// `[runner.opts]` with overrides applied.
    #[serde(default, skip_serializing_if = "Options::is_empty")]
    pub options: Options,
    /// `None`: the runner chooses; `"cpu"`, a GPU index, `GPU-…`, `MIG-…`, or whatever else the user wrote.
    /// [`Device`](crate::runner::Device) reads it. A runner fails with
    /// [`Unavailable`](crate::runner::RunnerErrorKind::Unavailable) where it cannot use the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Declared inputs, in order; empty when the carton declares none.
    #[serde(default)]
    pub inputs: Vec<DeclaredTensor>,
    /// Declared outputs, in order; empty when the carton declares none.
    #[serde(default)]
    pub outputs: Vec<DeclaredTensor>,
}

/// What a loaded model states about itself. The default is nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Statement {
    /// The inputs, in order.
    pub inputs: Vec<DeclaredTensor>,
    /// The outputs, in order.
    pub outputs: Vec<DeclaredTensor>,
    /// The names of inputs that a call may leave out.
    pub optional_inputs: Vec<String>,
    /// The names of outputs that a call may not return.
    pub optional_outputs: Vec<String>,
    /// What inputs and outputs are, in Markdown, by their names.
    pub descriptions: BTreeMap<String, String>,
    /// Inputs of a call. Empty if the model knows none.
    pub example: Tensors,
}

/// What a runner made so that a model can be loaded. The default is nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Prepared {
    /// Files and folders that the process which loads the model must be able to read, besides the files of the model and of the
    /// runner. Absolute paths without `..`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<PathBuf>,
    /// Lock files. While the model is loaded, the host holds a shared `flock` on each and keeps its times current, so that nobody
    /// deletes what was made. Paths as in [`read`](Self::read).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub in_use: Vec<PathBuf>,
}

impl Prepared {
    /// The most paths that each list may have.
    pub const PATHS_CAP: usize = 64;
    /// The most bytes that a path may have. Linux opens no longer ones.
    pub const PATH_LENGTH_CAP: usize = 4095;

    /// Checks the rules of the specification. The error is the rule that is broken.
    pub(crate) fn check(&self) -> Result<(), String> {
        for (name, paths) in [("read", &self.read), ("in_use", &self.in_use)] {
            if paths.len() > Self::PATHS_CAP {
                return Err(format!("`{name}` has {} paths, more than {}", paths.len(), Self::PATHS_CAP));
            }
            paths.iter().try_for_each(|path| check_path(path).map_err(|problem| format!("`{name}` has {problem}")))?;
        }
        Ok(())
    }
}

fn check_path(path: &Path) -> Result<(), String> {
    let bytes = path.as_os_str().as_encoded_bytes();
    if bytes.len() > Prepared::PATH_LENGTH_CAP {
        return Err(format!("a path of {} bytes, more than {}", bytes.len(), Prepared::PATH_LENGTH_CAP));
    }
    if bytes.contains(&0) {
        return Err(format!("the path {path:?}, which contains NUL"));
    }
    if !path.is_absolute() {
        return Err(format!("the path {path:?}, which is not absolute"));
    }
    if path.components().any(|component| component == Component::ParentDir) {
        return Err(format!("the path {path:?}, which contains `..`"));
    }
    Ok(())
}

/// A request to prepare a model for packing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PackRequest {
    /// The user's file or folder, as an absolute path.
    pub path: PathBuf,
    /// An empty temporary folder that the runner may fill and return as [`PackResponse::path`].
    pub scratch: PathBuf,
    /// `[runner.opts]`.
    #[serde(default, skip_serializing_if = "Options::is_empty")]
    pub options: Options,
    /// Options for packing alone; they are not stored. The runner warns about unknown ones, as about those of the model.
    #[serde(default, skip_serializing_if = "Options::is_empty")]
    pub pack_options: Options,
    /// Paths of files and folders in `path` that are not part of the model. They need not be readable.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leave_out: Vec<String>,
    /// Inputs that the user declares, in order. `None`: the user declares none, and the runner returns those of the model.
    /// An empty list declares that the model has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Vec<DeclaredTensor>>,
    /// Outputs that the user declares, as [`inputs`](Self::inputs).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs: Option<Vec<DeclaredTensor>>,
    /// The structure of `model/` that the user asks for; `None` leaves it to the runner. The runner refuses a model that cannot
    /// have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner_compat_version: Option<u64>,
}

/// A runner's answer to [`PackRequest`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PackResponse {
    /// The file or folder that becomes `model/`.
    pub path: PathBuf,
    /// The framework versions that run the model; `None`: exactly the runner's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required_framework_version: Option<String>,
    /// Options to be stored in `[runner.opts]`, where the user has not set them.
    #[serde(default, skip_serializing_if = "Options::is_empty")]
    pub options: Options,
    /// Inputs read from the model, in order.
    #[serde(default)]
    pub inputs: Vec<DeclaredTensor>,
    /// Outputs read from the model, in order.
    #[serde(default)]
    pub outputs: Vec<DeclaredTensor>,
    /// The names inside the model of inputs that a call may leave out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub optional_inputs: Vec<String>,
    /// The names inside the model of outputs that a call may not return.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub optional_outputs: Vec<String>,
    /// The ways in which what [`PackRequest`] declares contradicts the model, a plain sentence each
    /// ([`signature`](crate::signature) makes them).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mismatches: Vec<String>,
    /// The structure that `model/` has, for a runner that reads several; `None`: the one of the runner's descriptor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner_compat_version: Option<u64>,
}
