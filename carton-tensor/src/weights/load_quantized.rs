//! Loads a file and quantizes its float tensors on the way (spec/weights.md §2.3).

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use super::WeightsError;
use super::load::{select, stored_bytes, verifying_reader};
use super::options::{LoadOptions, LoaderStatistics};
use super::pieces::{Data, Job};
use super::quantize::{QuantizeOptions, QuantizedTensor, Work, run};
use super::schemes::{Described, quantized_already};
use crate::any_file::{Entry, TensorFileError};
use crate::files::{ElementType, RawTensor};
use crate::parallel::par_map;

/// The tensors of a file, of which those of floats are quantized.
#[derive(Clone, Debug)]
pub struct QuantizedWeights {
    /// The quantized float tensors.
    pub quantized: BTreeMap<String, QuantizedTensor>,
    /// The other tensors, unchanged: integers, bools, complex numbers, elements of an unknown logical type, and what is quantized already,
    /// with its scales (spec/weights.md §2.3).
    pub unchanged: BTreeMap<String, RawTensor>,
    /// The entries that were skipped, with the reason: strings, objects of unknown formats, and objects that are quantized in groups.
    pub skipped: BTreeMap<String, String>,
    /// Statistics of the load. Bytes are counted as stored in the file.
    pub statistics: LoaderStatistics,
}

/// Loads the tensors of the file at `path`, and quantizes the float tensors on the way. Tensors that are already quantized stay as they
/// are.
///
/// Of the float tensors, only the integers stay in memory. In addition, each thread holds up to 16 MiB of numbers, or one whole tensor
/// if the tensor is compressed, sparse or verified, or if its elements are smaller than a byte.
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
    let total_bytes = stored_bytes(&entries);
    let meter = options.context.meter("quantizing", total_bytes);
    // The verifying reader reads a tensor with a digest whole, so that only hashed bytes are used.
    let is_verified = |entry: &Entry<'_>| options.verify && entry.has_digest();
    let n_verified = entries.iter().filter(|entry| is_verified(entry)).count();
    // A scale belongs to its tensor even if one of them is filtered out.
    let already = quantized_already(file.entries().map(|entry| Described::of(&entry)));
    let (floats, others): (Vec<Entry<'_>>, Vec<Entry<'_>>) =
        entries.into_iter().partition(|entry| is_quantizable(entry) && !already.contains_key(entry.name()));

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
        // Every entry in `floats` has a float type, so the default is not used.
        let dtype = entry.dtype().unwrap_or(ElementType::Float32);
        works.push(Work::new(Job { dtype, data }, entry.shape(), quantize));
    }
    let done = run(&works, quantize, options.threads(), |index| Ok(meter.advance(floats[index].stored_bytes())?))?;
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
            meter.advance(others[index].stored_bytes())?;
            Ok::<_, WeightsError>((others[index].name().to_owned(), tensor))
        },
    )?;
    let n_tensors = floats.len() + others.len();
    let statistics = LoaderStatistics::new(n_tensors, total_bytes, n_verified, started.elapsed());
    Ok(QuantizedWeights { quantized, unchanged: unchanged.into_iter().collect(), skipped, statistics })
}

/// Returns why an entry can neither be quantized nor kept as one tensor, if that is so.
fn reason_to_skip(entry: &Entry<'_>) -> Option<String> {
    let already = |of: &str| format!("quantized already, in {of}");
    entry.not_numbers().or_else(|| match entry.ggml_blocks() {
        Some(of) => Some(already(&format!("blocks of {of}"))),
        None => entry.is_quantized().then(|| already("groups")),
    })
}

/// Whether a tensor has floats.
fn is_quantizable(entry: &Entry<'_>) -> bool {
    let data = entry.as_ztensor().and_then(|object| object.component("data"));
    // An unknown logical type may mean anything, whatever its storage type.
    let is_unknown = data.is_some_and(|data| data.unknown_type().is_some());
    entry.dtype().is_some_and(ElementType::is_float) && !is_unknown
}
