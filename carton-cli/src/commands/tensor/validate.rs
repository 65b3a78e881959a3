//! `carton tensor validate`: compares tensors with the description of a kind of model.

use carton_tensor::any_file;
use carton_tensor::weights::Validation;
use carton_tensor_files::{TensorFilesError, description, validate};
use serde::Serialize;

use super::Context;
use crate::args::TensorValidateArgs;
use crate::failure::{Exit, Failure};
use crate::interrupt;
use crate::output::Role;
use crate::text::{count, one_line};

/// The output of `--json`.
#[derive(Serialize)]
struct Report {
    passed: bool,
    #[serde(flatten)]
    validation: Validation,
}

pub(super) async fn run(arguments: TensorValidateArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let output = context.output;
    let description = description(&arguments.model, &arguments.size.into_iter().collect())?;
    let opened = super::try_open_source(arguments.source, context).await?;
    let validation = match &opened {
        // A file without bytes has no tensors, like one with an empty list of them.
        Err(TensorFilesError::File(error)) if let any_file::TensorFileError::Empty { place, .. } = &**error => {
            Validation::of_no_tensors(place, &description)
        }
        _ => {
            let source = opened?.with_max_dense(arguments.dense.max_dense);
            let source = super::with_digests(source, arguments.digests, context);
            let progress = output.progress().clone();
            interrupt::blocking(move |token| Ok(validate(&source, &description, progress.context(token))?)).await?
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
