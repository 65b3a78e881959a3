//! Code that the examples share.

use std::collections::BTreeMap;

use carton_core::metadata::TensorSpec;
use carton_core::runner::EmbeddedRunner;
use carton_core::{Dimension, NumericTensor, SymbolicShape, Tensor, TensorError};

/// The runners that are linked into the examples, so that cartons for ONNX need no installed runner, only the
/// library of ONNX Runtime. Other cartons use a runner
/// that `carton runner install` has installed.
pub(crate) static RUNNERS: &[EmbeddedRunner] = &[carton_runner_onnx::RUNNER];

/// Makes tensors of zeros for declared inputs.
///
/// # Errors
/// An input has strings, or its shape is too large.
#[allow(dead_code, reason = "not every example uses all of this module")]
pub(crate) fn zeros(inputs: &[TensorSpec]) -> Result<BTreeMap<String, Tensor>, TensorError> {
    let zeros = |input: &TensorSpec| Ok(NumericTensor::zeroed(input.dtype, sizes(&input.shape))?.into());
    inputs.iter().map(|input| Ok((input.name.clone(), zeros(input)?))).collect()
}

/// Returns a shape that the declaration allows: symbols and open dimensions become 1.
pub(crate) fn sizes(shape: &SymbolicShape) -> Vec<usize> {
    let SymbolicShape::Dimensions(dimensions) = shape else { return Vec::new() };
    let size = |dimension: &Dimension| match dimension {
        Dimension::Fixed(size) => usize::try_from(*size).unwrap_or(1),
        _ => 1,
    };
    dimensions.iter().map(size).collect()
}
