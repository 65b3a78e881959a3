//! The Rust types that numeric tensors hold.

use bytemuck::Pod;

use crate::DataType;

mod sealed {
    pub trait Sealed {}
}

/// A Rust number that is an element of numeric tensors. Every bit pattern is a valid value.
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
