//! The types whose elements are -1, 0 or 1.

use super::{bytes, scale};

/// Five elements in a byte, and four in each of the last four bytes.
pub(super) fn tq1_0(block: &[u8; 54], numbers: &mut [f32; 256]) {
    const POWERS: [u8; 5] = [1, 3, 9, 27, 81];
    let d = scale(block, 52);
    let (wide, narrow, last) = (bytes::<32>(block, 0), bytes::<16>(block, 32), bytes::<4>(block, 48));
    let wide = POWERS.into_iter().flat_map(|power| wide.map(|byte| byte.wrapping_mul(power)));
    let narrow = POWERS.into_iter().flat_map(|power| narrow.map(|byte| byte.wrapping_mul(power)));
    let last = POWERS.into_iter().take(4).flat_map(|power| last.map(|byte| byte.wrapping_mul(power)));
    for (number, q) in numbers.iter_mut().zip(wide.chain(narrow).chain(last)) {
        // The upper digit, of base 3, of a fraction of 256.
        *number = d * (f32::from(((u16::from(q) * 3) >> 8) as u8) - 1.0);
    }
}

/// Four elements in a byte. The value 3 becomes 2.
pub(super) fn tq2_0(block: &[u8; 66], numbers: &mut [f32; 256]) {
    let d = scale(block, 64);
    for (group, numbers) in numbers.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let shift = group % 4 * 2;
        for (number, q) in numbers.iter_mut().zip(bytes::<32>(block, group / 4 * 32)) {
            *number = d * (f32::from(q >> shift & 3) - 1.0);
        }
    }
}
