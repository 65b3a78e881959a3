//! Casts tensors to another element type, by the rule of [`number`].

use std::borrow::Cow;

use crate::{DataType, Element, NumericTensor, Tensor, TensorError};

mod number;

#[cfg(feature = "weights")]
pub(crate) use number::to_odd;
pub use number::{CastProblem, LostNumber, Number, NumberValue, convert_numbers};

/// The reason that a tensor cannot be cast.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CastError {
    /// The target type cannot hold the value of an element.
    #[error(
        "{}element {index:?}: {lost}",
        tensor.map(|tensor| format!("tensor {tensor} of the list, ")).unwrap_or_default(),
    )]
    Element {
        /// The position of the element's tensor, if the tensor is nested.
        tensor: Option<usize>,
        /// The index of the element.
        index: Vec<usize>,
        /// The element, and why the type cannot hold it.
        lost: LostNumber,
    },
    /// There is no cast between numbers and strings, bytes or complex numbers.
    #[error("{from} cannot be cast to {to}")]
    Kind {
        /// The type of the tensor.
        from: &'static str,
        /// The requested type.
        to: &'static str,
    },
    /// A string that stands for bytes is not base64.
    #[error("element {index:?}: it is not base64: {reason}")]
    Encoding {
        /// The index of the element.
        index: Vec<usize>,
        /// What is wrong with it.
        reason: String,
    },
    /// Bytes that should be text are not UTF-8.
    #[error("element {position} is not UTF-8: {reason}")]
    NotText {
        /// The position of the element.
        position: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// Numbers that stand for complex ones are no pairs.
    #[error("{to} needs a last dimension of 2, the real and the imaginary part, found the shape {shape:?}")]
    Pairs {
        /// The requested type.
        to: &'static str,
        /// The shape of the numbers.
        shape: Vec<usize>,
    },
    /// The elements do not fit in memory.
    #[error(transparent)]
    Tensor(#[from] TensorError),
}

/// Casts the elements of a tensor to `dtype`. Returns the same tensor if its elements already have that type. Booleans
/// are 0 and 1. Casts each tensor of a nested one.
///
/// ```
/// use carton_tensor::{DataType, Tensor, cast};
/// let wide = Tensor::from_vec(vec![0.1_f64, 2.0, f64::INFINITY], vec![3])?;
/// assert_eq!(cast(&wide, DataType::Float32)?, Tensor::from_vec(vec![0.1_f32, 2.0, f32::INFINITY], vec![3])?);
/// let error = cast(&wide, DataType::Int64).unwrap_err();
/// assert_eq!(error.to_string(), "element [0]: 0.1 is not an integer, which int64 needs");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`CastError::Element`] names the first element that has no value in `dtype`: 1e39 and 16777217 in float32, 300 in uint8; 0.5, NaN or
/// an infinity in an integer type. [`CastError::Kind`] for a cast between strings and numbers, and of complex numbers. [`CastError::Tensor`] if the elements do
/// not fit in memory.
pub fn cast(tensor: &Tensor, dtype: DataType) -> Result<Tensor, CastError> {
    match tensor {
        Tensor::Numeric(tensor) => cast_numbers(tensor, dtype, None).map(Tensor::Numeric),
        Tensor::String(_) if dtype == DataType::String => Ok(tensor.clone()),
        Tensor::String(_) => Err(CastError::Kind { from: DataType::String.name(), to: dtype.name() }),
        Tensor::Bytes(_) if dtype == DataType::Bytes => Ok(tensor.clone()),
        Tensor::Bytes(_) => Err(CastError::Kind { from: DataType::Bytes.name(), to: dtype.name() }),
        Tensor::Nested(nested) => {
            let elements = nested.elements().iter().enumerate().map(|(position, element)| match element {
                Tensor::Numeric(tensor) => cast_numbers(tensor, dtype, Some(position)).map(Tensor::Numeric),
                other => cast(other, dtype),
            });
            Ok(Tensor::nested(elements.collect::<Result<_, _>>()?)?)
        }
    }
}

fn cast_numbers(tensor: &NumericTensor, dtype: DataType, position: Option<usize>) -> Result<NumericTensor, CastError> {
    if tensor.dtype() == dtype {
        return Ok(tensor.clone());
    }
    let no_numbers = || Err(CastError::Kind { from: tensor.dtype().name(), to: dtype.name() });
    crate::with_number!(
        tensor.dtype(),
        From => crate::with_number!(dtype, To => cast_elements::<From, To>(tensor, position), else no_numbers()),
        else no_numbers()
    )
}

fn cast_elements<From: Number, To: Number + Element>(
    tensor: &NumericTensor,
    position: Option<usize>,
) -> Result<NumericTensor, CastError> {
    cast_bytes::<From, To>(tensor.bytes(), tensor.shape()).map_err(|error| match error {
        CastError::Element { index, lost, .. } => CastError::Element { tensor: position, index, lost },
        error => error,
    })
}

/// Casts the elements of a tensor of this shape, whose bytes may have any alignment.
pub(crate) fn cast_bytes<From: Number, To: Number + Element>(
    bytes: &[u8],
    shape: &[usize],
) -> Result<NumericTensor, CastError> {
    let from: Cow<'_, [From]> = match bytemuck::try_cast_slice(bytes) {
        Ok(from) => Cow::Borrowed(from),
        Err(_) => Cow::Owned(bytemuck::allocation::pod_collect_to_vec(bytes)),
    };
    let mut elements: Vec<To> = Vec::new();
    if elements.try_reserve_exact(from.len()).is_err() {
        return Err(TensorError::TooLarge { dtype: To::DTYPE, shape: shape.to_vec() }.into());
    }
    elements.resize(from.len(), To::zeroed());
    convert_numbers(&from, &mut elements).map_err(|lost| lost.in_tensor(shape))?;
    Ok(NumericTensor::from_vec(elements, shape.to_vec())?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn check<T: Element>(elements: &[T], dtype: DataType, expected: &str) {
        let error = cast(&Tensor::from_vec(elements.to_vec(), vec![1, elements.len()]).unwrap(), dtype).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn values_that_the_type_lacks_are_refused() {
        check(&[1.0, 1e39], DataType::Float32, "element [0, 1]: 1e39 is out of range for float32");
        check(&[0.5_f32], DataType::Int64, "element [0, 0]: 0.5 is not an integer, which int64 needs");
        check(&[f64::NAN], DataType::Int8, "element [0, 0]: NaN is not an integer, which int8 needs");
        check(&[f32::INFINITY], DataType::Uint64, "element [0, 0]: inf is not an integer, which uint64 needs");
        check(&[255_i64, 300], DataType::Uint8, "element [0, 1]: 300 is out of range for uint8");
        check(&[-1_i8], DataType::Uint64, "element [0, 0]: -1 is out of range for uint64");
        check(&[2_f64.powi(63)], DataType::Int64, "element [0, 0]: 9.223372036854776e18 is out of range for int64");
        check(&[f32::MAX], DataType::Uint64, "element [0, 0]: 3.4028235e38 is out of range for uint64");
        check(&[1_u8], DataType::String, "uint8 cannot be cast to string");
        let inexact = "element [0, 1]: 16777217 is an integer that float32 cannot hold exactly";
        check(&[16_777_216, 16_777_217], DataType::Float32, inexact);
    }

    #[test]
    fn representable_values_are_kept_or_rounded() {
        let one = |value: Tensor, dtype, expected: Tensor| assert_eq!(cast(&value, dtype), Ok(expected));
        one(Tensor::scalar(f64::NEG_INFINITY), DataType::Float32, Tensor::scalar(f32::NEG_INFINITY));
        one(Tensor::scalar(1e-60_f64), DataType::Float32, Tensor::scalar(0.0_f32));
        one(Tensor::scalar(i64::MIN), DataType::Float64, Tensor::scalar(-(2_f64.powi(63))));
        one(Tensor::scalar(-(2_f64.powi(63))), DataType::Int64, Tensor::scalar(i64::MIN));
        one(Tensor::scalar(-0.0_f32), DataType::Uint8, Tensor::scalar(0_u8));
        let empty = |dtype| Tensor::Numeric(NumericTensor::zeroed(dtype, vec![0, 3]).unwrap());
        one(empty(DataType::Float64), DataType::Int8, empty(DataType::Int8));
        let words = Tensor::from_strings(["1"], vec![1]).unwrap();
        assert_eq!(cast(&words, DataType::String), Ok(words.clone()));
        assert_eq!(cast(&words, DataType::Int8).unwrap_err().to_string(), "string cannot be cast to int8");
    }

    #[test]
    fn each_tensor_of_a_list_is_cast() {
        let nested = |first: Tensor, second: Tensor| Tensor::nested(vec![first, second]).unwrap();
        let wide = nested(Tensor::scalar(1.0), Tensor::from_vec(vec![2.0, 3.5], vec![2]).unwrap());
        let narrow = nested(Tensor::scalar(1.0_f32), Tensor::from_vec(vec![2.0_f32, 3.5], vec![2]).unwrap());
        assert_eq!(cast(&wide, DataType::Float32), Ok(narrow));
        let error = cast(&wide, DataType::Int16).unwrap_err().to_string();
        assert_eq!(error, "tensor 1 of the list, element [1]: 3.5 is not an integer, which int16 needs");
        assert_eq!(cast(&Tensor::nested(vec![]).unwrap(), DataType::Int8), Ok(Tensor::nested(vec![]).unwrap()));
    }
}
