//! `carton tensor validate`: compares tensors with the description of a kind of model.

use std::collections::BTreeMap;
use std::path::Path;

use carton_tensor::any_file;
use carton_tensor::weights::{
    self, Description, DescriptionError, Filter, LoadOptions, LoaderStatistics, Validation, Weights,
};
use serde::Serialize;

use super::{Context, numbers};
use crate::args::TensorValidateArgs;
use crate::failure::{Exit, Failure};
use crate::interrupt;
use crate::output::Role;
use crate::progress::WorkContext;
use crate::tensor_files::{Source, TensorFileError};
use crate::text::{count, one_line};

/// The output of `--json`.
#[derive(Serialize)]
struct Report {
    passed: bool,
    #[serde(flatten)]
    validation: Validation,
}

#[derive(Debug, thiserror::Error)]
#[error("there is no description `{name}`, neither built in nor in a file")]
struct NoDescription {
    name: String,
    source: Option<DescriptionError>,
}

pub(super) async fn run(arguments: TensorValidateArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let output = context.output;
    let description = description(&arguments.model, arguments.size.into_iter().collect())?;
    let validation = match super::try_open_source(arguments.source, context).await? {
        // A file without bytes has no tensors, like one with an empty list of them.
        Err(TensorFileError::File(any_file::TensorFileError::Empty { place, .. })) => {
            Validation::of_no_tensors(&place, &description)
        }
        opened => {
            let source = opened?.with_max_dense(arguments.dense.max_dense);
            let source = super::with_digests(source, arguments.digests, context);
            let progress = output.progress().clone();
            interrupt::blocking(move |token| validate(&source, &description, progress.context(token))).await?
        }
    };
    output.progress().finish();
    let passed = validation.is_valid();
    let exit = if passed { Exit::Ok } else { Exit::Integrity };
    if output.is_json() {
        output.json(&Report { passed, validation })?;
        return Ok(exit);
    }
    let mut text = String::new();
    for finding in &validation.errors {
        text.push_str(&format!("{} {}\n", output.paint(Role::Bad, "error"), one_line(&finding.message)));
    }
    for finding in &validation.warnings {
        text.push_str(&format!("{} {}\n", output.paint(Role::Notice, "warning"), one_line(&finding.message)));
    }
    let (errors, warnings) = (count(validation.errors.len(), "error"), count(validation.warnings.len(), "warning"));
    let verdict = if passed { output.paint(Role::Good, "OK") } else { output.paint(Role::Bad, "FAILED") };
    let (tensors, model) = (count(validation.n_tensors, "tensor"), one_line(&validation.model));
    text.push_str(&format!(
        "{verdict} {tensors} with {} parameters against {model}: {errors}, {warnings}\n",
        validation.n_parameters
    ));
    output.text(&text)?;
    Ok(exit)
}

/// Returns a built-in description, or the one in a file, with these sizes in place of its own.
fn description(name: &str, sizes: BTreeMap<String, usize>) -> Result<Description, Failure> {
    if let Some(text) = Description::built_in_text(name) {
        return Description::with_sizes(text, &sizes).map_err(Failure::usage);
    }
    let path = Path::new(name);
    if !path.exists() {
        let error = NoDescription { name: name.to_owned(), source: None };
        let names = Description::BUILT_IN.join("` or `");
        return Err(Failure::usage(error).hint(format!("name `{names}`, or a TOML file")));
    }
    Description::open_with_sizes(path, &sizes).map_err(Failure::new)
}

fn validate(source: &Source, description: &Description, context: WorkContext) -> Result<Validation, Failure> {
    match source.file() {
        None => {
            let mut tensors = BTreeMap::new();
            for listed in source.listed() {
                context.check()?;
                if let Some(tensor) = numbers(source.read(&listed.name)?) {
                    tensors.insert(listed.name.clone(), tensor);
                }
            }
            let weights = Weights { tensors, statistics: LoaderStatistics::default() };
            weights::validate_weights(&weights, description).map_err(Failure::new)
        }
        Some(file) => {
            let names = source.listed().iter().map(|listed| listed.name.as_str());
            // If only a part of the file was requested, the rest is not missing.
            let filter = match file.entries().count() == source.listed().len() {
                true => Filter::ALL,
                false => Filter::names(names),
            };
            let options = LoadOptions::default().filter(filter).context(context);
            Ok(weights::validate(file, description, &options).map_err(TensorFileError::from)?)
        }
    }
}
