//! Int8 quantization by the largest absolute value (spec/weights.md §2.2), of tensors in memory or directly from a file.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::WeightsError;
use super::arena::Arena;
use super::kernels::{
    Float, Integers, Largest, Level, Quantized, Scale, Source, deviation, largest, quantize as quantize_bytes,
    with_encoding,
};
use super::pieces::{Data, Job, PIECE_ELEMENTS, piece_size};
use super::quantization_error::QuantizationError;
use super::scales::{Channels, Granularity, Scales};
use crate::files::{ElementType, RawTensor, SharedBytes};
use crate::parallel::{available_threads, par_map};
use crate::{AlignedBytes, element_count};

/// The options of quantization.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QuantizeOptions {
    /// How many scales a tensor gets.
    pub granularity: Granularity,
    /// Whether to compute [`QuantizedTensor::error`]. It is computed in the same pass and takes some additional time.
    pub measure: bool,
}

impl QuantizeOptions {
    /// Uses one scale per channel; see [`Granularity::Channel`].
    #[must_use]
    pub fn per_channel(self) -> Self {
        Self { granularity: Granularity::Channel, ..self }
    }

    /// Computes the error of the quantization.
    #[must_use]
    pub fn measured(self) -> Self {
        Self { measure: true, ..self }
    }
}

/// A quantized tensor.
#[derive(Clone, Debug)]
pub struct QuantizedTensor {
    /// The integers, of type `int8` and in the shape of the original.
    pub tensor: RawTensor,
    /// The factors by which the numbers were multiplied. Dividing the integers by them gives approximately the original numbers.
    pub scales: Scales,
    /// The number of NaNs and infinities, which became 0.
    pub n_non_finite: u64,
    /// The error of the quantization, if it was requested.
    pub error: Option<QuantizationError>,
}

/// Quantizes a tensor to int8 with one scale, on all cores.
///
/// The scale is 127 divided by the largest absolute value among the finite numbers, or 1 if these are all zero. Each number is
/// multiplied by the scale and rounded, halves away from zero.
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

/// Quantizes several tensors, on all cores. The integers of all tensors are in one block of memory.
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
    let done = run(&works, options, available_threads(), |_| Ok(()))?;
    tensors.iter().zip(done).map(|(tensor, done)| done.into_tensor(tensor.shape())).collect()
}

/// A tensor that is to be quantized.
pub(super) struct Work<'a> {
    job: Job<'a>,
    /// 0 if the tensor must be decoded first.
    n_elements: usize,
    /// `None` if the tensor gets one scale, or if it must be decoded first.
    channels: Option<Channels>,
}

impl<'a> Work<'a> {
    /// The caller has compared the shape with the bytes, if there are bytes.
    pub(super) fn new(job: Job<'a>, shape: &[usize], options: &QuantizeOptions) -> Self {
        // Decoding determines the size.
        if job.data.len().is_none() {
            return Self { job, n_elements: 0, channels: None };
        }
        let channels = Channels::of(shape, options.granularity);
        Self { job, n_elements: element_count(shape).unwrap_or_default(), channels }
    }

    /// Whether one thread processes the whole tensor at once. Elements smaller than a byte, several of which share one byte, may only
    /// be divisible into channels after they are widened.
    fn is_whole(&self) -> bool {
        self.job.data.len().is_none_or(|n_bytes| n_bytes <= WHOLE) || !is_cut_at_bytes(self.job.dtype, self.channels)
    }
}

/// The result for one tensor.
pub(super) struct Done {
    integers: SharedBytes,
    /// The shape of a decoded tensor. `None` if the shape was known before.
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

/// Tensors of more bytes are divided among threads. Up to this size a thread processes a tensor alone, and its second pass may find the
/// data in a cache.
const WHOLE: u64 = 16 << 20;

/// The result of the first pass for a channel or a part of one: the largest magnitude, and how many numbers are not finite. Float64
/// holds float32 numbers exactly.
pub(super) type ChannelMaximum = Largest<f64>;

/// Elements of a tensor, from position `start` on.
#[derive(Clone, Copy)]
pub(super) struct Elements<'a> {
    pub(super) dtype: ElementType,
    pub(super) channels: Option<Channels>,
    pub(super) start: usize,
    pub(super) bytes: &'a [u8],
}

/// Quantizes in two passes. The first pass completely quantizes small tensors, and finds the largest magnitudes in the pieces of large
/// ones. The second pass writes the integers of these pieces.
pub(super) fn run(
    works: &[Work<'_>],
    options: &QuantizeOptions,
    n_threads: usize,
    finished: impl Fn(usize) -> Result<(), WeightsError> + Sync,
) -> Result<Vec<Done>, WeightsError> {
    let mut arena = Arena::new(works.iter().map(|work| work.n_elements as u64))?;
    // The output has one byte per number of the input.
    let outputs = arena.pieces(|index| if works[index].is_whole() { usize::MAX } else { PIECE_ELEMENTS });
    let passes = Passes { level: Level::best(), works, options, outputs, n_threads, finished };

    let (whole, in_pieces): (Vec<usize>, Vec<usize>) = (0..works.len()).partition(|&index| works[index].is_whole());
    let pieces = |&index: &usize| (0..passes.outputs[index].len()).map(move |piece| (index, piece));
    let pieces: Vec<(usize, usize)> = in_pieces.iter().flat_map(pieces).collect();
    let mut outcomes = passes.look(&whole, &pieces)?;
    passes.write(&pieces, &mut outcomes)?;

    drop(passes);
    works
        .iter()
        .zip(outcomes)
        .zip(arena.into_parts())
        .map(|((work, outcome), part)| outcome.done(work, options, part))
        .collect()
}

/// The state of a tensor after a pass.
struct Outcome {
    /// The result of the first pass for each channel.
    found: Vec<ChannelMaximum>,
    error: QuantizationError,
    /// The integers and the shape of a decoded tensor, which has no part in the arena.
    decoded: Option<(SharedBytes, Vec<usize>)>,
}

impl Outcome {
    fn done(self, work: &Work<'_>, options: &QuantizeOptions, part: SharedBytes) -> Result<Done, WeightsError> {
        let channels = match &self.decoded {
            Some((_, shape)) => Channels::of(shape, options.granularity),
            None => work.channels,
        };
        let scales = scales_of(work.job.dtype, channels, &self.found)?;
        let n_non_finite = self.found.iter().map(|found| found.n_other).sum();
        let (integers, shape) = self.decoded.map_or((part, None), |(integers, shape)| (integers, Some(shape)));
        Ok(Done { integers, shape, scales, n_non_finite, error: options.measure.then_some(self.error) })
    }
}

/// The input of both passes.
struct Passes<'p, 'a, F> {
    level: Level,
    works: &'p [Work<'a>],
    options: &'p QuantizeOptions,
    outputs: Vec<Vec<Mutex<&'p mut [u8]>>>,
    n_threads: usize,
    finished: F,
}

impl<F: Fn(usize) -> Result<(), WeightsError> + Sync> Passes<'_, '_, F> {
    /// The first pass: quantizes the tensors in `whole`, and finds the largest magnitudes in the pieces of the others.
    fn look(&self, whole: &[usize], pieces: &[(usize, usize)]) -> Result<Vec<Outcome>, WeightsError> {
        let outcome = |work: &Work<'_>| Outcome {
            found: vec![ChannelMaximum::NONE; n_scales(work.channels)],
            error: QuantizationError::default(),
            decoded: None,
        };
        let mut outcomes: Vec<Outcome> = self.works.iter().map(outcome).collect();
        // A single list for both, so that no thread waits between them.
        let items = whole.len() + pieces.len();
        let looked = par_map(items, self.n_threads, Vec::new, |buffer, item| match item.checked_sub(whole.len()) {
            None => self.quantize_whole(whole[item], buffer).map(Looked::Whole),
            Some(piece) => self.look_at_piece(pieces[piece], buffer).map(Looked::Piece),
        })?;
        let places = whole.iter().copied().chain(pieces.iter().map(|(index, _)| *index));
        for (index, looked) in places.zip(looked) {
            match looked {
                Looked::Whole(outcome) => outcomes[index] = outcome,
                Looked::Piece((first, found)) => {
                    for (merged, found) in outcomes[index].found.iter_mut().skip(first).zip(found) {
                        *merged = merged.merge(found);
                    }
                }
            }
        }
        Ok(outcomes)
    }

    fn quantize_whole(&self, index: usize, buffer: &mut Vec<u8>) -> Result<Outcome, WeightsError> {
        let Work { job: Job { dtype, data }, channels, .. } = &self.works[index];
        let outcome = if let Data::Decoded(decode) = data {
            let tensor = decode()?;
            let n_bytes = tensor.n_elements();
            let integers = AlignedBytes::try_zeroed(n_bytes);
            let mut integers = integers.ok_or(WeightsError::Memory { n_bytes: n_bytes as u64 })?;
            let channels = Channels::of(tensor.shape(), self.options.granularity);
            let elements = Elements { dtype: tensor.dtype(), channels, start: 0, bytes: tensor.bytes() };
            let (found, error) = at_once(self.level, elements, self.options, integers.as_mut_slice())?;
            Outcome { found, error, decoded: Some((integers.into(), tensor.shape().to_vec())) }
        } else {
            let bytes = data.read(0, data.len().unwrap_or_default() as usize, buffer)?;
            let elements = Elements { dtype: *dtype, channels: *channels, start: 0, bytes };
            let (found, error) = match self.outputs[index].first() {
                Some(output) => at_once(self.level, elements, self.options, &mut output.lock())?,
                None => (find(self.level, elements)?, QuantizationError::default()),
            };
            Outcome { found, error, decoded: None }
        };
        (self.finished)(index)?;
        Ok(outcome)
    }

    /// Returns the first channel that has a part in the piece, and the largest magnitudes of this channel and the following ones in the
    /// piece.
    fn look_at_piece(
        &self,
        (index, piece): (usize, usize),
        buffer: &mut Vec<u8>,
    ) -> Result<(usize, Vec<ChannelMaximum>), WeightsError> {
        let length = self.outputs[index][piece].lock().len();
        let elements = self.piece(index, piece, length, buffer)?;
        Ok((elements.first_channel(), find(self.level, elements)?))
    }

    /// The second pass: writes the integers of all pieces.
    fn write(&self, pieces: &[(usize, usize)], outcomes: &mut [Outcome]) -> Result<(), WeightsError> {
        let pending: Vec<AtomicUsize> = self.outputs.iter().map(|pieces| AtomicUsize::new(pieces.len())).collect();
        let looked: &[Outcome] = outcomes;
        let errors = par_map(pieces.len(), self.n_threads, Vec::new, |buffer, item| {
            let (index, piece) = pieces[item];
            let mut output = self.outputs[index][piece].lock();
            let elements = self.piece(index, piece, output.len(), buffer)?;
            let error = write(self.level, elements, &looked[index].found, self.options, &mut output)?;
            if pending[index].fetch_sub(1, Ordering::Relaxed) == 1 {
                (self.finished)(index)?;
            }
            Ok::<_, WeightsError>(error)
        })?;
        for (&(index, _), error) in pieces.iter().zip(errors) {
            outcomes[index].error = outcomes[index].error.merge(error);
        }
        Ok(())
    }

    /// Reads `n_elements` elements of a tensor, which are one piece.
    fn piece<'b>(
        &'b self,
        index: usize,
        piece: usize,
        n_elements: usize,
        buffer: &'b mut Vec<u8>,
    ) -> Result<Elements<'b>, WeightsError> {
        let Work { job: Job { dtype, data }, channels, .. } = &self.works[index];
        let bytes = data.read((piece * piece_size(*dtype)) as u64, n_elements * dtype.bits() / 8, buffer)?;
        Ok(Elements { dtype: *dtype, channels: *channels, start: piece * PIECE_ELEMENTS, bytes })
    }
}

/// The results of the first pass.
enum Looked {
    Whole(Outcome),
    Piece((usize, Vec<ChannelMaximum>)),
}

impl Elements<'_> {
    /// The number of elements.
    pub(super) fn count(&self) -> usize {
        self.bytes.len() * 8 / self.dtype.bits()
    }

    pub(super) fn first_channel(&self) -> usize {
        self.channels.map_or(0, |channels| self.start / channels.length)
    }

    /// Returns the bytes of each part of a channel, and the positions of its elements within these elements. Requires that each channel
    /// is a whole number of bytes.
    fn parts(&self) -> impl Iterator<Item = (&[u8], std::ops::Range<usize>)> {
        let (bits, n_elements) = (self.dtype.bits(), self.count());
        let whole = self.channels.is_none().then_some((0, 0..n_elements));
        let parts = self.channels.map(|channels| channels.parts(self.start, n_elements));
        whole.into_iter().chain(parts.into_iter().flatten()).map(move |(_, elements)| {
            let bytes = self.bytes.get(elements.start * bits / 8..elements.end * bits / 8);
            (bytes.unwrap_or_default(), elements)
        })
    }
}

pub(super) fn n_scales(channels: Option<Channels>) -> usize {
    channels.map_or(1, |channels| channels.count)
}

/// Whether each channel is a whole number of bytes.
pub(super) fn is_cut_at_bytes(dtype: ElementType, channels: Option<Channels>) -> bool {
    dtype.bits() >= 8 || channels.is_none_or(|channels| (channels.length % 8 * dtype.bits()).is_multiple_of(8))
}

/// Quantizes all elements of a tensor.
fn at_once(
    level: Level,
    elements: Elements<'_>,
    options: &QuantizeOptions,
    output: &mut [u8],
) -> Result<(Vec<ChannelMaximum>, QuantizationError), WeightsError> {
    let widened: Vec<f32>;
    let elements = if is_cut_at_bytes(elements.dtype, elements.channels) {
        elements
    } else {
        // Float32 holds every number of a type smaller than a byte.
        let numbers = elements.dtype.to_f32(elements.bytes);
        widened = numbers.ok_or(WeightsError::Memory { n_bytes: output.len() as u64 * 4 })?;
        Elements { dtype: ElementType::Float32, bytes: bytemuck::cast_slice(&widened), ..elements }
    };
    let found = find(level, elements)?;
    let error = write(level, elements, &found, options, output)?;
    Ok((found, error))
}

/// Returns the largest magnitudes of the channels.
pub(super) fn find(level: Level, elements: Elements<'_>) -> Result<Vec<ChannelMaximum>, WeightsError> {
    let dtype = elements.dtype;
    with_encoding!(dtype, S => {
        Ok(elements.parts().map(|(bytes, _)| {
            let found = largest::<S>(level, bytes);
            Largest { magnitude: found.magnitude.to_f64(), n_other: found.n_other }
        }).collect())
    }, Err(WeightsError::Complex { dtype }))
}

pub(super) fn scales_of(
    dtype: ElementType,
    channels: Option<Channels>,
    found: &[ChannelMaximum],
) -> Result<Scales, WeightsError> {
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

fn scale<S: Source>(found: ChannelMaximum) -> Scale<S::Wide> {
    Scale::of(S::Wide::from_f64(found.magnitude))
}

/// Writes the integers of elements, given the largest magnitudes of all channels. Returns the error of the quantization, which is 0
/// unless measuring is enabled.
pub(super) fn write(
    level: Level,
    elements: Elements<'_>,
    found: &[ChannelMaximum],
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
