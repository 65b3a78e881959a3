//! The inputs of calls, and the time that they may take.

use std::sync::Arc;
use std::time::Duration;

use carton_core::{Infer, Inputs, SealedInputs};
use pyo3::prelude::*;

use crate::errors;

/// The inputs of one call.
pub(crate) enum CallInputs {
    Tensors(Inputs),
    Sealed(Arc<SealedInputs>),
}

/// Sets the time that a call may take, if it is limited.
pub(crate) fn limited(infer: Infer<'_>, timeout: Option<Duration>) -> Infer<'_> {
    match timeout {
        Some(timeout) => infer.timeout(timeout),
        None => infer,
    }
}

/// A duration in seconds.
///
/// # Errors
/// It is negative, infinite, too large or not a number.
pub(crate) fn duration(py: Python<'_>, seconds: f64) -> PyResult<Duration> {
    let text = || format!("expected a number of seconds that is finite and not negative, found {seconds}");
    Duration::try_from_secs_f64(seconds).map_err(|_| errors::invalid(py, &text()))
}
