//! `carton tensor diff`: shows what differs between the tensors of two sources.

use carton_tensor::Tolerance;
use carton_tensor::difference::{DifferenceOptions, TensorsDifference};
use carton_tensor_files::{DiffOptions, diff};
use serde::Serialize;

use super::Context;
use crate::args::{OnlyArgs, SourceArgs, TensorDiffArgs};
use crate::failure::{Exit, Failure};
use crate::interrupt;
use crate::tensors::{differences, summary_of_differences};

/// The output of `--json`.
#[derive(Serialize)]
struct Report<'a> {
    a: &'a str,
    b: &'a str,
    /// Whether no tensor differs, and all could be compared.
    is_same: bool,
    #[serde(flatten)]
    found: &'a TensorsDifference,
}

pub(super) async fn run(arguments: TensorDiffArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let output = context.output;
    let TensorDiffArgs { a, b, only: OnlyArgs { only }, elements, read_all, links, dense, digests } = arguments;
    let open = async |source| {
        let everything = OnlyArgs { only: Vec::new() };
        let source = super::open_some(SourceArgs { source, links }, everything, dense, context).await?;
        Ok::<_, Failure>(super::with_digests(source, digests, context))
    };
    let (a, b) = (open(a).await?, open(b).await?);
    let mut options = DiffOptions::default();
    options.only = only;
    let tolerance = Tolerance::new(elements.rtol, elements.atol);
    options.elements = DifferenceOptions::default().tolerance(tolerance).read_all(read_all);
    let progress = output.progress().clone();
    let (place_a, place_b) = (a.place().to_owned(), b.place().to_owned());
    let found = interrupt::blocking(move |token| Ok(diff(&a, &b, &options, &progress.context(token))?)).await?;
    output.progress().finish();
    let exit = match (found.is_same(), found.has_differences()) {
        (true, _) => Exit::Ok,
        (false, true) => Exit::Different,
        (false, false) => Exit::Failure,
    };
    if output.is_json() {
        output.json(&Report { a: &place_a, b: &place_b, is_same: found.is_same(), found: &found })?;
        return Ok(exit);
    }
    let table = if found.is_same() { String::new() } else { differences(&found.tensors, "", output) };
    output.text(&format!("{table}{}\n", summary_of_differences(&found)))?;
    Ok(exit)
}
