//! Compares tensors with the description of a kind of model.

use std::collections::BTreeMap;
use std::path::Path;

use carton_tensor::context::Context;
use carton_tensor::weights::{self, Description, Filter, LoadOptions, LoaderStatistics, Validation, Weights};

use crate::error::TensorFilesError;
use crate::source::TensorSource;

/// Returns a built-in description, or the one in a file, with these sizes in place of its own.
///
/// # Errors
/// There is none of this name; it is malformed, or has no such size.
pub fn description(name: &str, sizes: &BTreeMap<String, usize>) -> Result<Description, TensorFilesError> {
    if let Some(text) = Description::built_in_text(name) {
        return Ok(Description::with_sizes(text, sizes)?);
    }
    let path = Path::new(name);
    if !path.exists() {
        return Err(TensorFilesError::NoDescription { name: name.to_owned() });
    }
    Ok(Description::open_with_sizes(path, sizes)?)
}

/// Compares the tensors of `source` with what `description` says of a kind of model.
///
/// # Errors
/// A tensor cannot be read; the work was cancelled. What is wrong with the tensors is in the report.
pub fn validate(
    source: &TensorSource,
    description: &Description,
    context: Context,
) -> Result<Validation, TensorFilesError> {
    match source.file() {
        None => {
            let mut tensors = BTreeMap::new();
            for listed in source.tensors() {
                context.check()?;
                if let Some(tensor) = source.read(&listed.name)?.into_numbers() {
                    tensors.insert(listed.name.clone(), tensor);
                }
            }
            let weights = Weights { tensors, statistics: LoaderStatistics::default() };
            Ok(weights::validate_weights(&weights, description)?)
        }
        Some(file) => {
            let names = source.tensors().iter().map(|listed| listed.name.as_str());
            // If only a part of the file was requested, the rest is not missing.
            let filter = match file.entries().count() == source.tensors().len() {
                true => Filter::ALL,
                false => Filter::names(names),
            };
            let options = LoadOptions::default().filter(filter).context(context);
            Ok(weights::validate(file, description, &options)?)
        }
    }
}
