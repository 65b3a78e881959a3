//! Rounds floats to another float type (spec/weights.md §6), which loses precision. Everything else in this crate that changes a type keeps
//! each number or fails.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

use crate::cast::to_odd;
use crate::files::ElementType;

/// A type that floats can be rounded to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FloatType {
    /// `bfloat16`.
    BFloat16,
    /// `float16`, binary16 of IEEE 754.
    Float16,
    /// `float32`, binary32 of IEEE 754.
    Float32,
    /// `float8_e4m3fn` of the OCP, which has NaN and no infinities.
    Float8E4m3Fn,
}

/// What happens to numbers beyond the largest finite one of the type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Beyond {
    /// They are counted, and the caller refuses them: what was made of them is not to be used.
    #[default]
    Counted,
    /// They become the largest finite number with their sign, and are counted.
    Saturated,
}

impl FloatType {
    /// The element type.
    #[must_use]
    pub const fn element_type(self) -> ElementType {
        match self {
            Self::BFloat16 => ElementType::BFloat16,
            Self::Float16 => ElementType::Float16,
            Self::Float32 => ElementType::Float32,
            Self::Float8E4m3Fn => ElementType::Float8E4m3Fn,
        }
    }

    /// Rounds floats of type `from`, little-endian, to this type: to the nearest number, of two equally near ones to the one with an even
    /// last bit (IEEE 754-2019, 4.3.1), in one step whatever `from` is. The result replaces what is in `out`. Returns the number of finite numbers beyond the
    /// largest finite one of this type, with the infinities where it has none; `None` if `from` is no float type. NaN stays NaN.
    ///
    /// ```
    /// use carton_tensor::files::ElementType;
    /// use carton_tensor::weights::{Beyond, FloatType};
    /// let numbers: Vec<u8> = [1.0_f32, 70_000.0].iter().flat_map(|number| number.to_le_bytes()).collect();
    /// let mut halves = Vec::new();
    /// let beyond = FloatType::Float16.round(ElementType::Float32, &numbers, Beyond::Saturated, &mut halves);
    /// assert_eq!((beyond, halves), (Some(1), vec![0, 0x3c, 0xff, 0x7b]));
    /// ```
    pub fn round(self, from: ElementType, bytes: &[u8], beyond: Beyond, out: &mut Vec<u8>) -> Option<u64> {
        out.clear();
        if from == ElementType::Float64 {
            let wide = from.to_f64(bytes)?;
            return Some(match self {
                Self::Float32 => put(wide.iter().map(|number| (*number as f32, *number)), f32::MAX, beyond, out),
                _ => self.round_f32(&wide.into_iter().map(to_odd).collect::<Vec<f32>>(), beyond, out),
            });
        }
        if !from.is_float() {
            return None;
        }
        Some(self.round_f32(&from.to_f32(bytes)?, beyond, out))
    }

    fn round_f32(self, wide: &[f32], beyond: Beyond, out: &mut Vec<u8>) -> u64 {
        match self {
            Self::Float32 => {
                out.extend_from_slice(bytemuck::cast_slice(wide));
                0
            }
            Self::BFloat16 => {
                let mut rounded = vec![bf16::ZERO; wide.len()];
                rounded.convert_from_f32_slice(wide);
                put(rounded.into_iter().zip(wide.iter().map(|number| f64::from(*number))), bf16::MAX, beyond, out)
            }
            Self::Float16 => {
                let mut rounded = vec![f16::ZERO; wide.len()];
                rounded.convert_from_f32_slice(wide);
                put(rounded.into_iter().zip(wide.iter().map(|number| f64::from(*number))), f16::MAX, beyond, out)
            }
            Self::Float8E4m3Fn => {
                let mut n_beyond = 0;
                out.extend(wide.iter().map(|&number| {
                    let (byte, is_beyond) = to_e4m3fn(number);
                    n_beyond += u64::from(is_beyond);
                    byte
                }));
                n_beyond
            }
        }
    }
}

/// A rounded number that may be infinite.
trait Rounded: bytemuck::NoUninit + std::ops::Neg<Output = Self> {
    fn is_infinite(self) -> bool;
}

macro_rules! rounded {
    ($($float:ty),*) => {$(
        impl Rounded for $float {
            fn is_infinite(self) -> bool {
                <$float>::is_infinite(self)
            }
        }
    )*};
}
rounded!(f32, f16, bf16);

/// Appends rounded numbers, each with the number that it was, to `out`. Returns how many became infinite.
fn put<F: Rounded>(numbers: impl Iterator<Item = (F, f64)>, largest: F, beyond: Beyond, out: &mut Vec<u8>) -> u64 {
    let mut n_beyond = 0;
    for (rounded, number) in numbers {
        let is_beyond = rounded.is_infinite() && number.is_finite();
        n_beyond += u64::from(is_beyond);
        let rounded = match (is_beyond && beyond == Beyond::Saturated, number < 0.0) {
            (false, _) => rounded,
            (true, false) => largest,
            (true, true) => -largest,
        };
        out.extend_from_slice(bytemuck::bytes_of(&rounded));
    }
    n_beyond
}

/// The largest finite number of `float8_e4m3fn`, 448, as its byte.
const LARGEST_E4M3FN: u8 = 0x7e;

/// Rounds to `float8_e4m3fn`. A number beyond the largest finite one becomes that, and the second value says so.
fn to_e4m3fn(number: f32) -> (u8, bool) {
    /// What follows the 3 bits of the mantissa in binary32.
    const DROPPED: u32 = 23 - 3;
    /// The difference of the biases of the exponents.
    const BIAS: u32 = 127 - 7;
    /// The smallest normal number, 2^-6, and the number whose last bit is worth as much as the smallest subnormal one, 2^-9.
    const NORMAL: f32 = 0.015_625;
    const SHIFT: f32 = 16_384.0;
    /// Halfway between 448 and the number that would follow it. It is rounded to 448, which is even.
    const LIMIT: f32 = 464.0;
    let sign = if number.is_sign_negative() { 0x80 } else { 0 };
    let magnitude = number.abs();
    if number.is_nan() {
        return (0x7f | sign, false);
    }
    if magnitude > LIMIT {
        return (LARGEST_E4M3FN | sign, true);
    }
    let byte = if magnitude < NORMAL {
        (magnitude + SHIFT).to_bits() - SHIFT.to_bits()
    } else {
        let bits = magnitude.to_bits();
        let rounded = bits + (1 << (DROPPED - 1)) - 1 + (bits >> DROPPED & 1);
        (rounded >> DROPPED) - (BIAS << 3)
    };
    // At most 0x7e, because of the limit.
    (byte as u8 | sign, false)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::convert_numbers;
    use crate::small_float::{E4M3FN_VALUES, nearest};

    fn rounded(to: FloatType, numbers: &[f64], beyond: Beyond) -> (Vec<u8>, u64) {
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        let mut out = Vec::new();
        let n_beyond = to.round(ElementType::Float64, &bytes, beyond, &mut out).unwrap();
        (out, n_beyond)
    }

    /// Numbers around each number of the type and each middle of two of them.
    #[test]
    fn float8_is_the_nearest() {
        let finite = E4M3FN_VALUES[..0x7f].iter().map(|value| f64::from(*value));
        let finite: Vec<f64> = finite.collect();
        let middles = finite.windows(2).map(|pair| pair[0].midpoint(pair[1]));
        let around =
            finite.iter().copied().chain(middles).flat_map(|number| [number.next_down(), number, number.next_up()]);
        for number in around.flat_map(|number| [number, -number]) {
            let expected = nearest(&E4M3FN_VALUES, number).unwrap();
            assert_eq!(rounded(FloatType::Float8E4m3Fn, &[number], Beyond::Counted), (vec![expected], 0), "{number:e}");
        }
    }

    #[test]
    fn float64_is_rounded_once() {
        // Just above the middle of two numbers of bfloat16, and nearer to it than float32 can say.
        let above = 1.0 + f64::powi(2.0, -8) + f64::powi(2.0, -40);
        assert_eq!(rounded(FloatType::BFloat16, &[above], Beyond::Counted).0, bf16::from_bits(0x3f81).to_le_bytes());
        assert_eq!(
            rounded(FloatType::BFloat16, &[1.0 + f64::powi(2.0, -8)], Beyond::Counted).0,
            bf16::ONE.to_le_bytes()
        );
        for number in [above, 1e-50, 65_519.999_999_999, 5.96e-8, 0.1, f64::MIN_POSITIVE] {
            for number in [number, -number] {
                let (mut half, mut brain) = ([f16::ZERO], [bf16::ZERO]);
                convert_numbers(&[number], &mut half).unwrap_or_default();
                convert_numbers(&[number], &mut brain).unwrap_or_default();
                assert_eq!(
                    rounded(FloatType::Float16, &[number], Beyond::Counted).0,
                    half[0].to_le_bytes(),
                    "{number:e}"
                );
                assert_eq!(
                    rounded(FloatType::BFloat16, &[number], Beyond::Counted).0,
                    brain[0].to_le_bytes(),
                    "{number:e}"
                );
            }
        }
    }

    #[test]
    fn numbers_beyond_are_counted_and_saturated() {
        let check = |to, largest: f64, bytes: &[u8]| {
            let numbers = [largest * 1.2, -largest * 1.2, largest];
            assert_eq!(rounded(to, &numbers, Beyond::Counted).1, 2);
            assert_eq!(rounded(to, &numbers, Beyond::Saturated), (bytes.to_vec(), 2));
        };
        check(FloatType::Float16, 65_504.0, &[0xff, 0x7b, 0xff, 0xfb, 0xff, 0x7b]);
        check(FloatType::Float8E4m3Fn, 448.0, &[0x7e, 0xfe, 0x7e]);
        check(FloatType::BFloat16, f64::from(bf16::MAX), &[0x7f, 0x7f, 0x7f, 0xff, 0x7f, 0x7f]);
        check(FloatType::Float32, f64::from(f32::MAX), &[255, 255, 127, 127, 255, 255, 127, 255, 255, 255, 127, 127]);
    }

    #[test]
    fn what_is_not_finite() {
        let numbers = [f64::INFINITY, f64::NEG_INFINITY];
        assert_eq!(rounded(FloatType::Float16, &numbers, Beyond::Saturated), (vec![0, 0x7c, 0, 0xfc], 0));
        assert_eq!(rounded(FloatType::Float8E4m3Fn, &numbers, Beyond::Counted).1, 2);
        assert_eq!(rounded(FloatType::Float8E4m3Fn, &[f64::NAN], Beyond::Counted), (vec![0x7f], 0));
        let mut out = Vec::new();
        assert_eq!(FloatType::Float32.round(ElementType::Int8, &[1], Beyond::Counted, &mut out), None);
    }
}
