//! The record `_tasks/commit.json` (spec/dataset.md §5.2): what a commit does, decided once. A later commit that finishes a killed one
//! does the same.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::staging::{RECORD, TASKS, folder, write_whole};
use crate::error::DatasetError;
use crate::manifest::{Manifest, Shard, TensorSchema};
use crate::part_name::PartName;
use crate::shard_path;

/// The version of the record. Other versions are refused.
const VERSION: u32 = 1;

/// The actions of a commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CommitRecord {
    version: u32,
    /// The attempts that count, one for each task.
    pub(super) attempts: Vec<Uuid>,
    shards: Vec<Shard>,
    schema: BTreeMap<String, TensorSchema>,
    /// The file or folder below `_tasks` that becomes the index, if one is written.
    index: Option<String>,
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

    /// Reads the record in a dataset's folder; `None` if no commit has begun.
    ///
    /// # Errors
    /// [`DatasetError::Staging`] for a record that is not as this crate writes it; [`DatasetError::Io`].
    pub(super) fn read(dataset: &Path) -> Result<Option<Self>, DatasetError> {
        let path = dataset.join(TASKS).join(RECORD);
        let Some(json) = read_capped(&path)? else { return Ok(None) };
        let wrong = |problem: String| DatasetError::Staging { path: path.clone(), problem };
        let record: Self = serde_json::from_slice(&json).map_err(|error| wrong(error.to_string()))?;
        if record.version != VERSION {
            return Err(wrong(format!("version {}, expected {VERSION}", record.version)));
        }
        let is_ours = |shard: &Shard| PartName::parse(&shard.shard_path).is_some();
        let is_new = |path: &String| record.shards.iter().any(|shard| shard.shard_path == *path);
        let is_old = |path: &String| shard_path::is_below(path) && !is_new(path);
        let is_index =
            |name: &String| name.starts_with(".index-") && name.ends_with(".parquet") && !name.contains(['/', '\\']);
        let is_right = record.shards.iter().all(is_ours)
            && record.replaced.iter().flatten().all(is_old)
            && record.index.iter().all(is_index);
        if !is_right {
            return Err(wrong("names files that do not belong to a commit".to_owned()));
        }
        Ok(Some(record))
    }

    /// Writes the record. The caller holds the lock, and there is no record yet.
    ///
    /// # Errors
    /// [`DatasetError::Io`].
    pub(super) fn write(&self, dataset: &Path) -> Result<(), DatasetError> {
        let path = dataset.join(TASKS).join(RECORD);
        let json = serde_json::to_vec(self).map_err(|source| DatasetError::io("write", &path)(source.into()))?;
        write_whole(&path, &json)
    }

    /// The path of the index before it is moved to its place.
    pub(super) fn index(&self, dataset: &Path) -> Option<PathBuf> {
        self.index.as_ref().map(|name| dataset.join(TASKS).join(name))
    }

    /// Makes the manifest that the commit publishes.
    ///
    /// # Errors
    /// [`DatasetError::Manifest`].
    pub(super) fn manifest(&self, place: &Path) -> Result<Manifest, DatasetError> {
        manifest(self.shards.clone(), self.schema.clone(), place)
    }

    /// Returns the path of each shard before and after the commit, and its size in bytes.
    pub(super) fn moves(&self, dataset: &Path) -> impl Iterator<Item = (PathBuf, PathBuf, u64)> {
        self.shards.iter().filter_map(move |shard| {
            let part = PartName::parse(&shard.shard_path)?;
            let staged = folder(dataset, part.task, part.attempt).join(&shard.shard_path);
            Some((staged, dataset.join(&shard.shard_path), shard.bytes))
        })
    }
}

/// Makes the manifest of these shards.
pub(super) fn manifest(
    shards: Vec<Shard>,
    schema: BTreeMap<String, TensorSchema>,
    place: &Path,
) -> Result<Manifest, DatasetError> {
    Manifest::new(shards, schema)
        .map_err(|source| DatasetError::Manifest { place: place.display().to_string(), source })
}

/// Reads a file that this crate has written, with a cap above the size of any such file; `None` if it does not exist. Refuses everything
/// but regular files, because opening a named pipe waits for a writer.
pub(super) fn read_capped(path: &Path) -> Result<Option<Vec<u8>>, DatasetError> {
    let cap = 2 * Manifest::MAX_LENGTH;
    if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err(DatasetError::Staging { path: path.to_owned(), problem: "is no regular file".to_owned() });
    }
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(DatasetError::io("read", path)(error)),
    };
    let mut bytes = Vec::new();
    file.take(cap + 1).read_to_end(&mut bytes).map_err(DatasetError::io("read", path))?;
    if bytes.len() as u64 > cap {
        let problem = format!("more than {cap} bytes");
        return Err(DatasetError::Staging { path: path.to_owned(), problem });
    }
    Ok(Some(bytes))
}
