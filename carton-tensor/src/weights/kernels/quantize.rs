//! The largest absolute value of a tensor, and its numbers as int8 (spec/weights.md, "Quantization").

use super::block::{BLOCK, CHUNK, Source, VisitChunks, blocks, for_each_chunk, large_blocks};
use super::float::Float;
use super::level::{Instructions, at_every_level};
use super::rounding::RoundToInt8;

/// The largest absolute value among finite numbers, and how many were not finite.
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

/// What numbers are multiplied with before they are rounded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scale<F> {
    /// A power of two that lifts tiny float32 numbers, whose scale is beyond float32; 1 otherwise.
    lift: F,
    scale: F,
}

impl<F: Float> Scale<F> {
    /// `127 / largest`, and 1 where all numbers are zero.
    pub(crate) fn of(largest: Largest<F>) -> Self {
        F::scale(largest.magnitude)
    }

    /// Both factors as one number, which float64 holds exactly.
    pub(crate) fn as_f64(self) -> f64 {
        self.lift.to_f64() * self.scale.to_f64()
    }
}

pub(super) fn scale_f32(max: f32) -> Scale<f32> {
    /// 2 to the power of 100.
    const LIFT: f32 = f32::from_bits((127 + 100) << 23);
    if max == 0.0 {
        return Scale { lift: 1.0, scale: 1.0 };
    }
    let scale = 127.0 / max;
    if scale.is_finite() { Scale { lift: 1.0, scale } } else { Scale { lift: LIFT, scale: 127.0 / (max * LIFT) } }
}

/// The scale of float64 numbers below 1e-306 would be beyond float64; it ends at the largest finite number.
pub(super) fn scale_f64(max: f64) -> Scale<f64> {
    Scale { lift: 1.0, scale: if max == 0.0 { 1.0 } else { (127.0 / max).min(f64::MAX) } }
}

at_every_level! {
    /// The largest absolute value of the elements in `bytes`.
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

/// The largest absolute value in a block; `None` if there is a number that is not finite.
#[inline(always)]
fn largest_if_finite<S: Source>(instructions: Instructions, block: &[u8]) -> Option<Largest<S::Wide>> {
    let magnitude = if let Some(magnitude) = S::largest_magnitude(instructions, block) {
        magnitude
    } else {
        let mut largest = LargestMagnitude::<S::Wide>([Default::default(); CHUNK]);
        for_each_chunk::<S>(instructions, block, &mut largest);
        largest.0.into_iter().fold(Default::default(), Ord::max)
    };
    let is_finite = magnitude < S::Wide::INFINITE;
    is_finite.then_some(Largest { magnitude: S::Wide::of_magnitude(magnitude), n_other: 0 })
}

/// The largest absolute value among the finite numbers of a block, and how many others there are.
#[inline(always)]
fn largest_finite<S: Source>(instructions: Instructions, block: &[u8]) -> Largest<S::Wide> {
    let mut largest = LargestFinite::<S::Wide> { magnitude: Default::default(), n_other: 0 };
    for_each_chunk::<S>(instructions, block, &mut largest);
    Largest { magnitude: S::Wide::of_magnitude(largest.magnitude), n_other: largest.n_other }
}

/// The bits of the largest magnitude, finite or not, in lanes.
struct LargestMagnitude<F: Float>([F::Bits; CHUNK]);

impl<F: Float> VisitChunks<F> for LargestMagnitude<F> {
    #[inline(always)]
    fn visit_some(&mut self, _: usize, values: &[F]) {
        for (lane, value) in self.0.iter_mut().zip(values) {
            *lane = (*lane).max(value.magnitude());
        }
    }
}

/// The bits of the largest finite magnitude.
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

/// Where [`quantize`] writes to, and how.
pub(crate) struct Quantized<'a, F> {
    pub(crate) scale: Scale<F>,
    /// As many as there are elements.
    pub(crate) out: &'a mut [i8],
    /// Whether there may be numbers that are not finite; they become 0.
    pub(crate) others: bool,
}

at_every_level! {
    /// The elements of `bytes` as int8.
    fn quantize<S: Source>(instructions, bytes: &[u8], quantized: Quantized<'_, S::Wide>) -> () {
        let Quantized { scale, out, others } = quantized;
        let is_plain = !others && scale.lift.to_f64() == 1.0;
        // The last block first: a core's cache holds the end of what `largest` has just looked at.
        for (block, out) in blocks::<S>(bytes).zip(out.chunks_mut(BLOCK)).rev() {
            for_each_chunk::<S>(instructions, block, &mut Writing { instructions, scale, out, others, is_plain });
        }
    }
}

/// [`quantize`] within a block.
struct Writing<'a, F> {
    instructions: Instructions,
    scale: Scale<F>,
    out: &'a mut [i8],
    others: bool,
    /// Whether all numbers are finite, and the scale is one factor.
    is_plain: bool,
}

impl<F: RoundToInt8> VisitChunks<F> for Writing<'_, F> {
    #[inline(always)]
    fn visit_some(&mut self, start: usize, values: &[F]) {
        let Some(out) = self.out.get_mut(start..start + values.len()) else { return };
        let Scale { lift, scale } = self.scale;
        if self.is_plain {
            for (out, &value) in out.iter_mut().zip(values) {
                *out = value.times(scale).round_to_i8();
            }
        } else if self.others {
            for (out, &value) in out.iter_mut().zip(values) {
                let value = if value.magnitude() < F::INFINITE { value } else { F::ZERO };
                *out = value.times(lift).times(scale).round_to_i8();
            }
        } else {
            for (out, &value) in out.iter_mut().zip(values) {
                *out = value.times(lift).times(scale).round_to_i8();
            }
        }
    }

    #[inline(always)]
    fn visit_chunk(&mut self, start: usize, values: &[F; CHUNK]) {
        let out = self.out.get_mut(start..start + CHUNK).and_then(|out| out.as_mut_array::<CHUNK>());
        match out.filter(|_| self.is_plain) {
            Some(out) => F::round_chunk(self.instructions, values, self.scale.scale, out),
            None => self.visit_some(start, values),
        }
    }
}

at_every_level! {
    /// The smallest absolute value above zero among finite numbers; infinite if there is none.
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

/// How many finite numbers are no integer from -127 to 127 when they are multiplied by `scale`.
pub(crate) fn n_off_grid<S: Source>(bytes: &[u8], scale: f64) -> u64 {
    /// What the rounding of a number and of the scale may cost.
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
