//! Elements in any encoding, handed to the kernels in parts, as `f32` or `f64`.

use super::float::Float;
use super::lanes::AddToLanes;
use super::level::Instructions;
use super::rounding::RoundToInt8;
use super::turns::taking_turns;

/// Numbers in a block. Whoever changes this or [`LARGE_BLOCK`] changes the last bits of means and deviations.
pub(super) const BLOCK: usize = 16 * 1024;
/// Numbers in a large block: a megabyte of float32, which a core's cache holds.
pub(crate) const LARGE_BLOCK: usize = 16 * BLOCK;
/// Numbers in a chunk: as many vectors as keep the processor's units busy.
pub(super) const CHUNK: usize = 64;
/// Runs of chunks that take turns. Faster than four.
pub(super) const RUNS: usize = 8;

/// An encoding of elements that the kernels read.
pub(crate) trait Source {
    /// What the elements are widened to, without loss but for 64-bit integers.
    type Wide: AddToLanes + RoundToInt8;

    /// Bits of an element. Eight elements are a whole number of bytes with each.
    const BITS: usize;

    /// Whether the elements are what they are widened to.
    const IS_WIDE: bool = false;

    /// Whether the elements are 16 bits that, without the sign, are ordered as absolute values are, infinity and NaN last.
    const IS_ORDERED_16_BITS: bool = false;

    /// Widens all elements in `bytes`; there are as many of them as numbers in `wide`.
    fn widen(instructions: Instructions, bytes: &[u8], wide: &mut [Self::Wide]);

    /// The elements themselves where they need no widening and are aligned.
    #[inline(always)]
    fn in_place(bytes: &[u8]) -> Option<&[Self::Wide]> {
        let _ = bytes;
        None
    }
}

/// The blocks of `bytes`; the last one may be shorter.
pub(super) fn blocks<S: Source>(bytes: &[u8]) -> std::slice::Chunks<'_, u8> {
    bytes.chunks(BLOCK / 8 * S::BITS)
}

/// As [`blocks`], large ones, whose runs are further apart and read faster.
pub(super) fn large_blocks<S: Source>(bytes: &[u8]) -> std::slice::Chunks<'_, u8> {
    bytes.chunks(LARGE_BLOCK / 8 * S::BITS)
}

/// How many elements there are in `bytes`: those of a tensor, whose size was checked, or of a part of one.
#[inline(always)]
fn n_elements<S: Source>(bytes: &[u8]) -> usize {
    bytes.len() * 8 / S::BITS
}

/// What is done with the chunks of a block, whose order does not matter. A trait and no closure, because its methods must be inlined, and
/// are to be marked `#[inline(always)]`: what is not inlined into a kernel is compiled without the kernel's instructions.
pub(super) trait VisitChunks<F> {
    /// Looks at the numbers of a block from the `start`-th on, at most a chunk of them.
    fn visit_some(&mut self, start: usize, values: &[F]);
}

/// Calls `visitor` with the elements of a block, each once.
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

/// What is done with blocks, or with groups out of a block. See [`VisitChunks`].
pub(super) trait VisitGroups<F> {
    /// Looks at `values`, as many runs of which as there are `RUNS` take turns.
    fn visit_group<const RUNS: usize>(&mut self, instructions: Instructions, values: &[F]);
}

/// Calls `visitor` with the elements of `bytes`, block by block. What has to be widened comes in groups, each from several places of the
/// block, so that runs take turns there too.
#[inline(always)]
pub(super) fn for_each_group<S: Source>(
    instructions: Instructions,
    bytes: &[u8],
    visitor: &mut impl VisitGroups<S::Wide>,
) {
    /// Fewer than of chunks: eight were slower here, where each number takes more work.
    const RUNS: usize = 4;
    /// Numbers in a group. They fit into the first-level cache together with the bytes that they were widened from.
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
        // A whole number of bytes.
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
            // They are near each other now.
            visitor.visit_group::<1>(instructions, &wide[..n_wide]);
        }
    }
}
