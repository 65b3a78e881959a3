//! Loads a file and quantizes its floats on the way (spec/weights.md §2.3).

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use super::WeightsError;
use super::load::{Reporter, select, verifying_reader};
use super::options::{LoadOptions, LoaderStatistics};
use super::pieces::{Data, Job};
use super::quantize::{QuantizeOptions, QuantizedTensor, Work, run};
use super::scales::is_scale_tensor;
use crate::files::{ElementType, Entry, RawTensor, TensorFile, TensorFileError};
use crate::parallel::par_map;
use crate::ztensor::Format;

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
/// thread up to 16 MiB of numbers, or one whole tensor if it is compressed, sparse or verified, or has elements of less than a byte. What is quantized already is left as it is.
///
/// # Errors
/// As [`load`](super::load).
pub fn load_quantized(
    path: impl AsRef<Path>,
    options: &LoadOptions,
    quantize: &QuantizeOptions,
) -> Result<QuantizedWeights, WeightsError> {
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
        // They are floats because they have such a type.
        let dtype = entry.dtype().unwrap_or(ElementType::Float32);
        works.push(Work::new(Job { dtype, data }, entry.shape(), quantize));
    }
    let done = run(&works, quantize, options.threads(), |index| reporter.done(&floats[index]))?;
    let mut quantized = BTreeMap::new();
    for (entry, done) in floats.iter().zip(done) {
        quantized.insert(entry.name().to_owned(), done.into_tensor(entry.shape())?);
    }
    let unchanged = par_map(
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

/// Whether a tensor is the scales of another one of the file, which is quantized (spec/weights.md §2.3).
fn is_scale(file: &TensorFile, entry: &Entry<'_>) -> bool {
    is_scale_tensor(entry.name(), entry.dtype(), entry.shape(), |name| {
        file.entry(name).ok().map(|of| (of.dtype(), of.shape()))
    })
}
