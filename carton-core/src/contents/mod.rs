//! From a path in a carton to its verified bytes, wherever they are: in the archive, in an unpacked folder, in the cache, or on a
//! server
//! (spec/carton-format.md, "MANIFEST").
//!
//! Nothing of a file is handed out as complete before its SHA-256 matched MANIFEST. What the files mean is not known here.
//! Cartons are read with positioned reads and never mapped: one that is truncated or replaced while open gives an error.

mod copy;
mod error;
mod fetch;
mod locate;
mod model;
mod open;
mod origin;
mod part;
mod progress;
mod ranges;
mod raw_reader;
mod read;
mod stated;
mod tree;
mod unpack;
mod verify;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use serde::Serialize;

pub use error::{ContentsError, LinkFailure, LinkProblem};
pub(crate) use fetch::Access;
pub use model::ModelDirectory;
pub(crate) use progress::silent;
pub(crate) use progress::{OnProgress, Progress, Work};
pub use ranges::{ModelRange, ModelRanges};
pub use verify::{BadFile, VerifyReport};

use locate::Located;
use origin::Origin;
use progress::Meter;
use tree::{Item, Place};

use crate::archive::Method;
use crate::cache::{About, Cache, Lease};
use crate::digest::Sha256Digest;
use crate::links::Links;
use crate::manifest::{Manifest, ManifestHash};

/// The files of one carton, or of a model that is not in a carton.
///
/// Cheap to open: only the table of entries, MANIFEST and LINKS are read. Methods may be called from many threads at once.
pub(crate) struct Contents {
    origin: Origin,
    /// None for a bare model.
    manifest: Option<(Manifest, ManifestHash)>,
    links: Links,
    /// Sorted by path.
    items: Vec<Item>,
    cache: Option<Arc<Cache>>,
    /// How files that are elsewhere may be fetched; without it, they are taken from the cache only.
    access: Option<Access>,
    /// The file of the cache that was opened, if it is one.
    whole: Option<Sha256Digest>,
    /// Taken when something elsewhere is first needed, and held from then on: what was fetched is not deleted.
    lease: OnceLock<Arc<Lease>>,
    /// For listings of the cache.
    model_name: Option<String>,
    /// The files of which parts were read, by their path.
    verified: Mutex<BTreeMap<String, Arc<part::Verified>>>,
    /// The CRC-32 and sizes of files, for comparing them with what the archive states.
    known: Mutex<stated::Known>,
}

/// What is known about a file without reading it.
///
/// As JSON, the names are those of the fields here; what is not known is `null`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FileInfo {
    /// Its path in the carton.
    pub path: String,
    /// Its digest in MANIFEST; none in a model that is not in a carton.
    pub sha256: Option<Sha256Digest>,
    /// Its length; unknown when it is linked and not fetched. For a symbolic link, that of the file it leads to.
    pub size: Option<u64>,
    /// How many bytes it takes in the archive, or in the unpacked folder.
    pub stored: Option<u64>,
    /// How its data is stored in the archive; none for a file that is in none.
    pub method: Option<Method>,
    /// Whether it is not in the carton, and LINKS says where it can be fetched.
    pub linked: bool,
    /// For a symbolic link, its target as written.
    pub symlink: Option<String>,
}

impl Contents {
    /// The MANIFEST; none for a model that is not in a carton.
    pub(crate) fn manifest(&self) -> Option<&Manifest> {
        self.manifest.as_ref().map(|(manifest, _)| manifest)
    }

    /// The SHA-256 of MANIFEST, which names the carton.
    pub(crate) fn manifest_hash(&self) -> Option<ManifestHash> {
        self.manifest.as_ref().map(|(_, hash)| *hash)
    }

    /// Where files that are not in the carton can be fetched.
    pub(crate) fn links(&self) -> &Links {
        &self.links
    }

    /// The carton or folder, for messages.
    pub(crate) fn location(&self) -> String {
        self.origin.location()
    }

    /// The folder it was opened from, if it was one.
    pub(crate) fn folder(&self) -> Option<&Path> {
        self.origin.folder()
    }

    /// Whether there is a file at this path.
    pub(crate) fn contains(&self, path: &str) -> bool {
        self.find(path).is_ok()
    }

    /// The paths of all files but MANIFEST and LINKS, sorted.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.items.iter().map(|item| item.path.as_str())
    }

    /// The length of a file, or of the file that a symbolic link leads to. `None` if it is linked, not in the cache, and LINKS does not
    /// give its size.
    ///
    /// # Errors
    /// There is no such file.
    pub(crate) fn size_of(&self, path: &str) -> Result<Option<u64>, ContentsError> {
        Ok(self.size(self.find(path)?))
    }

    /// All files but MANIFEST and LINKS, sorted by path.
    pub(crate) fn files(&self) -> Vec<FileInfo> {
        self.items.iter().map(|item| self.file_info(item)).collect()
    }

    fn file_info(&self, item: &Item) -> FileInfo {
        let (symlink, stored, method, linked) = match (&item.place, self.locate(item)) {
            (Place::Symlink { target, .. }, _) => (Some(target.clone()), Some(target.len() as u64), None, false),
            (_, Located::Local(file) | Located::Remote { file, .. }) => {
                (None, Some(file.entry.compressed_size()), Some(file.entry.method()), false)
            }
            (_, Located::Folder { size, .. } | Located::Bare { size, .. }) => (None, Some(size), None, false),
            (_, Located::Linked { .. }) => (None, None, None, true),
        };
        let (path, sha256, size) = (item.path.clone(), item.digest(), self.size(item));
        FileInfo { path, sha256, size, stored, method, linked, symlink }
    }

    /// Keeps what the carton has in the cache from being deleted; none without a cache or a MANIFEST.
    fn lease(&self, meter: &Meter<'_>) -> Result<Option<Arc<Lease>>, ContentsError> {
        let (Some(cache), Some((manifest, _))) = (&self.cache, &self.manifest) else { return Ok(None) };
        if let Some(lease) = self.lease.get() {
            return Ok(Some(lease.clone()));
        }
        match cache.lease_carton::<ContentsError>(manifest, self.whole.as_slice(), &|| meter.advance(0)) {
            Ok(lease) => {
                let about = About::new(self.model_name.as_deref(), self.origin.local_path(self.whole));
                if let Err(error) = cache.describe(&manifest.hash(), &about) {
                    tracing::debug!(%error, "cannot record what a carton is called");
                }
                Ok(Some(Arc::new(lease)))
            }
            // Nothing can be deleted from a read-only cache, so its files can be used without a lease.
            Err(ContentsError::Io { source, .. }) if source.kind() == io::ErrorKind::ReadOnlyFilesystem => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// As [`lease`](Self::lease), until this is dropped.
    fn hold_while(&self, meter: &Meter<'_>) -> Result<(), ContentsError> {
        if self.lease.get().is_none()
            && let Some(lease) = self.lease(meter)?
        {
            // If another thread was faster, its lease serves as well.
            let _ = self.lease.set(lease);
        }
        Ok(())
    }
}

impl Drop for Contents {
    /// Records the checksums learned from files that were read one by one.
    fn drop(&mut self) {
        self.remember_stated();
    }
}

impl std::fmt::Debug for Contents {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Contents")
            .field("location", &self.location())
            .field("manifest_hash", &self.manifest_hash())
            .field("n_files", &self.items.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(crate) mod tests;
