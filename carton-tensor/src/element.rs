//! The Rust types that numeric tensors hold.

use crate::{BoolByte, Complex, DataType, Float8E4m3Fn, Float8E4m3Fnuz, Float8E5m2, Float8E5m2Fnuz, bf16, f16};
use bytemuck::Pod;

mod sealed {
    pub trait Sealed {}
}

/// A Rust type of a fixed size that can be an element of numeric tensors. Every bit pattern is a valid value.
pub trait Element: Pod + Send + Sync + PartialEq + std::fmt::Debug + std::fmt::Display + sealed::Sealed {
    /// The dtype of tensors with this element.
    const DTYPE: DataType;
}

macro_rules! elements {
    ($($rust:ty => $dtype:ident),* $(,)?) => {$(
        impl sealed::Sealed for $rust {}
        impl Element for $rust {
            const DTYPE: DataType = DataType::$dtype;
        }
    )*};
}

elements! {
    f32 => Float32, f64 => Float64,
    i8 => Int8, i16 => Int16, i32 => Int32, i64 => Int64,
    u8 => Uint8, u16 => Uint16, u32 => Uint32, u64 => Uint64,
    BoolByte => Bool, f16 => Float16, bf16 => BFloat16,
    Float8E4m3Fn => Float8E4m3Fn, Float8E5m2 => Float8E5m2, Float8E4m3Fnuz => Float8E4m3Fnuz, Float8E5m2Fnuz => Float8E5m2Fnuz,
    Complex<f32> => Complex64, Complex<f64> => Complex128,
}

/// Evaluates an expression with a type name as the Rust type of a dtype's elements, which are real numbers or booleans; another expression
/// for other dtypes.
///
/// ```
/// use carton_tensor::{DataType, Tensor, with_number};
/// let zero = |dtype: DataType| with_number!(dtype, T => Some(Tensor::scalar(<T as bytemuck::Zeroable>::zeroed())), else None);
/// assert_eq!(zero(DataType::Int8), Some(Tensor::scalar(0_i8)));
/// assert_eq!(zero(DataType::String), None);
/// ```
#[macro_export]
macro_rules! with_number {
    ($dtype:expr, $element:ident => $body:expr, else $others:expr) => {
        match $dtype {
            $crate::DataType::Float32 => {
                type $element = f32;
                $body
            }
            $crate::DataType::Float64 => {
                type $element = f64;
                $body
            }
            $crate::DataType::Int8 => {
                type $element = i8;
                $body
            }
            $crate::DataType::Int16 => {
                type $element = i16;
                $body
            }
            $crate::DataType::Int32 => {
                type $element = i32;
                $body
            }
            $crate::DataType::Int64 => {
                type $element = i64;
                $body
            }
            $crate::DataType::Uint8 => {
                type $element = u8;
                $body
            }
            $crate::DataType::Uint16 => {
                type $element = u16;
                $body
            }
            $crate::DataType::Uint32 => {
                type $element = u32;
                $body
            }
            $crate::DataType::Uint64 => {
                type $element = u64;
                $body
            }
            $crate::DataType::Bool => {
                type $element = $crate::BoolByte;
                $body
            }
            $crate::DataType::Float16 => {
                type $element = $crate::f16;
                $body
            }
            $crate::DataType::BFloat16 => {
                type $element = $crate::bf16;
                $body
            }
            $crate::DataType::Float8E4m3Fn => {
                type $element = $crate::Float8E4m3Fn;
                $body
            }
            $crate::DataType::Float8E5m2 => {
                type $element = $crate::Float8E5m2;
                $body
            }
            $crate::DataType::Float8E4m3Fnuz => {
                type $element = $crate::Float8E4m3Fnuz;
                $body
            }
            $crate::DataType::Float8E5m2Fnuz => {
                type $element = $crate::Float8E5m2Fnuz;
                $body
            }
            _ => $others,
        }
    };
}

/// Evaluates an expression with a type name as the Rust type of a dtype's elements, which are of a fixed size, complex numbers among them;
/// another expression for strings and bytes. Used as [`with_number`](crate::with_number).
#[macro_export]
macro_rules! with_element {
    ($dtype:expr, $element:ident => $body:expr, else $others:expr) => {
        match $dtype {
            $crate::DataType::Complex64 => {
                type $element = $crate::Complex<f32>;
                $body
            }
            $crate::DataType::Complex128 => {
                type $element = $crate::Complex<f64>;
                $body
            }
            real => $crate::with_number!(real, $element => $body, else $others),
        }
    };
}
