//! The types with 256 elements in a block, and scales that are quantized themselves.

use super::{bytes, scale};

/// 2 bits; scales and minimums of 4 bits for 16 elements each.
pub(super) fn q2_k(block: &[u8; 84], numbers: &mut [f32; 256]) {
    let (scales, qs): ([u8; 16], [u8; 64]) = (bytes(block, 0), bytes(block, 16));
    let (d, dmin) = (scale(block, 80), scale(block, 82));
    for (group, (numbers, packed)) in numbers.as_chunks_mut::<16>().0.iter_mut().zip(scales).enumerate() {
        let (dl, ml) = (d * f32::from(packed & 15), dmin * f32::from(packed >> 4));
        let (start, shift) = two_bits(group);
        for (number, q) in numbers.iter_mut().zip(bytes::<16>(&qs, start)) {
            *number = dl * f32::from(q >> shift & 3) - ml;
        }
    }
}

/// 3 bits, of which the highest ones are together; scales of 6 bits for 16 elements each.
pub(super) fn q3_k(block: &[u8; 110], numbers: &mut [f32; 256]) {
    let (high, qs): ([u8; 32], [u8; 64]) = (bytes(block, 0), bytes(block, 32));
    let (low_scales, high_scales): ([u8; 8], [u8; 4]) = (bytes(block, 96), bytes(block, 104));
    let d = scale(block, 108);
    for (group, numbers) in numbers.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        let low = low_scales[group % 8] >> (group / 8 * 4) & 15;
        let high_two = high_scales[group % 4] >> (group / 4 * 2) & 3;
        let dl = d * (f32::from(low | high_two << 4) - 32.0);
        let (start, shift) = two_bits(group);
        // Halves of the bits take turns, like the elements.
        let (of_high, bit) = (bytes::<16>(&high, group % 2 * 16), group / 2);
        for ((number, q), high) in numbers.iter_mut().zip(bytes::<16>(&qs, start)).zip(of_high) {
            // The highest bit says that 4 is not subtracted.
            let subtracted = if high >> bit & 1 == 1 { 0.0 } else { 4.0 };
            *number = dl * (f32::from(q >> shift & 3) - subtracted);
        }
    }
}

/// 4 bits; scales and minimums of 6 bits for 32 elements each.
pub(super) fn q4_k(block: &[u8; 144], numbers: &mut [f32; 256]) {
    let (d, dmin) = (scale(block, 0), scale(block, 2));
    let (scales, qs): (_, [u8; 128]) = (scales_of_six_bits(bytes(block, 4)), bytes(block, 16));
    for ((numbers, qs), scales) in
        numbers.as_chunks_mut::<64>().0.iter_mut().zip(qs.as_chunks::<32>().0).zip(scales.as_chunks::<2>().0)
    {
        let (low, high) = numbers.split_at_mut(32);
        let [(sc, m), (next_sc, next_m)] = *scales;
        let (dl, ml) = (d * f32::from(sc), dmin * f32::from(m));
        for (number, q) in low.iter_mut().zip(qs) {
            *number = dl * f32::from(q & 15) - ml;
        }
        let (dl, ml) = (d * f32::from(next_sc), dmin * f32::from(next_m));
        for (number, q) in high.iter_mut().zip(qs) {
            *number = dl * f32::from(q >> 4) - ml;
        }
    }
}

/// 5 bits, of which the highest ones are together; scales and minimums of 6 bits for 32 elements each.
pub(super) fn q5_k(block: &[u8; 176], numbers: &mut [f32; 256]) {
    let (d, dmin) = (scale(block, 0), scale(block, 2));
    let scales = scales_of_six_bits(bytes(block, 4));
    let (high, qs): ([u8; 32], [u8; 128]) = (bytes(block, 16), bytes(block, 48));
    for (group, (numbers, (sc, m))) in numbers.as_chunks_mut::<32>().0.iter_mut().zip(scales).enumerate() {
        let (dl, ml) = (d * f32::from(sc), dmin * f32::from(m));
        let (qs, shift) = (bytes::<32>(&qs, group / 2 * 32), group % 2 * 4);
        for ((number, q), high) in numbers.iter_mut().zip(qs).zip(high) {
            *number = dl * f32::from(q >> shift & 15 | (high >> group & 1) << 4) - ml;
        }
    }
}

/// 6 bits, of which the highest two are together; scales of 8 bits for 16 elements each.
pub(super) fn q6_k(block: &[u8; 210], numbers: &mut [f32; 256]) {
    let (low, high): ([u8; 128], [u8; 64]) = (bytes(block, 0), bytes(block, 128));
    let (scales, d): ([u8; 16], _) = (bytes(block, 192), scale(block, 208));
    for (group, (numbers, of_group)) in numbers.as_chunks_mut::<16>().0.iter_mut().zip(scales).enumerate() {
        let dl = d * f32::from(of_group.cast_signed());
        let (half, rest) = (group / 8, group % 8);
        // A half of 128 elements has 64 bytes of the lower bits and 32 of the higher ones.
        let (low_start, low_shift) = (half * 64 + rest % 4 * 16, rest / 4 * 4);
        let (high_start, high_shift) = (half * 32 + rest % 2 * 16, rest / 2 * 2);
        let (low, high) = (bytes::<16>(&low, low_start), bytes::<16>(&high, high_start));
        for ((number, low), high) in numbers.iter_mut().zip(low).zip(high) {
            let q = low >> low_shift & 15 | (high >> high_shift & 3) << 4;
            *number = dl * (f32::from(q) - 32.0);
        }
    }
}

/// Where the 16 bytes with two bits for each element of a group are, and by how much they are shifted.
fn two_bits(group: usize) -> (usize, usize) {
    (group / 8 * 32 + group % 2 * 16, group % 8 / 2 * 2)
}

/// Unpacks eight scales and eight minimums of 6 bits.
fn scales_of_six_bits(packed: [u8; 12]) -> [(u8, u8); 8] {
    let mut scales = [(0, 0); 8];
    for position in 0..4 {
        let (d, m, both) = (packed[position], packed[position + 4], packed[position + 8]);
        scales[position] = (d & 63, m & 63);
        scales[position + 4] = (both & 15 | d >> 2 & 48, both >> 4 | m >> 2 & 48);
    }
    scales
}
