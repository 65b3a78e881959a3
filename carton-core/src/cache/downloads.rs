//! One process makes a file of the cache and the others wait, also while it is downloaded; what was fetched survives a kill.
//!
//! A folder of `downloads-v1` belongs to whoever holds the lock of the file that it is for. What is in it is the downloader's
//! business and says nothing about the bytes: only a file that was hashed as a whole leaves it.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::files::{FILE_MODE, digest_of_name, open_regular};
use super::lock::{self, Lock, Mode};
use super::partial::{Partial, delete_by, remove_tree};
use super::{Cache, CacheError, DOWNLOADS, Made, create_folder, touch};
use crate::digest::Sha256Digest;

/// What nobody has gone on with for so long is deleted when the cache is opened.
const LONGEST_INTERRUPTION: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The exclusive right to make the file with a certain digest. Dropping it gives the right to the next who waits.
#[derive(Debug)]
pub(crate) struct FileLock<'a> {
    cache: &'a Cache,
    digest: Sha256Digest,
    _lock: Lock,
}

impl Cache {
    /// Waits for the right to make a file. Whoever has it looks first whether the file is there by now ([`FileLock::file`]).
    /// A wait has no end while the holder's download goes on.
    pub(crate) fn lock_file<E: From<CacheError>>(
        &self,
        digest: &Sha256Digest,
        checkpoint: &dyn Fn() -> Result<(), E>,
    ) -> Result<FileLock<'_>, E> {
        Ok(FileLock { cache: self, digest: *digest, _lock: self.lock(Made::File, digest, checkpoint)? })
    }

    pub(super) fn download_path(&self, digest: &Sha256Digest) -> PathBuf {
        self.bucket(DOWNLOADS).join(digest.to_string())
    }
}

impl FileLock<'_> {
    /// The digest of the file.
    pub(crate) fn digest(&self) -> Sha256Digest {
        self.digest
    }

    /// The file if it is there, with its bytes checked as by [`Cache::file`].
    pub(crate) fn file<E: From<CacheError>>(&self, hashed: &dyn Fn(u64) -> Result<(), E>) -> Result<Option<File>, E> {
        self.cache.checked_file(&self.digest, hashed)
    }

    /// The folder for its download, which may hold what an earlier attempt fetched.
    pub(crate) fn download_folder(&self) -> Result<PathBuf, CacheError> {
        let path = self.cache.download_path(&self.digest);
        if std::fs::symlink_metadata(&path).is_ok_and(|metadata| !metadata.is_dir()) {
            remove_tree(&path).map_err(CacheError::io("delete", &path))?;
        }
        create_folder(&path)?;
        // It counts as used from now on, even if nothing can be fetched.
        touch(&path);
        Ok(path)
    }

    /// Makes the file at `path`, on the cache's file system, the cache's file for this digest, and deletes the rest of the
    /// download. The caller has hashed its bytes, and nobody can write to it any more.
    pub(crate) fn adopt(&self, path: &Path) -> Result<File, CacheError> {
        let no_file = || CacheError::io("open", path)(io::Error::other("it is not a regular file"));
        let (file, _) = open_regular(path)?.ok_or_else(no_file)?;
        file.set_permissions(Permissions::from_mode(FILE_MODE)).map_err(CacheError::io("protect", path))?;
        self.cache.place(&self.cache.partial()?, &self.digest, path, &file)?;
        if let Err(error) = self.discard() {
            tracing::debug!(%error, "the rest of a download stays for a later sweep");
        }
        Ok(file)
    }

    /// Deletes what was downloaded.
    pub(crate) fn discard(&self) -> Result<(), CacheError> {
        let path = self.cache.download_path(&self.digest);
        remove_tree(&path).map_err(CacheError::io("delete", &path))
    }
}

/// When something in a folder, or the folder itself, was last changed. Nothing below its folders counts.
pub(super) fn last_change(folder: &Path) -> Option<SystemTime> {
    let modified = |path: &Path| std::fs::symlink_metadata(path).and_then(|metadata| metadata.modified()).ok();
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| modified(&entry.path())).chain(modified(folder)).max()
}

/// Deletes downloads that nobody has gone on with for long. Costs a stat for each; never keeps a cache from being used.
pub(super) fn sweep(cache: &Cache) {
    let Some(limit) = SystemTime::now().checked_sub(LONGEST_INTERRUPTION) else { return };
    for entry in std::fs::read_dir(cache.bucket(DOWNLOADS)).into_iter().flatten().flatten() {
        let is_old = |path: &Path| last_change(path).is_some_and(|time| time < limit);
        // The folder's own time is the cheap first look: it is never later than the newest in it.
        if entry.metadata().and_then(|metadata| metadata.modified()).is_ok_and(|time| time < limit)
            && is_old(&entry.path())
            && let Err(error) = cache.delete_download(&entry.path(), None)
        {
            tracing::warn!(%error, "cannot delete an old download");
        }
    }
}

impl Cache {
    /// Deletes a folder of the downloads, by way of the trash if there is one, unless somebody works there.
    pub(super) fn delete_download(&self, path: &Path, trash: Option<&Partial>) -> Result<(), CacheError> {
        // One that is not named for a file is not ours, and has no lock.
        let _lock = match path.file_name().and_then(|name| digest_of_name(name, "")) {
            Some(digest) => match lock::try_acquire(&self.lock_path(Made::File, &digest), Mode::Exclusive)? {
                Some(lock) => Some(lock),
                None => return Ok(()),
            },
            None => None,
        };
        delete_by(trash, path)
    }
}
