//! An open cache: its buckets, and the locks and leases in them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use carton_format::context::{CancelToken, Context};
use carton_format::digest::Sha256Digest;
use carton_format::manifest::ManifestHash;

use super::CacheError;
use super::folder::last_change;
use super::lock::{self, Lock, Mode};
use super::partial::Partial;
use crate::context_setters::blocking_setters;
use crate::error::Error;

pub(super) const FILES: &str = "files-v1";
pub(super) const MODELS: &str = "models-v1";
pub(super) const DOWNLOADS: &str = "downloads-v1";
pub(super) const CARTONS: &str = "cartons-v1";
pub(super) const URLS: &str = "urls-v1";
pub(super) const REGISTRIES: &str = "registries-v1";
pub(super) const VERIFIED: &str = "verified-v1";
pub(super) const LOCKS: &str = "locks-v1";
pub(super) const LEASES: &str = "leases-v1";
pub(super) const PARTIAL: &str = "partial-v1";
pub(super) const BUCKETS: [&str; 10] =
    [FILES, MODELS, DOWNLOADS, CARTONS, URLS, REGISTRIES, VERIFIED, LOCKS, LEASES, PARTIAL];

const PRUNE_LOCK: &str = "prune.lock";

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
    pub(super) root: PathBuf,
    pub(super) longest_wait: Duration,
    /// The context of the calls for people: listing, deleting and verifying.
    pub(super) context: Context,
}

impl Cache {
    blocking_setters!();

    /// The folder of the cache.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// The buckets of later releases in the same folder, such as `files-v2`, sorted. This release leaves them alone: it neither reads nor
    /// deletes them, and keeps its own files beside them.
    ///
    /// # Errors
    /// The folder cannot be listed.
    pub fn later_buckets(&self) -> Result<Vec<String>, Error> {
        let io_error = |source| CacheError::io("list", &self.root)(source);
        let mut later = Vec::new();
        for entry in std::fs::read_dir(&self.root).map_err(io_error)? {
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

    pub(super) fn bucket(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Creates a folder of our own for something that is being made, on the same file system as the buckets.
    pub(super) fn partial(&self) -> Result<Partial, CacheError> {
        Partial::create(&self.bucket(PARTIAL))
    }

    /// Creates a folder that is deleted together with its contents when dropped, or swept later if this process dies.
    pub(crate) fn temporary_folder(&self) -> Result<TemporaryFolder, CacheError> {
        Ok(TemporaryFolder(self.partial()?))
    }

    /// Waits for the right to make a file or a model. The wait is not limited while downloads for it make progress.
    pub(super) fn lock(&self, made: Made<'_>, cancel_token: &CancelToken) -> Result<Lock, CacheError> {
        let progress = || match made {
            Made::File(digest) => last_change(&self.download_path(digest)),
            // A model consists of files, one of which may be downloading.
            Made::Model(_) => {
                let downloads = std::fs::read_dir(self.bucket(DOWNLOADS)).into_iter().flatten().flatten();
                downloads.filter_map(|entry| last_change(&entry.path())).max()
            }
        };
        lock::acquire(&self.lock_path(made), Mode::Exclusive, self.longest_wait, &progress, cancel_token)
    }

    pub(super) fn download_path(&self, digest: &Sha256Digest) -> PathBuf {
        self.bucket(DOWNLOADS).join(digest.to_string())
    }

    pub(super) fn lock_path(&self, made: Made<'_>) -> PathBuf {
        self.bucket(LOCKS).join(match made {
            Made::File(digest) => format!("file-{digest}.lock"),
            Made::Model(manifest) => format!("model-{manifest}.lock"),
        })
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
        let path = self.lease_path(manifest);
        Ok(Lease { _lock: lock::acquire(&path, Mode::Shared, self.longest_wait, &|| None, cancel_token)? })
    }

    /// While this lock is held, nothing is chosen for deletion. Hold it only briefly, so that `prune` gets its turn.
    pub(crate) fn hold_off_prune(&self, cancel_token: &CancelToken) -> Result<Lock, CacheError> {
        lock::acquire(&self.prune_lock_path(), Mode::Shared, self.longest_wait, &|| None, cancel_token)
    }

    pub(super) fn prune_lock_path(&self) -> PathBuf {
        self.bucket(LOCKS).join(PRUNE_LOCK)
    }

    pub(super) fn lease_path(&self, manifest: &ManifestHash) -> PathBuf {
        self.bucket(LEASES).join(format!("{manifest}.lock"))
    }
}

/// Whether a name is that of a bucket of a later release: any name with a higher number than ours.
fn is_later(name: &str) -> bool {
    let number = |name: &str| name.rsplit_once("-v").and_then(|(_, number)| number.parse::<u32>().ok());
    let ours = BUCKETS.iter().filter_map(|bucket| number(bucket)).max();
    number(name) > ours
}

/// What a lock protects: only one process at a time makes it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Made<'a> {
    /// A file, by its SHA-256.
    File(&'a Sha256Digest),
    /// A model folder, by its manifest hash.
    Model(&'a ManifestHash),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_of_later_releases_are_told_by_their_number() {
        for (name, expected) in [
            ("files-v2", true),
            ("weights-v12", true),
            ("files-v1", false),
            ("unknown-v1", false),
            ("files-v", false),
            ("files", false),
            ("CACHEDIR.TAG", false),
            ("files-v99999999999", false),
        ] {
            assert_eq!(is_later(name), expected, "{name}");
        }
        assert!(BUCKETS.iter().all(|bucket| !is_later(bucket)));
    }
}
