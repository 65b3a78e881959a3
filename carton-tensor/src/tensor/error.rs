//! Why tensors are refused.

use super::shape::MAX_RANK;
use crate::DataType;

/// The reason that a tensor cannot be built or viewed as requested.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TensorError {
    /// The product of the dimensions, or the bytes they need, does not fit in memory.
    #[error("shape {shape:?} of {dtype} elements is too large")]
    TooLarge {
        /// The element type.
        dtype: DataType,
        /// The dimensions.
        shape: Vec<usize>,
    },
    /// The size of the data does not match dtype and shape.
    #[error("shape {shape:?} of {dtype} needs {expected} {unit}, found {found}")]
    SizeMismatch {
        /// The element type.
        dtype: DataType,
        /// The dimensions.
        shape: Vec<usize>,
        /// The size that dtype and shape need.
        expected: usize,
        /// The size that was given.
        found: usize,
        /// `bytes` or `elements`.
        unit: &'static str,
    },
    /// The shape has more dimensions than [`MAX_RANK`].
    #[error("a shape of {found} dimensions, expected at most {MAX_RANK}")]
    TooManyDimensions {
        /// The number of dimensions.
        found: usize,
    },
    /// The element type of the tensor is not the requested one.
    #[error("expected a tensor of {expected}, found one of {found}")]
    WrongDataType {
        /// The requested element type.
        expected: String,
        /// The element type found, or `nested`.
        found: String,
    },
    /// The data does not start at a multiple of the element's alignment, so it cannot be viewed in place.
    #[error("{dtype} data at address {address:#x} is not aligned to {alignment} bytes")]
    Misaligned {
        /// The element type.
        dtype: DataType,
        /// The address of the data.
        address: usize,
        /// The required alignment in bytes.
        alignment: usize,
    },
    /// A nested tensor may not hold nested tensors (spec/carton-format.md, `tensor_data`).
    #[error("element {index} of a nested tensor is itself nested")]
    NestedInNested {
        /// The position of the nested element.
        index: usize,
    },
    /// A tensor without elements is taken for the list of its parts, and claims too many of them.
    #[error("a tensor without elements of {found} parts, expected at most {limit}")]
    TooManyParts {
        /// The number of parts.
        found: usize,
        /// The most that are accepted.
        limit: usize,
    },
    /// The tensors of a nested tensor must share one dtype.
    #[error("element {index} of a nested tensor is {found}, the ones before are {expected}")]
    MixedNested {
        /// The position of the element with another dtype.
        index: usize,
        /// The dtype of the first tensor.
        expected: DataType,
        /// The dtype of the element at this position.
        found: DataType,
    },
}

/// Refuses shapes of more than [`MAX_RANK`] dimensions.
pub(super) fn check_rank(shape: &[usize]) -> Result<(), TensorError> {
    if shape.len() > MAX_RANK { Err(TensorError::TooManyDimensions { found: shape.len() }) } else { Ok(()) }
}
