//! Converts numbers to the requested element type: exactly, except that floats are rounded to shorter floats (spec/dataset.md §4.2).

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_buffer::{ArrowNativeType, Buffer};
use arrow_schema::DataType;
use carton_tensor::files::ElementType;
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

use super::fault::Fault;
use super::rounding;
use crate::error::ColumnProblem;
use crate::options::Rounding;

/// Returns the element type that represents an Arrow type exactly; `None` for types that are not numbers.
pub(super) fn natural(data_type: &DataType) -> Option<ElementType> {
    Some(match data_type {
        DataType::Boolean => ElementType::Bool,
        DataType::UInt8 => ElementType::Uint8,
        DataType::Int8 => ElementType::Int8,
        DataType::UInt16 => ElementType::Uint16,
        DataType::Int16 => ElementType::Int16,
        DataType::UInt32 => ElementType::Uint32,
        DataType::Int32 => ElementType::Int32,
        DataType::UInt64 => ElementType::Uint64,
        DataType::Int64 => ElementType::Int64,
        DataType::Float16 => ElementType::Float16,
        DataType::Float32 => ElementType::Float32,
        DataType::Float64 => ElementType::Float64,
        _ => return None,
    })
}

/// Checks that numbers of an Arrow type can be converted to this element type at all.
pub(super) fn check(from: &DataType, to: ElementType) -> Result<(), ColumnProblem> {
    use ElementType as E;
    let is_number = matches!(
        to,
        E::Uint8
            | E::Int8
            | E::Uint16
            | E::Int16
            | E::Uint32
            | E::Int32
            | E::Uint64
            | E::Int64
            | E::Float16
            | E::BFloat16
            | E::Float32
            | E::Float64
    );
    if is_number || to == E::Bool && !from.is_floating() {
        Ok(())
    } else {
        Err(ColumnProblem::Conversion { from: from.to_string(), to })
    }
}

/// Converts the elements of an array without missing values. Elements that already have the right type are not copied.
pub(super) fn to_bytes(array: &ArrayRef, to: ElementType, rounding: Rounding) -> Result<Buffer, Fault> {
    macro_rules! numbers {
        ($arrow:ty) => {{
            let values = array.as_primitive::<$arrow>().values();
            if natural(array.data_type()) == Some(to) {
                Ok(values.inner().clone())
            } else {
                convert(values, to, rounding)
            }
        }};
    }
    match array.data_type() {
        DataType::UInt8 => numbers!(UInt8Type),
        DataType::Int8 => numbers!(Int8Type),
        DataType::UInt16 => numbers!(UInt16Type),
        DataType::Int16 => numbers!(Int16Type),
        DataType::UInt32 => numbers!(UInt32Type),
        DataType::Int32 => numbers!(Int32Type),
        DataType::UInt64 => numbers!(UInt64Type),
        DataType::Int64 => numbers!(Int64Type),
        DataType::Float16 => numbers!(Float16Type),
        DataType::Float32 => numbers!(Float32Type),
        DataType::Float64 => numbers!(Float64Type),
        DataType::Boolean => {
            let values: Vec<u8> = array.as_boolean().values().iter().map(u8::from).collect();
            if matches!(to, ElementType::Bool | ElementType::Uint8) {
                Ok(Buffer::from_vec(values))
            } else {
                convert(&values, to, rounding)
            }
        }
        other => Err(Fault { row: 0, problem: ColumnProblem::Unsupported(other.clone()) }),
    }
}

/// A number of an Arrow array.
trait Number: ArrowNativeType {
    /// The same number as an integer, if it is one.
    fn integer(self) -> Option<i128>;
    /// The nearest float; `None` if that would change an integer.
    fn to_f64(self) -> Option<f64>;
    /// As [`to_f64`](Self::to_f64).
    fn to_f32(self) -> Option<f32>;
    /// As [`to_f64`](Self::to_f64).
    fn to_f16(self, rounding: Rounding) -> Option<f16>;
    /// As [`to_f64`](Self::to_f64).
    fn to_bf16(self, rounding: Rounding) -> Option<bf16>;
    /// Converts all values to shorter floats in one tight loop, where no value can be lost. `None` if they have to be converted one by
    /// one.
    fn all_rounded(_: &[Self], _: ElementType, _: Rounding) -> Option<Buffer> {
        None
    }
}

fn convert<N: Number>(values: &[N], to: ElementType, rounding: Rounding) -> Result<Buffer, Fault> {
    macro_rules! integers {
        ($to:ty) => {
            each(values, to, |value| <$to>::try_from(value.integer()?).ok())
        };
    }
    if let Some(rounded) = N::all_rounded(values, to, rounding) {
        return Ok(rounded);
    }
    match to {
        ElementType::Bool => {
            each(values, to, |value| value.integer().filter(|bit| (0..=1).contains(bit)).map(|bit| bit as u8))
        }
        ElementType::Uint8 => integers!(u8),
        ElementType::Int8 => integers!(i8),
        ElementType::Uint16 => integers!(u16),
        ElementType::Int16 => integers!(i16),
        ElementType::Uint32 => integers!(u32),
        ElementType::Int32 => integers!(i32),
        ElementType::Uint64 => integers!(u64),
        ElementType::Int64 => integers!(i64),
        ElementType::Float64 => each(values, to, N::to_f64),
        ElementType::Float32 => each(values, to, N::to_f32),
        ElementType::Float16 => each(values, to, |value| value.to_f16(rounding)),
        ElementType::BFloat16 => each(values, to, |value| value.to_bf16(rounding).map(bf16::to_bits)),
        _ => Err(Fault { row: 0, problem: ColumnProblem::Conversion { from: "a number".to_owned(), to } }),
    }
}

fn each<N: Number, T: ArrowNativeType>(
    values: &[N],
    to: ElementType,
    convert: impl Fn(N) -> Option<T>,
) -> Result<Buffer, Fault> {
    let mut converted = Vec::with_capacity(values.len());
    for (row, &value) in values.iter().enumerate() {
        let lost = || Fault { row, problem: ColumnProblem::OutOfRange { value: format!("{value:?}"), to } };
        converted.push(convert(value).ok_or_else(lost)?);
    }
    Ok(Buffer::from_vec(converted))
}

macro_rules! integers {
    ($($integer:ty),*) => {$(
        impl Number for $integer {
            fn integer(self) -> Option<i128> {
                Some(i128::from(self))
            }

            fn to_f64(self) -> Option<f64> {
                // Large integers become the nearest float, which may be another integer.
                Some(self as f64).filter(|float| *float as i128 == i128::from(self))
            }

            fn to_f32(self) -> Option<f32> {
                Some(self as f32).filter(|float| *float as i128 == i128::from(self))
            }

            fn to_f16(self, _: Rounding) -> Option<f16> {
                self.to_f32().and_then(|float| Some(f16::from_f32(float)).filter(|short| short.to_f32() == float))
            }

            fn to_bf16(self, _: Rounding) -> Option<bf16> {
                self.to_f32().and_then(|float| Some(bf16::from_f32(float)).filter(|short| short.to_f32() == float))
            }
        }
    )*};
}

integers!(u8, i8, u16, i16, u32, i32, u64, i64);

impl Number for f64 {
    fn integer(self) -> Option<i128> {
        // The cast saturates, and is exact for whole numbers in the range of `i128`, which includes every element type.
        Some(self as i128).filter(|integer| *integer as f64 == self)
    }

    fn to_f64(self) -> Option<f64> {
        Some(self)
    }

    fn to_f32(self) -> Option<f32> {
        Some(self as f32)
    }

    fn to_f16(self, rounding: Rounding) -> Option<f16> {
        Some(rounding::f16_of_f64(self, rounding))
    }

    fn to_bf16(self, rounding: Rounding) -> Option<bf16> {
        Some(rounding::bf16_of_f64(self, rounding))
    }

    fn all_rounded(values: &[Self], to: ElementType, rounding: Rounding) -> Option<Buffer> {
        match to {
            ElementType::Float32 => Some(collect(values, |value| value as f32)),
            ElementType::BFloat16 => Some(collect(values, |value| rounding::bf16_of_f64(value, rounding).to_bits())),
            ElementType::Float16 => Some(collect(values, |value| rounding::f16_of_f64(value, rounding))),
            _ => None,
        }
    }
}

macro_rules! short_floats {
    ($($float:ty: $all_rounded:expr),*) => {$(
        impl Number for $float {
            fn integer(self) -> Option<i128> {
                f64::from(self).integer()
            }

            fn to_f64(self) -> Option<f64> {
                Some(f64::from(self))
            }

            fn to_f32(self) -> Option<f32> {
                Some(f32::from(self))
            }

            fn to_f16(self, rounding: Rounding) -> Option<f16> {
                Some(rounding::f16_of_f32(f32::from(self), rounding))
            }

            fn to_bf16(self, rounding: Rounding) -> Option<bf16> {
                Some(rounding::bf16_of_f32(f32::from(self), rounding))
            }

            fn all_rounded(values: &[Self], to: ElementType, rounding: Rounding) -> Option<Buffer> {
                $all_rounded(values, to, rounding)
            }
        }
    )*};
}

short_floats!(f16: |_, _, _| None, f32: all_f32_rounded);

fn all_f32_rounded(values: &[f32], to: ElementType, rounding: Rounding) -> Option<Buffer> {
    match (to, rounding) {
        (ElementType::Float16, Rounding::NearestEven) => {
            // Uses the CPU's conversion instructions if it has them.
            let mut rounded = vec![f16::ZERO; values.len()];
            rounded.convert_from_f32_slice(values);
            Some(Buffer::from_vec(rounded))
        }
        (ElementType::Float16, _) => Some(collect(values, |value| rounding::f16_of_f32(value, rounding))),
        (ElementType::BFloat16, _) => Some(collect(values, |value| rounding::bf16_of_f32(value, rounding).to_bits())),
        _ => None,
    }
}

fn collect<N: Copy, T: ArrowNativeType>(values: &[N], convert: impl Fn(N) -> T) -> Buffer {
    Buffer::from_vec(values.iter().map(|value| convert(*value)).collect::<Vec<T>>())
}
