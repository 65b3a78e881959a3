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
    Module::load(bytes, device).map_err(|error| about(with_library(error)))
}

/// Adds the option to the error of a model whose operators are in a library of their own.
fn with_library(error: RunnerError) -> RunnerError {
    let texts = std::iter::once(&error.message).chain(&error.causes);
    let Some(package) = texts.into_iter().find_map(|text| package_of(text)).map(str::to_owned) else { return error };
    let hint = format!(
        "the operators `{package}::…` are in a library of their own, which the option libraries = [\"{package}\"] loads \
         (`--opt libraries={package}`)"
    );
    error.with_hint(hint)
}

/// The namespace of an operator that libtorch does not know.
fn package_of(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("Unknown builtin op: ")?;
    let (package, _) = rest.split_once("::")?;
    let is_name = |package: &str| package.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    Some(package).filter(|package| !package.is_empty() && is_name(package) && !matches!(*package, "aten" | "prim"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_name_their_package() {
        let text = "Unknown builtin op: torchvision::nms.\nCould not find any similar ops to torchvision::nms.";
        assert_eq!(package_of(text), Some("torchvision"));
        assert_eq!(package_of("Unknown builtin op: aten::new_one."), None);
        let error = with_library(RunnerError::new(text));
        assert!(error.hint.is_some_and(|hint| hint.contains("libraries = [\"torchvision\"]")));
    }
}
