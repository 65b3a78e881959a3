//! The listing of the cache, for people.

use std::path::PathBuf;
use std::time::SystemTime;

use super::survey::HolderKind;
use super::{Cache, CachedCarton};
use crate::error::Error;

/// The contents of a cache.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheListing {
    /// Cartons that have data in the cache, the most recently used first.
    pub cartons: Vec<CachedCarton>,
    /// The number of files that cartons can share.
    pub n_files: usize,
    /// The size of those files in bytes.
    pub file_bytes: u64,
    /// The number of bytes that more than one carton uses.
    pub shared_bytes: u64,
    /// Downloads that are going on or were interrupted, the newest first.
    pub downloads: Vec<CachedDownload>,
    /// The size of the whole cache in bytes. A file with several hard links counts once.
    pub bytes: u64,
}

/// An incomplete download.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CachedDownload {
    /// Its folder.
    pub path: PathBuf,
    /// The number of bytes downloaded so far.
    pub bytes: u64,
    /// When the last of them arrived.
    pub last_change: SystemTime,
    /// Whether a process is downloading it, or a loaded carton needs the file.
    pub in_use: bool,
}

impl Cache {
    /// Lists the contents of the cache.
    ///
    /// # Errors
    /// The cache cannot be read, or the work was cancelled.
    pub fn list(&self) -> Result<CacheListing, Error> {
        let survey = self.survey(&self.hold_off_prune(self.context.cancel_token())?)?;
        let held = survey.held();
        let (mut cartons, mut downloads) = (Vec::new(), Vec::new());
        for (index, holder) in survey.holders.iter().enumerate() {
            let (bytes, last_used, in_use) = (held[index], holder.last_used, holder.in_use);
            match &holder.kind {
                HolderKind::Carton(_) => cartons.extend(survey.carton(index, &held)),
                HolderKind::Download { path } => {
                    downloads.push(CachedDownload { path: path.clone(), bytes, last_change: last_used, in_use });
                }
                HolderKind::File => {}
            }
        }
        cartons.sort_by(|one, other| other.last_used.cmp(&one.last_used).then(one.manifest.cmp(&other.manifest)));
        downloads.sort_by(|one, other| other.last_change.cmp(&one.last_change).then(one.path.cmp(&other.path)));
        let length = |path: &PathBuf| std::fs::symlink_metadata(path).map_or(0, |metadata| metadata.len());
        let is_carton = |holder: &usize| matches!(survey.holders[*holder].kind, HolderKind::Carton(_));
        let shared = survey.bytes.values().filter(|bytes| bytes.holders.iter().filter(|h| is_carton(h)).count() > 1);
        Ok(CacheListing {
            cartons,
            n_files: survey.files.len(),
            file_bytes: survey.files.iter().map(|file| length(&file.path)).sum(),
            shared_bytes: shared.map(|bytes| bytes.length).sum(),
            downloads,
            bytes: survey.total(),
        })
    }
}
