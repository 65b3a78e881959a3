//! Elements in any encoding, handed to the kernels as blocks of `f32` or `f64`.

use super::float::Float;

/// Numbers in a block. One fits into the first-level cache together with the bytes that it was widened from.
pub(crate) const BLOCK: usize = 4096;

/// An encoding of elements that the kernels read.
pub(crate) trait Source {
    /// What the elements are widened to, without loss but for 64-bit integers.
    type Wide: Float;
    /// Bits of an element. A block of elements is a whole number of bytes with each.
    const BITS: usize;

    /// Widens all elements in `bytes`; there are as many of them as numbers in `wide`.
    fn widen(bytes: &[u8], wide: &mut [Self::Wide]);

    /// The elements themselves where they need no widening and are aligned.
    #[inline(always)]
    fn in_place(bytes: &[u8]) -> Option<&[Self::Wide]> {
        let _ = bytes;
        None
    }
}

/// What is done with each block. A trait and no closure, because its method must be inlined: what is not inlined into a kernel
/// is compiled without the kernel's instructions.
pub(super) trait Visit<F> {
    /// Looks at the next numbers. To be marked `#[inline(always)]`.
    fn visit(&mut self, values: &[F]);
}

/// Calls `visit` with the elements of `bytes`, at most [`BLOCK`] at a time. Bytes behind the last whole element are ignored: callers
/// pass tensors, whose size was checked.
#[inline(always)]
pub(super) fn for_each_block<S: Source>(bytes: &[u8], visitor: &mut impl Visit<S::Wide>) {
    if let Some(values) = S::in_place(bytes) {
        for block in values.chunks(BLOCK) {
            visitor.visit(block);
        }
        return;
    }
    let mut wide = [S::Wide::ZERO; BLOCK];
    for block in bytes.chunks(BLOCK / 8 * S::BITS) {
        let wide = &mut wide[..block.len() * 8 / S::BITS];
        S::widen(block, wide);
        visitor.visit(wide);
    }
}
