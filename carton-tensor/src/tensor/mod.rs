//! `Tensor` and its kinds: numbers (in [`numeric`]), strings and bytes (in [`variable`]), and lists of tensors.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::{DataType, Element};

mod error;
mod numeric;
mod shape;
mod variable;

pub use error::TensorError;
pub use numeric::NumericTensor;
pub use shape::{MAX_RANK, element_count};
pub use variable::{BytesTensor, StringTensor, VariableElement, VariableTensor};

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
    /// Bytes, each element as many as it has.
    Bytes(BytesTensor),
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

    /// Makes a tensor of elements of any bytes, in C order: pictures, sounds, messages, as they are.
    ///
    /// ```
    /// use carton_tensor::{DataType, Tensor};
    /// let picture = Tensor::from_bytes([b"\x89PNG\r\n".to_vec()], vec![1])?;
    /// assert_eq!(picture.dtype(), Some(DataType::Bytes));
    /// # Ok::<(), carton_tensor::TensorError>(())
    /// ```
    ///
    /// # Errors
    /// [`TensorError::TooLarge`], [`TensorError::TooManyDimensions`], [`TensorError::SizeMismatch`].
    pub fn from_bytes<B: Into<Vec<u8>>>(
        elements: impl IntoIterator<Item = B>,
        shape: Vec<usize>,
    ) -> Result<Self, TensorError> {
        BytesTensor::new(elements.into_iter().map(Into::into).collect(), shape).map(Self::Bytes)
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
            Self::Bytes(_) => Some(DataType::Bytes),
            Self::Nested(tensor) => tensor.dtype(),
        }
    }

    /// Copies the numbers of the tensor into memory that no other process can write to. Strings and bytes are always in such memory.
    ///
    /// # Errors
    /// [`TensorError::TooLarge`] if there is not enough memory.
    pub fn copied(&self) -> Result<Self, TensorError> {
        match self {
            Self::Numeric(tensor) => tensor.copied().map(Self::Numeric),
            Self::String(_) | Self::Bytes(_) => Ok(self.clone()),
            Self::Nested(nested) => Self::nested(nested.elements().iter().map(Self::copied).collect::<Result<_, _>>()?),
        }
    }

    /// The dimensions; `None` for a nested tensor, whose elements each have their own.
    #[must_use]
    pub fn shape(&self) -> Option<&[usize]> {
        match self {
            Self::Numeric(tensor) => Some(tensor.shape()),
            Self::String(tensor) => Some(tensor.shape()),
            Self::Bytes(tensor) => Some(tensor.shape()),
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

    /// Returns the tensor of bytes, if it is one.
    #[must_use]
    pub fn as_bytes(&self) -> Option<&BytesTensor> {
        match self {
            Self::Bytes(tensor) => Some(tensor),
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

impl From<BytesTensor> for Tensor {
    fn from(tensor: BytesTensor) -> Self {
        Self::Bytes(tensor)
    }
}

impl From<NestedTensor> for Tensor {
    fn from(tensor: NestedTensor) -> Self {
        Self::Nested(tensor)
    }
}

/// The most parts of a tensor without elements, whose shape could claim any number of them.
const MAX_EMPTY_PARTS: usize = 1 << 20;

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
                Tensor::Bytes(_) => DataType::Bytes,
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

    /// Makes the list of the parts of a tensor along its first dimension; `None` for a tensor without dimensions. Numbers stay where they are.
    ///
    /// # Errors
    /// The storage has shrunk since the tensor was built, or the parts have no elements and are more than a million.
    pub fn of_parts(tensor: &Tensor) -> Result<Option<Self>, TensorError> {
        let Some((&n_parts, shape)) = tensor.shape().and_then(<[usize]>::split_first) else { return Ok(None) };
        if n_parts > MAX_EMPTY_PARTS && element_count(shape) == Some(0) {
            return Err(TensorError::TooManyParts { found: n_parts, limit: MAX_EMPTY_PARTS });
        }
        Self::of_shapes(tensor, std::iter::repeat_n(shape.to_vec(), n_parts))
    }

    /// Makes the list of tensors of these shapes, whose elements follow each other in `tensor`; `None` if that has another number of elements,
    /// or is nested. Numbers stay where they are. Undoes [`flattened`](Self::flattened).
    ///
    /// Each shape becomes a tensor, also one without elements: how many there are is for the caller to limit.
    ///
    /// # Errors
    /// The storage has shrunk since the tensor was built, or a shape has too many dimensions.
    pub fn of_shapes(
        tensor: &Tensor,
        shapes: impl IntoIterator<Item = Vec<usize>>,
    ) -> Result<Option<Self>, TensorError> {
        let Some(count) = tensor.shape().and_then(element_count) else { return Ok(None) };
        let (mut parts, mut end) = (Vec::new(), 0_usize);
        for shape in shapes {
            let start = end;
            let after = element_count(&shape).and_then(|length| start.checked_add(length));
            let Some(after) = after.filter(|after| *after <= count) else { return Ok(None) };
            end = after;
            let range = start..end;
            parts.push(match tensor {
                Tensor::Numeric(numbers) => {
                    let (storage, offset) = numbers.storage();
                    let start = offset + start * numbers.dtype().size().unwrap_or_default();
                    NumericTensor::with_offset(numbers.dtype(), shape, Arc::clone(storage), start)?.into()
                }
                Tensor::String(texts) => StringTensor::new(texts.elements()[range].to_vec(), shape)?.into(),
                Tensor::Bytes(bytes) => BytesTensor::new(bytes.elements()[range].to_vec(), shape)?.into(),
                Tensor::Nested(_) => return Ok(None),
            });
        }
        if end == count { Self::new(parts).map(Some) } else { Ok(None) }
    }

    /// Returns one tensor that has the tensors of the list along a new first dimension: five tensors of shape `[2, 3]` become one of shape
    /// `[5, 2, 3]`. Returns `None` if the shapes differ or the list is empty.
    ///
    /// # Errors
    /// There is no memory for it, or the storage of a part has shrunk since the part was built.
    pub fn stacked(&self) -> Result<Option<Tensor>, TensorError> {
        let Some(inner) = self.elements.first().and_then(Tensor::shape) else { return Ok(None) };
        if self.elements.iter().any(|element| element.shape() != Some(inner)) {
            return Ok(None);
        }
        self.joined(std::iter::once(self.elements.len()).chain(inner.iter().copied()).collect())
    }

    /// Returns a tensor of one dimension that has the elements of all tensors, one tensor after another. Returns `None` if the list is empty,
    /// because an empty list has no dtype.
    ///
    /// # Errors
    /// As [`stacked`](Self::stacked).
    pub fn flattened(&self) -> Result<Option<Tensor>, TensorError> {
        let counts = self.elements.iter().map(|element| element.shape().and_then(element_count).unwrap_or(0));
        self.joined(vec![counts.fold(0, usize::saturating_add)])
    }

    /// The elements of all tensors, one after another, in a tensor of this shape, which has as many.
    fn joined(&self, shape: Vec<usize>) -> Result<Option<Tensor>, TensorError> {
        let Some(first) = self.elements.first() else { return Ok(None) };
        Ok(Some(match first {
            Tensor::Numeric(numbers) => {
                let (dtype, expected) = (numbers.dtype(), element_count(&shape).unwrap_or(usize::MAX));
                let mut joined = NumericTensor::zeroed(dtype, shape.clone())?;
                let mut target = joined.bytes_mut().unwrap_or_default();
                let mut found = 0;
                for element in self.elements.iter().filter_map(Tensor::as_numeric) {
                    let Some((here, rest)) = target.split_at_mut_checked(element.bytes().len()) else { break };
                    here.copy_from_slice(element.bytes());
                    found += here.len() / dtype.size().unwrap_or(1);
                    target = rest;
                }
                if found != expected {
                    return Err(TensorError::SizeMismatch { dtype, shape, expected, found, unit: "elements" });
                }
                joined.into()
            }
            Tensor::String(_) => {
                let texts = self.elements.iter().filter_map(Tensor::as_string);
                StringTensor::new(texts.flat_map(|text| text.elements().iter().cloned()).collect(), shape)?.into()
            }
            Tensor::Bytes(_) => {
                let bytes = self.elements.iter().filter_map(Tensor::as_bytes);
                BytesTensor::new(bytes.flat_map(|bytes| bytes.elements().iter().cloned()).collect(), shape)?.into()
            }
            Tensor::Nested(_) => return Ok(None),
        }))
    }

    /// The dtype that all elements share; `None` if there are no elements.
    #[must_use]
    pub fn dtype(&self) -> Option<DataType> {
        self.elements.first().and_then(Tensor::dtype)
    }
}

#[cfg(test)]
mod tests;
