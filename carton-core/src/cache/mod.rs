//! The store under `cache_dir`: files and model folders by their hash, and what is known about files and cartons elsewhere.
//!
//! Everything in a bucket under its final name is complete. It is made under `partial-v1` and then moved into place as a whole, so a
//! process can be killed, or the disk can fill up, at any moment. The number in a bucket's name grows when the format of the bucket
//! changes: older and newer versions of the library then leave each other's files alone.
//!
//! ```text
//! cache_dir/                           0700 when we create it; no other user may be able to write to it
//! ├── CACHEDIR.TAG                     tells backup programs to leave the folder out
//! ├── files-v1/
//! │   └── 1f/1fbc02…                   a file by the SHA-256 of its bytes, 0444
//! ├── models-v1/
//! │   └── 9e81d0…/                     by manifest hash
//! │       ├── index                    the identity of each file when its bytes were known to be right
//! │       └── model/…                  the folder that a runner is given; files 0444, large ones linked from files-v1
//! ├── downloads-v1/
//! │   └── 1f0c77…/                     by the digest of the file that it is to become; owned by the holder of its lock
//! ├── cartons-v1/
//! │   └── 9e81d0…/                     a carton that uses the cache, by manifest hash; the folder's time is the last use
//! │       ├── MANIFEST                 the files it uses
//! │       ├── about                    the name of its model, and the file or folder from which it was loaded
//! │       ├── checksums                CRC-32 and size of files that were verified, by their SHA-256
//! │       ├── uses/5cd101…             a further file it uses, such as the carton itself
//! │       └── remote-77a3e2…           what is known of it at a URL: version and the parts that describe it
//! ├── urls-v1/
//! │   └── 77a3e2….json                 by the SHA-256 of a URL: the carton it last led to
//! ├── verified-v1/
//! │   ├── 803-1a2b.json                a file by device and inode: its identity, and what was verified of it
//! │   └── 803-1a2c.folder              an unpacked carton: the identity of each of its files
//! ├── locks-v1/
//! │   ├── model-9e81d0….lock           held while that model folder is made or repaired
//! │   ├── file-1fbc02….lock            held while that file is made, downloaded or linked
//! │   └── prune.lock                   held shared to take a lease, exclusively to decide what to delete
//! ├── leases-v1/
//! │   └── 9e81d0….lock                 held shared while a model is loaded, exclusively to delete it
//! └── partial-v1/
//!     ├── 4711-0/                      what a process is making
//!     └── 4711-0.lock                  held by that process; once it is free, the folder is swept
//! ```
//!
//! Unused data is deleted on request only. First the registration of a carton and its files are moved to `partial-v1`, while no lease can
//! be taken; then they are deleted. A file stays as long as a registered carton uses it.
//!
//! All locks are `flock`s, which the kernel releases when their holder dies. Nothing is synced to the disk: a loss of power can truncate
//! a file. Its size then shows the damage, and the file is made again.
//!
//! The cache opens no carton and fetches nothing: the caller that asks for a model folder supplies the bytes of its files (`ModelFiles`).
//! Of a carton the cache knows only the MANIFEST and what its callers recorded.

mod about;
mod checksums;
mod downloads;
mod error;
mod files;
mod index;
mod listing;
mod lock;
mod models;
mod moment;
mod partial;
mod prune;
mod record;
mod registry;
mod remote;
mod remove;
mod survey;
mod verify;

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use checksums::Checksum;
pub use error::CacheError;
pub use files::Sink;
pub use listing::{CacheListing, CachedCarton, CachedDownload};
pub(crate) use models::{ModelFile, ModelFiles, ModelFolder};
pub use prune::{PruneOptions, Pruned};
pub use record::{Scope, Verified};
#[cfg(test)]
pub(crate) use tests::model_folders::Removed;
pub use verify::{CacheReport, DamagedFile};

pub(crate) use about::About;
pub(crate) use checksums::{Checksums, checksum_of_file};
pub(crate) use downloads::FileLock;
pub(crate) use files::{Checked, SHARED_FROM, WORTH_WAITING, check_bytes, open_following, open_regular};
pub(crate) use index::{FolderIndex, Line};
pub(crate) use moment::Moment;
pub(crate) use remote::{RemoteCarton, UrlKey};

use lock::{Lock, Mode};
use partial::Partial;

use crate::digest::Sha256Digest;
use crate::manifest::ManifestHash;

const FILES: &str = "files-v1";
const MODELS: &str = "models-v1";
const DOWNLOADS: &str = "downloads-v1";
const CARTONS: &str = "cartons-v1";
const URLS: &str = "urls-v1";
const VERIFIED: &str = "verified-v1";
const LOCKS: &str = "locks-v1";
const LEASES: &str = "leases-v1";
const PARTIAL: &str = "partial-v1";
const BUCKETS: [&str; 9] = [FILES, MODELS, DOWNLOADS, CARTONS, URLS, VERIFIED, LOCKS, LEASES, PARTIAL];

/// The signature is the one that the Cache Directory Tagging Specification prescribes.
const TAG: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55\n# This folder is a cache of Carton's.\n";

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
    root: PathBuf,
    longest_wait: Duration,
}

impl Cache {
    /// Opens the cache in this folder, creating the folder if necessary, and deletes what dead processes left half-made.
    ///
    /// # Errors
    /// The folder cannot be created, or other users can write to it, in which case its contents could not be trusted.
    pub fn open(cache_dir: &Path) -> Result<Cache, CacheError> {
        // The path must be absolute: runners are given paths in the cache, and have a working folder of their own.
        let cache_dir = &std::path::absolute(cache_dir).map_err(CacheError::io("resolve", cache_dir))?;
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(cache_dir)
            .map_err(CacheError::io("create folder", cache_dir))?;
        // Every user may write to a folder like /tmp, but its sticky bit keeps other users from moving our buckets.
        check_folder(cache_dir, |mode| mode & 0o002 == 0 || mode & 0o1000 != 0, "not writable by others")?;
        let cache = Cache { root: cache_dir.to_path_buf(), longest_wait: lock::LONGEST_WAIT };
        for bucket in BUCKETS {
            let path = cache.bucket(bucket);
            create_folder(&path)?;
            check_folder(&path, |mode| mode & 0o022 == 0, "writable by its owner only")?;
        }
        partial::sweep(&cache.bucket(PARTIAL))?;
        downloads::sweep(&cache);
        let tag = cache_dir.join("CACHEDIR.TAG");
        if !tag.exists() {
            cache.partial()?.publish(TAG, &tag)?;
        }
        Ok(cache)
    }

    /// The folder of the cache.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// Sets how long to wait for another process that makes the same file or model. The default is 15 minutes.
    #[cfg(test)]
    pub(crate) fn with_longest_wait(self, longest_wait: Duration) -> Cache {
        Cache { longest_wait, ..self }
    }

    fn bucket(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Creates a folder of our own for something that is being made, on the same file system as the buckets.
    fn partial(&self) -> Result<Partial, CacheError> {
        Partial::create(&self.bucket(PARTIAL))
    }

    /// Creates a folder that is deleted together with its contents when dropped, or swept later if this process dies.
    pub(crate) fn temporary_folder(&self) -> Result<TemporaryFolder, CacheError> {
        Ok(TemporaryFolder(self.partial()?))
    }

    /// Waits for the right to make a file or a model. The wait is not limited while downloads for it make progress.
    fn lock<E: From<CacheError>>(
        &self,
        made: Made<'_>,
        check_cancelled: &dyn Fn() -> Result<(), E>,
    ) -> Result<Lock, E> {
        let progress = || match made {
            Made::File(digest) => downloads::last_change(&self.download_path(digest)),
            // A model consists of files, one of which may be downloading.
            Made::Model(_) => {
                let downloads = std::fs::read_dir(self.bucket(DOWNLOADS)).into_iter().flatten().flatten();
                downloads.filter_map(|entry| downloads::last_change(&entry.path())).max()
            }
        };
        lock::acquire(&self.lock_path(made), Mode::Exclusive, self.longest_wait, &progress, check_cancelled)
    }

    fn lock_path(&self, made: Made<'_>) -> PathBuf {
        self.bucket(LOCKS).join(match made {
            Made::File(digest) => format!("file-{digest}.lock"),
            Made::Model(manifest) => format!("model-{manifest}.lock"),
        })
    }

    /// Takes a lease. The model folder of this manifest hash is not deleted while the lease lives.
    fn lease<E: From<CacheError>>(
        &self,
        manifest: &ManifestHash,
        check_cancelled: &dyn Fn() -> Result<(), E>,
    ) -> Result<Lease, E> {
        let no_prune = self.hold_off_prune(check_cancelled)?;
        self.lease_under(&no_prune, manifest, check_cancelled)
    }

    /// Takes a lease under the prune lock, which proves that no process is choosing what to delete.
    fn lease_under<E: From<CacheError>>(
        &self,
        _no_prune: &Lock,
        manifest: &ManifestHash,
        check_cancelled: &dyn Fn() -> Result<(), E>,
    ) -> Result<Lease, E> {
        let path = self.lease_path(manifest);
        Ok(Lease { _lock: lock::acquire(&path, Mode::Shared, self.longest_wait, &|| None, check_cancelled)? })
    }

    fn lease_path(&self, manifest: &ManifestHash) -> PathBuf {
        self.bucket(LEASES).join(format!("{manifest}.lock"))
    }
}

/// What a lock protects: only one process at a time makes it.
#[derive(Clone, Copy, Debug)]
enum Made<'a> {
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

/// Sets the modification time of a folder to now. The time only orders deletions, so a failure is not an error.
fn touch(path: &Path) {
    use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, utimensat};
    let times = Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
    };
    if let Err(error) = utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW) {
        tracing::debug!(path = %path.display(), %error, "cannot record a use");
    }
}

/// Creates a folder that only this user can access, unless it exists.
fn create_folder(path: &Path) -> Result<(), CacheError> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other.map_err(CacheError::io("create folder", path)),
    }
}

/// Refuses a folder that other users can write to: they could put in unverified files, and records that claim verification.
fn check_folder(path: &Path, is_safe: impl Fn(u32) -> bool, expected: &str) -> Result<(), CacheError> {
    let metadata = std::fs::metadata(path).map_err(CacheError::io("inspect", path))?;
    let user = rustix::process::geteuid().as_raw();
    // A folder like /tmp belongs to root, who can do anything in any case.
    let is_owner_safe = metadata.uid() == user || metadata.uid() == 0;
    if !metadata.is_dir() || !is_owner_safe || !is_safe(metadata.mode()) {
        return Err(CacheError::Unsafe {
            path: path.to_path_buf(),
            expected: format!("a folder of user {user}, {expected}"),
            found: format!("user {}, mode {:o}", metadata.uid(), metadata.mode() & 0o7777),
        });
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests;
