//! The encodings of elements. Integer arithmetic without branches, which every vector unit supports, widens small floats. Special
//! instructions, where available, widen binary16. No conversion computes with subnormal numbers of float32, because many CPUs are slow
//! with them.

use super::block::Source;
use super::level::Instructions;

macro_rules! in_place {
    ($name:ident, $float:ty, $doc:literal) => {
        #[doc = $doc]
        pub(crate) struct $name;

        impl Source for $name {
            type Wide = $float;
            const BITS: usize = 8 * size_of::<$float>();
            const IS_WIDE: bool = true;

            #[inline(always)]
            fn widen(_: Instructions, bytes: &[u8], wide: &mut [$float]) {
                let (elements, _) = bytes.as_chunks();
                for (wide, &element) in wide.iter_mut().zip(elements) {
                    *wide = <$float>::from_le_bytes(element);
                }
            }

            #[inline(always)]
            fn in_place(bytes: &[u8]) -> Option<&[$float]> {
                let whole = bytes.len() / size_of::<$float>() * size_of::<$float>();
                bytemuck::try_cast_slice(&bytes[..whole]).ok()
            }
        }
    };
}
in_place!(F32, f32, "IEEE 754 binary32, which may lie at any address.");
in_place!(F64, f64, "IEEE 754 binary64, which may lie at any address.");

macro_rules! widened {
    ($name:ident, $element:ty, $wide:ty, $doc:literal, $widen:expr) => {
        #[doc = $doc]
        pub(crate) struct $name;

        impl Source for $name {
            type Wide = $wide;
            const BITS: usize = 8 * size_of::<$element>();

            #[inline(always)]
            fn widen(_: Instructions, bytes: &[u8], wide: &mut [$wide]) {
                let (elements, _) = bytes.as_chunks();
                for (wide, &element) in wide.iter_mut().zip(elements) {
                    *wide = $widen(<$element>::from_le_bytes(element));
                }
            }
        }
    };
}
widened!(F8E5m2, u8, f32, "FP8 with infinities: the upper half of binary16.", |bits| half_to_f32(u16::from(bits) << 8));
widened!(F8E4m3, u8, f32, "FP8 without infinities (OCP's E4M3, `fn`).", |bits| small_to_f32::<3, 7>(
    bits,
    0x7f,
    bits & 0x7f
));
widened!(F8E4m3Fnuz, u8, f32, "FP8 without infinities and negative zero.", |bits| small_to_f32::<3, 8>(
    bits, 0x80, bits
));
widened!(F8E5m2Fnuz, u8, f32, "FP8 without infinities and negative zero.", |bits| small_to_f32::<2, 16>(
    bits, 0x80, bits
));
widened!(F8E8m0, u8, f32, "A power of two.", scale_to_f32);
widened!(Bool, u8, f32, "0 or 1; any other byte counts as 1.", |byte| f32::from(u8::from(byte != 0)));
widened!(U8, u8, f32, "Unsigned, 1 byte.", f32::from);
widened!(I8, i8, f32, "Signed, 1 byte.", f32::from);
widened!(U16, u16, f32, "Unsigned, 2 bytes.", f32::from);
widened!(I16, i16, f32, "Signed, 2 bytes.", f32::from);
widened!(U32, u32, f64, "Unsigned, 4 bytes.", f64::from);
widened!(I32, i32, f64, "Signed, 4 bytes.", f64::from);
widened!(U64, u64, f64, "Unsigned, 8 bytes, rounded above 2 to the power of 53.", |integer| integer as f64);
widened!(I64, i64, f64, "Signed, 8 bytes, rounded above 2 to the power of 53.", |integer| integer as f64);

/// The upper half of binary32 (bfloat16).
pub(crate) struct Bf16;

impl Source for Bf16 {
    type Wide = f32;
    const BITS: usize = 16;
    const IS_ORDERED_16_BITS: bool = true;

    #[inline(always)]
    fn widen(_: Instructions, bytes: &[u8], wide: &mut [f32]) {
        let (elements, _) = bytes.as_chunks();
        for (wide, &element) in wide.iter_mut().zip(elements) {
            *wide = f32::from_bits(u32::from(u16::from_le_bytes(element)) << 16);
        }
    }
}

/// IEEE 754 binary16.
pub(crate) struct F16;

impl Source for F16 {
    type Wide = f32;
    const BITS: usize = 16;
    const IS_ORDERED_16_BITS: bool = true;

    #[inline(always)]
    fn widen(instructions: Instructions, bytes: &[u8], wide: &mut [f32]) {
        let (elements, _) = bytes.as_chunks();
        match instructions {
            Instructions::Baseline => halves_to_f32(elements, wide),
            // SAFETY: the value only exists if this CPU has the instructions.
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2(_) => unsafe { converted::by_8(elements, wide) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512(_) => unsafe { converted::by_16(elements, wide) },
        }
    }
}

#[inline(always)]
fn halves_to_f32(elements: &[[u8; 2]], wide: &mut [f32]) {
    for (wide, &element) in wide.iter_mut().zip(elements) {
        *wide = half_to_f32(u16::from_le_bytes(element));
    }
}

/// Widens binary16 by dedicated instructions.
#[cfg(target_arch = "x86_64")]
mod converted {
    use std::arch::x86_64::{_mm256_cvtph_ps, _mm512_cvtph_ps};

    use bytemuck::must_cast as cast;

    use super::halves_to_f32;

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    pub(super) fn by_8(elements: &[[u8; 2]], wide: &mut [f32]) {
        let (elements, elements_left) = elements.as_chunks::<8>();
        let (wide, wide_left) = wide.as_chunks_mut::<8>();
        for (wide, elements) in wide.iter_mut().zip(elements) {
            *wide = cast(_mm256_cvtph_ps(cast(*elements)));
        }
        halves_to_f32(elements_left, wide_left);
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn by_16(elements: &[[u8; 2]], wide: &mut [f32]) {
        let (elements, elements_left) = elements.as_chunks::<16>();
        let (wide, wide_left) = wide.as_chunks_mut::<16>();
        for (wide, elements) in wide.iter_mut().zip(elements) {
            *wide = cast(_mm512_cvtph_ps(cast(*elements)));
        }
        halves_to_f32(elements_left, wide_left);
    }
}

/// Converts binary16 to binary32. An addition changes the bias of the exponent. A subnormal number has no implied leading one, so a one
/// is added to its bits and then subtracted as a number, which normalizes it.
#[inline(always)]
fn half_to_f32(bits: u16) -> f32 {
    const BIAS: u32 = (127 - 15) << 23;
    const SMALLEST_NORMAL: u32 = 113 << 23;
    let bits = u32::from(bits);
    let magnitude = (bits & 0x7fff) << 13;
    let exponent = magnitude & (0x7c00 << 13);
    let normal = magnitude + BIAS;
    let special = normal + ((128 - 16) << 23);
    let subnormal = f32::from_bits(normal + (1 << 23)) - f32::from_bits(SMALLEST_NORMAL);
    let magnitude = if exponent == 0 { subnormal.to_bits() } else { normal };
    let magnitude = if exponent == 0x7c00 << 13 { special } else { magnitude };
    f32::from_bits(magnitude | (bits & 0x8000) << 16)
}

/// Converts a byte of sign, exponent with bias `BIAS`, and `MANTISSA` bits of mantissa to binary32. The result is NaN if `compared`
/// equals `nan`. There are no infinities.
#[inline(always)]
fn small_to_f32<const MANTISSA: u32, const BIAS: u32>(bits: u8, nan: u8, compared: u8) -> f32 {
    let wide = u32::from(bits);
    let magnitude = (wide & 0x7f) << (23 - MANTISSA);
    let normal = magnitude + ((127 - BIAS) << 23);
    let subnormal = f32::from_bits(normal + (1 << 23)) - f32::from_bits((128 - BIAS) << 23);
    let magnitude = if magnitude >> 23 == 0 { subnormal.to_bits() } else { normal };
    let number = f32::from_bits(magnitude | (wide & 0x80) << 24);
    if compared == nan { f32::NAN } else { number }
}

/// Converts an exponent with bias 127 to a power of two; 255 is NaN. The smallest power is subnormal in binary32.
#[inline(always)]
fn scale_to_f32(bits: u8) -> f32 {
    let number = if bits == 0 { 1 << 22 } else { u32::from(bits) << 23 };
    if bits == 255 { f32::NAN } else { f32::from_bits(number) }
}

/// FP4 (E2M1), two elements per byte, the lower half first.
pub(crate) struct F4;

impl Source for F4 {
    type Wide = f32;
    const BITS: usize = 4;

    #[inline(always)]
    fn widen(_: Instructions, bytes: &[u8], wide: &mut [f32]) {
        let (pairs, _) = wide.as_chunks_mut::<2>();
        for (pair, &byte) in pairs.iter_mut().zip(bytes) {
            *pair = [of_f4(byte & 15), of_f4(byte >> 4)];
        }
    }
}

#[inline(always)]
fn of_f4(bits: u8) -> f32 {
    // Shifts the bits to the position of sign, exponent and mantissa in E4M3, with a bias of 1.
    small_to_f32::<3, 1>((bits & 7) << 2 | (bits & 8) << 4, 1, 0)
}

macro_rules! six_bits {
    ($name:ident, $doc:literal, $widen:expr) => {
        #[doc = $doc]
        pub(crate) struct $name;

        impl Source for $name {
            type Wide = f32;
            const BITS: usize = 6;

            #[inline(always)]
            fn widen(_: Instructions, bytes: &[u8], wide: &mut [f32]) {
                let ((groups, _), (fours, _)) = (bytes.as_chunks::<3>(), wide.as_chunks_mut::<4>());
                for (four, &[a, b, c]) in fours.iter_mut().zip(groups) {
                    let bits = u32::from_le_bytes([a, b, c, 0]);
                    *four = [0, 6, 12, 18].map(|shift| $widen((bits >> shift) as u8 & 63));
                }
            }
        }
    };
}
six_bits!(F6E2m3, "FP6, four to three bytes, lowest bits first.", |bits: u8| {
    small_to_f32::<3, 1>(bits & 31 | (bits & 32) << 2, 1, 0)
});
six_bits!(F6E3m2, "FP6, four to three bytes, lowest bits first.", |bits: u8| {
    small_to_f32::<2, 3>(bits & 31 | (bits & 32) << 2, 1, 0)
});
