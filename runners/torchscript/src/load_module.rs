//! From the bytes of a TorchScript file to a module.

use std::sync::Arc;

use carton_runner_interface::runner::RunnerError;
use carton_tensor::Storage;

use crate::archive;
use crate::libtorch::{Device, Module};

/// Checks the archive in `bytes` and loads its module; `path` is for messages.
pub(crate) fn load_module(path: &str, bytes: Arc<dyn Storage>, device: Device) -> Result<Module, RunnerError> {
    let about =
        |error: RunnerError| RunnerError { message: format!("cannot load `{path}`: {}", error.message), ..error };
    archive::check(bytes.bytes()).map_err(about)?;
    Module::load(bytes, device).map_err(about)
}
