//! `StringTensor` and `BytesTensor`: elements of any length.

use std::sync::Arc;

use super::error::{TensorError, check_rank};
use super::shape::element_count;
use crate::DataType;

mod sealed {
    pub trait Sealed {}
}

/// An element of any length: a string, or bytes.
pub trait VariableElement: AsRef<[u8]> + Clone + PartialEq + std::fmt::Debug + sealed::Sealed {
    /// The dtype of tensors with this element.
    const DTYPE: DataType;
}

impl sealed::Sealed for String {}
impl VariableElement for String {
    const DTYPE: DataType = DataType::String;
}

impl sealed::Sealed for Vec<u8> {}
impl VariableElement for Vec<u8> {
    const DTYPE: DataType = DataType::Bytes;
}

/// Elements of any length in C order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariableTensor<T> {
    shape: Vec<usize>,
    elements: Arc<Vec<T>>,
}

/// Strings in C order.
pub type StringTensor = VariableTensor<String>;

/// Bytes in C order, each element as many as it has.
pub type BytesTensor = VariableTensor<Vec<u8>>;

impl<T: VariableElement> VariableTensor<T> {
    /// Makes a tensor of `elements` in C order.
    ///
    /// # Errors
    /// [`TensorError::TooManyDimensions`], [`TensorError::TooLarge`], [`TensorError::SizeMismatch`].
    pub fn new(elements: Vec<T>, shape: Vec<usize>) -> Result<Self, TensorError> {
        check_rank(&shape)?;
        let dtype = T::DTYPE;
        let Some(expected) = element_count(&shape) else {
            return Err(TensorError::TooLarge { dtype, shape });
        };
        if elements.len() != expected {
            let found = elements.len();
            return Err(TensorError::SizeMismatch { dtype, shape, expected, found, unit: "elements" });
        }
        Ok(Self { shape, elements: Arc::new(elements) })
    }

    /// Makes a tensor without checks. The caller guarantees that the number of elements matches the shape.
    pub(crate) fn from_parts(elements: Vec<T>, shape: Vec<usize>) -> Self {
        Self { shape, elements: Arc::new(elements) }
    }

    /// The dimensions.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The elements in C order.
    #[must_use]
    pub fn elements(&self) -> &[T] {
        &self.elements
    }
}
