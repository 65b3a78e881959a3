//! What is in the cache, for people.

use std::path::PathBuf;
use std::time::SystemTime;

use super::survey::What;
use super::{Cache, CacheError};
use crate::digest::Sha256Digest;

/// What is in a cache.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheListing {
    /// Cartons that have something in the cache, the last used first.
    pub cartons: Vec<CachedCarton>,
    /// How many files there are that cartons can share.
    pub n_files: usize,
    /// Their bytes.
    pub file_bytes: u64,
    /// The bytes that more than one carton uses.
    pub shared_bytes: u64,
    /// Downloads that are going on or were interrupted, the newest first.
    pub downloads: Vec<CachedDownload>,
    /// All bytes in the cache. What is at several places by links is counted once.
    pub bytes: u64,
}

/// A carton that has something in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CachedCarton {
    /// Its manifest hash.
    pub manifest: Sha256Digest,
    /// The model's name in its metadata.
    pub model_name: Option<String>,
    /// The URL where it was last found, without what may be secret in it; none for one that was loaded from a file.
    pub address: Option<String>,
    /// The file or folder that it was last loaded from, if it was.
    pub path: Option<PathBuf>,
    /// What it has in the cache, with what it shares with others.
    pub bytes: u64,
    /// When it was last loaded or looked at.
    pub last_used: SystemTime,
    /// Whether it is loaded now, by any process.
    pub in_use: bool,
}

/// A download that is not complete.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CachedDownload {
    /// Its folder.
    pub path: PathBuf,
    /// The bytes that are there.
    pub bytes: u64,
    /// When the last of them came.
    pub last_change: SystemTime,
    /// Whether a process is at it, or a loaded carton needs the file.
    pub in_use: bool,
}

impl Cache {
    /// Lists what is in the cache.
    ///
    /// # Errors
    /// The cache cannot be read.
    pub fn list(&self) -> Result<CacheListing, CacheError> {
        let survey = self.survey(&self.hold_off_prune::<CacheError>(&|| Ok(()))?)?;
        let held = survey.held();
        let (mut cartons, mut downloads) = (Vec::new(), Vec::new());
        for (index, holder) in survey.holders.iter().enumerate() {
            let (bytes, last_used, in_use) = (held[index], holder.last_used, holder.in_use);
            match &holder.what {
                What::Carton(_) => cartons.extend(survey.carton(index, &held)),
                What::Download { path } => {
                    downloads.push(CachedDownload { path: path.clone(), bytes, last_change: last_used, in_use });
                }
                What::File => {}
            }
        }
        cartons.sort_by(|one, other| other.last_used.cmp(&one.last_used).then(one.manifest.cmp(&other.manifest)));
        downloads.sort_by(|one, other| other.last_change.cmp(&one.last_change).then(one.path.cmp(&other.path)));
        let length = |path: &PathBuf| std::fs::symlink_metadata(path).map_or(0, |metadata| metadata.len());
        let is_carton = |holder: &usize| matches!(survey.holders[*holder].what, What::Carton(_));
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
