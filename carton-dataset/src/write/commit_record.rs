//! `_tasks/commit.json` (spec/dataset.md §5.2): what a commit does, decided once. Whoever goes on with a commit that was killed does
//! the same.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::attempt::{TASKS, folder, io_error};
use crate::error::DatasetError;
use crate::manifest::{Manifest, Shard, TensorSchema};
use crate::part_name::PartName;

/// What the record is called.
pub(super) const RECORD: &str = "commit.json";
/// The version of the record. Another one is not understood.
const VERSION: u32 = 1;

/// What a commit does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CommitRecord {
    version: u32,
    /// The attempts that count, one a task.
    pub(super) attempts: Vec<Uuid>,
    shards: Vec<Shard>,
    schema: BTreeMap<String, TensorSchema>,
    /// The file below `_tasks` that becomes the index, if there is to be one.
    pub(super) index: Option<String>,
    /// The shards of the dataset that is replaced, if one is.
    pub(super) replaced: Option<Vec<String>>,
}

impl CommitRecord {
    pub(super) fn new(
        attempts: Vec<Uuid>,
        manifest: &Manifest,
        index: Option<String>,
        replaced: Option<Vec<String>>,
    ) -> Self {
        let (shards, schema) = (manifest.shards().to_vec(), manifest.schema().clone());
        Self { version: VERSION, attempts, shards, schema, index, replaced }
    }

    /// The record of a dataset, if a commit has begun.
    ///
    /// # Errors
    /// [`DatasetError::Staging`] for one that is not as we write them, [`DatasetError::Io`].
    pub(super) fn read(dataset: &Path) -> Result<Option<Self>, DatasetError> {
        let path = dataset.join(TASKS).join(RECORD);
        let Some(json) = read_capped(&path)? else { return Ok(None) };
        let wrong = |problem: String| DatasetError::Staging { path: path.clone(), problem };
        let record: Self = serde_json::from_slice(&json).map_err(|error| wrong(error.to_string()))?;
        if record.version != VERSION {
            return Err(wrong(format!("version {}, expected {VERSION}", record.version)));
        }
        let is_ours = |name: &String| PartName::parse(name).is_some();
        let is_index = |name: &String| name.starts_with('.') && !name.contains(['/', '\\']);
        let shards = record.shards.iter().map(|shard| &shard.shard_path);
        if !shards.chain(record.replaced.iter().flatten()).all(is_ours) || !record.index.iter().all(is_index) {
            return Err(wrong("names files that no commit has to do with".to_owned()));
        }
        Ok(Some(record))
    }

    /// Records what is done from here on, unless another commit was faster: then that is what is done.
    ///
    /// # Errors
    /// [`DatasetError::Io`], and as [`read`](Self::read).
    pub(super) fn settle(self, dataset: &Path) -> Result<Self, DatasetError> {
        let path = dataset.join(TASKS).join(RECORD);
        let json = serde_json::to_vec(&self).map_err(|source| io_error(&path)(source.into()))?;
        let temporary = tempfile::Builder::new().prefix(".").suffix(".partial").tempfile_in(dataset.join(TASKS));
        let mut temporary = temporary.map_err(io_error(&path))?;
        temporary.write_all(&json).map_err(io_error(&path))?;
        match temporary.persist_noclobber(&path) {
            Ok(_) => Ok(self),
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {
                Self::read(dataset)?.ok_or_else(|| io_error(&path)(error.error))
            }
            Err(error) => Err(io_error(&path)(error.error)),
        }
    }

    /// The manifest that the commit ends with.
    ///
    /// # Errors
    /// [`DatasetError::Manifest`].
    pub(super) fn manifest(&self, place: &Path) -> Result<Manifest, DatasetError> {
        manifest(self.shards.clone(), self.schema.clone(), place)
    }

    /// Where each shard is before and after the commit, and its size.
    pub(super) fn moves(&self, dataset: &Path) -> impl Iterator<Item = (PathBuf, PathBuf, u64)> {
        self.shards.iter().filter_map(move |shard| {
            let part = PartName::parse(&shard.shard_path)?;
            let staged = folder(dataset, part.task, part.attempt).join(&shard.shard_path);
            Some((staged, dataset.join(&shard.shard_path), shard.bytes))
        })
    }
}

/// The manifest of these shards, no longer than a manifest that is read.
pub(super) fn manifest(
    shards: Vec<Shard>,
    schema: BTreeMap<String, TensorSchema>,
    place: &Path,
) -> Result<Manifest, DatasetError> {
    Manifest::new(shards, schema)
        .map_err(|source| DatasetError::Manifest { place: place.display().to_string(), source })
}

/// A file of ours that is no larger than any that we write; `None` where there is none.
pub(super) fn read_capped(path: &Path) -> Result<Option<Vec<u8>>, DatasetError> {
    let cap = 2 * Manifest::MAX_LENGTH;
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io_error(path)(error)),
    };
    let mut bytes = Vec::new();
    file.take(cap + 1).read_to_end(&mut bytes).map_err(io_error(path))?;
    if bytes.len() as u64 > cap {
        let problem = format!("more than {cap} bytes");
        return Err(DatasetError::Staging { path: path.to_owned(), problem });
    }
    Ok(Some(bytes))
}
