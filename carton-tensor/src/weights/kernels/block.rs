//! Elements in any encoding, handed to the kernels in parts, as `f32` or `f64`.

use super::float::Float;
use super::level::Instructions;

/// Numbers in a block.
pub(super) const BLOCK: usize = 16 * 1024;
/// Numbers in a large block: a megabyte of float32, which a core's cache holds.
pub(crate) const LARGE_BLOCK: usize = 16 * BLOCK;
/// Runs of a block that are read side by side. A core that reads one run after the other waits for memory: what the processor fetches
/// ahead ends with the page.
const STREAMS: usize = 8;
/// Numbers that are looked at together, as many vectors as keep the processor's units busy.
pub(super) const LANES: usize = 64;

/// An encoding of elements that the kernels read.
pub(crate) trait Source {
    /// What the elements are widened to, without loss but for 64-bit integers.
    type Wide: Float;

    /// Bits of an element. Eight elements are a whole number of bytes with each.
    const BITS: usize;

    /// Whether the elements are what they are widened to.
    const IS_WIDE: bool = false;

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

/// As [`blocks`], large ones. The further the runs of a block are apart, the faster they are read.
pub(super) fn large_blocks<S: Source>(bytes: &[u8]) -> std::slice::Chunks<'_, u8> {
    bytes.chunks(LARGE_BLOCK / 8 * S::BITS)
}

/// How many whole elements there are in `bytes`. Bytes behind the last one are ignored: callers pass tensors, whose size was checked.
#[inline(always)]
fn n_elements<S: Source>(bytes: &[u8]) -> usize {
    bytes.len() * 8 / S::BITS
}

/// Which one of `n` things to look at as the `index`-th, so that as many runs of them as there are `STREAMS` take turns. What does not
/// divide by them comes last.
#[inline(always)]
pub(super) fn taking_turns<const STREAMS: usize>(index: usize, n: usize) -> usize {
    let run = n / STREAMS;
    if index < run * STREAMS { index % STREAMS * run + index / STREAMS } else { index }
}

/// What is done with numbers whose order does not matter. A trait and no closure, because its methods must be inlined, and are to be
/// marked `#[inline(always)]`: what is not inlined into a kernel is compiled without the kernel's instructions.
pub(super) trait Visit<F> {
    /// Looks at the numbers of a block from the `start`-th on.
    fn visit(&mut self, start: usize, values: &[F; LANES]);

    /// Looks at the last numbers of a block, which are too few.
    fn visit_rest(&mut self, start: usize, values: &[F]);
}

/// Calls `visitor` with the elements of a block, each once, in runs that take turns.
#[inline(always)]
pub(super) fn for_each<S: Source>(instructions: Instructions, block: &[u8], visitor: &mut impl Visit<S::Wide>) {
    let n_elements = n_elements::<S>(block);
    let n_chunks = n_elements / LANES;
    let in_place = S::in_place(block).map(|values| values.as_chunks::<LANES>());
    let size = LANES / 8 * S::BITS;
    let mut wide = [S::Wide::ZERO; LANES];
    for index in 0..n_chunks {
        let chunk = taking_turns::<STREAMS>(index, n_chunks);
        let values = if let Some((chunks, _)) = in_place {
            &chunks[chunk]
        } else {
            S::widen(instructions, &block[chunk * size..(chunk + 1) * size], &mut wide);
            &wide
        };
        visitor.visit(chunk * LANES, values);
    }
    let rest = &mut wide[..n_elements - n_chunks * LANES];
    S::widen(instructions, &block[n_chunks * size..], rest);
    visitor.visit_rest(n_chunks * LANES, rest);
}

/// As [`Visit`], for what looks at many numbers at a time.
pub(super) trait VisitMany<F> {
    /// Looks at some numbers of a block, as many runs of which as there are `STREAMS` are to take turns.
    fn visit_many<const STREAMS: usize>(&mut self, instructions: Instructions, values: &[F]);
}

/// Calls `visitor` with the elements of `bytes`, block by block. What has to be widened comes in groups, each from all over the block, so
/// that runs take turns there too.
#[inline(always)]
pub(super) fn for_many<S: Source>(instructions: Instructions, bytes: &[u8], visitor: &mut impl VisitMany<S::Wide>) {
    /// More runs need more registers than there are.
    const STREAMS: usize = 4;
    /// Numbers in a group. They fit into the first-level cache together with the bytes that they were widened from.
    const GROUP: usize = 4096;
    if S::IS_WIDE {
        let mut copy = Vec::new();
        for block in blocks::<S>(bytes) {
            if let Some(values) = S::in_place(block) {
                visitor.visit_many::<STREAMS>(instructions, values);
            } else {
                copy.resize(n_elements::<S>(block), S::Wide::ZERO);
                S::widen(instructions, block, &mut copy);
                visitor.visit_many::<STREAMS>(instructions, &copy);
            }
        }
        return;
    }
    let mut wide = [S::Wide::ZERO; GROUP];
    for block in blocks::<S>(bytes) {
        let n_elements = n_elements::<S>(block);
        // A whole number of bytes.
        let run = n_elements.div_ceil(STREAMS).next_multiple_of(8);
        for position in (0..run).step_by(GROUP / STREAMS) {
            let mut n_wide = 0;
            for stream in 0..STREAMS {
                let start = (stream * run + position).min(n_elements);
                let end = (start + (run - position).min(GROUP / STREAMS)).min(n_elements);
                let bytes = &block[start * S::BITS / 8..end * S::BITS / 8];
                S::widen(instructions, bytes, &mut wide[n_wide..n_wide + (end - start)]);
                n_wide += end - start;
            }
            visitor.visit_many::<1>(instructions, &wide[..n_wide]);
        }
    }
}
