//! Quantizes floats to int8 (spec/weights.md §2.2): computes the scale, and rounds products with it. For float32 this uses vector
//! intrinsics, whose narrowing instructions clamp, so that no separate clamping is needed.

use super::float::Float;
use super::level::Instructions;

/// The factors by which numbers are multiplied before they are rounded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scale<F> {
    /// A power of two that lifts tiny float32 numbers, whose scale would overflow float32; otherwise 1.
    pub(super) lift: F,
    /// The factor for lifted numbers.
    pub(super) factor: F,
}

impl<F: RoundToInt8> Scale<F> {
    /// Returns `127 / largest`, or 1 if all numbers are zero.
    pub(crate) fn of(largest: F) -> Self {
        F::scale(largest)
    }

    /// Returns the product of both factors, which float64 holds exactly.
    pub(crate) fn as_f64(self) -> f64 {
        self.lift.to_f64() * self.factor.to_f64()
    }
}

/// A float that can be rounded to int8.
pub(crate) trait RoundToInt8: Float {
    /// Returns the scale for numbers with this largest absolute value.
    fn scale(largest: Self) -> Scale<Self>;

    /// Returns the nearest integer, rounding halves away from zero, clamped to -128…127. NaN gives -128.
    fn round_to_i8(self) -> i8;

    /// Rounds the products of `numbers` with `factor` into `out`. For a product that is NaN or outside `i32`, the integer depends on
    /// the instructions; a scale that was computed from the same numbers rules this out.
    fn round(instructions: Instructions, numbers: &[Self], factor: Self, out: &mut [i8]);
}

macro_rules! round_to_i8 {
    ($float:ident) => {
        #[inline(always)]
        fn round_to_i8(self) -> i8 {
            /// The largest number below a half. It is added to the absolute value before the fraction is truncated. Adding a half itself
            /// would round the number just below 0.5 to 1.
            const BELOW_HALF: $float = $float::next_down(0.5);
            let rounded = self + BELOW_HALF.copysign(self);
            // Comparisons turn NaN into a number, and each compiles to one instruction.
            let rounded = if rounded > -128.0 { rounded } else { -128.0 };
            let rounded = if rounded < 127.0 { rounded } else { 127.0 };
            // SAFETY: the two lines above make sure that the number is not NaN and lies between -128 and 127.
            let integer = unsafe { rounded.to_int_unchecked::<i32>() };
            integer as i8
        }
    };
}

impl RoundToInt8 for f32 {
    fn scale(largest: f32) -> Scale<f32> {
        /// 2 to the power of 100.
        const LIFT: f32 = f32::from_bits((127 + 100) << 23);
        if largest == 0.0 {
            return Scale { lift: 1.0, factor: 1.0 };
        }
        let factor = 127.0 / largest;
        if factor.is_finite() {
            Scale { lift: 1.0, factor }
        } else {
            Scale { lift: LIFT, factor: 127.0 / (largest * LIFT) }
        }
    }

    round_to_i8!(f32);

    #[inline(always)]
    fn round(instructions: Instructions, numbers: &[f32], factor: f32, out: &mut [i8]) {
        match instructions {
            Instructions::Baseline => round_plain(numbers, factor, out),
            // SAFETY: the value only exists if this CPU has the instructions.
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2(_) => unsafe { x86::round_by_32(numbers, factor, out) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512(_) => unsafe { x86::round_by_64(numbers, factor, out) },
        }
    }
}

impl RoundToInt8 for f64 {
    /// For numbers below 1e-306 the scale would overflow float64, so it is capped at the largest finite number.
    fn scale(largest: f64) -> Scale<f64> {
        Scale { lift: 1.0, factor: if largest == 0.0 { 1.0 } else { (127.0 / largest).min(f64::MAX) } }
    }

    round_to_i8!(f64);

    #[inline(always)]
    fn round(_: Instructions, numbers: &[f64], factor: f64, out: &mut [i8]) {
        round_plain(numbers, factor, out);
    }
}

#[inline(always)]
fn round_plain<F: RoundToInt8>(numbers: &[F], factor: F, out: &mut [i8]) {
    for (out, &number) in out.iter_mut().zip(numbers) {
        *out = (number * factor).round_to_i8();
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m256, __m512, _mm256_add_ps, _mm256_and_ps, _mm256_cvttps_epi32, _mm256_mul_ps, _mm256_or_ps,
        _mm256_packs_epi16, _mm256_packs_epi32, _mm256_permutevar8x32_epi32, _mm256_set1_ps, _mm256_setr_epi32,
        _mm512_add_ps, _mm512_and_ps, _mm512_cvttps_epi32, _mm512_mul_ps, _mm512_or_ps, _mm512_packs_epi16,
        _mm512_packs_epi32, _mm512_permutexvar_epi32, _mm512_set1_ps, _mm512_setr_epi32,
    };

    use bytemuck::must_cast as cast;

    use super::round_plain;

    /// As that of `round_to_i8`.
    const BELOW_HALF: f32 = 0.5_f32.next_down();

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn round_by_32(numbers: &[f32], factor: f32, out: &mut [i8]) {
        let (factors, sign_bit, below_half) =
            (_mm256_set1_ps(factor), _mm256_set1_ps(-0.0), _mm256_set1_ps(BELOW_HALF));
        // The instructions pack each half of a register separately.
        let in_order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
        let (chunks, numbers_left) = numbers.as_chunks::<32>();
        let (out, out_left) = out.as_chunks_mut::<32>();
        for (out, chunk) in out.iter_mut().zip(chunks) {
            let registers: [__m256; 4] = cast(*chunk);
            let [a, b, c, d] = registers.map(|numbers| {
                let product = _mm256_mul_ps(numbers, factors);
                let half = _mm256_or_ps(_mm256_and_ps(product, sign_bit), below_half);
                _mm256_cvttps_epi32(_mm256_add_ps(product, half))
            });
            let packed = _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
            *out = cast(_mm256_permutevar8x32_epi32(packed, in_order));
        }
        round_plain(numbers_left, factor, out_left);
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq")]
    pub(super) fn round_by_64(numbers: &[f32], factor: f32, out: &mut [i8]) {
        let (factors, sign_bit, below_half) =
            (_mm512_set1_ps(factor), _mm512_set1_ps(-0.0), _mm512_set1_ps(BELOW_HALF));
        // The instructions pack each quarter of a register separately.
        let in_order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
        let (chunks, numbers_left) = numbers.as_chunks::<64>();
        let (out, out_left) = out.as_chunks_mut::<64>();
        for (out, chunk) in out.iter_mut().zip(chunks) {
            let registers: [__m512; 4] = cast(*chunk);
            let [a, b, c, d] = registers.map(|numbers| {
                let product = _mm512_mul_ps(numbers, factors);
                let half = _mm512_or_ps(_mm512_and_ps(product, sign_bit), below_half);
                _mm512_cvttps_epi32(_mm512_add_ps(product, half))
            });
            let packed = _mm512_packs_epi16(_mm512_packs_epi32(a, b), _mm512_packs_epi32(c, d));
            *out = cast(_mm512_permutexvar_epi32(in_order, packed));
        }
        round_plain(numbers_left, factor, out_left);
    }
}

#[cfg(test)]
mod tests {
    use super::super::level::Level;
    use super::*;

    /// Compares every multiple of a quarter, and its neighbours, in every lane of every instruction set with the standard library's
    /// `round`, which rounds halves away from zero.
    fn check<F: RoundToInt8 + std::fmt::Debug>(neighbours: impl Fn(i16) -> [F; 3], round: impl Fn(F) -> i8) {
        let mut numbers: Vec<F> = (-600..=600).flat_map(neighbours).collect();
        let minus_two = F::from_f64(-2.0);
        numbers.extend([0.0, -0.0, 1e-30, 1e9, -1e9].map(F::from_f64));
        numbers.resize(numbers.len().next_multiple_of(64), F::from_f64(0.5));
        for _ in 0..64 {
            let expected: Vec<i8> = numbers.iter().map(|&number| round(number)).collect();
            let halved: Vec<F> = numbers.iter().map(|&number| number * F::from_f64(-0.5)).collect();
            for level in Level::available() {
                for (numbers, factor) in [(&numbers, F::from_f64(1.0)), (&halved, minus_two)] {
                    let mut out = vec![99; numbers.len()];
                    F::round(level.instructions(), numbers, factor, &mut out);
                    assert_eq!(out, expected, "{level:?}, {factor:?}");
                }
            }
            numbers.rotate_left(1);
        }
    }

    #[test]
    fn numbers_are_rounded_as_the_standard_library_does() {
        let quarter = |n: i16| f64::from(n) / 4.0;
        let around = |n: i16| [quarter(n).next_down(), quarter(n), quarter(n).next_up()];
        check::<f64>(around, |number| number.round() as i8);
        let around = |n: i16| [(quarter(n) as f32).next_down(), quarter(n) as f32, (quarter(n) as f32).next_up()];
        check::<f32>(around, |number| number.round() as i8);
    }

    #[test]
    fn large_numbers_are_clamped() {
        assert_eq!([1e300, f64::INFINITY, -1e300, f64::NAN].map(f64::round_to_i8), [127, 127, -128, -128]);
        assert_eq!([1e30, f32::INFINITY, -1e30, f32::NAN].map(f32::round_to_i8), [127, 127, -128, -128]);
    }
}
