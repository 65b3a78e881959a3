//! The two float types that the kernels compute with. Everything else is widened to one of them, in parts.

use std::ops::Mul;

use bytemuck::Pod;

/// `f32` or `f64`, seen as the kernels need it.
pub(crate) trait Float: Pod + PartialOrd + Mul<Output = Self> + Send + Sync {
    /// Zero.
    const ZERO: Self;

    /// The absolute value's bits, as an integer that is ordered as absolute values are: infinity comes after every
    /// finite number, NaN after infinity.
    type Bits: Copy + Ord + Default;
    /// The bits of infinity.
    const INFINITE: Self::Bits;

    /// The same number.
    fn to_f64(self) -> f64;
    /// The nearest number of this type.
    fn from_f64(number: f64) -> Self;
    /// The bits of the absolute value.
    fn magnitude(self) -> Self::Bits;
    /// The number with these bits.
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
