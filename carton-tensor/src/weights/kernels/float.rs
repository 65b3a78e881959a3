//! The two float types that the kernels compute with. All other types are widened to one of them, in parts.

use std::ops::Mul;

use bytemuck::Pod;

/// `f32` or `f64`, with the operations that the kernels need.
pub(crate) trait Float: Pod + PartialOrd + Mul<Output = Self> + Send + Sync {
    /// Zero.
    const ZERO: Self;

    /// The bits of the absolute value as an integer. Their order is that of absolute values: infinity comes after every finite number,
    /// and NaN after infinity.
    type Bits: Copy + Ord + Default;
    /// The bits of infinity.
    const INFINITE: Self::Bits;

    /// Converts the number exactly.
    fn to_f64(self) -> f64;
    /// Returns the nearest number of this type.
    fn from_f64(number: f64) -> Self;
    /// Returns the bits of the absolute value.
    fn magnitude(self) -> Self::Bits;
    /// Returns the number with these bits.
    fn of_magnitude(bits: Self::Bits) -> Self;
}

macro_rules! float {
    ($float:ident, $bits:ident) => {
        impl Float for $float {
            const ZERO: Self = 0.0;
            type Bits = $bits;
            const INFINITE: $bits = $float::INFINITY.to_bits();

            #[inline(always)]
            fn to_f64(self) -> f64 {
                f64::from(self)
            }

            #[inline(always)]
            fn from_f64(number: f64) -> Self {
                number as Self
            }

            #[inline(always)]
            fn magnitude(self) -> $bits {
                self.to_bits() & ($bits::MAX >> 1)
            }

            #[inline(always)]
            fn of_magnitude(bits: $bits) -> Self {
                Self::from_bits(bits)
            }
        }
    };
}

float!(f32, u32);
float!(f64, u64);
