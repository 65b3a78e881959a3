//! Minimum, maximum, mean, standard deviation and what is not finite, of one tensor or many (spec/weights.md §2).

use serde::Serialize;

use super::error::WeightsError;
use super::kernels::{Level, Moments, moments, with_encoding};
use super::pieces::{Data, Job, for_each_piece};
use crate::files::{ElementType, RawTensor};
use crate::parallel::available_threads;

/// What one pass over a tensor tells of its numbers.
///
/// Minimum, maximum, mean and standard deviation are those of the finite numbers, computed in float64, and `None` when there
/// are none. They are the same to the last bit on every machine and with any number of threads.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Statistics {
    /// How many numbers there are.
    pub n_elements: u64,
    /// The smallest.
    pub min: Option<f64>,
    /// The largest.
    pub max: Option<f64>,
    /// The arithmetic mean. Infinite or NaN only where sums of float64 numbers go beyond their range.
    pub mean: Option<f64>,
    /// The standard deviation of the numbers as a whole population (NumPy's `ddof=0`). Infinite or NaN where squares of differences go
    /// beyond the range of float64, from about 1e154 on.
    pub standard_deviation: Option<f64>,
    /// How many are NaN.
    pub n_nan: u64,
    /// How many are infinite, with either sign.
    pub n_infinite: u64,
}

impl Statistics {
    /// Whether any number is NaN.
    #[must_use]
    pub const fn has_nan(&self) -> bool {
        self.n_nan > 0
    }

    /// Whether any number is infinite.
    #[must_use]
    pub const fn has_inf(&self) -> bool {
        self.n_infinite > 0
    }

    pub(super) fn of(parts: impl IntoIterator<Item = Moments>) -> Self {
        let moments = parts.into_iter().fold(Moments::NONE, Moments::merge);
        let any = |number| (moments.n_finite > 0).then_some(number);
        Self {
            n_elements: moments.n_finite + moments.n_nan + moments.n_infinite,
            min: any(moments.min),
            max: any(moments.max),
            mean: any(moments.mean),
            standard_deviation: any(moments.standard_deviation()),
            n_nan: moments.n_nan,
            n_infinite: moments.n_infinite,
        }
    }
}

/// The statistics of a tensor of any element type but the complex ones, on all cores.
///
/// ```
/// use carton_tensor::files::{ElementType, RawTensor};
/// let bytes: Vec<u8> = [1.0_f32, f32::NAN, 3.0].into_iter().flat_map(f32::to_le_bytes).collect();
/// let tensor = RawTensor::new(ElementType::Float32, vec![3], bytes.into())?;
/// let stats = carton_tensor::weights::stats(&tensor)?;
/// assert_eq!((stats.min, stats.mean, stats.standard_deviation, stats.n_nan), (Some(1.0), Some(2.0), Some(1.0), 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`WeightsError::Complex`].
pub fn stats(tensor: &RawTensor) -> Result<Statistics, WeightsError> {
    let mut all = stats_of_all([tensor])?;
    all.pop().ok_or(WeightsError::Complex { dtype: tensor.dtype() })
}

/// The statistics of many tensors, in their order, on all cores.
///
/// # Errors
/// [`WeightsError::Complex`] when one of them has no order.
pub fn stats_of_all<'a>(tensors: impl IntoIterator<Item = &'a RawTensor>) -> Result<Vec<Statistics>, WeightsError> {
    let jobs: Vec<Job<'_>> =
        tensors.into_iter().map(|tensor| Job { dtype: tensor.dtype(), data: Data::Memory(tensor.bytes()) }).collect();
    let level = Level::best();
    let parts = for_each_piece(&jobs, available_threads(), |job, _, bytes| moments_of(level, jobs[job].dtype, bytes))?;
    Ok(parts.into_iter().map(Statistics::of).collect())
}

/// The moments of the elements in `bytes`.
pub(super) fn moments_of(level: Level, dtype: ElementType, bytes: &[u8]) -> Result<Moments, WeightsError> {
    with_encoding!(dtype, S => Ok(moments::<S>(level, bytes)), Err(WeightsError::Complex { dtype }))
}
