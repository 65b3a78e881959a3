//! Int8 quantization by the largest absolute value (spec/weights.md §2.2), of tensors in memory or straight from a file.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::WeightsError;
use super::arena::{Arena, lock};
use super::kernels::{
    Float, Integers, Largest, Level, Quantized, Scale, Source, deviation, largest, quantize as quantize_bytes,
    with_encoding,
};
use super::parallel::{available_threads, share};
use super::pieces::{Data, Job, PIECE_ELEMENTS, piece_size};
use super::quantization_error::QuantizationError;
use super::scales::{Channels, Granularity, Scales};
use crate::files::{ElementType, RawTensor, SharedBytes};
use crate::{AlignedBytes, element_count};

/// How tensors are quantized.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QuantizeOptions {
    /// How many scales a tensor gets.
    pub granularity: Granularity,
    /// Whether [`QuantizedTensor::error`] is computed: in the same pass, for some more time.
    pub measure: bool,
}

impl QuantizeOptions {
    /// A scale for each channel, see [`Granularity::Channel`].
    #[must_use]
    pub fn per_channel(self) -> Self {
        Self { granularity: Granularity::Channel, ..self }
    }

    /// Computes what quantization costs.
    #[must_use]
    pub fn measured(self) -> Self {
        Self { measure: true, ..self }
    }
}

/// A tensor that was quantized.
#[derive(Clone, Debug)]
pub struct QuantizedTensor {
    /// The integers, of type `int8` and in the shape of the original.
    pub tensor: RawTensor,
    /// What the numbers were multiplied with: dividing the integers by it gives the numbers back, nearly.
    pub scales: Scales,
    /// How many numbers were NaN or infinite, and became 0.
    pub n_non_finite: u64,
    /// How far the numbers are from what they were, if that was asked for.
    pub error: Option<QuantizationError>,
}

/// Quantizes a tensor to int8 with one scale, on all cores.
///
/// The scale is 127 divided by the largest absolute value among the finite numbers, or 1 if they are all zero. Each number is
/// multiplied by it and rounded, halves away from zero.
///
/// ```
/// use carton_tensor::files::{ElementType, RawTensor};
/// let bytes: Vec<u8> = [-2.0_f32, -1.0, 0.5, 1.5].into_iter().flat_map(f32::to_le_bytes).collect();
/// let tensor = RawTensor::new(ElementType::Float32, vec![4], bytes.into())?;
/// let quantized = carton_tensor::weights::quantize(&tensor)?;
/// assert_eq!(quantized.tensor.view::<i8>()?.as_slice(), Some([-127, -64, 32, 95].as_slice()));
/// assert_eq!(quantized.scales.of_tensor(), Some(63.5));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`WeightsError::Complex`], [`WeightsError::Memory`].
pub fn quantize(tensor: &RawTensor) -> Result<QuantizedTensor, WeightsError> {
    let mut all = quantize_all([tensor], &QuantizeOptions::default())?;
    all.pop().ok_or(WeightsError::Memory { n_bytes: 0 })
}

/// Quantizes many tensors, on all cores; the integers of all lie in one block of memory.
///
/// ```
/// use carton_tensor::files::{ElementType, RawTensor};
/// use carton_tensor::weights::{QuantizeOptions, quantize_all};
/// let bytes: Vec<u8> = [-2.0_f32, -1.0, 0.5, 0.25].into_iter().flat_map(f32::to_le_bytes).collect();
/// let tensor = RawTensor::new(ElementType::Float32, vec![2, 2], bytes.into())?;
/// let quantized = quantize_all([&tensor], &QuantizeOptions::default().per_channel().measured())?;
/// assert_eq!(quantized[0].scales.as_slice(), [63.5, 254.0]);
/// assert!(quantized[0].error.is_some_and(|error| error.relative() < 0.01));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`quantize`].
pub fn quantize_all<'a>(
    tensors: impl IntoIterator<Item = &'a RawTensor>,
    options: &QuantizeOptions,
) -> Result<Vec<QuantizedTensor>, WeightsError> {
    let tensors: Vec<&RawTensor> = tensors.into_iter().collect();
    let job = |tensor: &&'a RawTensor| Job { dtype: tensor.dtype(), data: Data::Memory(tensor.bytes()) };
    let works: Vec<Work<'_>> = tensors.iter().map(|tensor| Work::new(job(tensor), tensor.shape(), options)).collect();
    let done = run(&works, options, available_threads(), |_| {})?;
    tensors.iter().zip(done).map(|(tensor, done)| done.into_tensor(tensor.shape())).collect()
}

/// A tensor to be quantized.
pub(super) struct Work<'a> {
    job: Job<'a>,
    /// 0 if it has to be decoded first.
    n_elements: usize,
    /// `None` if it gets one scale, and if it has to be decoded first.
    channels: Option<Channels>,
}

impl<'a> Work<'a> {
    /// The caller compared the shape with the bytes, if there are bytes.
    pub(super) fn new(job: Job<'a>, shape: &[usize], options: &QuantizeOptions) -> Self {
        // What is decoded brings a size of its own.
        if job.data.len().is_none() {
            return Self { job, n_elements: 0, channels: None };
        }
        let channels = Channels::of(shape, options.granularity);
        Self { job, n_elements: element_count(shape).unwrap_or_default(), channels }
    }

    /// Whether one thread deals with the whole tensor at once. Elements of less than a byte, several of which are in one, can only be cut
    /// into channels after they were widened.
    fn is_whole(&self) -> bool {
        self.job.data.len().is_none_or(|n_bytes| n_bytes <= WHOLE) || !is_cut_at_bytes(self.job.dtype, self.channels)
    }
}

/// What became of it.
pub(super) struct Done {
    integers: SharedBytes,
    /// Where it is not the one that was told before: the shape of what was decoded.
    shape: Option<Vec<usize>>,
    scales: Scales,
    n_non_finite: u64,
    error: Option<QuantizationError>,
}

impl Done {
    pub(super) fn into_tensor(self, shape: &[usize]) -> Result<QuantizedTensor, WeightsError> {
        let n_bytes = self.integers.len() as u64;
        let shape = self.shape.unwrap_or_else(|| shape.to_vec());
        let tensor =
            RawTensor::new(ElementType::Int8, shape, self.integers).map_err(|_| WeightsError::Memory { n_bytes })?;
        Ok(QuantizedTensor { tensor, scales: self.scales, n_non_finite: self.n_non_finite, error: self.error })
    }
}

/// Larger tensors are shared among threads. Up to this size a thread has a tensor for itself, and its second look may find it in a cache.
const WHOLE: u64 = 16 << 20;

/// What a thread finds of a channel or of a part of one: the largest magnitude, and what is not finite. Float32 is exact in float64.
type Found = Largest<f64>;

/// Elements of a tensor, from the `start`-th on.
#[derive(Clone, Copy)]
struct Elements<'a> {
    dtype: ElementType,
    channels: Option<Channels>,
    start: usize,
    bytes: &'a [u8],
}

/// A piece that was looked at.
struct Looked {
    /// Of the channels that it has a part of.
    found: Vec<Found>,
    /// The first one of these.
    first: usize,
    /// What the tensor became, where it was quantized at once.
    whole: Option<Whole>,
}

/// A tensor that was quantized at once.
struct Whole {
    /// Bytes of their own and their shape, where the tensor was decoded and has none in the arena.
    decoded: Option<(SharedBytes, Vec<usize>)>,
    error: QuantizationError,
}

pub(super) fn run(
    works: &[Work<'_>],
    options: &QuantizeOptions,
    n_threads: usize,
    finished: impl Fn(usize) + Sync,
) -> Result<Vec<Done>, WeightsError> {
    let level = Level::best();
    let mut arena = Arena::new(works.iter().map(|work| work.n_elements as u64))?;
    // As many bytes in the output as numbers in the input.
    let outputs = arena.pieces(|index| if works[index].is_whole() { usize::MAX } else { PIECE_ELEMENTS });

    let n_items = |index: usize| if works[index].is_whole() { 1 } else { outputs[index].len() };
    let items: Vec<(usize, usize)> =
        (0..works.len()).flat_map(|index| (0..n_items(index)).map(move |piece| (index, piece))).collect();
    // Small tensors are dealt with at once, of large ones this finds the largest magnitudes of each piece.
    let looked = share(items.len(), n_threads, Vec::new, |buffer, item| {
        let (index, piece) = items[item];
        let Work { job: Job { dtype, data }, channels, .. } = &works[index];
        let (dtype, channels) = (*dtype, *channels);
        if !works[index].is_whole() {
            let length = lock(&outputs[index][piece]).len() * dtype.bits() / 8;
            let bytes = data.read((piece * piece_size(dtype)) as u64, length, buffer)?;
            let elements = Elements { dtype, channels, start: piece * PIECE_ELEMENTS, bytes };
            return Ok(Looked { found: find(level, elements)?, first: elements.first_channel(), whole: None });
        }
        let looked = if let Data::Decoded(decode) = data {
            let tensor = decode()?;
            let n_bytes = tensor.n_elements();
            let integers = AlignedBytes::try_zeroed(n_bytes);
            let mut integers = integers.ok_or(WeightsError::Memory { n_bytes: n_bytes as u64 })?;
            let channels = Channels::of(tensor.shape(), options.granularity);
            let elements = Elements { dtype: tensor.dtype(), channels, start: 0, bytes: tensor.bytes() };
            let (found, error) = at_once(level, elements, options, integers.as_mut_slice())?;
            let decoded = Some((integers.into(), tensor.shape().to_vec()));
            Looked { found, first: 0, whole: Some(Whole { decoded, error }) }
        } else {
            let bytes = data.read(0, data.len().unwrap_or_default() as usize, buffer)?;
            let elements = Elements { dtype, channels, start: 0, bytes };
            let (found, error) = match outputs[index].first() {
                Some(output) => at_once(level, elements, options, &mut lock(output))?,
                None => (find(level, elements)?, QuantizationError::default()),
            };
            Looked { found, first: 0, whole: Some(Whole { decoded: None, error }) }
        };
        finished(index);
        Ok::<_, WeightsError>(looked)
    })?;
    let mut of_works: Vec<Vec<Found>> = works.iter().map(|work| vec![Found::NONE; n_scales(work.channels)]).collect();
    let mut wholes: Vec<Option<Whole>> = works.iter().map(|_| None).collect();
    for (&(index, _), Looked { found, first, whole }) in items.iter().zip(looked) {
        // Of what is decoded the number of channels was not known.
        if whole.is_some() {
            of_works[index] = found;
            wholes[index] = whole;
            continue;
        }
        for (merged, found) in of_works[index].iter_mut().skip(first).zip(found) {
            *merged = merged.merge(found);
        }
    }

    let items: Vec<(usize, usize)> = items.into_iter().filter(|&(index, _)| !works[index].is_whole()).collect();
    let pending: Vec<AtomicUsize> = outputs.iter().map(|pieces| AtomicUsize::new(pieces.len())).collect();
    let errors = share(items.len(), n_threads, Vec::new, |buffer, item| {
        let (index, piece) = items[item];
        let Work { job: Job { dtype, data }, channels, .. } = &works[index];
        let mut output = lock(&outputs[index][piece]);
        let bytes = data.read((piece * piece_size(*dtype)) as u64, output.len() * dtype.bits() / 8, buffer)?;
        let elements = Elements { dtype: *dtype, channels: *channels, start: piece * PIECE_ELEMENTS, bytes };
        let error = write(level, elements, &of_works[index], options, &mut output)?;
        if pending[index].fetch_sub(1, Ordering::Relaxed) == 1 {
            finished(index);
        }
        Ok::<_, WeightsError>(error)
    })?;
    let mut of_pieces = vec![QuantizationError::default(); works.len()];
    for (&(index, _), error) in items.iter().zip(errors) {
        of_pieces[index] = of_pieces[index].merge(error);
    }

    drop(outputs);
    let mut results = Vec::with_capacity(works.len());
    let parts = works.iter().zip(of_works).zip(wholes).zip(of_pieces).zip(arena.into_parts());
    for ((((work, found), whole), of_pieces), part) in parts {
        let (decoded, error) = whole.map_or((None, of_pieces), |whole| (whole.decoded, whole.error));
        let channels = match &decoded {
            Some((_, shape)) => Channels::of(shape, options.granularity),
            None => work.channels,
        };
        let scales = scales_of(work.job.dtype, channels, &found)?;
        let (integers, shape) = decoded.map_or((part, None), |(integers, shape)| (integers, Some(shape)));
        let n_non_finite = found.iter().map(|found| found.n_other).sum();
        results.push(Done { integers, shape, scales, n_non_finite, error: options.measure.then_some(error) });
    }
    Ok(results)
}

impl Elements<'_> {
    fn first_channel(&self) -> usize {
        self.channels.map_or(0, |channels| self.start / channels.length)
    }

    /// The bytes of each part of a channel, and where its elements are among these. A channel is a whole number of bytes.
    fn parts(&self) -> impl Iterator<Item = (&[u8], std::ops::Range<usize>)> {
        let bits = self.dtype.bits();
        let n_elements = self.bytes.len() * 8 / bits;
        let whole = self.channels.is_none().then_some((0, 0..n_elements));
        let parts = self.channels.map(|channels| channels.parts(self.start, n_elements));
        whole.into_iter().chain(parts.into_iter().flatten()).map(move |(_, elements)| {
            let bytes = self.bytes.get(elements.start * bits / 8..elements.end * bits / 8);
            (bytes.unwrap_or_default(), elements)
        })
    }
}

fn n_scales(channels: Option<Channels>) -> usize {
    channels.map_or(1, |channels| channels.count)
}

/// Whether each channel is a whole number of bytes.
fn is_cut_at_bytes(dtype: ElementType, channels: Option<Channels>) -> bool {
    dtype.bits() >= 8 || channels.is_none_or(|channels| (channels.length % 8 * dtype.bits()).is_multiple_of(8))
}

/// Quantizes all elements of a tensor.
fn at_once(
    level: Level,
    elements: Elements<'_>,
    options: &QuantizeOptions,
    output: &mut [u8],
) -> Result<(Vec<Found>, QuantizationError), WeightsError> {
    let widened: Vec<f32>;
    let elements = if is_cut_at_bytes(elements.dtype, elements.channels) {
        elements
    } else {
        // Float32 holds each number of less than a byte.
        let numbers = elements.dtype.to_f32(elements.bytes);
        widened = numbers.ok_or(WeightsError::Memory { n_bytes: output.len() as u64 * 4 })?;
        Elements { dtype: ElementType::Float32, bytes: bytemuck::cast_slice(&widened), ..elements }
    };
    let found = find(level, elements)?;
    let error = write(level, elements, &found, options, output)?;
    Ok((found, error))
}

/// The largest magnitudes of the channels.
fn find(level: Level, elements: Elements<'_>) -> Result<Vec<Found>, WeightsError> {
    let dtype = elements.dtype;
    with_encoding!(dtype, S => {
        Ok(elements.parts().map(|(bytes, _)| {
            let found = largest::<S>(level, bytes);
            Largest { magnitude: found.magnitude.to_f64(), n_other: found.n_other }
        }).collect())
    }, Err(WeightsError::Complex { dtype }))
}

fn scales_of(dtype: ElementType, channels: Option<Channels>, found: &[Found]) -> Result<Scales, WeightsError> {
    let scales: Vec<f64> = with_encoding!(
        dtype,
        S => found.iter().map(|&found| scale::<S>(found).as_f64()).collect(),
        return Err(WeightsError::Complex { dtype })
    );
    Ok(match (channels, scales.as_slice()) {
        (None, &[scale]) => Scales::Tensor(scale),
        _ => Scales::Channels(scales),
    })
}

fn scale<S: Source>(found: Found) -> Scale<S::Wide> {
    Scale::of(S::Wide::from_f64(found.magnitude))
}

/// Writes the integers of elements, given the largest magnitudes of all channels, and returns how far they are off where that is wanted.
fn write(
    level: Level,
    elements: Elements<'_>,
    found: &[Found],
    options: &QuantizeOptions,
    output: &mut [u8],
) -> Result<QuantizationError, WeightsError> {
    let out: &mut [i8] = bytemuck::cast_slice_mut(output);
    let found = found.iter().skip(elements.first_channel());
    let mut error = QuantizationError::default();
    let dtype = elements.dtype;
    with_encoding!(dtype, S => {
        for ((bytes, place), &found) in elements.parts().zip(found) {
            let scale = scale::<S>(found);
            let Some(out) = out.get_mut(place) else { continue };
            quantize_bytes::<S>(level, bytes, Quantized { scale, out, others: found.n_other > 0 });
            if options.measure {
                let scale = scale.as_f64();
                let deviation = deviation::<S>(level, bytes, Integers { integers: out, scale });
                error = error.merge(QuantizationError::of(deviation, scale));
            }
        }
    }, return Err(WeightsError::Complex { dtype }));
    Ok(error)
}
