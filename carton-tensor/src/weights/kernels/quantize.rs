//! Finds the largest absolute value of a tensor, and quantizes its numbers to int8 (spec/weights.md §2.2).

use super::block::{BLOCK, CHUNK, RUNS, Source, VisitChunks, blocks, for_each_chunk, large_blocks};
use super::float::Float;
use super::level::{Instructions, at_every_level};
use super::rounding::{RoundToInt8, Scale};
use super::turns::taking_turns;

/// The largest absolute value among finite numbers, and how many numbers are not finite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Largest<F> {
    pub(crate) magnitude: F,
    pub(crate) n_other: u64,
}

impl<F: Float> Largest<F> {
    pub(crate) const NONE: Self = Self { magnitude: F::ZERO, n_other: 0 };

    #[inline(always)]
    pub(crate) fn merge(self, other: Self) -> Self {
        let magnitude = if other.magnitude > self.magnitude { other.magnitude } else { self.magnitude };
        Self { magnitude, n_other: self.n_other + other.n_other }
    }
}

at_every_level! {
    /// Returns the largest absolute value of the elements in `bytes`.
    fn largest<S: Source>(instructions, bytes: &[u8]) -> Largest<S::Wide> {
        let mut largest = Largest::NONE;
        for large in large_blocks::<S>(bytes) {
            if let Some(finite) = largest_if_finite::<S>(instructions, large) {
                largest = largest.merge(finite);
                continue;
            }
            for block in blocks::<S>(large) {
                let finite = largest_if_finite::<S>(instructions, block);
                largest = largest.merge(match finite {
                    Some(finite) => finite,
                    None => largest_finite::<S>(instructions, block),
                });
            }
        }
        largest
    }
}

/// Returns the largest absolute value in a block; `None` if some number is not finite.
#[inline(always)]
fn largest_if_finite<S: Source>(instructions: Instructions, block: &[u8]) -> Option<Largest<S::Wide>> {
    let magnitude = if S::IS_ORDERED_16_BITS {
        largest_of_16_bits::<S>(instructions, block)
    } else {
        let mut largest = LargestMagnitude::<S::Wide>([Default::default(); CHUNK]);
        for_each_chunk::<S>(instructions, block, &mut largest);
        largest.0.into_iter().fold(Default::default(), Ord::max)
    };
    let is_finite = magnitude < S::Wide::INFINITE;
    is_finite.then_some(Largest { magnitude: S::Wide::of_magnitude(magnitude), n_other: 0 })
}

/// Returns the largest magnitude in a block, finite or not. Compares the bits before widening, so that a vector holds 32 or 64 elements
/// instead of 16.
#[inline(always)]
fn largest_of_16_bits<S: Source>(instructions: Instructions, block: &[u8]) -> <S::Wide as Float>::Bits {
    let magnitude = |element: [u8; 2]| u16::from_le_bytes(element) & 0x7fff;
    let (chunks, rest) = block.as_chunks::<2>().0.as_chunks::<CHUNK>();
    let mut lanes = [0; CHUNK];
    for index in 0..chunks.len() {
        let chunk = &chunks[taking_turns::<RUNS>(index, chunks.len())];
        for (lane, &element) in lanes.iter_mut().zip(chunk) {
            *lane = magnitude(element).max(*lane);
        }
    }
    let largest = rest.iter().map(|&element| magnitude(element)).chain(lanes).max().unwrap_or(0);
    let mut wide = [S::Wide::ZERO];
    S::widen(instructions, &largest.to_le_bytes(), &mut wide);
    wide[0].magnitude()
}

/// Returns the largest absolute value among the finite numbers of a block, and how many others there are.
#[inline(always)]
fn largest_finite<S: Source>(instructions: Instructions, block: &[u8]) -> Largest<S::Wide> {
    let mut largest = LargestFinite::<S::Wide> { magnitude: Default::default(), n_other: 0 };
    for_each_chunk::<S>(instructions, block, &mut largest);
    Largest { magnitude: S::Wide::of_magnitude(largest.magnitude), n_other: largest.n_other }
}

/// The bits of the largest magnitude in each lane, finite or not.
struct LargestMagnitude<F: Float>([F::Bits; CHUNK]);

impl<F: Float> VisitChunks<F> for LargestMagnitude<F> {
    #[inline(always)]
    fn visit_some(&mut self, _: usize, values: &[F]) {
        for (lane, value) in self.0.iter_mut().zip(values) {
            *lane = (*lane).max(value.magnitude());
        }
    }
}

/// The bits of the largest finite magnitude, and how many numbers are not finite.
struct LargestFinite<F: Float> {
    magnitude: F::Bits,
    n_other: u64,
}

impl<F: Float> VisitChunks<F> for LargestFinite<F> {
    #[inline(always)]
    fn visit_some(&mut self, _: usize, values: &[F]) {
        let mut n_other = 0_u32;
        for value in values {
            let finite = value.magnitude() < F::INFINITE;
            self.magnitude = self.magnitude.max(if finite { value.magnitude() } else { F::Bits::default() });
            n_other += u32::from(!finite);
        }
        self.n_other += u64::from(n_other);
    }
}

/// The destination and the parameters of [`quantize`].
pub(crate) struct Quantized<'a, F> {
    pub(crate) scale: Scale<F>,
    /// As many as there are elements.
    pub(crate) out: &'a mut [i8],
    /// Whether there may be numbers that are not finite. They become 0.
    pub(crate) others: bool,
}

at_every_level! {
    /// Quantizes the elements of `bytes` to int8.
    fn quantize<S: Source>(instructions, bytes: &[u8], quantized: Quantized<'_, S::Wide>) -> () {
        let Quantized { scale, out, others } = quantized;
        debug_assert_eq!(out.len(), bytes.len() * 8 / S::BITS);
        let is_plain = !others && scale.lift.to_f64() == 1.0;
        // Starts with the last block, because the core's cache still holds the end of the data that `largest` has just read.
        for (block, out) in blocks::<S>(bytes).zip(out.chunks_mut(BLOCK)).rev() {
            for_each_chunk::<S>(instructions, block, &mut Writing { instructions, scale, out, is_plain });
        }
    }
}

/// The state of [`quantize`] within a block.
struct Writing<'a, F> {
    instructions: Instructions,
    scale: Scale<F>,
    out: &'a mut [i8],
    /// Whether all numbers are finite and need no lift.
    is_plain: bool,
}

impl<F: RoundToInt8> VisitChunks<F> for Writing<'_, F> {
    #[inline(always)]
    fn visit_some(&mut self, start: usize, values: &[F]) {
        let Some(out) = self.out.get_mut(start..start + values.len()) else { return };
        let Scale { lift, factor } = self.scale;
        if self.is_plain {
            F::round(self.instructions, values, factor, out);
            return;
        }
        let mut lifted = [F::ZERO; CHUNK];
        for (lifted, &value) in lifted.iter_mut().zip(values) {
            *lifted = if value.magnitude() < F::INFINITE { value * lift } else { F::ZERO };
        }
        F::round(self.instructions, &lifted[..values.len()], factor, out);
    }
}

at_every_level! {
    /// Returns the smallest absolute value above zero among finite numbers; infinity if there is none.
    fn smallest<S: Source>(instructions, bytes: &[u8]) -> f64 {
        let mut smallest = Smallest(S::Wide::INFINITE);
        for block in blocks::<S>(bytes) {
            for_each_chunk::<S>(instructions, block, &mut smallest);
        }
        S::Wide::of_magnitude(smallest.0).to_f64()
    }
}

/// The bits of the smallest magnitude above zero.
struct Smallest<F: Float>(F::Bits);

impl<F: Float> VisitChunks<F> for Smallest<F> {
    #[inline(always)]
    fn visit_some(&mut self, _: usize, values: &[F]) {
        for value in values {
            let magnitude = value.magnitude();
            self.0 = self.0.min(if magnitude == F::Bits::default() { F::INFINITE } else { magnitude });
        }
    }
}

/// Returns how many finite numbers, multiplied by `scale`, are not an integer from -127 to 127.
pub(crate) fn n_off_grid<S: Source>(bytes: &[u8], scale: f64) -> u64 {
    /// The tolerance for rounding of the number and of the scale.
    const TOLERANCE: f64 = 1e-3;
    let mut off = OffGrid { scale, tolerance: TOLERANCE, n_off: 0 };
    for block in blocks::<S>(bytes) {
        for_each_chunk::<S>(Instructions::Baseline, block, &mut off);
    }
    off.n_off
}

struct OffGrid {
    scale: f64,
    tolerance: f64,
    n_off: u64,
}

impl<F: Float> VisitChunks<F> for OffGrid {
    #[inline(always)]
    fn visit_some(&mut self, _: usize, values: &[F]) {
        for value in values.iter().filter(|value| value.magnitude() < F::INFINITE) {
            let scaled = value.to_f64() * self.scale;
            let on = (scaled - scaled.round()).abs() <= self.tolerance && scaled.abs() <= 127.0 + self.tolerance;
            self.n_off += u64::from(!on);
        }
    }
}
