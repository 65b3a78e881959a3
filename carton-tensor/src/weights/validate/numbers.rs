//! Inspects the numbers of tensors and finds what is wrong with them (spec/weights.md §4). If integers have scales, their numbers are
//! the ones that they represent.

use super::super::WeightsError;
use super::super::description::{Quantization, ValueRange};
use super::super::kernels::{Level, Moments, n_off_grid, smallest, widen, with_encoding};
use super::super::options::LoadOptions;
use super::super::pieces::{Job, for_each_piece};
use super::super::statistics::{Statistics, moments_of};
use super::scales::Scaled;
use super::subject::Subject;
use crate::element_count;
use crate::files::ElementType;

/// The results for a piece of a tensor.
#[derive(Clone, Copy)]
struct Part {
    /// The moments of the stored numbers, which are the integers even if these have scales.
    moments: Moments,
    /// The represented numbers, if there are scales.
    real: Option<Real>,
    /// The smallest magnitude above 0.
    smallest: f64,
    /// The number of elements that are not on the grid.
    n_off_grid: u64,
}

/// The numbers that integers represent.
#[derive(Clone, Copy)]
struct Real {
    min: f64,
    max: f64,
    /// Before quantization, the smallest number was at most the first bound and the largest one at least the second. Rounding to
    /// integers accounts for half a step.
    bounds: (f64, f64),
}

impl Real {
    fn merge(self, other: Self) -> Self {
        let bounds = (self.bounds.0.min(other.bounds.0), self.bounds.1.max(other.bounds.1));
        Self { min: self.min.min(other.min), max: self.max.max(other.max), bounds }
    }
}

/// The results for a tensor.
pub(super) struct TensorNumbers {
    /// If integers have scales, minimum and maximum are those of the represented numbers.
    pub(super) statistics: Statistics,
    /// The smallest magnitude above 0, if ternary numbers are expected.
    smallest: f64,
    /// The number of elements that are not on the grid, if int8 is expected.
    n_off_grid: u64,
    /// The bounds that are compared with the range of plausible values.
    bounds: Option<(f64, f64)>,
}

/// Inspects the numbers of all tensors, on as many threads and in the context that `options` give. The result for complex numbers is `None`.
pub(super) fn look_at(
    subjects: &[Subject<'_>],
    quantization: &(dyn Fn(usize) -> Option<Quantization> + Sync),
    options: &LoadOptions,
) -> Result<Vec<Option<TensorNumbers>>, WeightsError> {
    let level = Level::best();
    let jobs: Vec<Job<'_>> = subjects
        .iter()
        .map(|subject| Job { dtype: subject.dtype.unwrap_or(ElementType::Float32), data: subject.data.clone() })
        .collect();
    let size = |(subject, job): (&Subject<'_>, &Job<'_>)| {
        let n_bytes = element_count(&subject.shape).and_then(|n_elements| job.dtype.n_bytes(n_elements));
        n_bytes.unwrap_or_default() as u64
    };
    let meter = options.context.meter("validating", subjects.iter().zip(&jobs).map(size).fold(0, u64::saturating_add));
    let parts = for_each_piece(&jobs, options.threads(), |job, start, bytes| {
        meter.advance(bytes.len() as u64)?;
        if let Some(scaled) = &subjects[job].scaled {
            return Ok(Some(look_at_scaled(level, scaled, start, bytes, quantization(job))?));
        }
        let dtype = jobs[job].dtype;
        let moments = match moments_of(level, dtype, bytes) {
            Err(WeightsError::Complex { .. }) => return Ok(None),
            moments => moments?,
        };
        let mut part = Part { moments, real: None, smallest: f64::INFINITY, n_off_grid: 0 };
        match quantization(job) {
            Some(Quantization::Ternary { .. }) => {
                part.smallest = with_encoding!(dtype, S => smallest::<S>(level, bytes), f64::INFINITY);
            }
            Some(Quantization::Int8 { scale }) => {
                let scale = scale.filter(|_| dtype.is_float()).unwrap_or(1.0);
                part.n_off_grid = with_encoding!(dtype, S => n_off_grid::<S>(bytes, scale), 0);
            }
            None => {}
        }
        Ok(Some(part))
    })?;
    let merge = |(job, parts): (&Job<'_>, Vec<Option<Part>>)| {
        if !parts.iter().all(Option::is_some) || matches!(job.dtype, ElementType::Complex64 | ElementType::Complex128) {
            return None;
        }
        let mut statistics = Statistics::of(parts.iter().flatten().map(|part| part.moments));
        let real = parts.iter().flatten().filter_map(|part| part.real).reduce(Real::merge);
        if let Some(real) = real {
            (statistics.min, statistics.max) = (Some(real.min), Some(real.max));
        }
        Some(TensorNumbers {
            smallest: parts.iter().flatten().map(|part| part.smallest).fold(f64::INFINITY, f64::min),
            n_off_grid: parts.iter().flatten().map(|part| part.n_off_grid).sum(),
            bounds: real.map(|real| real.bounds).or(statistics.min.zip(statistics.max)),
            statistics,
        })
    };
    Ok(jobs.iter().zip(parts).map(merge).collect())
}

/// Inspects integers that have scales, channel by channel.
fn look_at_scaled(
    level: Level,
    scaled: &Scaled,
    start: usize,
    bytes: &[u8],
    quantization: Option<Quantization>,
) -> Result<Part, WeightsError> {
    /// The largest effect of rounding on a number, in steps.
    const ROUNDED: f64 = 0.5;
    let mut part = Part { moments: Moments::NONE, real: None, smallest: f64::INFINITY, n_off_grid: 0 };
    for (scale, place) in scaled.parts(start, bytes.len()) {
        let bytes = bytes.get(place).unwrap_or_default();
        let moments = moments_of(level, ElementType::Int8, bytes)?;
        let (min, max) = (moments.min, moments.max);
        let bounds = ((min + ROUNDED) / scale, (max - ROUNDED) / scale);
        let real = Real { min: min / scale, max: max / scale, bounds };
        part.real = Some(part.real.map_or(real, |merged| merged.merge(real)));
        part.moments = part.moments.merge(moments);
        match quantization {
            Some(Quantization::Ternary { .. }) => {
                part.smallest = part.smallest.min(smallest::<widen::I8>(level, bytes) / scale);
            }
            // The integers already are products with the scale stored beside them.
            Some(Quantization::Int8 { .. }) => part.n_off_grid += n_off_grid::<widen::I8>(bytes, 1.0),
            None => {}
        }
    }
    Ok(part)
}

/// Describes how numbers exceed the plausible range by more than `rounded_by`, if they do.
pub(super) fn range_problem(found: &TensorNumbers, rounded_by: f64, range: ValueRange) -> Option<String> {
    let (min, max) = (found.statistics.min?, found.statistics.max?);
    let (lower, upper) = found.bounds?;
    let below = range.min.is_some_and(|least| lower + rounded_by < least);
    let above = range.max.is_some_and(|most| upper - rounded_by > most);
    let bound = |bound: Option<f64>| bound.map_or_else(|| "any".to_owned(), |bound| bound.to_string());
    (below || above)
        .then(|| format!("has values from {min} to {max}, expected {} to {}", bound(range.min), bound(range.max)))
}

/// Describes why numbers of this type are not quantized as expected, if they are not. `precision` is the relative tolerance for the
/// scale of ternary numbers; `None` if the scale is not compared.
pub(super) fn quantization_problem(
    dtype: ElementType,
    precision: Option<f64>,
    found: &TensorNumbers,
    expected: Quantization,
) -> Option<String> {
    let statistics = &found.statistics;
    let (min, max) = (statistics.min?, statistics.max?);
    let largest = max.max(-min);
    match expected {
        Quantization::Ternary { scale } => {
            if largest == 0.0 {
                return None;
            }
            if found.smallest != largest {
                let smallest = found.smallest;
                return Some(format!("is not ternary: beside 0 it has magnitudes from {smallest} to {largest}"));
            }
            let (scale, precision) = (scale?, precision?);
            let is_near = (largest - scale).abs() <= scale * precision;
            (!is_near).then(|| format!("is ternary with scale {largest}, expected {scale}"))
        }
        Quantization::Int8 { scale } => {
            if dtype.is_float() && scale.is_none() {
                return Some(format!("is not int8: it has dtype {dtype}, and there is no scale to compare with"));
            }
            let (n_off, n_elements) = (found.n_off_grid, statistics.n_elements);
            (n_off > 0).then(|| {
                format!("is not int8: {n_off} of {n_elements} numbers are no integers from -127 to 127 after scaling")
            })
        }
    }
}

/// Returns an upper limit for the relative rounding error of this type, with some margin (the table in spec/weights.md §3.3).
pub(super) const fn precision(dtype: ElementType) -> f64 {
    match dtype {
        ElementType::Float32 | ElementType::Float64 => 1e-6,
        ElementType::Float16 => 1e-3,
        ElementType::BFloat16 => 1e-2,
        // The next number above some of these is twice as large, so that the one in the middle is off by a third.
        ElementType::Float8E8m0Fnu | ElementType::Float4E2m1 => 0.35,
        _ => 0.15,
    }
}
