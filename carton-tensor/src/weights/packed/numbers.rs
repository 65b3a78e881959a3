//! Passes computed numbers on, rounded to the element type of the result, in pieces of one size.

use std::ops::ControlFlow;

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

use crate::files::{ElementType, Visit};

/// The numbers that are computed at a time. Tests have tensors of several pieces that are small.
pub(super) const AT_ONCE: usize = if cfg!(test) { 1 << 8 } else { 1 << 18 };
/// The bytes of a strip of columns, with its scales and zero points, that are in memory at a time.
pub(super) const STRIP: usize = if cfg!(test) { 1 << 12 } else { 32 << 20 };
/// The bytes of the narrowest strip of a tensor that is dequantized.
pub(super) const MAX_STRIP: usize = 256 << 20;

/// Appends the numbers to `bytes`, rounded to the nearest, ties to even. Of types other than `float16` and `bfloat16`, as `float32`.
fn append(dtype: ElementType, numbers: &[f32], bytes: &mut Vec<u8>) {
    let start = bytes.len();
    match dtype {
        ElementType::Float16 => {
            let mut rounded = vec![f16::ZERO; numbers.len()];
            rounded.convert_from_f32_slice(numbers);
            bytes.extend_from_slice(bytemuck::cast_slice(&rounded));
        }
        ElementType::BFloat16 => {
            bytes.resize(start + numbers.len() * size_of::<bf16>(), 0);
            for (element, number) in bytes[start..].as_chunks_mut().0.iter_mut().zip(numbers) {
                *element = bf16::from_f32(*number).to_le_bytes();
            }
        }
        _ => bytes.extend_from_slice(bytemuck::cast_slice(numbers)),
    }
}

/// Passes numbers to a function in pieces of one size, but for the last.
pub(super) struct Pieces<'v> {
    dtype: ElementType,
    piece_bytes: usize,
    pending: Vec<u8>,
    visit: Visit<'v>,
}

impl<'v> Pieces<'v> {
    pub(super) fn new(dtype: ElementType, n_elements: usize, visit: Visit<'v>) -> Self {
        Self { dtype, piece_bytes: dtype.piece_bytes(n_elements), pending: Vec::new(), visit }
    }

    /// Passes on what is complete with these numbers.
    pub(super) fn push(&mut self, numbers: &[f32]) -> ControlFlow<()> {
        append(self.dtype, numbers, &mut self.pending);
        let complete = self.pending.len() / self.piece_bytes * self.piece_bytes;
        let passed = self.pending[..complete].chunks(self.piece_bytes).try_for_each(&mut *self.visit);
        self.pending.drain(..if passed.is_continue() { complete } else { self.pending.len() });
        passed
    }

    /// Passes on the last numbers.
    pub(super) fn finish(self) {
        if !self.pending.is_empty() {
            let _ = (self.visit)(&self.pending);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_have_one_size() {
        for (n_elements, expected) in [(1, vec![4; 7]), (3, vec![12, 12, 4]), (100, vec![28])] {
            let mut sizes = Vec::new();
            let mut visit = |piece: &[u8]| {
                sizes.push(piece.len());
                ControlFlow::Continue(())
            };
            let mut pieces = Pieces::new(ElementType::Float32, n_elements, &mut visit);
            assert!(pieces.push(&[1.0, 2.0]).is_continue() && pieces.push(&[3.0; 5]).is_continue());
            pieces.finish();
            assert_eq!(sizes, expected);
        }
    }

    #[test]
    fn numbers_are_rounded_to_the_nearest() {
        let rounded = |dtype, number| {
            let mut bytes = Vec::new();
            append(dtype, &[number], &mut bytes);
            bytes
        };
        assert_eq!(rounded(ElementType::Float16, 1.0 + 2_f32.powi(-11)), [0, 0x3c]);
        assert_eq!(rounded(ElementType::Float16, 1.0 + 3.0 * 2_f32.powi(-11)), [2, 0x3c]);
        assert_eq!(rounded(ElementType::Float16, 65520.0), [0, 0x7c]);
        assert_eq!(rounded(ElementType::BFloat16, 1.0 + 2_f32.powi(-8)), [0x80, 0x3f]);
        assert_eq!(rounded(ElementType::Float32, 1.0), 1_f32.to_le_bytes());
    }
}
