//! The types whose elements are points of a grid, with signs or an offset.
//!
//! `grids.bin` has the points, as `grids.py` makes it of ggml's tables (MIT, `grids.LICENSE`): 16 bits for each, in which eight elements have
//! 2 bits each, or four have 4 bits each.

use super::{bytes, scale, word};

/// The points of all grids, one grid after the other.
const GRIDS: &[u8; 9216] = include_bytes!("grids.bin");

/// The points of each grid.
const IQ2_XXS: &[[u8; 2]] = grid(0, 256);
const IQ2_XS: &[[u8; 2]] = grid(256, 512);
const IQ2_S: &[[u8; 2]] = grid(768, 1024);
const IQ3_XXS: &[[u8; 2]] = grid(1792, 256);
const IQ3_S: &[[u8; 2]] = grid(2048, 512);
const IQ1: &[[u8; 2]] = grid(2560, 2048);

/// The values of elements of 2 bits, of which the fourth does not occur.
const OF_TWO_BITS: [f32; 4] = [8.0, 25.0, 43.0, 0.0];
/// The values of elements of IQ3_XXS.
const OF_THREE_BITS: [f32; 8] = [4.0, 12.0, 20.0, 28.0, 36.0, 44.0, 52.0, 62.0];
/// The values of elements of IQ3_S.
const ODD: [f32; 8] = [1.0, 3.0, 5.0, 7.0, 9.0, 11.0, 13.0, 15.0];
/// The values of elements of IQ1_S and IQ1_M, of which the fourth does not occur.
const TERNARY: [f32; 4] = [-1.0, 0.0, 1.0, 0.0];
/// What is added to the elements of IQ1_S and IQ1_M, or subtracted.
const DELTA: f32 = 0.125;

const fn grid(start: usize, n_points: usize) -> &'static [[u8; 2]] {
    GRIDS.as_chunks().0.split_at(start).1.split_at(n_points).0
}

/// A point of a grid, which has one of every index that a block can state.
fn point(grid: &[[u8; 2]], index: usize) -> u16 {
    u16::from_le_bytes(grid.get(index).copied().unwrap_or_default())
}

/// The signs of eight elements. The last one makes the number of negative ones even.
fn even_signs(signs: u32) -> u8 {
    let signs = (signs & 127) as u8;
    signs | (signs.count_ones() as u8 & 1) << 7
}

/// Writes eight elements of 2 bits, each with a sign.
fn eight(db: f32, point: u16, signs: u8, numbers: &mut [f32]) {
    for (position, number) in numbers.iter_mut().enumerate() {
        *number = db * OF_TWO_BITS[usize::from(point >> (position * 2) & 3)] * sign(signs, position);
    }
}

/// Writes four elements of 3 bits, each with a sign.
fn four(db: f32, values: &[f32; 8], point: u16, signs: u8, numbers: &mut [f32]) {
    for (position, number) in numbers.iter_mut().enumerate() {
        *number = db * values[usize::from(point >> (position * 4) & 7)] * sign(signs, position);
    }
}

/// Writes eight elements that are -1, 0 or 1, and an offset.
fn eight_ternary(dl: f32, point: u16, is_below: bool, numbers: &mut [f32]) {
    let delta = if is_below { -DELTA } else { DELTA };
    for (position, number) in numbers.iter_mut().enumerate() {
        *number = dl * (TERNARY[usize::from(point >> (position * 2) & 3)] + delta);
    }
}

fn sign(signs: u8, position: usize) -> f32 {
    if signs >> position & 1 == 0 { 1.0 } else { -1.0 }
}

/// For 32 elements: four indexes of 8 bits, four signs of 7 bits and a scale of 4 bits.
pub(super) fn iq2_xxs(block: &[u8; 66], numbers: &mut [f32; 256]) {
    let d = scale(block, 0);
    for (group, numbers) in numbers.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let indexes: [u8; 4] = bytes(block, 2 + group * 8);
        let packed = u32::from_le_bytes(bytes(block, 6 + group * 8));
        let db = d * (0.5 + (packed >> 28) as f32) * 0.25;
        for (position, (numbers, index)) in numbers.as_chunks_mut::<8>().0.iter_mut().zip(indexes).enumerate() {
            eight(db, point(IQ2_XXS, index.into()), even_signs(packed >> (position * 7)), numbers);
        }
    }
}

/// For 8 elements: an index of 9 bits and signs of 7 bits; for 16, a scale of 4 bits.
pub(super) fn iq2_xs(block: &[u8; 74], numbers: &mut [f32; 256]) {
    let (d, scales): (_, [u8; 8]) = (scale(block, 0), bytes(block, 66));
    for (position, numbers) in numbers.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let packed = word(block, 2 + position * 2);
        let db = d * (0.5 + f32::from(scales[position / 4] >> (position / 2 % 2 * 4) & 15)) * 0.25;
        eight(db, point(IQ2_XS, (packed & 511).into()), even_signs((packed >> 9).into()), numbers);
    }
}

/// For 8 elements: an index of 10 bits and 8 signs; for 16, a scale of 4 bits.
pub(super) fn iq2_s(block: &[u8; 82], numbers: &mut [f32; 256]) {
    let d = scale(block, 0);
    let (low, signs): ([u8; 32], [u8; 32]) = (bytes(block, 2), bytes(block, 34));
    let (high, scales): ([u8; 8], [u8; 8]) = (bytes(block, 66), bytes(block, 74));
    for (position, numbers) in numbers.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let high = usize::from(high[position / 4] >> (position % 4 * 2) & 3);
        let db = d * (0.5 + f32::from(scales[position / 4] >> (position / 2 % 2 * 4) & 15)) * 0.25;
        eight(db, point(IQ2_S, usize::from(low[position]) | high << 8), signs[position], numbers);
    }
}

/// For 4 elements: an index of 8 bits; for 32, four signs of 7 bits and a scale of 4 bits.
pub(super) fn iq3_xxs(block: &[u8; 98], numbers: &mut [f32; 256]) {
    let (d, indexes): (_, [u8; 64]) = (scale(block, 0), bytes(block, 2));
    for (position, (numbers, [first, second])) in
        numbers.as_chunks_mut::<8>().0.iter_mut().zip(indexes.as_chunks().0).enumerate()
    {
        let packed = u32::from_le_bytes(bytes(block, 66 + position / 4 * 4));
        let db = d * (0.5 + (packed >> 28) as f32) * 0.5;
        let signs = even_signs(packed >> (position % 4 * 7));
        let (low, high) = numbers.split_at_mut(4);
        four(db, &OF_THREE_BITS, point(IQ3_XXS, (*first).into()), signs, low);
        four(db, &OF_THREE_BITS, point(IQ3_XXS, (*second).into()), signs >> 4, high);
    }
}

/// For 4 elements: an index of 9 bits and 4 signs; for 32, a scale of 4 bits.
pub(super) fn iq3_s(block: &[u8; 110], numbers: &mut [f32; 256]) {
    let (d, low, high): (_, [u8; 64], [u8; 8]) = (scale(block, 0), bytes(block, 2), bytes(block, 66));
    let (signs, scales): ([u8; 32], [u8; 4]) = (bytes(block, 74), bytes(block, 106));
    for (position, numbers) in numbers.as_chunks_mut::<4>().0.iter_mut().enumerate() {
        let group = position / 8;
        let db = d * f32::from(1 + 2 * (scales[group / 2] >> (group % 2 * 4) & 15));
        let index = usize::from(low[position]) | usize::from(high[group] >> (position % 8) & 1) << 8;
        four(db, &ODD, point(IQ3_S, index), signs[position / 2] >> (position % 2 * 4), numbers);
    }
}

/// For 8 elements: an index of 11 bits; for 32, a scale of 3 bits and the sign of the offset.
pub(super) fn iq1_s(block: &[u8; 50], numbers: &mut [f32; 256]) {
    let (d, low): (_, [u8; 32]) = (scale(block, 0), bytes(block, 2));
    for (position, numbers) in numbers.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let high = word(block, 34 + position / 4 * 2);
        let dl = d * f32::from(2 * (high >> 12 & 7) + 1);
        let index = usize::from(low[position]) | usize::from(high >> (position % 4 * 3) & 7) << 8;
        eight_ternary(dl, point(IQ1, index), high & 0x8000 != 0, numbers);
    }
}

/// For 8 elements: an index of 11 bits and the sign of the offset; for 16, a scale of 3 bits. The scale of all is in four parts.
pub(super) fn iq1_m(block: &[u8; 56], numbers: &mut [f32; 256]) {
    let (low, high): ([u8; 32], [u8; 16]) = (bytes(block, 0), bytes(block, 32));
    let scales: [u16; 4] = std::array::from_fn(|position| word(block, 48 + position * 2));
    let parts = scales.iter().enumerate().map(|(position, part)| (part & 0xf000) >> (12 - position * 4));
    let d = half::f16::from_bits(parts.fold(0, |all, part| all | part)).to_f32();
    for (position, numbers) in numbers.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let group = position / 2;
        let dl = d * f32::from(2 * (scales[group / 4] >> (group % 4 * 3) & 7) + 1);
        let high = high[group] >> (position % 2 * 4);
        let index = usize::from(low[position]) | usize::from(high & 7) << 8;
        eight_ternary(dl, point(IQ1, index), high & 8 != 0, numbers);
    }
}
