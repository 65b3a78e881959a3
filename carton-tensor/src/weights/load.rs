//! Loads all or some tensors of a file, in parallel (spec/weights.md §1).

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use super::arena::Arena;
use super::options::{LoadOptions, LoaderStatistics};
use super::{Filter, WeightsError};
use crate::any_file::{Entry, TensorFile, TensorFileError, VerifyingReader};
use crate::files::{ElementType, RawTensor, SharedBytes};
use crate::parallel::par_map;

/// The bytes that a thread copies at a time if nothing is hashed.
const PIECE: usize = 8 << 20;

/// Loaded tensors, by name.
#[derive(Clone, Debug)]
pub struct Weights {
    /// The tensors.
    pub tensors: BTreeMap<String, RawTensor>,
    /// Statistics of the load.
    pub statistics: LoaderStatistics,
}

/// The description of a tensor in a file, without its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorMetadata {
    /// The element type; `None` if the entry is not a tensor of numbers by itself, such as strings or zTensor objects of several
    /// components.
    pub dtype: Option<ElementType>,
    /// The dimensions.
    pub shape: Vec<usize>,
    /// `dense`, or the name of another zTensor layout, or of a quantized type of GGUF.
    pub layout: String,
    /// The bytes that the file stores for the tensor.
    pub stored_bytes: u64,
}

/// Loads the tensors of the file at `path`: safetensors, zTensor, GGUF, `.npy` or `.npz`.
///
/// Sparse tensors become dense, and a `quantized_group` or blocks of GGUF become `float32`. Several loads may run at once.
///
/// ```
/// use carton_tensor::files::{ElementType, RawTensor};
/// use carton_tensor::safetensors::{self, Metadata};
/// use carton_tensor::weights::{self, Filter, LoadOptions};
/// let directory = tempfile::tempdir()?;
/// let path = directory.path().join("model.safetensors");
/// let tensor = RawTensor::new(ElementType::Uint8, vec![3], vec![1_u8, 2, 3].into())?;
/// let tensors = [("norm.weight", &tensor), ("head.weight", &tensor)];
/// safetensors::write(tensors, &Metadata::default(), std::fs::File::create(&path)?)?;
///
/// let weights = weights::load(&path, &LoadOptions::default().filter(Filter::prefix("norm.")))?;
/// assert_eq!(weights.tensors["norm.weight"], tensor);
/// assert_eq!((weights.statistics.n_tensors, weights.statistics.n_bytes), (1, 3));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`WeightsError`]; [`WeightsError::NoTensors`] or [`WeightsError::NoneSelected`] if there is nothing to load.
pub fn load(path: impl AsRef<Path>, options: &LoadOptions) -> Result<Weights, WeightsError> {
    let started = Instant::now();
    let file = options.open(path)?;
    load_since(started, &file, options)
}

/// Loads tensors of an open file. How the file was opened decides whether they are copied.
///
/// # Errors
/// As [`load`].
pub fn load_file(file: &TensorFile, options: &LoadOptions) -> Result<Weights, WeightsError> {
    load_since(Instant::now(), file, options)
}

/// Returns the descriptions of the tensors of the file at `path`, without reading their data.
///
/// # Errors
/// [`WeightsError::File`].
pub fn load_metadata(path: impl AsRef<Path>) -> Result<BTreeMap<String, TensorMetadata>, WeightsError> {
    let file = TensorFile::open(path)?;
    let metadata = |entry: Entry<'_>| {
        let metadata = TensorMetadata {
            dtype: entry.dtype(),
            shape: entry.shape().to_vec(),
            layout: entry.layout().to_owned(),
            stored_bytes: entry.stored_bytes(),
        };
        (entry.name().to_owned(), metadata)
    };
    Ok(file.entries().map(metadata).collect())
}

/// Returns the size of the file at `path` in bytes.
///
/// # Errors
/// [`WeightsError::File`].
pub fn file_size(path: impl AsRef<Path>) -> Result<u64, WeightsError> {
    let path = path.as_ref();
    let metadata =
        std::fs::metadata(path).map_err(|source| TensorFileError::Io { place: path.display().to_string(), source })?;
    Ok(metadata.len())
}

/// Returns the tensors that the filter accepts. Fails if there are none.
pub(super) fn select<'a>(file: &'a TensorFile, filter: &Filter) -> Result<Vec<Entry<'a>>, WeightsError> {
    let mut n_tensors = 0;
    let counted = file.entries().inspect(|_| n_tensors += 1);
    let entries: Vec<Entry<'a>> = counted.filter(|entry| filter.accepts(entry.name())).collect();
    match (entries.is_empty(), n_tensors) {
        (false, _) => Ok(entries),
        (true, 0) => Err(WeightsError::NoTensors { place: file.place().to_owned() }),
        (true, _) => Err(WeightsError::NoneSelected { place: file.place().to_owned(), n_tensors }),
    }
}

/// Returns a second reader of the same zTensor file, which verifies the digests of exactly the bytes it returns. `None` if `verify` is
/// false or the format has no digests.
pub(super) fn verifying_reader(file: &TensorFile, verify: bool) -> Option<VerifyingReader> {
    if verify { file.verifying_reader() } else { None }
}

/// The bytes that the files store for these tensors.
pub(super) fn stored_bytes(entries: &[Entry<'_>]) -> u64 {
    entries.iter().map(Entry::stored_bytes).fold(0, u64::saturating_add)
}

/// One unit of work of a thread.
enum Item {
    /// Copies a piece of a part of the arena.
    Copy { entry: usize, part: usize, piece: usize },
    /// Reads a whole tensor.
    Whole { entry: usize },
}

fn load_since(started: Instant, file: &TensorFile, options: &LoadOptions) -> Result<Weights, WeightsError> {
    let verifying = verifying_reader(file, options.verify);
    let entries = select(file, &options.filter)?;
    let entries: Vec<Entry<'_>> = entries.into_iter().map(|entry| entry.read_by(verifying.as_ref())).collect();
    let total_bytes = stored_bytes(&entries);
    let meter = options.context.meter("loading", total_bytes);
    // A tensor whose bytes the file holds unchanged goes into the arena, in pieces, or in one piece if it is hashed.
    let copied: Vec<usize> = (0..entries.len())
        .filter(|&index| entries[index].location().is_some_and(|(bytes, _)| !bytes.is_in_memory()))
        .collect();
    let mut hashed = vec![false; entries.len()];
    if options.verify {
        for (entry, hashed) in entries.iter().zip(&mut hashed) {
            *hashed = entry.expected_digest()?.is_some();
        }
    }
    let mut arena = Arena::new(copied.iter().map(|&index| entries[index].stored_bytes()))?;
    let pieces = arena.pieces(|part| if hashed[copied[part]] { usize::MAX } else { PIECE });
    let mut items = Vec::new();
    let mut is_copied = vec![false; entries.len()];
    let pending: Vec<AtomicUsize> = pieces.iter().map(|pieces| AtomicUsize::new(pieces.len())).collect();
    for (part, (&entry, pieces)) in copied.iter().zip(&pieces).enumerate() {
        is_copied[entry] = true;
        items.extend((0..pieces.len()).map(|piece| Item::Copy { entry, part, piece }));
    }
    items.extend((0..entries.len()).filter(|&entry| !is_copied[entry]).map(|entry| Item::Whole { entry }));
    // Sizes differ only if tensors are hashed or decoded whole. The largest items come first, so that none of them runs alone at the
    // end.
    if options.verify {
        items.sort_by_key(|item| {
            let (Item::Copy { entry, .. } | Item::Whole { entry }) = item;
            std::cmp::Reverse(entries[*entry].stored_bytes())
        });
    }
    let n_verified = AtomicUsize::new(0);
    let whole = par_map(
        items.len(),
        options.threads(),
        || (),
        |(), item| match items[item] {
            Item::Copy { entry: index, part, piece } => {
                let entry = &entries[index];
                options.context.check()?;
                let mut bytes = pieces[part][piece].lock();
                copy(file, entry, piece, &mut bytes)?;
                if hashed[index] {
                    check_digest(file, entry, &bytes)?;
                    n_verified.fetch_add(1, Ordering::Relaxed);
                }
                if pending[part].fetch_sub(1, Ordering::Relaxed) == 1 {
                    meter.advance(entry.stored_bytes())?;
                }
                Ok(None)
            }
            Item::Whole { entry: index } => {
                let entry = &entries[index];
                // The reader verifies the data that it returns. A dense tensor may have further components, which `verify` checks.
                if options.verify && entry.has_digest() {
                    if entry.as_ztensor().is_some_and(|object| object.components().len() > 1) {
                        entry.verify()?;
                    }
                    n_verified.fetch_add(1, Ordering::Relaxed);
                }
                let tensor = entry.dequantize()?;
                meter.advance(entry.stored_bytes())?;
                Ok::<_, WeightsError>(Some((index, tensor)))
            }
        },
    )?;
    drop(pieces);
    let mut tensors = BTreeMap::new();
    for (index, tensor) in whole.into_iter().flatten() {
        tensors.insert(entries[index].name().to_owned(), tensor);
    }
    for (&index, bytes) in copied.iter().zip(arena.into_parts()) {
        let entry = &entries[index];
        tensors.insert(entry.name().to_owned(), tensor_of(file, entry, bytes)?);
    }
    let n_verified = n_verified.into_inner();
    let statistics = LoaderStatistics::new(entries.len(), total_bytes, n_verified, started.elapsed());
    Ok(Weights { tensors, statistics })
}

fn copy(file: &TensorFile, entry: &Entry<'_>, piece: usize, buffer: &mut [u8]) -> Result<(), WeightsError> {
    let Some((bytes, range)) = entry.location() else { return Err(changed(file, entry)) };
    let offset = range.start + piece as u64 * PIECE as u64;
    bytes
        .read_into(offset, buffer)
        .map_err(|source| TensorFileError::Io { place: file.place().to_owned(), source }.into())
}

/// Compares copied bytes with the digest that the file states.
fn check_digest(file: &TensorFile, entry: &Entry<'_>, bytes: &[u8]) -> Result<(), WeightsError> {
    let Some(expected) = entry.expected_digest()? else { return Ok(()) };
    if expected.is_of(bytes) {
        return Ok(());
    }
    // Verifying the file itself returns the error, unless the file has changed by now.
    entry.verify()?;
    Err(changed(file, entry))
}

pub(super) fn changed(file: &TensorFile, entry: &Entry<'_>) -> WeightsError {
    WeightsError::Changed { place: file.place().to_owned(), name: entry.name().escape_debug().to_string() }
}

/// Makes a tensor of these bytes, whose number the file determines.
fn tensor_of(file: &TensorFile, entry: &Entry<'_>, bytes: SharedBytes) -> Result<RawTensor, WeightsError> {
    let tensor = entry.dtype().map(|dtype| RawTensor::new(dtype, entry.shape().to_vec(), bytes));
    tensor.and_then(Result::ok).ok_or_else(|| changed(file, entry))
}
