//! Loads the tensors of a file, all of them or some, at once (spec/weights.md §1).

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use super::arena::{Arena, lock};
use super::options::{LoadOptions, LoaderStatistics, Progress, ProgressHook};
use super::{Filter, WeightsError};
use crate::files::{ElementType, Entry, RawTensor, SharedBytes, TensorFile, TensorFileError};
use crate::parallel::par_map;
use crate::ztensor::{self, Checks};

/// What a thread copies at a time where nothing is hashed.
const PIECE: usize = 8 << 20;

/// Loaded tensors, by name.
#[derive(Clone, Debug)]
pub struct Weights {
    /// The tensors.
    pub tensors: BTreeMap<String, RawTensor>,
    /// How loading them went.
    pub statistics: LoaderStatistics,
}

/// What a file says of a tensor, without its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorMetadata {
    /// The element type; `None` for what is no tensor of numbers by itself: strings, objects of zTensor with parts.
    pub dtype: Option<ElementType>,
    /// The dimensions.
    pub shape: Vec<usize>,
    /// `dense`, or another layout of zTensor.
    pub layout: String,
    /// The bytes that the file stores of it.
    pub stored_bytes: u64,
}

/// Loads the tensors of the file at `path`: safetensors, zTensor, `.npy` or `.npz`.
///
/// Sparse tensors become dense, a `quantized_group` becomes `float32`. Several loads may run at once.
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
/// [`WeightsError`]; [`WeightsError::NoTensors`] and [`WeightsError::NoneSelected`] when there is nothing to load.
pub fn load(path: impl AsRef<Path>, options: &LoadOptions) -> Result<Weights, WeightsError> {
    let started = Instant::now();
    let file = options.open(path)?;
    load_since(started, &file, options)
}

/// Loads tensors of an open file, which decides by itself whether they are copied.
///
/// # Errors
/// As [`load`].
pub fn load_file(file: &TensorFile, options: &LoadOptions) -> Result<Weights, WeightsError> {
    load_since(Instant::now(), file, options)
}

/// What the file at `path` says of its tensors, whose data is not touched.
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

/// The size of the file at `path` in bytes.
///
/// # Errors
/// [`WeightsError::File`].
pub fn file_size(path: impl AsRef<Path>) -> Result<u64, WeightsError> {
    let path = path.as_ref();
    let metadata =
        std::fs::metadata(path).map_err(|source| TensorFileError::Io { place: path.display().to_string(), source })?;
    Ok(metadata.len())
}

/// The tensors that pass the filter, of which there must be one.
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

/// A reader of the same file that verifies the very bytes that it gives, where that is wanted and the file can have digests.
pub(super) fn verifying_reader(file: &TensorFile, verify: bool) -> Option<ztensor::Reader> {
    let reader = file.as_ztensor().filter(|_| verify)?;
    Some(reader.clone().checking(Checks { digests: true, ..Checks::default() }))
}

/// Tells the hook how far a load is.
pub(super) struct Reporter<'a> {
    hook: Option<&'a ProgressHook>,
    n_bytes: AtomicU64,
    total_bytes: u64,
}

impl<'a> Reporter<'a> {
    pub(super) fn new(hook: Option<&'a ProgressHook>, entries: &[Entry<'_>]) -> Self {
        let total_bytes = entries.iter().map(Entry::stored_bytes).fold(0, u64::saturating_add);
        Self { hook, n_bytes: AtomicU64::new(0), total_bytes }
    }

    pub(super) fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    pub(super) fn done(&self, entry: &Entry<'_>) {
        let Some(hook) = self.hook else { return };
        let stored = entry.stored_bytes();
        let n_bytes = self.n_bytes.fetch_add(stored, Ordering::Relaxed) + stored;
        hook.tell(&Progress { name: entry.name(), n_bytes, total_bytes: self.total_bytes });
    }
}

/// What one thread does at a time.
enum Item {
    /// A piece of a part of the arena.
    Copy { entry: usize, part: usize, piece: usize },
    /// A whole tensor.
    Whole { entry: usize },
}

fn load_since(started: Instant, file: &TensorFile, options: &LoadOptions) -> Result<Weights, WeightsError> {
    let verifying = verifying_reader(file, options.verify);
    let entries = select(file, &options.filter)?;
    let entries: Vec<Entry<'_>> = entries.into_iter().map(|entry| entry.read_by(verifying.as_ref())).collect();
    let reporter = Reporter::new(options.progress.as_ref(), &entries);
    // A tensor whose bytes are in the file as they are goes into the arena, the whole of it at once if it is hashed.
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
    // Items differ in size only where tensors are hashed or decoded whole: the largest first, so that none is left for last.
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
                let mut bytes = lock(&pieces[part][piece]);
                copy(file, entry, piece, &mut bytes)?;
                if hashed[index] {
                    check_digest(file, entry, &bytes)?;
                    n_verified.fetch_add(1, Ordering::Relaxed);
                }
                if pending[part].fetch_sub(1, Ordering::Relaxed) == 1 {
                    reporter.done(entry);
                }
                Ok(None)
            }
            Item::Whole { entry: index } => {
                let entry = &entries[index];
                // The reader verifies what it gives. There may be components that are not part of a dense tensor.
                if options.verify && entry.has_digest() {
                    if entry.as_ztensor().is_some_and(|object| object.components().len() > 1) {
                        entry.verify()?;
                    }
                    n_verified.fetch_add(1, Ordering::Relaxed);
                }
                let tensor = entry.dequantize()?;
                reporter.done(entry);
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
    let statistics = LoaderStatistics::new(entries.len(), reporter.total_bytes(), n_verified, started.elapsed());
    Ok(Weights { tensors, statistics })
}

fn copy(file: &TensorFile, entry: &Entry<'_>, piece: usize, buffer: &mut [u8]) -> Result<(), WeightsError> {
    let Some((bytes, range)) = entry.location() else { return Err(changed(file, entry)) };
    let offset = range.start + piece as u64 * PIECE as u64;
    bytes
        .read_into(offset, buffer)
        .map_err(|source| TensorFileError::Io { place: file.place().to_owned(), source }.into())
}

/// Compares bytes that were copied with the digest that the file tells.
fn check_digest(file: &TensorFile, entry: &Entry<'_>, bytes: &[u8]) -> Result<(), WeightsError> {
    let Some(expected) = entry.expected_digest()? else { return Ok(()) };
    if expected.algorithm().digest(bytes) == expected {
        return Ok(());
    }
    // The file itself gives the error, unless it is another file by now.
    entry.verify()?;
    Err(changed(file, entry))
}

pub(super) fn changed(file: &TensorFile, entry: &Entry<'_>) -> WeightsError {
    WeightsError::Changed { place: file.place().to_owned(), name: entry.name().escape_debug().to_string() }
}

/// The tensor with these bytes, which are as many as the file says.
fn tensor_of(file: &TensorFile, entry: &Entry<'_>, bytes: SharedBytes) -> Result<RawTensor, WeightsError> {
    let tensor = entry.dtype().map(|dtype| RawTensor::new(dtype, entry.shape().to_vec(), bytes));
    tensor.and_then(Result::ok).ok_or_else(|| changed(file, entry))
}
