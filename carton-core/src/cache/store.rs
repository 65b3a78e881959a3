//! An open cache: its parts, and the locks and leases in it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use carton_format::context::{CancelToken, Context};
use carton_format::manifest::ManifestHash;

use super::CacheError;
use super::blob_places::BlobPlaces;
use super::carton_records::CartonRecords;
use super::files::Files;
use super::folder::last_change;
use super::layout::{DOWNLOADS, Layout, Made, PARTIAL, is_later};
use super::lock::{self, Lock, Mode};
use super::partial::Partial;
use super::record::Verifications;
use super::remote::Remotes;
use crate::context_setters::blocking_setters;
use crate::error::Error;

/// An open cache. Opening one is cheap; many processes and threads may use the same folder at once.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let folder = tempfile::tempdir()?;
/// let cache = carton_core::cache::Cache::open(&folder.path().join("cache"))?;
/// assert!(cache.list()?.cartons.is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Cache {
    pub(super) layout: Layout,
    longest_wait: Duration,
    /// The context of the calls for people: listing, deleting and verifying.
    pub(super) context: Context,
}

impl Cache {
    blocking_setters!();

    pub(super) fn new(root: PathBuf) -> Cache {
        Cache { layout: Layout::new(root), longest_wait: lock::LONGEST_WAIT, context: Context::default() }
    }

    /// The folder of the cache.
    pub fn path(&self) -> &Path {
        self.layout.root()
    }

    /// The files of the cache, by their SHA-256.
    pub(crate) fn files(&self) -> Files<'_> {
        Files { cache: self }
    }

    /// What was verified of files, wherever they are.
    pub(crate) fn verifications(&self) -> Verifications<'_> {
        Verifications { cache: self }
    }

    /// The records about a carton.
    pub(crate) fn carton(&self, manifest: &ManifestHash) -> CartonRecords<'_> {
        CartonRecords::new(self, *manifest)
    }

    /// What is known of cartons on servers.
    pub(crate) fn remotes(&self) -> Remotes<'_> {
        Remotes { cache: self }
    }

    /// Which repositories of a registry have which blobs.
    pub(crate) fn blob_places<'a>(&'a self, registry: &'a str) -> BlobPlaces<'a> {
        BlobPlaces { cache: self, registry }
    }

    /// The buckets of later releases in the same folder, such as `files-v2`, sorted. This release leaves them alone: it neither reads nor
    /// deletes them, and keeps its own files beside them.
    ///
    /// # Errors
    /// The folder cannot be listed.
    pub fn later_buckets(&self) -> Result<Vec<String>, Error> {
        let io_error = |source| CacheError::io("list", self.layout.root())(source);
        let mut later = Vec::new();
        for entry in std::fs::read_dir(self.layout.root()).map_err(io_error)? {
            let name = entry.map_err(io_error)?.file_name();
            later.extend(name.to_str().filter(|name| is_later(name)).map(str::to_owned));
        }
        later.sort();
        Ok(later)
    }

    /// Sets how long to wait for another process that makes the same file or model. The default is 15 minutes.
    #[cfg(test)]
    pub(crate) fn with_longest_wait(self, longest_wait: Duration) -> Cache {
        Cache { longest_wait, ..self }
    }

    /// Creates a folder of our own for something that is being made, on the same file system as the buckets.
    pub(super) fn partial(&self) -> Result<Partial, CacheError> {
        Partial::create(&self.layout.bucket(PARTIAL))
    }

    /// Creates a folder that is deleted together with its contents when dropped, or swept later if this process dies.
    pub(crate) fn temporary_folder(&self) -> Result<TemporaryFolder, CacheError> {
        Ok(TemporaryFolder(self.partial()?))
    }

    /// Waits for the right to make a file or a model. The wait is not limited while downloads for it make progress.
    pub(super) fn lock(&self, made: Made<'_>, cancel_token: &CancelToken) -> Result<Lock, CacheError> {
        let progress = || match made {
            Made::File(digest) => last_change(&self.layout.download(digest)),
            // A model consists of files, one of which may be downloading.
            Made::Model(_) => {
                let downloads = std::fs::read_dir(self.layout.bucket(DOWNLOADS)).into_iter().flatten().flatten();
                downloads.filter_map(|entry| last_change(&entry.path())).max()
            }
        };
        lock::acquire(&self.layout.lock(made), Mode::Exclusive, self.longest_wait, &progress, cancel_token)
    }

    /// Takes a lease. The model folder of this manifest hash is not deleted while the lease lives.
    pub(super) fn lease(&self, manifest: &ManifestHash, cancel_token: &CancelToken) -> Result<Lease, CacheError> {
        let no_prune = self.hold_off_prune(cancel_token)?;
        self.lease_under(&no_prune, manifest, cancel_token)
    }

    /// Takes a lease under the prune lock, which proves that no process is choosing what to delete.
    pub(super) fn lease_under(
        &self,
        _no_prune: &Lock,
        manifest: &ManifestHash,
        cancel_token: &CancelToken,
    ) -> Result<Lease, CacheError> {
        let path = self.layout.lease(manifest);
        Ok(Lease { _lock: lock::acquire(&path, Mode::Shared, self.longest_wait, &|| None, cancel_token)? })
    }

    /// While this lock is held, nothing is chosen for deletion. Hold it only briefly, so that `prune` gets its turn.
    pub(crate) fn hold_off_prune(&self, cancel_token: &CancelToken) -> Result<Lock, CacheError> {
        lock::acquire(&self.layout.prune_lock(), Mode::Shared, self.longest_wait, &|| None, cancel_token)
    }

    /// Waits for the lock under which is chosen what to delete.
    pub(super) fn prune_lock(&self, mode: Mode) -> Result<Lock, CacheError> {
        lock::acquire(&self.layout.prune_lock(), mode, self.longest_wait, &|| None, self.context.cancel_token())
    }
}

/// Held while a model is loaded: nothing that the model uses in the cache is deleted meanwhile.
#[derive(Debug)]
pub(crate) struct Lease {
    _lock: Lock,
}

/// A folder in the partial area. Its contents are used while it lives and are never published.
#[derive(Debug)]
pub(crate) struct TemporaryFolder(Partial);

impl TemporaryFolder {
    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}
