//! Minimum, maximum, mean, standard deviation, and counts of numbers that are not finite, of one or more tensors (spec/weights.md §2).

use serde::Serialize;

use super::error::WeightsError;
use super::kernels::{Level, Moments, moments, with_encoding};
use super::options::LoadOptions;
use super::pieces::{Data, Job, for_each_piece, stream};
use crate::any_file::{ElementOrder, Entry, TensorFileError};
use crate::files::{ElementType, RawTensor};
use crate::parallel::available_threads;

/// The statistics of a tensor, from one pass over its numbers.
///
/// Minimum, maximum, mean and standard deviation concern the finite numbers. They are computed in float64, and are `None` if there are
/// no finite numbers. They are the same to the last bit on every machine and with any number of threads.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Statistics {
    /// The number of elements.
    pub n_elements: u64,
    /// The smallest finite number.
    pub min: Option<f64>,
    /// The largest finite number.
    pub max: Option<f64>,
    /// The arithmetic mean. Infinite or NaN only if sums of float64 numbers overflow.
    pub mean: Option<f64>,
    /// The standard deviation of the numbers as a whole population (NumPy's `ddof=0`). Infinite or NaN if squares of differences
    /// overflow float64, which can happen from about 1e154 on.
    pub standard_deviation: Option<f64>,
    /// The number of NaNs.
    pub n_nan: u64,
    /// The number of infinities of either sign.
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

/// Returns the statistics of a tensor of any element type except complex numbers, on all cores.
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

/// Returns the statistics of several tensors, in their order, on all cores.
///
/// # Errors
/// [`WeightsError::Complex`] if one of them has complex numbers.
pub fn stats_of_all<'a>(tensors: impl IntoIterator<Item = &'a RawTensor>) -> Result<Vec<Statistics>, WeightsError> {
    let jobs: Vec<Job<'_>> =
        tensors.into_iter().map(|tensor| Job { dtype: tensor.dtype(), data: Data::Memory(tensor.bytes()) }).collect();
    let level = Level::best();
    let parts = for_each_piece(&jobs, available_threads(), |job, _, bytes| moments_of(level, jobs[job].dtype, bytes))?;
    Ok(parts.into_iter().map(Statistics::of).collect())
}

/// Returns the statistics of a tensor of a file like [`stats`], and reads it in pieces, so that its size does not matter. An array in
/// Fortran order is measured in that order.
///
/// Of `options`, this uses the number of threads and the context. Digests are verified if the file was asked to
/// ([`TensorFile::checking`](crate::any_file::TensorFile::checking)).
///
/// ```
/// use carton_tensor::any_file::TensorFile;
/// use carton_tensor::files::{ElementType, RawTensor};
/// use carton_tensor::weights::{LoadOptions, stats, stats_of_entry};
/// use carton_tensor::ztensor::{StoreAs, Writer};
/// let tensor = RawTensor::new(ElementType::Uint8, vec![4], vec![1_u8, 2, 3, 4].into())?;
/// let mut writer = Writer::new(Vec::new())?;
/// writer.add("a", &tensor, StoreAs::RAW.zstd(3))?;
/// let file = TensorFile::new(writer.finish()?, "example")?;
/// assert_eq!(stats_of_entry(&file.entry("a")?, &LoadOptions::default())?, stats(&tensor)?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`WeightsError::Complex`]; [`WeightsError::File`] if the tensor cannot be read, or is none of numbers; [`WeightsError::Interrupted`].
pub fn stats_of_entry(entry: &Entry<'_>, options: &LoadOptions) -> Result<Statistics, WeightsError> {
    let failed = |source| WeightsError::from(TensorFileError::Io { place: entry.place().to_owned(), source });
    let streamed = |sink: &mut super::pieces::Sink<'_>| stream(entry, ElementOrder::File, sink);
    let data = match entry.location().filter(|_| !entry.is_verified()) {
        Some((bytes, range)) => Data::File(bytes, range, &failed),
        None => Data::Streamed(&streamed),
    };
    // The numbers of a quantized group are `float32`.
    let job = Job { dtype: entry.dtype().unwrap_or(ElementType::Float32), data };
    let level = Level::best();
    let parts = for_each_piece(&[job], options.threads(), |_, _, bytes| {
        options.context.check()?;
        moments_of(level, entry.dtype().unwrap_or(ElementType::Float32), bytes)
    })?;
    Ok(Statistics::of(parts.into_iter().flatten()))
}

/// Returns the moments of the elements in `bytes`.
pub(super) fn moments_of(level: Level, dtype: ElementType, bytes: &[u8]) -> Result<Moments, WeightsError> {
    with_encoding!(dtype, S => Ok(moments::<S>(level, bytes)), Err(WeightsError::Complex { dtype }))
}
