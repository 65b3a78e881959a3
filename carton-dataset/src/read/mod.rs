//! Reads datasets (spec/dataset.md): shard by shard, sample by sample, or a single tensor by its name.
//!
//! A shard is opened when it is needed, and its tensors are views of the mapped file. Opening a shard checks its size against the
//! manifest; [`verify`] checks all shards, and everything else that can be compared.

mod assignment;
mod batch;
mod finding;
mod folder;
mod samples;
mod shards;
mod verify;

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use carton_tensor::files::RawTensor;
use carton_tensor::safetensors::Reader;
use parking_lot::Mutex;

pub use self::assignment::Assignment;
pub use self::batch::{Batch, Sample};
pub use self::finding::{Category, Finding};
use self::folder::{Access, Folder};
use self::samples::SampleLayouts;
pub use self::shards::Shards;
pub use self::verify::{Checks, Verification, verify};
use crate::error::DatasetError;
use crate::index::{self, INDEX_NAME, IndexRow, TensorIndex};
use crate::manifest::{Manifest, Shard};

/// The number of shards that are kept open for lookups of tensors by name.
const KEPT_OPEN: usize = 64;

/// An open dataset. Its manifest has been read; shards are opened when they are needed. Any number of threads may read at once.
///
/// ```no_run
/// use std::num::NonZeroUsize;
/// use carton_dataset::{Assignment, Dataset};
/// let dataset = Dataset::open("images")?;
/// let four = NonZeroUsize::MIN.saturating_add(3);
/// for sample in dataset.worker(0, four, Assignment::Balanced)?.samples() {
///     let sample = sample?;
///     println!("{:?}", sample.get("image").map(|tensor| tensor.shape()));
/// }
/// # Ok::<(), carton_dataset::DatasetError>(())
/// ```
#[derive(Debug)]
pub struct Dataset {
    folder: Folder,
    manifest: Arc<Manifest>,
    layouts: Arc<SampleLayouts>,
    access: Access,
    index: OnceLock<TensorIndex>,
    /// Open shards by position; the most recently used one is last.
    open: Mutex<VecDeque<(usize, Arc<Reader>)>>,
}

impl Dataset {
    /// Opens the dataset in the folder at `path`. Shards are mapped, and nothing is copied out of them.
    ///
    /// For datasets that are not written to meanwhile: [`FileBytes::map`](carton_tensor::files::FileBytes::map) describes what happens
    /// otherwise. Writers of this crate never touch a file that has its final name.
    ///
    /// # Errors
    /// [`DatasetError::NoFolder`], [`DatasetError::NoManifest`], [`DatasetError::Manifest`], [`DatasetError::Io`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, DatasetError> {
        Self::with_access(path.as_ref(), Access::Map)
    }

    /// As [`open`](Self::open), but copies tensors out of the shards when they are read: for files that another process may truncate.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_copying(path: impl AsRef<Path>) -> Result<Self, DatasetError> {
        Self::with_access(path.as_ref(), Access::Copy)
    }

    fn with_access(path: &Path, access: Access) -> Result<Self, DatasetError> {
        let (folder, manifest) = Folder::open(path)?;
        let manifest = Arc::new(manifest);
        let layouts = Arc::new(SampleLayouts::new(Arc::clone(&manifest)));
        Ok(Self { folder, manifest, layouts, access, index: OnceLock::new(), open: Mutex::default() })
    }

    /// The folder's path, as it was given.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder.named
    }

    /// The manifest.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Opens the shard at this position of the manifest.
    ///
    /// # Errors
    /// [`DatasetError::NoSuchShard`], [`DatasetError::MissingShard`], [`DatasetError::ShardSize`], [`DatasetError::ShardOutside`],
    /// [`DatasetError::Shard`], [`DatasetError::Io`].
    pub fn batch(&self, position: usize) -> Result<Batch, DatasetError> {
        let shards = self.manifest.shards();
        let n_shards = shards.len();
        let shard = shards.get(position).ok_or(DatasetError::NoSuchShard { position, n_shards })?;
        let reader = Arc::new(self.folder.read(shard, self.access)?);
        Ok(Batch::new(shard.clone(), reader, Arc::clone(&self.layouts)))
    }

    /// Returns the tensor of this name; `None` if no shard has it. Looks it up in the index, or, without an index, in the headers of all
    /// shards, which are then read once.
    ///
    /// # Errors
    /// [`DatasetError::Ambiguous`] if several shards have it, as all shards do in batch mode: use [`batch`](Self::batch) instead.
    /// [`DatasetError::IndexDisagrees`] if index and shard differ. Also the errors of [`batch`](Self::batch) and [`index`](Self::index).
    pub fn get(&self, name: &str) -> Result<Option<RawTensor>, DatasetError> {
        let row = match self.index()?.find(name) {
            [] => return Ok(None),
            [row] => row,
            rows => {
                return Err(DatasetError::Ambiguous {
                    name: name.escape_debug().to_string(),
                    n_shards: rows.len(),
                    first: rows.first().map(|row| row.file_name.to_string()).unwrap_or_default(),
                });
            }
        };
        let disagrees = |problem: String| DatasetError::IndexDisagrees {
            name: name.escape_debug().to_string(),
            shard: row.file_name.to_string(),
            problem,
        };
        let position = self.manifest.position(&row.file_name);
        let position = position.ok_or_else(|| disagrees("the manifest has no such shard".to_owned()))?;
        let reader = self.reader(position)?;
        let tensor = reader.get(name).ok_or_else(|| disagrees("the shard does not have it".to_owned()))?;
        verify::check_row(row, &tensor).map_err(disagrees)?;
        reader.read(name).map(Some).map_err(|source| DatasetError::shard(reader.place(), source))
    }

    /// Returns the shards of each tensor: from the index, or from the headers of all shards if there is no index. Read once, and then
    /// kept.
    ///
    /// # Errors
    /// [`DatasetError::Index`], [`DatasetError::Input`]; without an index, the errors of [`batch`](Self::batch).
    pub fn index(&self) -> Result<&TensorIndex, DatasetError> {
        if let Some(index) = self.index.get() {
            return Ok(index);
        }
        // Two threads may both read it; only one result is kept.
        let index = self.read_index()?;
        Ok(self.index.get_or_init(|| index))
    }

    fn read_index(&self) -> Result<TensorIndex, DatasetError> {
        let path = self.folder.named.join(INDEX_NAME);
        if path.try_exists().map_err(DatasetError::io("read", &path))? {
            return index::read(&path);
        }
        let mut rows: Vec<IndexRow> = Vec::new();
        for shard in self.manifest.shards() {
            // Only the header is read, and only once, so a map would have no advantage.
            rows.extend(index::rows_of(&shard.shard_path, self.folder.read(shard, Access::Copy)?.header()));
        }
        Ok(TensorIndex::from_rows(rows))
    }

    /// Returns a shard for lookups by name, opened or from those that are kept open.
    fn reader(&self, position: usize) -> Result<Arc<Reader>, DatasetError> {
        let mut open = self.open.lock();
        if let Some(found) = open.iter().position(|(kept, _)| *kept == position)
            && let Some((_, reader)) = open.remove(found)
        {
            open.push_back((position, Arc::clone(&reader)));
            return Ok(reader);
        }
        drop(open);
        let n_shards = self.manifest.shards().len();
        let shard: Option<&Shard> = self.manifest.shards().get(position);
        let shard = shard.ok_or(DatasetError::NoSuchShard { position, n_shards })?;
        let reader = Arc::new(self.folder.read(shard, self.access)?);
        let mut open = self.open.lock();
        if open.len() >= KEPT_OPEN {
            open.pop_front();
        }
        open.push_back((position, Arc::clone(&reader)));
        Ok(reader)
    }
}
