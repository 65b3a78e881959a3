//! The inner loop of [`moments`](super::moments): sums of differences and of their squares, minimum and maximum, lane by lane. For
//! float32 it uses vector intrinsics, because the compiler's output for the plain loop varies by a factor of four with the surrounding
//! code. All variants do the same additions in the same order.

use super::float::Float;
use super::level::Instructions;
use super::turns::taking_turns;

/// The number of partial sums. A number is added to the sum of its lane.
pub(super) const LANES: usize = 16;

/// The results of each lane.
pub(crate) struct Lanes<F> {
    /// The sums of the differences from a number.
    pub(super) sum: [f64; LANES],
    /// The sums of the squares of these differences.
    pub(super) squares: [f64; LANES],
    pub(super) min: [F; LANES],
    pub(super) max: [F; LANES],
}

impl<F: Float> Lanes<F> {
    /// Starts with zero sums. `any` number of the data initializes minimum and maximum.
    #[inline(always)]
    pub(super) fn new(any: F) -> Self {
        Self { sum: [0.0; LANES], squares: [0.0; LANES], min: [any; LANES], max: [any; LANES] }
    }

    /// Adds a number to a lane.
    #[inline(always)]
    pub(super) fn add(&mut self, lane: usize, value: F, shift: f64) {
        let distance = value.to_f64() - shift;
        self.sum[lane] += distance;
        self.squares[lane] += distance * distance;
        self.min[lane] = if value < self.min[lane] { value } else { self.min[lane] };
        self.max[lane] = if value > self.max[lane] { value } else { self.max[lane] };
    }
}

/// A float type with a loop that adds numbers to lanes.
pub(crate) trait AddToLanes: Float {
    /// Adds the numbers of each chunk to the lanes, one to each lane. Reads `RUNS` runs of chunks alternately.
    fn add_to_lanes<const RUNS: usize>(
        instructions: Instructions,
        lanes: &mut Lanes<Self>,
        chunks: &[[Self; LANES]],
        shift: f64,
    );
}

impl AddToLanes for f32 {
    #[inline(always)]
    fn add_to_lanes<const RUNS: usize>(
        instructions: Instructions,
        lanes: &mut Lanes<f32>,
        chunks: &[[f32; LANES]],
        shift: f64,
    ) {
        match instructions {
            Instructions::Baseline => add_plain::<f32, RUNS>(lanes, chunks, shift),
            // SAFETY: the value only exists if this CPU has the instructions.
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2(_) => unsafe { x86::add_by_8::<RUNS>(lanes, chunks, shift) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512(_) => unsafe { x86::add_by_16::<RUNS>(lanes, chunks, shift) },
        }
    }
}

impl AddToLanes for f64 {
    #[inline(always)]
    fn add_to_lanes<const RUNS: usize>(_: Instructions, lanes: &mut Lanes<f64>, chunks: &[[f64; LANES]], shift: f64) {
        add_plain::<f64, RUNS>(lanes, chunks, shift);
    }
}

#[inline(always)]
fn add_plain<F: Float, const RUNS: usize>(lanes: &mut Lanes<F>, chunks: &[[F; LANES]], shift: f64) {
    for index in 0..chunks.len() {
        let chunk = &chunks[taking_turns::<RUNS>(index, chunks.len())];
        for (lane, &value) in chunk.iter().enumerate() {
            lanes.add(lane, value, shift);
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m128, __m256, __m256d, __m512, __m512d, _mm256_add_pd, _mm256_cvtps_pd, _mm256_max_ps, _mm256_min_ps,
        _mm256_mul_pd, _mm256_set1_pd, _mm256_sub_pd, _mm512_add_pd, _mm512_cvtps_pd, _mm512_max_ps, _mm512_min_ps,
        _mm512_mul_pd, _mm512_set1_pd, _mm512_sub_pd,
    };

    use bytemuck::must_cast as cast;

    use super::{LANES, Lanes, taking_turns};

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn add_by_8<const RUNS: usize>(lanes: &mut Lanes<f32>, chunks: &[[f32; LANES]], shift: f64) {
        let shift = _mm256_set1_pd(shift);
        let (mut sum, mut squares): ([__m256d; 4], [__m256d; 4]) = (cast(lanes.sum), cast(lanes.squares));
        let (mut min, mut max): ([__m256; 2], [__m256; 2]) = (cast(lanes.min), cast(lanes.max));
        for index in 0..chunks.len() {
            let chunk = &chunks[taking_turns::<RUNS>(index, chunks.len())];
            let quarters: [__m128; 4] = cast(*chunk);
            for part in 0..4 {
                let distance = _mm256_sub_pd(_mm256_cvtps_pd(quarters[part]), shift);
                sum[part] = _mm256_add_pd(sum[part], distance);
                squares[part] = _mm256_add_pd(squares[part], _mm256_mul_pd(distance, distance));
            }
            let halves: [__m256; 2] = cast(*chunk);
            for part in 0..2 {
                min[part] = _mm256_min_ps(halves[part], min[part]);
                max[part] = _mm256_max_ps(halves[part], max[part]);
            }
        }
        *lanes = Lanes { sum: cast(sum), squares: cast(squares), min: cast(min), max: cast(max) };
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn add_by_16<const RUNS: usize>(lanes: &mut Lanes<f32>, chunks: &[[f32; LANES]], shift: f64) {
        let shift = _mm512_set1_pd(shift);
        let (mut sum, mut squares): ([__m512d; 2], [__m512d; 2]) = (cast(lanes.sum), cast(lanes.squares));
        let (mut min, mut max): (__m512, __m512) = (cast(lanes.min), cast(lanes.max));
        for index in 0..chunks.len() {
            let chunk = &chunks[taking_turns::<RUNS>(index, chunks.len())];
            let halves: [__m256; 2] = cast(*chunk);
            for part in 0..2 {
                let distance = _mm512_sub_pd(_mm512_cvtps_pd(halves[part]), shift);
                sum[part] = _mm512_add_pd(sum[part], distance);
                squares[part] = _mm512_add_pd(squares[part], _mm512_mul_pd(distance, distance));
            }
            let whole: __m512 = cast(*chunk);
            min = _mm512_min_ps(whole, min);
            max = _mm512_max_ps(whole, max);
        }
        *lanes = Lanes { sum: cast(sum), squares: cast(squares), min: cast(min), max: cast(max) };
    }
}
