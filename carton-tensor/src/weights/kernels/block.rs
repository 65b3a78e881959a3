//! Passes elements in any encoding to the kernels, as `f32` or `f64`, in blocks.

use super::float::Float;
use super::lanes::AddToLanes;
use super::level::Instructions;
use super::rounding::RoundToInt8;
use super::turns::taking_turns;

/// Numbers in a block. Changing this or [`LARGE_BLOCK`] changes the last bits of means and deviations.
pub(super) const BLOCK: usize = 16 * 1024;
/// Numbers in a large block: a megabyte of float32, which a core's cache holds.
pub(crate) const LARGE_BLOCK: usize = 16 * BLOCK;
/// Numbers in a chunk: enough vectors to keep the processor's units busy.
pub(super) const CHUNK: usize = 64;
/// The number of runs of chunks that are read alternately. Faster than four.
pub(super) const RUNS: usize = 8;

/// An encoding of elements that the kernels read.
pub(crate) trait Source {
    /// The type that the elements are widened to. Only 64-bit integers lose precision.
    type Wide: AddToLanes + RoundToInt8;

    /// The bits of an element. Eight elements always take a whole number of bytes.
    const BITS: usize;

    /// Whether the elements are stored as the type that they are widened to.
    const IS_WIDE: bool = false;

    /// Whether the elements have 16 bits which, without the sign, are ordered like the absolute values, with infinity and then NaN at
    /// the end.
    const IS_ORDERED_16_BITS: bool = false;

    /// Widens all elements in `bytes`. Their number must equal the length of `wide`.
    fn widen(instructions: Instructions, bytes: &[u8], wide: &mut [Self::Wide]);

    /// Returns the elements in place if they need no widening and are aligned.
    #[inline(always)]
    fn in_place(bytes: &[u8]) -> Option<&[Self::Wide]> {
        let _ = bytes;
        None
    }
}

/// Divides `bytes` into blocks. The last one may be shorter.
pub(super) fn blocks<S: Source>(bytes: &[u8]) -> std::slice::Chunks<'_, u8> {
    bytes.chunks(BLOCK / 8 * S::BITS)
}

/// Divides `bytes` into large blocks, whose runs are further apart and are read faster.
pub(super) fn large_blocks<S: Source>(bytes: &[u8]) -> std::slice::Chunks<'_, u8> {
    bytes.chunks(LARGE_BLOCK / 8 * S::BITS)
}

/// The number of elements in `bytes`, which are all bytes of a tensor or a part of them that is a whole number of elements.
#[inline(always)]
fn n_elements<S: Source>(bytes: &[u8]) -> usize {
    bytes.len() * 8 / S::BITS
}

/// Processes the chunks of a block, in any order. This is a trait rather than a closure because its methods must be inlined and marked
/// `#[inline(always)]`: code that is not inlined into a kernel is compiled without the kernel's instructions.
pub(super) trait VisitChunks<F> {
    /// Processes numbers of a block from position `start` on, at most one chunk.
    fn visit_some(&mut self, start: usize, values: &[F]);
}

/// Calls `visitor` with the elements of a block, each exactly once.
#[inline(always)]
pub(super) fn for_each_chunk<S: Source>(
    instructions: Instructions,
    block: &[u8],
    visitor: &mut impl VisitChunks<S::Wide>,
) {
    let n_elements = n_elements::<S>(block);
    let n_chunks = n_elements / CHUNK;
    let in_place = S::in_place(block).map(|values| values.as_chunks::<CHUNK>());
    let size = CHUNK / 8 * S::BITS;
    let mut wide = [Float::ZERO; CHUNK];
    for index in 0..n_chunks {
        let chunk = taking_turns::<RUNS>(index, n_chunks);
        let values = if let Some((chunks, _)) = in_place {
            &chunks[chunk]
        } else {
            S::widen(instructions, &block[chunk * size..(chunk + 1) * size], &mut wide);
            &wide
        };
        visitor.visit_some(chunk * CHUNK, values);
    }
    let rest = &mut wide[..n_elements - n_chunks * CHUNK];
    S::widen(instructions, &block[n_chunks * size..], rest);
    visitor.visit_some(n_chunks * CHUNK, rest);
}

/// Processes blocks, or groups of numbers from a block. See [`VisitChunks`].
pub(super) trait VisitGroups<F> {
    /// Processes `values` as `RUNS` runs that are read alternately.
    fn visit_group<const RUNS: usize>(&mut self, instructions: Instructions, values: &[F]);
}

/// Calls `visitor` with the elements of `bytes`, block by block. Elements that must be widened come in groups, each from several places
/// of the block, so that runs are read alternately there too.
#[inline(always)]
pub(super) fn for_each_group<S: Source>(
    instructions: Instructions,
    bytes: &[u8],
    visitor: &mut impl VisitGroups<S::Wide>,
) {
    /// Less than for chunks: eight runs were slower here, because each number takes more work.
    const RUNS: usize = 4;
    /// Numbers in a group. They fit into the first-level cache together with the bytes they are widened from.
    const GROUP: usize = 4096;
    if S::IS_WIDE {
        let mut copy = Vec::new();
        for block in blocks::<S>(bytes) {
            if let Some(values) = S::in_place(block) {
                visitor.visit_group::<RUNS>(instructions, values);
            } else {
                copy.resize(n_elements::<S>(block), Float::ZERO);
                S::widen(instructions, block, &mut copy);
                visitor.visit_group::<RUNS>(instructions, &copy);
            }
        }
        return;
    }
    let mut wide = [Float::ZERO; GROUP];
    for block in blocks::<S>(bytes) {
        let n_elements = n_elements::<S>(block);
        // A multiple of eight elements is a whole number of bytes.
        let run = n_elements.div_ceil(RUNS).next_multiple_of(8);
        for position in (0..run).step_by(GROUP / RUNS) {
            let mut n_wide = 0;
            for place in 0..RUNS {
                let start = (place * run + position).min(n_elements);
                let end = (start + (run - position).min(GROUP / RUNS)).min(n_elements);
                let bytes = &block[start * S::BITS / 8..end * S::BITS / 8];
                S::widen(instructions, bytes, &mut wide[n_wide..n_wide + (end - start)]);
                n_wide += end - start;
            }
            // The widened elements are adjacent in memory, so one run is enough.
            visitor.visit_group::<1>(instructions, &wide[..n_wide]);
        }
    }
}
