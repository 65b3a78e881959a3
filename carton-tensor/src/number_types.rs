//! Element types that Rust lacks: booleans of one byte, of which every bit pattern is valid, and floats of eight bits.

use std::fmt;

use bytemuck::{Pod, Zeroable};

use crate::small_float::{self, E4M3FN_VALUES, E4M3FNUZ_VALUES, E5M2_VALUES, E5M2FNUZ_VALUES};

/// A boolean in a byte, of which any but 0 means true. Rust's `bool` has only two valid bit patterns, and memory that another process
/// writes may have others.
///
/// ```
/// use carton_tensor::{BoolByte, DataType, Tensor};
/// let mask = Tensor::from_vec(vec![BoolByte::from(true), BoolByte::from(false)], vec![2])?;
/// assert_eq!(mask.dtype(), Some(DataType::Bool));
/// assert!(mask.view::<BoolByte>()?[0].get());
/// # Ok::<(), carton_tensor::TensorError>(())
/// ```
#[derive(Clone, Copy, Default, Pod, Zeroable)]
#[repr(transparent)]
pub struct BoolByte(pub u8);

impl BoolByte {
    /// The boolean.
    #[must_use]
    pub const fn get(self) -> bool {
        self.0 != 0
    }
}

impl From<bool> for BoolByte {
    fn from(value: bool) -> Self {
        Self(u8::from(value))
    }
}

impl From<BoolByte> for bool {
    fn from(byte: BoolByte) -> Self {
        byte.get()
    }
}

impl PartialEq for BoolByte {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl Eq for BoolByte {}

impl fmt::Debug for BoolByte {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.get(), f)
    }
}

impl fmt::Display for BoolByte {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.get(), f)
    }
}

macro_rules! small_floats {
    ($($(#[$docs:meta])* $name:ident, $values:ident;)*) => {$(
        $(#[$docs])*
        #[derive(Clone, Copy, Default, Pod, Zeroable)]
        #[repr(transparent)]
        pub struct $name(pub u8);

        impl $name {
            /// The value, which is exact.
            #[must_use]
            pub fn to_f32(self) -> f32 {
                $values[usize::from(self.0)]
            }

            /// The number that is nearest to `value`, ties to even; `None` if there is none that is finite where `value` is.
            #[must_use]
            pub fn from_f64(value: f64) -> Option<Self> {
                small_float::nearest(&$values, value).map(Self)
            }
        }

        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                self.to_f32() == other.to_f32()
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.to_f32(), f)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.to_f32(), f)
            }
        }
    )*};
}

small_floats! {
    /// A float of 4 bits of exponent (bias 7) and 3 of mantissa, without infinity (OCP FP8).
    Float8E4m3Fn, E4M3FN_VALUES;
    /// A float of 5 bits of exponent (bias 15) and 2 of mantissa (OCP FP8).
    Float8E5m2, E5M2_VALUES;
    /// A float of 4 bits of exponent (bias 8) and 3 of mantissa, without infinity and negative zero.
    Float8E4m3Fnuz, E4M3FNUZ_VALUES;
    /// A float of 5 bits of exponent (bias 16) and 2 of mantissa, without infinity and negative zero.
    Float8E5m2Fnuz, E5M2FNUZ_VALUES;
}
