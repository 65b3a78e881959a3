//! Int8 quantization by the largest absolute value (spec/weights.md §2.2), of tensors in memory or straight from a file.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use super::WeightsError;
use super::arena::{Arena, lock};
use super::kernels::{Float, Largest, Level, Quantized, Scale, largest, quantize as quantize_bytes, with_encoding};
use super::load::{Reporter, select, verifying_reader};
use super::options::{LoadOptions, LoaderStatistics};
use super::parallel::{available_threads, share};
use super::pieces::{Data, Job, PIECE_ELEMENTS, piece_size};
use crate::files::{ElementType, Entry, RawTensor, SharedBytes, TensorFile, TensorFileError};
use crate::ztensor::Format;
use crate::{AlignedBytes, element_count};

/// A tensor that was quantized.
#[derive(Clone, Debug)]
pub struct QuantizedTensor {
    /// The integers, of type `int8` and in the shape of the original.
    pub tensor: RawTensor,
    /// What the numbers were multiplied with: dividing the integers by it gives the numbers back, nearly.
    pub scale: f64,
    /// How many numbers were NaN or infinite, and became 0.
    pub n_non_finite: u64,
}

/// Quantizes a tensor to int8, on all cores.
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
/// assert_eq!(quantized.scale, 63.5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`WeightsError::Complex`], [`WeightsError::Memory`].
pub fn quantize(tensor: &RawTensor) -> Result<QuantizedTensor, WeightsError> {
    let mut all = quantize_all([tensor])?;
    all.pop().ok_or(WeightsError::Memory { n_bytes: 0 })
}

/// Quantizes many tensors, on all cores; the integers of all lie in one block of memory.
///
/// # Errors
/// As [`quantize`].
pub fn quantize_all<'a>(
    tensors: impl IntoIterator<Item = &'a RawTensor>,
) -> Result<Vec<QuantizedTensor>, WeightsError> {
    let tensors: Vec<&RawTensor> = tensors.into_iter().collect();
    let works: Vec<Work<'_>> = tensors
        .iter()
        .map(|tensor| Work {
            job: Job { dtype: tensor.dtype(), data: Data::Memory(tensor.bytes()) },
            n_elements: tensor.n_elements(),
        })
        .collect();
    let done = run(&works, available_threads(), |_| {})?;
    tensors.iter().zip(done).map(|(tensor, done)| done.into_tensor(tensor.shape())).collect()
}

/// What the name of a tensor's scale ends in, in files of quantized tensors (spec/weights.md §2.3).
pub const SCALE_SUFFIX: &str = ".scale";

/// What was quantized of a file, and what was not.
#[derive(Clone, Debug)]
pub struct QuantizedWeights {
    /// The tensors of floats.
    pub quantized: BTreeMap<String, QuantizedTensor>,
    /// The others, as they are: integers, bools, complex numbers, elements of a logical type that is not known, and the scales
    /// of tensors that are quantized already (spec/weights.md §2.3).
    pub unchanged: BTreeMap<String, RawTensor>,
    /// What was left out, with the reason: strings, objects of formats that are not known, and those that are quantized in groups.
    pub skipped: BTreeMap<String, String>,
    /// How it went. The bytes are those of the file.
    pub statistics: LoaderStatistics,
}

/// Loads the tensors of the file at `path` and quantizes those of floats on the way: of these, the integers are held in memory, and for each
/// thread up to 16 MiB of numbers, or one whole tensor if it is compressed, sparse or verified. What is quantized already is left as it is.
///
/// # Errors
/// As [`load`](super::load).
pub fn load_quantized(path: impl AsRef<Path>, options: &LoadOptions) -> Result<QuantizedWeights, WeightsError> {
    let started = Instant::now();
    let file = options.open(path)?;
    let verifying = verifying_reader(&file, options.verify);
    let entries = select(&file, &options.filter)?;
    let entries: Vec<Entry<'_>> = entries.into_iter().map(|entry| entry.read_by(verifying.as_ref())).collect();
    let mut skipped = BTreeMap::new();
    let entries: Vec<Entry<'_>> = entries
        .into_iter()
        .filter(|entry| match reason_to_skip(entry) {
            Some(reason) => {
                skipped.insert(entry.name().to_owned(), reason);
                false
            }
            None => true,
        })
        .collect();
    let reporter = Reporter::new(options.progress.as_ref(), &entries);
    // What has a digest is read whole by the reader that verifies it, so that no other bytes are used than those that were hashed.
    let is_verified = |entry: &Entry<'_>| options.verify && entry.has_digest();
    let n_verified = entries.iter().filter(|entry| is_verified(entry)).count();
    let (floats, others): (Vec<Entry<'_>>, Vec<Entry<'_>>) =
        entries.into_iter().partition(|entry| is_quantizable(&file, entry));

    let failed = |source| WeightsError::from(TensorFileError::Io { place: file.place().to_owned(), source });
    let decoders: Vec<_> = floats.iter().map(|entry| || Ok(entry.dequantize()?)).collect();
    let mut works = Vec::with_capacity(floats.len());
    let mut mapped = Vec::with_capacity(floats.len());
    for entry in &floats {
        let view = match entry.location().filter(|_| !is_verified(entry)) {
            Some((bytes, range)) if bytes.is_in_memory() => Some(bytes.read(range).map_err(failed)?),
            _ => None,
        };
        mapped.push(view);
    }
    for ((entry, view), decode) in floats.iter().zip(&mapped).zip(&decoders) {
        let data = match (view, entry.location().filter(|_| !is_verified(entry))) {
            (Some(view), _) => Data::Memory(view),
            (None, Some((bytes, range))) => Data::File(bytes, range, &failed),
            (None, None) => Data::Decoded(decode),
        };
        // Opening the file compared the shape with the bytes. What is decoded brings a size of its own.
        let n_elements = data.len().and(element_count(entry.shape())).unwrap_or_default();
        // They are floats because they have such a type.
        let dtype = entry.dtype().unwrap_or(ElementType::Float32);
        works.push(Work { job: Job { dtype, data }, n_elements });
    }
    let done = run(&works, options.threads(), |index| reporter.done(&floats[index]))?;
    let mut quantized = BTreeMap::new();
    for (entry, done) in floats.iter().zip(done) {
        quantized.insert(entry.name().to_owned(), done.into_tensor(entry.shape())?);
    }
    let unchanged = share(
        others.len(),
        options.threads(),
        || (),
        |(), index| {
            let tensor = others[index].read()?;
            reporter.done(&others[index]);
            Ok::<_, WeightsError>((others[index].name().to_owned(), tensor))
        },
    )?;
    let n_tensors = floats.len() + others.len();
    let statistics = LoaderStatistics::new(n_tensors, reporter.total_bytes(), n_verified, started.elapsed());
    Ok(QuantizedWeights { quantized, unchanged: unchanged.into_iter().collect(), skipped, statistics })
}

/// Why there is nothing to quantize, or to keep as one tensor.
fn reason_to_skip(entry: &Entry<'_>) -> Option<String> {
    let is_group = entry.as_ztensor().is_some_and(|object| object.format() == Format::QuantizedGroup);
    entry.not_numbers().or_else(|| is_group.then(|| "quantized already, in groups".to_owned()))
}

/// Whether a tensor is one of floats that are not quantized yet.
fn is_quantizable(file: &TensorFile, entry: &Entry<'_>) -> bool {
    let data = entry.as_ztensor().and_then(|object| object.component("data"));
    // A logical type that is not known may mean anything, whatever it is stored as.
    let is_unknown = data.is_some_and(|data| data.unknown_type().is_some());
    entry.dtype().is_some_and(ElementType::is_float) && !is_unknown && !is_scale(file, entry)
}

/// Whether a tensor is the scale of another one of the file, which is quantized (spec/weights.md §2.3).
fn is_scale(file: &TensorFile, entry: &Entry<'_>) -> bool {
    let of = entry.name().strip_suffix(SCALE_SUFFIX).and_then(|name| file.entry(name).ok());
    element_count(entry.shape()) == Some(1) && of.is_some_and(|of| of.dtype() == Some(ElementType::Int8))
}

/// A tensor to be quantized.
struct Work<'a> {
    job: Job<'a>,
    /// 0 if it has to be decoded first.
    n_elements: usize,
}

/// What became of it.
struct Done {
    integers: SharedBytes,
    /// Where it is not the one that was told before: the shape of what was decoded.
    shape: Option<Vec<usize>>,
    scale: f64,
    n_non_finite: u64,
}

impl Done {
    fn into_tensor(self, shape: &[usize]) -> Result<QuantizedTensor, WeightsError> {
        let n_bytes = self.integers.len() as u64;
        let shape = self.shape.unwrap_or_else(|| shape.to_vec());
        let tensor =
            RawTensor::new(ElementType::Int8, shape, self.integers).map_err(|_| WeightsError::Memory { n_bytes })?;
        Ok(QuantizedTensor { tensor, scale: self.scale, n_non_finite: self.n_non_finite })
    }
}

/// Larger tensors are shared among threads. Up to this size a thread has a tensor for itself, and its second look may find it in a cache.
const WHOLE: u64 = 16 << 20;

/// What a thread finds of a tensor or of a piece of one: the largest magnitude, and what is not finite. Float32 is exact in float64.
type Found = Largest<f64>;

fn run(works: &[Work<'_>], n_threads: usize, finished: impl Fn(usize) + Sync) -> Result<Vec<Done>, WeightsError> {
    let level = Level::best();
    let is_whole = |work: &Work<'_>| work.job.data.len().is_none_or(|n_bytes| n_bytes <= WHOLE);
    let mut arena = Arena::new(works.iter().map(|work| work.n_elements as u64))?;
    // As many bytes in the output as numbers in the input.
    let outputs = arena.pieces(|index| if is_whole(&works[index]) { usize::MAX } else { PIECE_ELEMENTS });

    let n_items = |index: usize| if is_whole(&works[index]) { 1 } else { outputs[index].len() };
    let items: Vec<(usize, usize)> =
        (0..works.len()).flat_map(|index| (0..n_items(index)).map(move |piece| (index, piece))).collect();
    // Small tensors are dealt with at once, of large ones this finds the largest magnitude of each piece.
    let found = share(items.len(), n_threads, Vec::new, |buffer, item| {
        let (index, piece) = items[item];
        let Job { dtype, data } = &works[index].job;
        if !is_whole(&works[index]) {
            let size = piece_size(*dtype);
            let length = lock(&outputs[index][piece]).len() * dtype.bits() / 8;
            return Ok((find(level, *dtype, data.read((piece * size) as u64, length, buffer)?)?, None));
        }
        if let Data::Decoded(decode) = data {
            let tensor = decode()?;
            let found = find(level, tensor.dtype(), tensor.bytes())?;
            let n_bytes = tensor.n_elements();
            let integers = AlignedBytes::try_zeroed(n_bytes);
            let mut integers = integers.ok_or(WeightsError::Memory { n_bytes: n_bytes as u64 })?;
            write(level, tensor.dtype(), tensor.bytes(), found, integers.as_mut_slice())?;
            finished(index);
            return Ok((found, Some((integers.into(), tensor.shape().to_vec()))));
        }
        let bytes = data.read(0, data.len().unwrap_or_default() as usize, buffer)?;
        let found = find(level, *dtype, bytes)?;
        if let Some(output) = outputs[index].first() {
            write(level, *dtype, bytes, found, &mut lock(output))?;
        }
        finished(index);
        Ok::<_, WeightsError>((found, None))
    })?;
    let mut of_works = vec![Found::NONE; works.len()];
    let mut decoded: Vec<Option<(SharedBytes, Vec<usize>)>> = works.iter().map(|_| None).collect();
    for (&(index, _), (found, integers)) in items.iter().zip(found) {
        of_works[index] = of_works[index].merge(found);
        decoded[index] = integers;
    }

    let items: Vec<(usize, usize)> = items.into_iter().filter(|&(index, _)| !is_whole(&works[index])).collect();
    let pending: Vec<AtomicUsize> = outputs.iter().map(|pieces| AtomicUsize::new(pieces.len())).collect();
    share(items.len(), n_threads, Vec::new, |buffer, item| {
        let (index, piece) = items[item];
        let Job { dtype, data } = &works[index].job;
        let mut output = lock(&outputs[index][piece]);
        let bytes = data.read((piece * piece_size(*dtype)) as u64, output.len() * dtype.bits() / 8, buffer)?;
        write(level, *dtype, bytes, of_works[index], &mut output)?;
        if pending[index].fetch_sub(1, Ordering::Relaxed) == 1 {
            finished(index);
        }
        Ok::<_, WeightsError>(())
    })?;

    drop(outputs);
    let mut results = Vec::with_capacity(works.len());
    for (((work, found), part), decoded) in works.iter().zip(of_works).zip(arena.into_parts()).zip(decoded) {
        let scale = scale_of(work.job.dtype, found)?;
        let (integers, shape) = decoded.map_or((part, None), |(integers, shape)| (integers, Some(shape)));
        results.push(Done { integers, shape, scale, n_non_finite: found.n_other });
    }
    Ok(results)
}

fn find(level: Level, dtype: ElementType, bytes: &[u8]) -> Result<Found, WeightsError> {
    with_encoding!(dtype, S => {
        let found = largest::<S>(level, bytes);
        Ok(Largest { magnitude: found.magnitude.to_f64(), n_other: found.n_other })
    }, Err(WeightsError::Complex { dtype }))
}

fn scale_of(dtype: ElementType, found: Found) -> Result<f64, WeightsError> {
    with_encoding!(dtype, S => Ok(scale::<S>(found).as_f64()), Err(WeightsError::Complex { dtype }))
}

fn scale<S: super::kernels::Source>(found: Found) -> Scale<S::Wide> {
    Scale::of(S::Wide::from_f64(found.magnitude))
}

fn write(level: Level, dtype: ElementType, bytes: &[u8], found: Found, output: &mut [u8]) -> Result<(), WeightsError> {
    let out: &mut [i8] = bytemuck::cast_slice_mut(output);
    with_encoding!(dtype, S => {
        let scale = scale::<S>(found);
        quantize_bytes::<S>(level, bytes, Quantized { scale, out, others: found.n_other > 0 });
        Ok(())
    }, Err(WeightsError::Complex { dtype }))
}
