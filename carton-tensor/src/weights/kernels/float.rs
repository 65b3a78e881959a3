//! The two float types that the kernels compute with. Everything else is widened to one of them, in parts.

use bytemuck::Pod;

/// `f32` or `f64`, seen as the kernels need it.
pub(crate) trait Float: Pod + PartialOrd + Send + Sync {
    /// Zero.
    const ZERO: Self;
    /// The largest number below a half. Added before a number is truncated, it rounds; a half itself would carry the number just below 0.5 to 1.
    const BELOW_HALF: Self;

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
    /// The product, rounded.
    fn times(self, other: Self) -> Self;
    /// The nearest integer, halves away from zero, clamped to -128…127. NaN gives -128.
    fn round_to_i8(self) -> i8;
    /// The scale for a tensor with this largest absolute value, see [`Scale`](super::Scale).
    fn scale(max: Self) -> super::Scale<Self>;
}

macro_rules! float {
    ($float:ident, $bits:ident, $below_half:expr, $scale:expr) => {
        impl Float for $float {
            const ZERO: Self = 0.0;
            const BELOW_HALF: Self = $below_half;
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

            #[inline(always)]
            fn times(self, other: Self) -> Self {
                self * other
            }

            #[inline(always)]
            fn round_to_i8(self) -> i8 {
                let rounded = self + Self::BELOW_HALF.copysign(self);
                // Written as comparisons so that NaN becomes a number, and that each is one instruction.
                let rounded = if rounded > -128.0 { rounded } else { -128.0 };
                let rounded = if rounded < 127.0 { rounded } else { 127.0 };
                // SAFETY: the number is no NaN and between -128 and 127 since the two lines above.
                let integer = unsafe { rounded.to_int_unchecked::<i32>() };
                integer as i8
            }

            fn scale(max: Self) -> super::Scale<Self> {
                $scale(max)
            }
        }
    };
}

float!(f32, u32, 0.499_999_97_f32, super::quantize::scale_f32);
float!(f64, u64, 0.499_999_999_999_999_94_f64, super::quantize::scale_f64);

#[cfg(test)]
mod tests {
    use super::*;

    fn check(number: f64, expected: i8) {
        assert_eq!(number.round_to_i8(), expected, "{number:e}");
        let negative = if number >= 127.5 { -128 } else { -expected };
        assert_eq!((-number).round_to_i8(), negative, "{:e}", -number);
    }

    #[test]
    fn halves_are_rounded_away_from_zero() {
        check(0.0, 0);
        check(0.5, 1);
        check(0.499_999_999_999_999_94, 0);
        check(1.499_999_999, 1);
        check(1.5, 2);
        check(2.5, 3);
        check(126.5, 127);
        check(127.4, 127);
        check(127.6, 127);
        check(1e300, 127);
        check(f64::INFINITY, 127);
        assert_eq!(f32::NAN.round_to_i8(), -128);
        assert_eq!((f32::from_bits(0.5_f32.to_bits() - 1).round_to_i8(), 0.5_f32.round_to_i8()), (0, 1));
    }

    /// Against the standard library's `round`, which rounds halves away from zero.
    #[test]
    fn every_quarter_and_its_neighbours_are_rounded_as_the_standard_library_does() {
        for quarter in -600_i16..=600 {
            let number = f32::from(quarter) / 4.0;
            for bits in [number.to_bits().saturating_sub(1), number.to_bits(), number.to_bits() + 1] {
                let number = f32::from_bits(bits);
                assert_eq!(number.round_to_i8(), number.round() as i8, "{number:e}");
                let number = f64::from(number);
                assert_eq!(number.round_to_i8(), number.round() as i8, "{number:e}");
            }
        }
    }
}
