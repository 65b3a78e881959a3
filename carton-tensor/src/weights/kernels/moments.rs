//! Minimum, maximum, mean and standard deviation in one pass over the data.
//!
//! The numbers are taken in blocks, or in groups from a block. Within a block, the differences from one of its members (the shift) and
//! their squares are summed in float64. Subtracting the mean from the sum of squares then cancels only the distance between the shift
//! and the mean, not the mean itself. This is why the textbook formula fails where this one does not. If the shift is so far from the
//! mean that more than four bits would be lost, the mean replaces it, and the block is summed again. Blocks are merged by the formula
//! of Chan, Golub and LeVeque (1983), which keeps the accuracy.

use super::block::{BLOCK, Source, VisitGroups, for_each_group};
use super::float::Float;
use super::lanes::{AddToLanes, LANES, Lanes};
use super::level::{Instructions, at_every_level};

/// The statistics of some numbers. Merging the moments of parts gives those of the whole.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Moments {
    /// The number of finite numbers. All fields but the last two only concern these.
    pub(crate) n_finite: u64,
    pub(crate) mean: f64,
    /// The sum of the squared distances from the mean.
    pub(crate) squares: f64,
    /// The smallest finite number; infinity if there is none.
    pub(crate) min: f64,
    /// The largest finite number; negative infinity if there is none.
    pub(crate) max: f64,
    pub(crate) n_nan: u64,
    pub(crate) n_infinite: u64,
}

impl Moments {
    pub(crate) const NONE: Self = Self {
        n_finite: 0,
        mean: 0.0,
        squares: 0.0,
        min: f64::INFINITY,
        max: f64::NEG_INFINITY,
        n_nan: 0,
        n_infinite: 0,
    };

    /// Returns the moments of both together. The order only affects the last bits. Callers keep the order of the data, so that the
    /// result does not depend on the number of threads.
    #[inline(always)]
    pub(crate) fn merge(self, other: Self) -> Self {
        let n_finite = self.n_finite + other.n_finite;
        let (mean, squares) = if other.n_finite == 0 {
            (self.mean, self.squares)
        } else if self.n_finite == 0 {
            (other.mean, other.squares)
        } else {
            let share = other.n_finite as f64 / n_finite as f64;
            let distance = other.mean - self.mean;
            let between = distance * distance * share * self.n_finite as f64;
            (self.mean + distance * share, self.squares + other.squares + between)
        };
        Self {
            n_finite,
            mean,
            squares,
            // Uses comparisons, because `f64::min` may return either of two zeros.
            min: if other.min < self.min { other.min } else { self.min },
            max: if other.max > self.max { other.max } else { self.max },
            n_nan: self.n_nan + other.n_nan,
            n_infinite: self.n_infinite + other.n_infinite,
        }
    }

    /// The standard deviation of the finite numbers as a whole population (NumPy's `ddof=0`).
    pub(crate) fn standard_deviation(&self) -> f64 {
        (self.squares / self.n_finite as f64).sqrt()
    }
}

at_every_level! {
    /// Returns the moments of the elements in `bytes`.
    fn moments<S: Source>(instructions, bytes: &[u8]) -> Moments {
        let mut moments = Moments::NONE;
        for_each_group::<S>(instructions, bytes, &mut moments);
        moments
    }
}

impl<F: AddToLanes> VisitGroups<F> for Moments {
    #[inline(always)]
    fn visit_group<const RUNS: usize>(&mut self, instructions: Instructions, values: &[F]) {
        *self = self.merge(block::<F, RUNS>(instructions, values));
    }
}

/// Returns the moments of at most [`BLOCK`] numbers, of which usually all are finite.
#[inline(always)]
fn block<F: AddToLanes, const RUNS: usize>(instructions: Instructions, values: &[F]) -> Moments {
    debug_assert!(values.len() <= BLOCK);
    let Some(first) = values.first() else { return Moments::NONE };
    let mut sums = Sums::of::<F, RUNS>(instructions, values, first.to_f64());
    if sums.shift_is_far(values.len()) {
        sums = Sums::of::<F, RUNS>(instructions, values, sums.shift + sums.sum / values.len() as f64);
    }
    // A NaN or an infinity anywhere makes the sum NaN or infinite.
    if sums.sum.is_finite() { sums.moments(values.len() as u64, [0, 0]) } else { block_with_others(values) }
}

/// Sums over a block.
struct Sums {
    shift: f64,
    /// The sum of the differences from `shift`.
    sum: f64,
    /// The sum of their squares.
    squares: f64,
    min: f64,
    max: f64,
}

impl Sums {
    #[inline(always)]
    fn of<F: AddToLanes, const RUNS: usize>(instructions: Instructions, values: &[F], shift: f64) -> Self {
        let mut lanes = Lanes::new(values.first().copied().unwrap_or(F::ZERO));
        let (chunks, rest) = values.as_chunks::<LANES>();
        F::add_to_lanes::<RUNS>(instructions, &mut lanes, chunks, shift);
        for (lane, &value) in rest.iter().enumerate() {
            lanes.add(lane, value, shift);
        }
        let (mut least, mut most) = (lanes.min[0], lanes.max[0]);
        for lane in 1..LANES {
            least = if lanes.min[lane] < least { lanes.min[lane] } else { least };
            most = if lanes.max[lane] > most { lanes.max[lane] } else { most };
        }
        let (sum, squares) = (total(lanes.sum), total(lanes.squares));
        Self { shift, sum, squares, min: least.to_f64(), max: most.to_f64() }
    }

    /// Whether more than four bits of the squares cancel.
    #[inline(always)]
    fn shift_is_far(&self, n_values: usize) -> bool {
        self.sum * self.sum / n_values as f64 > self.squares * (15.0 / 16.0)
    }

    #[inline(always)]
    fn moments(self, n_finite: u64, others: [u64; 2]) -> Moments {
        let [n_nan, n_infinite] = others;
        if n_finite == 0 {
            return Moments { n_nan, n_infinite, ..Moments::NONE };
        }
        let distance = self.sum / n_finite as f64;
        // Rounding could leave a tiny negative number, which becomes 0. NaN, from squares that overflow, stays.
        let squares = self.squares - self.sum * distance;
        let squares = if squares < 0.0 { 0.0 } else { squares };
        Moments { n_finite, mean: self.shift + distance, squares, min: self.min, max: self.max, n_nan, n_infinite }
    }
}

/// Returns the same as [`block`], for blocks in which some numbers are not finite.
#[inline(always)]
fn block_with_others<F: Float>(values: &[F]) -> Moments {
    let shift = values.iter().find(|value| value.magnitude() < F::INFINITE).map_or(0.0, |value| value.to_f64());
    let (mut sums, others) = finite_sums(values, shift);
    let n_finite = values.len() as u64 - others[0] - others[1];
    if sums.shift_is_far(n_finite as usize) {
        sums = finite_sums(values, shift + sums.sum / n_finite as f64).0;
    }
    sums.moments(n_finite, others)
}

/// Returns the sums of the finite numbers, and the numbers of NaNs and infinities.
#[inline(always)]
fn finite_sums<F: Float>(values: &[F], shift: f64) -> (Sums, [u64; 2]) {
    let (mut sum, mut squares) = ([0.0; LANES], [0.0; LANES]);
    let (mut min, mut max) = ([f64::INFINITY; LANES], [f64::NEG_INFINITY; LANES]);
    let (mut n_nan, mut n_infinite) = ([0_u32; LANES], [0_u32; LANES]);
    for chunk in values.chunks(LANES) {
        for (lane, &value) in chunk.iter().enumerate() {
            let finite = value.magnitude() < F::INFINITE;
            let number = value.to_f64();
            let distance = if finite { number - shift } else { 0.0 };
            sum[lane] += distance;
            squares[lane] += distance * distance;
            min[lane] = if finite && number < min[lane] { number } else { min[lane] };
            max[lane] = if finite && number > max[lane] { number } else { max[lane] };
            n_nan[lane] += u32::from(value.magnitude() > F::INFINITE);
            n_infinite[lane] += u32::from(value.magnitude() == F::INFINITE);
        }
    }
    let sums = Sums {
        shift,
        sum: total(sum),
        squares: total(squares),
        min: min.into_iter().fold(f64::INFINITY, |least, min| if min < least { min } else { least }),
        max: max.into_iter().fold(f64::NEG_INFINITY, |most, max| if max > most { max } else { most }),
    };
    (sums, [n_nan, n_infinite].map(|counts| counts.iter().map(|&count| u64::from(count)).sum::<u64>()))
}

/// Adds the lanes pairwise.
#[inline(always)]
fn total(mut lanes: [f64; LANES]) -> f64 {
    let mut width = LANES;
    while width > 1 {
        width /= 2;
        for lane in 0..width {
            lanes[lane] += lanes[lane + width];
        }
    }
    lanes[0]
}
