//! Casts tensors to another element type. A cast never changes a value except by rounding.
//!
//! A floating-point type accepts every number that it can round, and rounds as NumPy's `astype` does; a finite number that would become
//! infinite is refused. An integer type accepts only integers in its range. NaN, infinities and fractions, which `astype` turns into
//! arbitrary integers, are refused.

use crate::allclose::index_of;
use crate::element::with_element;
use crate::{DataType, Element, NumericTensor, Tensor, TensorError};

/// The reason that a tensor cannot be cast.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CastError {
    /// The target type cannot hold the value of an element.
    #[error(
        "{}element {index:?}: {value} {}",
        tensor.map(|tensor| format!("tensor {tensor} of the list, ")).unwrap_or_default(),
        problem.described(*to)
    )]
    Element {
        /// The position of the element's tensor, if the tensor is nested.
        tensor: Option<usize>,
        /// The index of the element.
        index: Vec<usize>,
        /// The element.
        value: String,
        /// The requested type.
        to: DataType,
        /// Why the type cannot hold the element.
        problem: CastProblem,
    },
    /// Strings are not cast to numbers, and numbers are not cast to strings.
    #[error("{from} cannot be cast to {to}")]
    Strings {
        /// The type of the tensor.
        from: DataType,
        /// The requested type.
        to: DataType,
    },
    /// The elements do not fit in memory.
    #[error(transparent)]
    Tensor(#[from] TensorError),
}

/// The reason that one element cannot be cast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CastProblem {
    /// The element is below or above the range of the type.
    OutOfRange,
    /// The type holds only integers, and the element is not one.
    NotAnInteger,
}

impl CastProblem {
    fn described(self, to: DataType) -> String {
        match self {
            Self::OutOfRange => format!("is out of range for {to}"),
            Self::NotAnInteger => format!("is not an integer, which {to} needs"),
        }
    }
}

/// Casts the elements of a tensor to `dtype`. Returns the same tensor if its elements already have that type. Casts each tensor of a
/// nested one.
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
/// [`CastError::Element`] names the first element that has no value in `dtype`: `1e39` in float32, 300 in uint8; 0.5, NaN or an
/// infinity in an integer type. [`CastError::Strings`] for a cast between strings and numbers. [`CastError::Tensor`] if the elements do
/// not fit in memory.
pub fn cast(tensor: &Tensor, dtype: DataType) -> Result<Tensor, CastError> {
    match tensor {
        Tensor::Numeric(tensor) => cast_numbers(tensor, dtype, None).map(Tensor::Numeric),
        Tensor::String(_) if dtype == DataType::String => Ok(tensor.clone()),
        Tensor::String(_) => Err(CastError::Strings { from: DataType::String, to: dtype }),
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
    let strings = || Err(CastError::Strings { from: tensor.dtype(), to: dtype });
    with_element!(
        tensor.dtype(),
        From => with_element!(dtype, To => cast_elements::<From, To>(tensor, position), else strings()),
        else strings()
    )
}

fn cast_elements<From: Number, To: Number>(
    tensor: &NumericTensor,
    position: Option<usize>,
) -> Result<NumericTensor, CastError> {
    let bytes = tensor.bytes();
    let count = bytes.len() / size_of::<From>();
    let mut elements: Vec<To> = Vec::new();
    if elements.try_reserve_exact(count).is_err() {
        return Err(TensorError::TooLarge { dtype: To::DTYPE, shape: tensor.shape().to_vec() }.into());
    }
    for (at, bytes) in bytes.chunks_exact(size_of::<From>()).enumerate() {
        let element: From = bytemuck::pod_read_unaligned(bytes);
        elements.push(To::of(element.value()).map_err(|problem| CastError::Element {
            tensor: position,
            index: index_of(at, tensor.shape()),
            value: format!("{element:?}"),
            to: To::DTYPE,
            problem,
        })?);
    }
    Ok(NumericTensor::from_vec(elements, tensor.shape().to_vec())?)
}

/// The exact value of an element of any numeric type.
#[derive(Clone, Copy)]
enum Value {
    Integer(i128),
    Float(f64),
}

/// An element type that converts to and from [`Value`].
trait Number: Element {
    fn value(self) -> Value;
    fn of(value: Value) -> Result<Self, CastProblem>;
}

macro_rules! integers {
    ($($integer:ty),*) => {$(
        impl Number for $integer {
            fn value(self) -> Value {
                Value::Integer(i128::from(self))
            }

            fn of(value: Value) -> Result<Self, CastProblem> {
                let integer = match value {
                    Value::Integer(integer) => integer,
                    // The cast to 128 bits saturates, and its limits are out of range for every element type. The fraction of an
                    // infinity is NaN, so that infinities go to the next arm.
                    Value::Float(float) if float.fract() == 0.0 => float as i128,
                    Value::Float(_) => return Err(CastProblem::NotAnInteger),
                };
                Self::try_from(integer).map_err(|_| CastProblem::OutOfRange)
            }
        }
    )*};
}

macro_rules! floats {
    ($($float:ty),*) => {$(
        impl Number for $float {
            fn value(self) -> Value {
                Value::Float(f64::from(self))
            }

            #[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)] // Rounding is the purpose of the cast.
            fn of(value: Value) -> Result<Self, CastProblem> {
                match value {
                    // Every 64-bit integer is in range.
                    Value::Integer(integer) => Ok(integer as $float),
                    Value::Float(float) => {
                        let rounded = float as $float;
                        if rounded.is_infinite() && float.is_finite() { Err(CastProblem::OutOfRange) } else { Ok(rounded) }
                    }
                }
            }
        }
    )*};
}

integers!(i8, i16, i32, i64, u8, u16, u32, u64);
floats!(f32, f64);

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
    }

    #[test]
    fn representable_values_are_kept_or_rounded() {
        let one = |value: Tensor, dtype, expected: Tensor| assert_eq!(cast(&value, dtype), Ok(expected));
        one(Tensor::scalar(f64::NEG_INFINITY), DataType::Float32, Tensor::scalar(f32::NEG_INFINITY));
        one(Tensor::scalar(1e-60_f64), DataType::Float32, Tensor::scalar(0.0_f32));
        one(Tensor::scalar(i64::MAX), DataType::Float64, Tensor::scalar(2_f64.powi(63)));
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
