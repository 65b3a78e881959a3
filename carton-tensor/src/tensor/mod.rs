//! `Tensor` and its three kinds: numbers (in [`numeric`]), strings, and lists of tensors.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::{DataType, Element, ElementKind};

mod error;
mod numeric;
mod shape;

pub use error::TensorError;
use error::check_rank;
pub use numeric::NumericTensor;
pub use shape::{MAX_RANK, element_count};

/// Tensors by name, such as the inputs or the outputs of a call.
pub type Tensors = BTreeMap<String, Tensor>;

/// A value passed to or returned by a model.
///
/// `==` tests for exact copies: same kind, dtype, shape and bytes. So `0.0` does not equal `-0.0`, and NaN equals a NaN with the same
/// bits. To compare numbers use [`allclose`](crate::allclose).
///
/// ```
/// use carton_tensor::{DataType, Tensor};
/// let numbers = Tensor::from_vec(vec![1_i32, 2, 3, 4, 5, 6], vec![2, 3])?;
/// let scalar = Tensor::scalar(0.5_f32);
/// let words = Tensor::from_strings(["a", "b"], vec![2])?;
/// let ragged = Tensor::nested(vec![Tensor::scalar(1_u8), Tensor::from_vec(vec![2_u8, 3], vec![2])?])?;
/// assert_eq!(numbers.shape(), Some([2, 3].as_slice()));
/// assert_eq!(scalar.dtype(), Some(DataType::Float32));
/// assert_eq!(words.dtype(), Some(DataType::String));
/// assert_eq!(ragged.shape(), None);
/// # Ok::<(), carton_tensor::TensorError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Tensor {
    /// Numbers.
    Numeric(NumericTensor),
    /// Strings.
    String(StringTensor),
    /// A list of tensors of one dtype, whose shapes may differ (a ragged tensor).
    Nested(NestedTensor),
}

impl Tensor {
    /// Makes a numeric tensor of a vector of elements in C order, without copying it.
    ///
    /// # Errors
    /// [`TensorError::TooLarge`], [`TensorError::TooManyDimensions`], [`TensorError::SizeMismatch`].
    pub fn from_vec<T: Element>(elements: Vec<T>, shape: Vec<usize>) -> Result<Self, TensorError> {
        NumericTensor::from_vec(elements, shape).map(Self::Numeric)
    }

    /// Makes a numeric tensor of rank 0.
    #[must_use]
    pub fn scalar<T: Element>(value: T) -> Self {
        Self::Numeric(NumericTensor::scalar(value))
    }

    /// Makes a string tensor of elements in C order.
    ///
    /// # Errors
    /// [`TensorError::TooLarge`], [`TensorError::TooManyDimensions`], [`TensorError::SizeMismatch`].
    pub fn from_strings<S: Into<String>>(
        elements: impl IntoIterator<Item = S>,
        shape: Vec<usize>,
    ) -> Result<Self, TensorError> {
        StringTensor::new(elements.into_iter().map(Into::into).collect(), shape).map(Self::String)
    }

    /// Makes a nested tensor of tensors of one dtype.
    ///
    /// # Errors
    /// [`TensorError::NestedInNested`], [`TensorError::MixedNested`].
    pub fn nested(elements: Vec<Self>) -> Result<Self, TensorError> {
        NestedTensor::new(elements).map(Self::Nested)
    }

    /// The element type; `None` only for an empty nested tensor.
    #[must_use]
    pub fn dtype(&self) -> Option<DataType> {
        match self {
            Self::Numeric(tensor) => Some(tensor.dtype()),
            Self::String(_) => Some(DataType::String),
            Self::Nested(tensor) => tensor.dtype(),
        }
    }

    /// What the elements are, where the dtype does not say it: [`NumericTensor::element_kind`]. For a nested tensor, that of the first of its
    /// tensors that has one.
    #[must_use]
    pub fn element_kind(&self) -> Option<ElementKind> {
        match self {
            Self::Numeric(tensor) => tensor.element_kind(),
            Self::String(_) => None,
            Self::Nested(tensor) => tensor.elements().iter().find_map(Self::element_kind),
        }
    }

    /// Says what the elements are, also those of a nested tensor: [`NumericTensor::with_element_kind`].
    ///
    /// # Errors
    /// [`TensorError::WrongDataType`], [`TensorError::NotOfKind`].
    pub fn with_element_kind(self, kind: ElementKind) -> Result<Self, TensorError> {
        match self {
            Self::Numeric(tensor) => tensor.with_element_kind(kind).map(Self::Numeric),
            Self::String(_) => {
                Err(TensorError::WrongDataType { expected: kind.to_string(), found: DataType::String.to_string() })
            }
            Self::Nested(nested) => {
                let elements = nested.elements().iter().cloned().enumerate().map(|(position, element)| {
                    element.with_element_kind(kind).map_err(|error| match error {
                        TensorError::NotOfKind { kind, index, found, .. } => {
                            TensorError::NotOfKind { kind, tensor: Some(position), index, found }
                        }
                        other => other,
                    })
                });
                Self::nested(elements.collect::<Result<_, _>>()?)
            }
        }
    }

    /// Copies the numbers of the tensor into memory that no other process can write to. Strings are always in such memory.
    ///
    /// # Errors
    /// [`TensorError::TooLarge`] if there is not enough memory.
    pub fn copied(&self) -> Result<Self, TensorError> {
        match self {
            Self::Numeric(tensor) => tensor.copied().map(Self::Numeric),
            Self::String(_) => Ok(self.clone()),
            Self::Nested(nested) => Self::nested(nested.elements().iter().map(Self::copied).collect::<Result<_, _>>()?),
        }
    }

    /// The name of the type of the elements: that of their kind, otherwise that of their dtype. `None` only for an empty nested tensor.
    #[must_use]
    pub fn element_name(&self) -> Option<&'static str> {
        self.element_kind().map(ElementKind::name).or_else(|| self.dtype().map(DataType::name))
    }

    /// The dimensions; `None` for a nested tensor, whose elements each have their own.
    #[must_use]
    pub fn shape(&self) -> Option<&[usize]> {
        match self {
            Self::Numeric(tensor) => Some(tensor.shape()),
            Self::String(tensor) => Some(tensor.shape()),
            Self::Nested(_) => None,
        }
    }

    /// Returns the numeric tensor, if it is one.
    #[must_use]
    pub fn as_numeric(&self) -> Option<&NumericTensor> {
        match self {
            Self::Numeric(tensor) => Some(tensor),
            _ => None,
        }
    }

    /// Returns the string tensor, if it is one.
    #[must_use]
    pub fn as_string(&self) -> Option<&StringTensor> {
        match self {
            Self::String(tensor) => Some(tensor),
            _ => None,
        }
    }

    /// Returns the nested tensor, if it is one.
    #[must_use]
    pub fn as_nested(&self) -> Option<&NestedTensor> {
        match self {
            Self::Nested(tensor) => Some(tensor),
            _ => None,
        }
    }
}

impl From<NumericTensor> for Tensor {
    fn from(tensor: NumericTensor) -> Self {
        Self::Numeric(tensor)
    }
}

impl From<StringTensor> for Tensor {
    fn from(tensor: StringTensor) -> Self {
        Self::String(tensor)
    }
}

impl From<NestedTensor> for Tensor {
    fn from(tensor: NestedTensor) -> Self {
        Self::Nested(tensor)
    }
}

/// Strings in C order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StringTensor {
    shape: Vec<usize>,
    elements: Arc<Vec<String>>,
}

impl StringTensor {
    /// Makes a tensor of `elements` in C order.
    ///
    /// # Errors
    /// [`TensorError::TooManyDimensions`], [`TensorError::TooLarge`], [`TensorError::SizeMismatch`].
    pub fn new(elements: Vec<String>, shape: Vec<usize>) -> Result<Self, TensorError> {
        check_rank(&shape)?;
        let dtype = DataType::String;
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
    pub(crate) fn from_parts(elements: Vec<String>, shape: Vec<usize>) -> Self {
        Self { shape, elements: Arc::new(elements) }
    }

    /// The dimensions.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The strings in C order.
    #[must_use]
    pub fn elements(&self) -> &[String] {
        &self.elements
    }
}

/// A list of tensors of one dtype whose shapes may differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NestedTensor {
    elements: Arc<Vec<Tensor>>,
}

impl NestedTensor {
    /// Makes a nested tensor of `elements`, in order.
    ///
    /// # Errors
    /// [`TensorError::NestedInNested`], [`TensorError::MixedNested`].
    pub fn new(elements: Vec<Tensor>) -> Result<Self, TensorError> {
        let mut first = None;
        for (index, element) in elements.iter().enumerate() {
            let found = match element {
                Tensor::Nested(_) => return Err(TensorError::NestedInNested { index }),
                Tensor::Numeric(tensor) => tensor.dtype(),
                Tensor::String(_) => DataType::String,
            };
            let expected = *first.get_or_insert(found);
            if expected != found {
                return Err(TensorError::MixedNested { index, expected, found });
            }
        }
        Ok(Self { elements: Arc::new(elements) })
    }

    /// The tensors in order. None of them is nested.
    #[must_use]
    pub fn elements(&self) -> &[Tensor] {
        &self.elements
    }

    /// The dtype that all elements share; `None` if there are no elements.
    #[must_use]
    pub fn dtype(&self) -> Option<DataType> {
        self.elements.first().and_then(Tensor::dtype)
    }
}

#[cfg(test)]
mod tests;
