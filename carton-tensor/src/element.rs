//! The Rust types that numeric tensors hold.

use bytemuck::Pod;
use half::{bf16, f16};
use num_complex::Complex;

use crate::{BoolByte, DataType, Float8E4m3Fn, Float8E4m3Fnuz, Float8E5m2, Float8E5m2Fnuz};

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

/// Evaluates an expression with `$element` as the Rust type of a dtype's elements, which are real numbers or booleans.
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
                type $element = half::f16;
                $body
            }
            $crate::DataType::BFloat16 => {
                type $element = half::bf16;
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
            $crate::DataType::Complex64
            | $crate::DataType::Complex128
            | $crate::DataType::String
            | $crate::DataType::Bytes => $others,
        }
    };
}

/// Evaluates an expression with `$element` as the Rust type of a dtype's elements, which are of a fixed size.
macro_rules! with_element {
    ($dtype:expr, $element:ident => $body:expr, else $others:expr) => {
        match $dtype {
            $crate::DataType::Complex64 => {
                type $element = num_complex::Complex<f32>;
                $body
            }
            $crate::DataType::Complex128 => {
                type $element = num_complex::Complex<f64>;
                $body
            }
            real => $crate::element::with_number!(real, $element => $body, else $others),
        }
    };
}

pub(crate) use with_element;
pub(crate) use with_number;
