//! The types with one scale for 32 elements.

use super::{bytes, scale};

/// 4 bits, from which 8 is subtracted.
pub(super) fn q4_0(block: &[u8; 18], numbers: &mut [f32; 32]) {
    let d = scale(block, 0);
    for (number, q) in numbers.iter_mut().zip(nibbles(bytes::<16>(block, 2))) {
        *number = d * (f32::from(q) - 8.0);
    }
}

/// 4 bits and a minimum.
pub(super) fn q4_1(block: &[u8; 20], numbers: &mut [f32; 32]) {
    let (d, m) = (scale(block, 0), scale(block, 2));
    for (number, q) in numbers.iter_mut().zip(nibbles(bytes::<16>(block, 4))) {
        *number = d * f32::from(q) + m;
    }
}

/// 5 bits, of which the highest ones are together, and from which 16 is subtracted.
pub(super) fn q5_0(block: &[u8; 22], numbers: &mut [f32; 32]) {
    let (d, high) = (scale(block, 0), u32::from_le_bytes(bytes(block, 2)));
    for (position, (number, q)) in numbers.iter_mut().zip(nibbles(bytes::<16>(block, 6))).enumerate() {
        *number = d * (f32::from(with_fifth(q, high, position)) - 16.0);
    }
}

/// 5 bits, of which the highest ones are together, and a minimum.
pub(super) fn q5_1(block: &[u8; 24], numbers: &mut [f32; 32]) {
    let (d, m, high) = (scale(block, 0), scale(block, 2), u32::from_le_bytes(bytes(block, 4)));
    for (position, (number, q)) in numbers.iter_mut().zip(nibbles(bytes::<16>(block, 8))).enumerate() {
        *number = d * f32::from(with_fifth(q, high, position)) + m;
    }
}

/// 8 bits, signed.
pub(super) fn q8_0(block: &[u8; 34], numbers: &mut [f32; 32]) {
    let d = scale(block, 0);
    for (number, q) in numbers.iter_mut().zip(bytes::<32>(block, 2)) {
        *number = f32::from(q.cast_signed()) * d;
    }
}

/// The lower halves of all bytes, and then the upper ones.
pub(super) fn nibbles<const N: usize>(bytes: [u8; N]) -> impl Iterator<Item = u8> {
    bytes.into_iter().map(|byte| byte & 15).chain(bytes.into_iter().map(|byte| byte >> 4))
}

fn with_fifth(q: u8, high: u32, position: usize) -> u8 {
    q | if high >> position & 1 == 1 { 16 } else { 0 }
}
