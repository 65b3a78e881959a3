//! The files of a model as ONNX Runtime needs them: the `.onnx` file is read and checked, and external data is found and mapped.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use carton_runner_interface::runner::{ModelFiles, RunnerError};
use carton_tensor::Storage;

use crate::model_file::{ExternalTensor, ModelFile};
use crate::model_location;

/// The source of a model's files.
pub(crate) trait Files {
    /// Paths relative to the model, with `/`.
    fn paths(&self) -> Vec<String>;
    /// The folder that holds them, if they are in one.
    fn directory(&self) -> Option<&Path>;
    /// Maps the bytes of one file.
    fn map(&self, path: &str) -> std::io::Result<Arc<dyn Storage>>;
}

impl Files for ModelFiles {
    fn paths(&self) -> Vec<String> {
        ModelFiles::paths(self)
    }

    fn directory(&self) -> Option<&Path> {
        ModelFiles::directory(self)
    }

    fn map(&self, path: &str) -> std::io::Result<Arc<dyn Storage>> {
        ModelFiles::map(self, path)
    }
}

/// A checked model that can be given to ONNX Runtime.
pub(crate) struct ModelSource {
    /// The path of the `.onnx` file among the model's files.
    pub(crate) path: String,
    /// The parsed `.onnx` file.
    pub(crate) file: ModelFile,
    /// The bytes of the `.onnx` file.
    pub(crate) bytes: Arc<dyn Storage>,
    /// The path of the `.onnx` file on disk, where the model's files are in a folder, and external data is too. ONNX Runtime follows no link
    /// that leaves the folder. The host has checked such links already: it loads no model with one that the user did not allow.
    pub(crate) on_disk: Option<PathBuf>,
    /// External data by its location as written in the `.onnx` file.
    pub(crate) external: BTreeMap<String, Arc<dyn Storage>>,
}

impl ModelSource {
    /// Finds the `.onnx` file among `files` (`wanted` names it where there are several), reads it and maps its
    /// external data.
    ///
    /// # Errors
    /// There is no such file, or it is not a model; external data is outside the folder, missing, or shorter than stated.
    pub(crate) fn open(files: &dyn Files, wanted: Option<&str>) -> Result<Self, RunnerError> {
        let path = model_location::MODEL_FILE.choose(&files.paths(), wanted)?;
        let bytes = files.map(&path).map_err(|error| RunnerError::new(format!("reading `{path}`: {error}")))?;
        let file = ModelFile::parse(bytes.bytes()).map_err(|error| RunnerError::new(format!("`{path}` is {error}")))?;
        let mut external = BTreeMap::new();
        let mut directory = files.directory();
        for tensor in &file.external {
            if !external.contains_key(&tensor.location) {
                let data_path = model_location::external_path(&path, &tensor.location)
                    .map_err(|error| RunnerError::new(format!("`{path}`: {}", error.message)))?;
                let data = files.map(&data_path).map_err(|error| {
                    RunnerError::new(format!("reading `{data_path}`, which holds data of `{path}`: {error}"))
                })?;
                directory = directory.filter(|directory| is_in(directory, &data_path));
                external.insert(tensor.location.clone(), data);
            }
            if let Some(data) = external.get(&tensor.location) {
                let data: &Arc<dyn Storage> = data;
                check_range(tensor, data.bytes().len() as u64)?;
            }
        }
        let on_disk = directory.map(|directory| directory.join(&path));
        Ok(Self { path, file, bytes, on_disk, external })
    }
}

/// Whether a file of a folder lies there after links were followed.
fn is_in(directory: &Path, path: &str) -> bool {
    match (directory.canonicalize(), directory.join(path).canonicalize()) {
        (Ok(directory), Ok(file)) => file.starts_with(directory),
        _ => false,
    }
}

/// Checks that an external tensor's data is inside its file and has the size that type and dimensions require.
///
/// # Errors
/// The file is too short, or the stated length differs from the required one.
pub(crate) fn check_range(tensor: &ExternalTensor, file_length: u64) -> Result<(), RunnerError> {
    let ExternalTensor { name, location, .. } = tensor;
    let offset = tensor.offset.unwrap_or(0);
    let available = file_length.checked_sub(offset);
    let length = tensor.length.or(available);
    match (available, length) {
        (Some(available), Some(length)) if length <= available => {
            if let Some(n_bytes) = tensor.n_bytes
                && n_bytes != length
            {
                return Err(RunnerError::new(format!(
                    "tensor `{name}` needs {n_bytes} bytes, but {length} are set aside for it in `{location}`"
                )));
            }
            Ok(())
        }
        _ => Err(RunnerError::new(format!(
            "`{location}` is too short for tensor `{name}`: expected {} bytes at {offset}, found a file of {file_length}",
            tensor.length.or(tensor.n_bytes).unwrap_or(0)
        ))),
    }
}
