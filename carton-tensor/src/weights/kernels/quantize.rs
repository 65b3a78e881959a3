//! The largest absolute value of a tensor, and its numbers as int8 (spec/weights.md, "Quantization").

use super::block::{Source, Visit, for_each_block};
use super::float::Float;
use super::level::at_every_level;

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
    fn largest<S: Source>(bytes: &[u8]) -> Largest<S::Wide> {
        let mut largest = Largest::NONE;
        for_each_block::<S>(bytes, &mut largest);
        largest
    }
}

impl<F: Float> Visit<F> for Largest<F> {
    #[inline(always)]
    fn visit(&mut self, values: &[F]) {
        *self = self.merge(largest_of_block::<F, 32>(values));
    }
}

#[inline(always)]
fn largest_of_block<F: Float, const LANES: usize>(values: &[F]) -> Largest<F> {
    let mut lanes = [F::Bits::default(); LANES];
    let (chunks, rest) = values.as_chunks::<LANES>();
    for chunk in chunks {
        for (lane, &value) in lanes.iter_mut().zip(chunk) {
            *lane = (*lane).max(value.magnitude());
        }
    }
    for (lane, &value) in lanes.iter_mut().zip(rest) {
        *lane = (*lane).max(value.magnitude());
    }
    let magnitude = lanes.into_iter().fold(F::Bits::default(), Ord::max);
    if magnitude < F::INFINITE {
        return Largest { magnitude: F::of_magnitude(magnitude), n_other: 0 };
    }
    let (mut magnitude, mut n_other) = (F::Bits::default(), 0_u32);
    for value in values {
        let finite = value.magnitude() < F::INFINITE;
        magnitude = magnitude.max(if finite { value.magnitude() } else { F::Bits::default() });
        n_other += u32::from(!finite);
    }
    Largest { magnitude: F::of_magnitude(magnitude), n_other: u64::from(n_other) }
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
    fn quantize<S: Source>(bytes: &[u8], quantized: Quantized<'_, S::Wide>) -> () {
        let mut quantized = quantized;
        for_each_block::<S>(bytes, &mut quantized);
    }
}

impl<F: Float> Visit<F> for Quantized<'_, F> {
    #[inline(always)]
    fn visit(&mut self, values: &[F]) {
        let length = values.len().min(self.out.len());
        let (block, rest) = std::mem::take(&mut self.out).split_at_mut(length);
        self.out = rest;
        let Scale { lift, scale } = self.scale;
        if self.others {
            for (out, &value) in block.iter_mut().zip(values) {
                let value = if value.magnitude() < F::INFINITE { value } else { F::ZERO };
                *out = value.times(lift).times(scale).round_to_i8();
            }
        } else {
            for (out, &value) in block.iter_mut().zip(values) {
                *out = value.times(lift).times(scale).round_to_i8();
            }
        }
    }
}

at_every_level! {
    /// The smallest absolute value above zero among finite numbers; infinite if there is none.
    fn smallest<S: Source>(bytes: &[u8]) -> f64 {
        let mut smallest = Smallest(S::Wide::INFINITE);
        for_each_block::<S>(bytes, &mut smallest);
        S::Wide::of_magnitude(smallest.0).to_f64()
    }
}

/// The bits of the smallest magnitude above zero.
struct Smallest<F: Float>(F::Bits);

impl<F: Float> Visit<F> for Smallest<F> {
    #[inline(always)]
    fn visit(&mut self, values: &[F]) {
        let mut lanes = [F::INFINITE; 16];
        for chunk in values.chunks(16) {
            for (lane, &value) in lanes.iter_mut().zip(chunk) {
                let magnitude = value.magnitude();
                let magnitude = if magnitude == F::Bits::default() { F::INFINITE } else { magnitude };
                *lane = (*lane).min(magnitude);
            }
        }
        self.0 = lanes.into_iter().fold(self.0, Ord::min);
    }
}

/// How many finite numbers are no integer from -127 to 127 when they are multiplied by `scale`.
pub(crate) fn n_off_grid<S: Source>(bytes: &[u8], scale: f64) -> u64 {
    /// What the rounding of a number and of the scale may cost.
    const TOLERANCE: f64 = 1e-3;
    let mut off = OffGrid { scale, tolerance: TOLERANCE, n_off: 0 };
    for_each_block::<S>(bytes, &mut off);
    off.n_off
}

struct OffGrid {
    scale: f64,
    tolerance: f64,
    n_off: u64,
}

impl<F: Float> Visit<F> for OffGrid {
    #[inline(always)]
    fn visit(&mut self, values: &[F]) {
        for value in values.iter().filter(|value| value.magnitude() < F::INFINITE) {
            let scaled = value.to_f64() * self.scale;
            let on = (scaled - scaled.round()).abs() <= self.tolerance && scaled.abs() <= 127.0 + self.tolerance;
            self.n_off += u64::from(!on);
        }
    }
}
