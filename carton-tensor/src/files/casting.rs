//! Casts tensors of files to the dtypes of cartons, by the rule of [`cast`](crate::cast).

use half::{bf16, f16};

use super::{ElementType, RawTensor};
use crate::cast::{Number, cast_bytes};
use crate::{BoolByte, CastError, DataType, NumericTensor, TensorError};

impl RawTensor {
    /// Casts the elements to `dtype`, as [`cast`](crate::cast) does. Booleans become 0 and 1. Elements that already have the dtype are not
    /// copied.
    ///
    /// ```
    /// use carton_tensor::DataType;
    /// use carton_tensor::files::{ElementType, RawTensor};
    /// let flags = RawTensor::new(ElementType::Bool, vec![2], vec![1_u8, 0].into())?;
    /// assert_eq!(flags.cast(DataType::Float32)?.to_vec::<f32>()?, [1.0, 0.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`cast`](crate::cast); [`CastError::Kind`] for complex numbers.
    pub fn cast(&self, dtype: DataType) -> Result<NumericTensor, CastError> {
        if self.dtype().data_type() == Some(dtype) {
            let (storage, offset) = self.bytes().storage();
            return Ok(NumericTensor::with_offset(dtype, self.shape().to_vec(), storage.clone(), offset)?);
        }
        let kind = || Err(CastError::Kind { from: self.dtype().name(), to: dtype.name() });
        crate::with_number!(dtype, To => {
            match self.dtype() {
                ElementType::Bool => self.cast_from::<BoolByte, To>(),
                ElementType::Uint8 => self.cast_from::<u8, To>(),
                ElementType::Int8 => self.cast_from::<i8, To>(),
                ElementType::Uint16 => self.cast_from::<u16, To>(),
                ElementType::Int16 => self.cast_from::<i16, To>(),
                ElementType::Uint32 => self.cast_from::<u32, To>(),
                ElementType::Int32 => self.cast_from::<i32, To>(),
                ElementType::Uint64 => self.cast_from::<u64, To>(),
                ElementType::Int64 => self.cast_from::<i64, To>(),
                ElementType::Float16 => self.cast_from::<f16, To>(),
                ElementType::BFloat16 => self.cast_from::<bf16, To>(),
                ElementType::Float32 => self.cast_from::<f32, To>(),
                ElementType::Float64 => self.cast_from::<f64, To>(),
                ElementType::Complex64 | ElementType::Complex128 => kind(),
                // Floats of at most eight bits, which are all exact as float32.
                _ => match self.to_f32() {
                    Some(elements) => cast_bytes::<f32, To>(bytemuck::cast_slice(&elements), self.shape()),
                    None => kind(),
                },
            }
        }, else kind())
    }

    fn cast_from<From: Number, To: Number + crate::Element>(&self) -> Result<NumericTensor, CastError> {
        // A tensor of a file may have more dimensions than one of a carton.
        NumericTensor::n_bytes_of(To::DTYPE, self.shape()).map_err(|error: TensorError| CastError::Tensor(error))?;
        cast_bytes::<From, To>(self.bytes(), self.shape())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn check(from: ElementType, bytes: &[u8], dtype: DataType, expected: Result<&[u8], &str>) {
        let n_elements = bytes.len() * 8 / from.bits();
        let tensor = RawTensor::new(from, vec![n_elements], bytes.to_vec().into()).unwrap();
        let found = tensor.cast(dtype).map_err(|error| error.to_string());
        assert_eq!(found.as_ref().map(NumericTensor::bytes).map_err(String::as_str), expected, "{from} to {dtype}");
    }

    // The bytes are those of NumPy's and `ml_dtypes`' arrays.
    #[test]
    fn types_that_cartons_lack_are_cast() {
        use ElementType as E;
        check(E::Bool, &[0, 1, 2], DataType::Uint8, Ok(&[0, 1, 1]));
        check(E::Float16, &[0, 0x3e, 0, 0x7c], DataType::Float32, Ok(&[0, 0, 0xc0, 0x3f, 0, 0, 0x80, 0x7f]));
        check(E::Float16, &[0, 0x3e], DataType::Int8, Err("element [0]: 1.5 is not an integer, which int8 needs"));
        check(E::BFloat16, &[0x80, 0x3f], DataType::Int16, Ok(&[1, 0]));
        check(E::Float8E4m3Fn, &[0x38], DataType::Uint8, Ok(&[1]));
        check(E::Float4E2m1, &[0x42], DataType::Int8, Ok(&[1, 2]));
        check(E::Complex64, &[0; 8], DataType::Float32, Err("complex64 cannot be cast to float32"));
        check(E::Bool, &[1], DataType::String, Err("bool cannot be cast to string"));
        check(E::Int16, &[0, 1, 44, 1], DataType::Uint8, Err("element [0]: 256 is out of range for uint8"));
        check(E::Int16, &[0, 1], DataType::Int16, Ok(&[0, 1]));
    }
}
