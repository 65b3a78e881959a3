//! The Rust types that numeric tensors hold.

use bytemuck::Pod;

use crate::DataType;

mod sealed {
    pub trait Sealed {}
}

/// A Rust number that can be an element of numeric tensors. Every bit pattern is a valid value.
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
}

/// Evaluates an expression with `$element` as the Rust type of a dtype's elements.
macro_rules! with_element {
    ($dtype:expr, $element:ident => $body:expr, else $strings:expr) => {
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
            $crate::DataType::String => $strings,
        }
    };
}

pub(crate) use with_element;
