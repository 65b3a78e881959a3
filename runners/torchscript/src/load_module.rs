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

/// Replaces libtorch's trace by one sentence that names the missing operator, and adds a hint with the option `libraries`.
fn with_library(error: RunnerError) -> RunnerError {
    let mut texts = std::iter::once(&error.message).chain(&error.causes);
    let Some((package, operator)) = texts.find_map(|text| unknown_operator(text)) else { return error };
    let message = format!("libtorch has no operator `{package}::{operator}`");
    let hint = format!(
        "the operators `{package}::…` are in a library of their own, which the option libraries = [\"{package}\"] loads \
         (`--opt libraries={package}`)"
    );
    RunnerError { message, causes: Vec::new(), ..error }.with_hint(hint)
}

/// The namespace and the name of an operator that libtorch does not know.
fn unknown_operator(text: &str) -> Option<(&str, &str)> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let (_, rest) = text.split_once("Unknown builtin op: ")?;
    let (package, rest) = rest.split_once("::")?;
    let operator = rest.split(|c| !is_name(c)).next()?;
    let are_names = !package.is_empty() && package.chars().all(is_name) && !operator.is_empty();
    // libtorch's own operators are in no library that an option could name.
    (are_names && !matches!(package, "aten" | "prim")).then_some((package, operator))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_name_their_package() {
        let text = "Unknown builtin op: torchvision::nms.\nCould not find any similar ops to torchvision::nms.";
        assert_eq!(unknown_operator(text), Some(("torchvision", "nms")));
        assert_eq!(unknown_operator("Unknown builtin op: aten::new_one."), None);
        let error = with_library(RunnerError::new(text));
        assert_eq!(error.message, "libtorch has no operator `torchvision::nms`");
        assert!(error.hint.is_some_and(|hint| hint.contains("libraries = [\"torchvision\"]")));
    }
}
