//! The loop of [`quantize`](super::quantize): numbers times a scale, rounded to int8. Of float32 it is written with the processor's vectors,
//! whose narrowing instructions clamp on the way; a compiler does not find them.

use super::block::CHUNK;
use super::float::Float;
use super::level::Instructions;

/// A float that is rounded to int8 in chunks.
pub(crate) trait RoundToInt8: Float {
    /// Writes the integers nearest to the products of `numbers` with `scale`, halves away from zero, clamped to -128…127. Products beyond the
    /// range of `i32` and NaN give any integer.
    fn round_chunk(instructions: Instructions, numbers: &[Self; CHUNK], scale: Self, out: &mut [i8; CHUNK]);
}

impl RoundToInt8 for f32 {
    #[inline(always)]
    fn round_chunk(instructions: Instructions, numbers: &[f32; CHUNK], scale: f32, out: &mut [i8; CHUNK]) {
        match instructions {
            Instructions::Baseline => round_plain(numbers, scale, out),
            // SAFETY: that there is such a value says that this CPU has the instructions.
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2(_) => unsafe { x86::round_by_8(numbers, scale, out) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512(_) => unsafe { x86::round_by_16(numbers, scale, out) },
        }
    }
}

impl RoundToInt8 for f64 {
    #[inline(always)]
    fn round_chunk(_: Instructions, numbers: &[f64; CHUNK], scale: f64, out: &mut [i8; CHUNK]) {
        round_plain(numbers, scale, out);
    }
}

#[inline(always)]
fn round_plain<F: Float>(numbers: &[F; CHUNK], scale: F, out: &mut [i8; CHUNK]) {
    for (out, &number) in out.iter_mut().zip(numbers) {
        *out = number.times(scale).round_to_i8();
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m256, __m256i, __m512, __m512i, _mm256_add_ps, _mm256_and_ps, _mm256_cvttps_epi32, _mm256_mul_ps,
        _mm256_or_ps, _mm256_packs_epi16, _mm256_packs_epi32, _mm256_permutevar8x32_epi32, _mm256_set1_ps,
        _mm256_setr_epi32, _mm512_add_ps, _mm512_and_ps, _mm512_cvttps_epi32, _mm512_mul_ps, _mm512_or_ps,
        _mm512_packs_epi16, _mm512_packs_epi32, _mm512_permutexvar_epi32, _mm512_set1_ps, _mm512_setr_epi32,
    };

    use bytemuck::must_cast as cast;

    use super::{CHUNK, Float};

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn round_by_8(numbers: &[f32; CHUNK], scale: f32, out: &mut [i8; CHUNK]) {
        let (scale, sign, below_half) = (_mm256_set1_ps(scale), _mm256_set1_ps(-0.0), _mm256_set1_ps(f32::BELOW_HALF));
        let numbers: [__m256; 8] = cast(*numbers);
        let [a, b, c, d, e, f, g, h] = numbers.map(|numbers| {
            let scaled = _mm256_mul_ps(numbers, scale);
            let signed = _mm256_or_ps(_mm256_and_ps(scaled, sign), below_half);
            _mm256_cvttps_epi32(_mm256_add_ps(scaled, signed))
        });
        let narrow = |a: __m256i, b: __m256i, c: __m256i, d: __m256i| {
            let packed = _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
            // Each half of the register was packed by itself.
            _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7))
        };
        *out = cast([narrow(a, b, c, d), narrow(e, f, g, h)]);
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq")]
    pub(super) fn round_by_16(numbers: &[f32; CHUNK], scale: f32, out: &mut [i8; CHUNK]) {
        let (scale, sign, below_half) = (_mm512_set1_ps(scale), _mm512_set1_ps(-0.0), _mm512_set1_ps(f32::BELOW_HALF));
        let numbers: [__m512; 4] = cast(*numbers);
        let [a, b, c, d] = numbers.map(|numbers| {
            let scaled = _mm512_mul_ps(numbers, scale);
            let signed = _mm512_or_ps(_mm512_and_ps(scaled, sign), below_half);
            _mm512_cvttps_epi32(_mm512_add_ps(scaled, signed))
        });
        let packed: __m512i = _mm512_packs_epi16(_mm512_packs_epi32(a, b), _mm512_packs_epi32(c, d));
        // Each quarter of the register was packed by itself.
        let in_order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
        *out = cast(_mm512_permutexvar_epi32(in_order, packed));
    }
}

#[cfg(test)]
mod tests {
    use super::super::level::Level;
    use super::*;

    /// Every quarter and its neighbours, beside the standard library's `round`, in every lane.
    #[test]
    fn every_instruction_set_rounds_as_the_standard_library_does() {
        let quarters = (-600_i16..=600).map(|quarter| f32::from(quarter) / 4.0);
        let mut numbers: Vec<f32> =
            quarters.flat_map(|number| [number.next_down(), number, number.next_up()]).collect();
        numbers.extend([0.0, -0.0, f32::MIN_POSITIVE, 1e9, -1e9]);
        for lane in 0..CHUNK {
            for chunk in numbers[lane..].as_chunks::<CHUNK>().0 {
                for level in Level::available() {
                    let mut out = [99; CHUNK];
                    f32::round_chunk(level.instructions(), chunk, 1.0, &mut out);
                    assert_eq!(out, chunk.map(|number| number.round() as i8), "{level:?}, {chunk:?}");
                    f32::round_chunk(level.instructions(), &chunk.map(|number| number * 0.5), -2.0, &mut out);
                    assert_eq!(out, chunk.map(|number| (-number).round() as i8), "{level:?}, {chunk:?}");
                }
            }
        }
    }
}
