//! Tensors in the dtypes of carton format v1, and back, without a loss (spec/carton-format-extensions.md, "What elements are").

use std::borrow::Cow;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::cast::{CastError, CastProblem, LostNumber, Number, cast};
use crate::position::index_of;
use crate::{BytesTensor, DataType, NumericTensor, StringTensor, Tensor};

/// Returns the tensor as its [carrier](DataType::carrier): booleans as 0 and 1, floats as longer floats, complex numbers as pairs in one more
/// dimension, bytes as their base64 (RFC 4648, section 4). Shares memory where the bytes stay the same. A tensor of a dtype of v1 is its own.
///
/// ```
/// use carton_tensor::{BoolByte, DataType, Tensor, carried, restored};
/// let mask = Tensor::from_vec(vec![BoolByte::from(true)], vec![1])?;
/// let bytes = carried(&mask)?;
/// assert_eq!(bytes, Tensor::from_vec(vec![1_u8], vec![1])?);
/// assert_eq!(restored(&bytes, DataType::Bool)?, mask);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`CastError::Tensor`] if the elements do not fit in memory, or a complex tensor has as many dimensions as there may be.
pub fn carried(tensor: &Tensor) -> Result<Tensor, CastError> {
    match tensor {
        Tensor::Numeric(numbers) => Ok(match numbers.dtype() {
            dtype if dtype.carrier() == dtype => tensor.clone(),
            DataType::Bool => numbers.clone().reinterpreted(DataType::Uint8, numbers.shape().to_vec())?.into(),
            dtype if dtype.is_complex() => {
                let shape = [numbers.shape(), &[2]].concat();
                numbers.clone().reinterpreted(dtype.carrier(), shape)?.into()
            }
            dtype => cast(tensor, dtype.carrier())?,
        }),
        Tensor::String(_) => Ok(tensor.clone()),
        Tensor::Bytes(bytes) => {
            let texts = bytes.elements().iter().map(|element| STANDARD.encode(element)).collect();
            Ok(StringTensor::new(texts, bytes.shape().to_vec())?.into())
        }
        Tensor::Nested(nested) => Ok(Tensor::nested(nested.elements().iter().map(carried).collect::<Result<_, _>>()?)?),
    }
}

/// Returns the tensor of `dtype` whose carrier this is, the inverse of [`carried`]. Shares memory where the bytes stay the same. A tensor that
/// has the dtype already is its own.
///
/// # Errors
/// [`CastError::Element`] names the first element that is no value of `dtype`: 2 for booleans, 0.1 for float16. [`CastError::Encoding`] for a
/// string that is not base64. [`CastError::Kind`] if the tensor has another dtype than the carrier's.
pub fn restored(tensor: &Tensor, dtype: DataType) -> Result<Tensor, CastError> {
    match tensor {
        Tensor::Numeric(numbers) => restored_numbers(numbers, dtype, None).map(Tensor::Numeric),
        Tensor::String(texts) if dtype == DataType::Bytes => {
            let decoded = texts.elements().iter().enumerate().map(|(position, text)| {
                let index = || index_of(position, texts.shape());
                STANDARD.decode(text).map_err(|error| CastError::Encoding { index: index(), reason: error.to_string() })
            });
            Ok(BytesTensor::new(decoded.collect::<Result<_, _>>()?, texts.shape().to_vec())?.into())
        }
        Tensor::String(_) | Tensor::Bytes(_) if tensor.dtype() == Some(dtype) => Ok(tensor.clone()),
        Tensor::String(_) => Err(CastError::Kind { from: DataType::String.name(), to: dtype.name() }),
        Tensor::Bytes(_) => Err(CastError::Kind { from: DataType::Bytes.name(), to: dtype.name() }),
        Tensor::Nested(nested) => {
            let elements = nested.elements().iter().enumerate().map(|(position, element)| match element {
                Tensor::Numeric(numbers) => restored_numbers(numbers, dtype, Some(position)).map(Tensor::Numeric),
                other => restored(other, dtype),
            });
            Ok(Tensor::nested(elements.collect::<Result<_, _>>()?)?)
        }
    }
}

fn restored_numbers(
    numbers: &NumericTensor,
    dtype: DataType,
    tensor: Option<usize>,
) -> Result<NumericTensor, CastError> {
    let kind = || CastError::Kind { from: numbers.dtype().name(), to: dtype.name() };
    if numbers.dtype() == dtype {
        return Ok(numbers.clone());
    }
    if numbers.dtype() != dtype.carrier() {
        return Err(kind());
    }
    let shape = numbers.shape();
    let refused = |position: usize, value: String, problem: CastProblem| CastError::Element {
        tensor,
        index: index_of(position, shape),
        lost: LostNumber { position, value, to: dtype.name(), problem },
    };
    if dtype == DataType::Bool {
        let other = numbers.bytes().iter().enumerate().find(|(_, byte)| **byte > 1);
        if let Some((position, byte)) = other {
            return Err(refused(position, byte.to_string(), CastProblem::OutOfRange));
        }
        return Ok(numbers.clone().reinterpreted(dtype, shape.to_vec())?);
    }
    if dtype.is_complex() {
        let Some((2, outer)) = shape.split_last().map(|(last, outer)| (*last, outer)) else {
            return Err(CastError::Pairs { to: dtype.name(), shape: shape.to_vec() });
        };
        return Ok(numbers.clone().reinterpreted(dtype, outer.to_vec())?);
    }
    let wide: Cow<'_, [f32]> = match numbers.as_slice() {
        Ok(elements) => Cow::Borrowed(elements),
        Err(_) => Cow::Owned(numbers.to_vec()?),
    };
    crate::with_number!(dtype, To => {
        let narrow: Vec<To> = narrowed(&wide).map_err(|(position, problem)| refused(position, format!("{:?}", wide[position]), problem))?;
        Ok(NumericTensor::new(dtype, shape.to_vec(), Arc::new(narrow))?)
    }, else Err(kind()))
}

/// The same values in a shorter type, or the first that it does not have. Negative zero is a value of its own.
fn narrowed<To: Number>(wide: &[f32]) -> Result<Vec<To>, (usize, CastProblem)> {
    const BLOCK: usize = 4096;
    let mut narrow = vec![To::zeroed(); wide.len()];
    let mut back = vec![0.0_f32; BLOCK.min(wide.len())];
    for (block, (wide, narrow)) in wide.chunks(BLOCK).zip(narrow.chunks_mut(BLOCK)).enumerate() {
        let at = |position: usize| block * BLOCK + position;
        let back = &mut back[..wide.len()];
        crate::convert_numbers(wide, narrow).map_err(|lost| (at(lost.position), lost.problem))?;
        crate::convert_numbers(narrow, back).map_err(|lost| (at(lost.position), lost.problem))?;
        let is_other =
            |(wide, back): (&f32, &f32)| wide.to_bits() != back.to_bits() && !(wide.is_nan() && back.is_nan());
        if let Some(position) = wide.iter().zip(&*back).position(is_other) {
            return Err((at(position), CastProblem::Rounded));
        }
    }
    Ok(narrow)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use half::f16;

    use super::*;
    use crate::{BoolByte, Element, TensorError};

    fn check<T: Element>(elements: &[T], carrier: &Tensor) {
        let native = Tensor::from_vec(elements.to_vec(), vec![elements.len()]).unwrap();
        assert_eq!(&carried(&native).unwrap(), carrier);
        assert_eq!(restored(carrier, T::DTYPE).unwrap(), native);
        let nested = |tensor: &Tensor| Tensor::nested(vec![tensor.clone()]).unwrap();
        assert_eq!(carried(&nested(&native)).unwrap(), nested(carrier));
        assert_eq!(restored(&nested(carrier), T::DTYPE).unwrap(), nested(&native));
    }

    #[test]
    fn each_dtype_there_and_back() {
        use num_complex::Complex;
        check(&[BoolByte(1), BoolByte(0)], &Tensor::from_vec(vec![1_u8, 0], vec![2]).unwrap());
        check(&[f16::MAX, f16::NEG_INFINITY], &Tensor::from_vec(vec![65504_f32, f32::NEG_INFINITY], vec![2]).unwrap());
        check(&[crate::Float8E4m3Fn(0x7e)], &Tensor::from_vec(vec![448_f32], vec![1]).unwrap());
        check(&[Complex::new(1_f64, -2.0)], &Tensor::from_vec(vec![1_f64, -2.0], vec![1, 2]).unwrap());
        check(&[7_i64], &Tensor::from_vec(vec![7_i64], vec![1]).unwrap());
        let bytes = Tensor::from_bytes([vec![0_u8, 255]], vec![1]).unwrap();
        let text = Tensor::from_strings(["AP8="], vec![1]).unwrap();
        assert_eq!((carried(&bytes), restored(&text, DataType::Bytes)), (Ok(text), Ok(bytes)));
    }

    #[test]
    fn what_is_no_value_is_refused() {
        let check = |tensor: Result<Tensor, TensorError>, dtype, expected: &str| {
            assert_eq!(restored(&tensor.unwrap(), dtype).unwrap_err().to_string(), expected);
        };
        check(Tensor::from_vec(vec![0_u8, 2], vec![2]), DataType::Bool, "element [1]: 2 is out of range for bool");
        check(Tensor::from_vec(vec![0.1_f32], vec![]), DataType::Float16, "element []: 0.1 is not a value of float16");
        let large = "element [1]: 70000.0 is out of range for float16";
        check(Tensor::from_vec(vec![0.5_f32, 70000.0], vec![2]), DataType::Float16, large);
        let zero = "element [0]: -0.0 is not a value of float8_e4m3fnuz";
        check(Tensor::from_vec(vec![-0.0_f32], vec![1]), DataType::Float8E4m3Fnuz, zero);
        let mut late = vec![1.0_f32; 10_000];
        late[9_000] = 0.1;
        check(
            Tensor::from_vec(late, vec![10_000]),
            DataType::BFloat16,
            "element [9000]: 0.1 is not a value of bfloat16",
        );
        let other = "float64 cannot be cast to float16";
        check(Tensor::from_vec(vec![0.5_f64], vec![1]), DataType::Float16, other);
        let pairs = "complex64 needs a last dimension of 2, the real and the imaginary part, found the shape [3]";
        check(Tensor::from_vec(vec![0.5_f32; 3], vec![3]), DataType::Complex64, pairs);
        let text = "element [0]: it is not base64: Invalid symbol 45, offset 0.";
        check(Tensor::from_strings(["-"], vec![1]), DataType::Bytes, text);
    }
}
