//! Adds values of a sparse tensor that have the same position.

use half::{bf16, f16};

use crate::files::ElementType;

/// Adds `value` to `sum`; both are one element. Returns `false` for element types without addition.
pub(super) fn add(dtype: ElementType, sum: &mut [u8], value: &[u8]) -> bool {
    match dtype {
        ElementType::Bool => with(sum, value, |one: [u8; 1], other| [one[0] | other[0]]),
        ElementType::Uint8 | ElementType::Int8 => {
            with(sum, value, |one: [u8; 1], other| [one[0].wrapping_add(other[0])])
        }
        // Two's complement addition gives the same bits for signed and unsigned numbers.
        ElementType::Uint16 | ElementType::Int16 => {
            with(sum, value, |one, other| u16::from_le_bytes(one).wrapping_add(u16::from_le_bytes(other)).to_le_bytes())
        }
        ElementType::Uint32 | ElementType::Int32 => {
            with(sum, value, |one, other| u32::from_le_bytes(one).wrapping_add(u32::from_le_bytes(other)).to_le_bytes())
        }
        ElementType::Uint64 | ElementType::Int64 => {
            with(sum, value, |one, other| u64::from_le_bytes(one).wrapping_add(u64::from_le_bytes(other)).to_le_bytes())
        }
        ElementType::Float16 => {
            with(sum, value, |one, other| (f16::from_le_bytes(one) + f16::from_le_bytes(other)).to_le_bytes())
        }
        ElementType::BFloat16 => {
            with(sum, value, |one, other| (bf16::from_le_bytes(one) + bf16::from_le_bytes(other)).to_le_bytes())
        }
        ElementType::Float32 => with(sum, value, add_f32),
        ElementType::Float64 => with(sum, value, add_f64),
        ElementType::Complex64 => parts(sum, value, add_f32),
        ElementType::Complex128 => parts(sum, value, add_f64),
        _ => return false,
    }
    true
}

fn add_f32(one: [u8; 4], other: [u8; 4]) -> [u8; 4] {
    (f32::from_le_bytes(one) + f32::from_le_bytes(other)).to_le_bytes()
}

fn add_f64(one: [u8; 8], other: [u8; 8]) -> [u8; 8] {
    (f64::from_le_bytes(one) + f64::from_le_bytes(other)).to_le_bytes()
}

/// Adds two elements; each slice must hold exactly one.
fn with<const N: usize>(sum: &mut [u8], value: &[u8], add: impl Fn([u8; N], [u8; N]) -> [u8; N]) {
    if let (Some(sum), Some(value)) = (sum.first_chunk_mut(), value.first_chunk()) {
        *sum = add(*sum, *value);
    }
}

/// Adds the real and the imaginary parts separately.
fn parts<const N: usize>(sum: &mut [u8], value: &[u8], add: impl Fn([u8; N], [u8; N]) -> [u8; N]) {
    for (sum, value) in sum.chunks_exact_mut(N).zip(value.chunks_exact(N)) {
        with(sum, value, &add);
    }
}
