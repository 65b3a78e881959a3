//! The types whose 4 bits number one of sixteen values.

use super::basic::nibbles;
use super::{bytes, scale, word};

/// The values of IQ4_NL and IQ4_XS.
const UNEVEN: [f32; 16] =
    [-127.0, -104.0, -83.0, -65.0, -49.0, -35.0, -22.0, -10.0, 1.0, 13.0, 25.0, 38.0, 53.0, 69.0, 89.0, 113.0];

/// Twice the values of floats of 4 bits (OCP MX). Both zeros are positive.
const DOUBLED_E2M1: [f32; 16] =
    [0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 0.0, -1.0, -2.0, -3.0, -4.0, -6.0, -8.0, -12.0];

/// Uneven values with one scale.
pub(super) fn iq4_nl(block: &[u8; 18], numbers: &mut [f32; 32]) {
    let d = scale(block, 0);
    for (number, q) in numbers.iter_mut().zip(nibbles(bytes::<16>(block, 2))) {
        *number = d * UNEVEN[usize::from(q & 15)];
    }
}

/// Uneven values; scales of 6 bits for 32 elements each.
pub(super) fn iq4_xs(block: &[u8; 136], numbers: &mut [f32; 256]) {
    let (d, high, low): (_, _, [u8; 4]) = (scale(block, 0), word(block, 2), bytes(block, 4));
    for (group, numbers) in numbers.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let low_four = low[group / 2] >> (group % 2 * 4) & 15;
        let high_two = (high >> (group * 2) & 3) as u8;
        let dl = d * (f32::from(low_four | high_two << 4) - 32.0);
        for (number, q) in numbers.iter_mut().zip(nibbles(bytes::<16>(block, 8 + group * 16))) {
            *number = dl * UNEVEN[usize::from(q & 15)];
        }
    }
}

/// Floats of 4 bits with a power of two.
pub(super) fn mxfp4(block: &[u8; 17], numbers: &mut [f32; 32]) {
    let exponent = u32::from(block[0]);
    // Half of the power, because the values are doubled. The smallest two are subnormal.
    let d = f32::from_bits(if exponent < 2 { 0x0020_0000 << exponent } else { (exponent - 1) << 23 });
    for (number, q) in numbers.iter_mut().zip(nibbles(bytes::<16>(block, 1))) {
        *number = d * DOUBLED_E2M1[usize::from(q & 15)];
    }
}

/// Floats of 4 bits; scales of 8 bits for 16 elements each.
pub(super) fn nvfp4(block: &[u8; 36], numbers: &mut [f32; 64]) {
    for (group, (numbers, packed)) in numbers.as_chunks_mut::<16>().0.iter_mut().zip(bytes::<4>(block, 0)).enumerate() {
        let d = half_of_e4m3(packed);
        for (number, q) in numbers.iter_mut().zip(nibbles(bytes::<8>(block, 4 + group * 8))) {
            *number = d * DOUBLED_E2M1[usize::from(q & 15)];
        }
    }
}

/// Half of an unsigned float of 4 bits of exponent and 3 of mantissa. What would be NaN is 0, and the highest bit is ignored but for that.
fn half_of_e4m3(packed: u8) -> f32 {
    let (exponent, mantissa) = (i32::from(packed >> 3 & 15), f32::from(packed & 7));
    if packed == 0x7f {
        return 0.0;
    }
    // Powers of two, and so exact.
    let value =
        if exponent == 0 { mantissa * 2_f32.powi(-9) } else { (1.0 + mantissa / 8.0) * 2_f32.powi(exponent - 7) };
    value * 0.5
}
