//! Compares what a model returns with the outputs that its carton is about to declare.
//!
//! Exporters state shapes that their models do not have. If the outputs are those that the model itself declares, they are corrected; what
//! the user declared stays as it is.

use std::time::Duration;

use carton_format::causes::in_one_line;
use carton_format::metadata::{Draft, DraftReference, Reference, Signature, TensorSpec};
use carton_format::signature::{Misfit, SignatureError, check_outputs, fit_outputs};

use super::warnings::Warnings;
use super::zeros::{self, ATTEMPTS};
use crate::model::Observed;
use crate::packed::{PackWarning, ZeroRun};
use crate::{Carton, Error, ErrorKind, Inputs, Tensors};

/// The time that a model has to run on zeros. It may be one that generates until it is satisfied.
const ZERO_TIMEOUT: Duration = Duration::from_secs(30);

/// Compares observed outputs with `outputs`, which become what they must be to hold.
pub(super) fn correct(outputs: &mut [TensorSpec], observed: &Observed, warnings: &mut Warnings) {
    let misfits = fit_outputs(outputs, observed.bindings.clone(), &observed.outputs);
    warnings.extend(misfits.into_iter().map(|misfit| {
        let Misfit { output, declared, corrected, found } = misfit;
        PackWarning::ShapeCorrected { output, declared, corrected, found }
    }));
}

/// Compares observed outputs with `outputs`, and returns all differences.
pub(super) fn compare(outputs: &[TensorSpec], observed: &Observed) -> Result<(), SignatureError> {
    let signature = Signature::new(None, Some(outputs.to_vec()));
    let tensors = observed.outputs.iter().map(|(name, tensor)| (name.as_str(), tensor));
    check_outputs(&signature, &mut observed.bindings.clone(), tensors)
}

/// Runs the model on the inputs of the draft's self-tests, and corrects `outputs` by what it returns. A test that fails is passed over:
/// running the self-tests reports it.
///
/// # Errors
/// The work was interrupted.
pub(super) async fn correct_by_self_tests(
    model: &Carton,
    draft: &Draft,
    tensors: &Tensors,
    outputs: &mut [TensorSpec],
    warnings: &mut Warnings,
) -> Result<(), Error> {
    for test in &draft.self_tests {
        let tensor = |reference: &DraftReference| match reference {
            DraftReference::Carton(Reference::TensorData(name)) => tensors.get(name).cloned(),
            DraftReference::Carton(Reference::Misc(_)) | DraftReference::File { .. } => None,
        };
        let inputs: Option<Tensors> =
            test.inputs.iter().map(|(name, reference)| Some((name.clone(), tensor(reference)?))).collect();
        let Some(inputs) = inputs else { continue };
        match model.observe(Inputs::Named(inputs), None).await {
            Ok(observed) => correct(outputs, &observed, warnings),
            Err(error) if error.kind() == ErrorKind::Interrupted => return Err(error),
            Err(error) => tracing::debug!("a self-test tells nothing about the outputs: {}", in_one_line(&error)),
        }
    }
    Ok(())
}

/// Runs the model on zeros. Returns what it returned, if it did, and how that went. `None` if the carton declares no outputs.
///
/// # Errors
/// The work was interrupted. An error of the model is a result: a model need not take zeros.
pub(super) async fn run_on_zeros(model: &Carton) -> Result<Option<(ZeroRun, Option<Observed>)>, Error> {
    let metadata = model.package().metadata();
    let Some(Signature { inputs: Some(inputs), outputs: Some(outputs), .. }) = metadata.signature() else {
        return Ok(None);
    };
    if outputs.is_empty() {
        return Ok(None);
    }
    let mut refusal = None;
    let mut last = None;
    for attempt in ATTEMPTS {
        let Some(zeros) = zeros::inputs(inputs, outputs, attempt) else { continue };
        // Signatures without unknown sizes leave nothing to vary.
        if last.as_ref() == Some(&zeros) {
            break;
        }
        match model.observe(Inputs::Named(zeros.clone()), Some(ZERO_TIMEOUT)).await {
            Ok(observed) => return Ok(Some((ZeroRun { ran: true, error: None }, Some(observed)))),
            Err(error) => match error.kind() {
                ErrorKind::Interrupted => return Err(error),
                kind => {
                    refusal = Some(in_one_line(&error));
                    // The runner is fine, and the model may take other sizes.
                    if kind != ErrorKind::Model {
                        break;
                    }
                }
            },
        }
        last = Some(zeros);
    }
    let error = refusal.unwrap_or_else(|| "its inputs would be too large".to_owned());
    Ok(Some((ZeroRun { ran: false, error: Some(error) }, None)))
}
