//! The right to make a file of the cache, also by downloading it: one process makes the file while the others wait. What was downloaded
//! survives a kill.
//!
//! A folder of `downloads-v1` belongs to the process that holds the lock of its file. The downloader decides what is in the folder, and
//! nothing in it is trusted: a file leaves the folder only after all of it was hashed.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use carton_format::context::CancelToken;
use carton_format::digest::Sha256Digest;

use super::files::{FILE_MODE, Files, digest_of_name, open_regular};
use super::folder::{create_folder, last_change, touch};
use super::layout::{DOWNLOADS, Made};
use super::lock::{self, Lock, Mode};
use super::partial::{Partial, delete_by, remove_tree};
use super::{Cache, CacheError};

/// A download that made no progress for this long is deleted when the cache is opened.
const LONGEST_INTERRUPTION: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The exclusive right to make the file with a certain digest. Dropping it passes the right to the next waiting process.
#[derive(Debug)]
pub(crate) struct FileLock<'a> {
    cache: &'a Cache,
    digest: Sha256Digest,
    _lock: Lock,
}

impl<'a> Files<'a> {
    /// Waits for the right to make a file. The new holder must first check whether the file exists by now ([`FileLock::file`]). The wait
    /// is not limited while the current holder's download makes progress.
    pub(crate) fn lock(self, digest: &Sha256Digest, cancel_token: &CancelToken) -> Result<FileLock<'a>, CacheError> {
        Ok(FileLock { cache: self.cache, digest: *digest, _lock: self.cache.lock(Made::File(digest), cancel_token)? })
    }
}

impl FileLock<'_> {
    /// The digest of the file.
    pub(crate) fn digest(&self) -> Sha256Digest {
        self.digest
    }

    /// The file, if the cache has it, with its bytes checked as by [`Files::get`].
    pub(crate) fn file(&self, cancel_token: &CancelToken) -> Result<Option<File>, CacheError> {
        self.cache.files().checked(&self.digest, cancel_token)
    }

    /// Returns the folder for the download, creating it if necessary. It may hold what an earlier attempt fetched.
    pub(crate) fn download_folder(&self) -> Result<PathBuf, CacheError> {
        let path = self.cache.layout.download(&self.digest);
        if std::fs::symlink_metadata(&path).is_ok_and(|metadata| !metadata.is_dir()) {
            remove_tree(&path).map_err(CacheError::io("delete", &path))?;
        }
        create_folder(&path)?;
        // The folder counts as used from now on, even if nothing can be fetched.
        touch(&path);
        Ok(path)
    }

    /// Makes the file at `path`, which is on the cache's file system, the cache's file for this digest, and deletes the rest of the
    /// download. The caller has hashed its bytes, and no other process can write to the file any more.
    pub(crate) fn adopt(&self, path: &Path) -> Result<File, CacheError> {
        let no_file = || CacheError::io("open", path)(io::Error::other("it is not a regular file"));
        let (file, _) = open_regular(path)?.ok_or_else(no_file)?;
        file.set_permissions(Permissions::from_mode(FILE_MODE)).map_err(CacheError::io("protect", path))?;
        self.cache.files().place(&self.cache.partial()?, &self.digest, path, &file)?;
        if let Err(error) = self.discard() {
            tracing::debug!(%error, "the rest of a download stays for a later sweep");
        }
        Ok(file)
    }

    /// Deletes the folder of the download.
    pub(crate) fn discard(&self) -> Result<(), CacheError> {
        let path = self.cache.layout.download(&self.digest);
        remove_tree(&path).map_err(CacheError::io("delete", &path))
    }
}

/// Deletes downloads that made no progress for a long time. Costs a stat for each download; failures are logged only, so that the cache
/// stays usable.
pub(super) fn sweep(cache: &Cache) {
    let Some(limit) = SystemTime::now().checked_sub(LONGEST_INTERRUPTION) else { return };
    for entry in std::fs::read_dir(cache.layout.bucket(DOWNLOADS)).into_iter().flatten().flatten() {
        let is_old = |path: &Path| last_change(path).is_some_and(|time| time < limit);
        // The folder's own time is the cheap first check: it is never later than the newest time in the folder.
        if entry.metadata().and_then(|metadata| metadata.modified()).is_ok_and(|time| time < limit)
            && is_old(&entry.path())
            && let Err(error) = cache.delete_download(&entry.path(), None)
        {
            tracing::warn!(%error, "cannot delete an old download");
        }
    }
}

impl Cache {
    /// Deletes a download's folder, through the trash if there is one, unless a process is working in it.
    pub(super) fn delete_download(&self, path: &Path, trash: Option<&Partial>) -> Result<(), CacheError> {
        // A folder whose name is not a digest is not ours, and has no lock.
        let _lock = match path.file_name().and_then(|name| digest_of_name(name, "")) {
            Some(digest) => match lock::try_acquire(&self.layout.lock(Made::File(&digest)), Mode::Exclusive)? {
                Some(lock) => Some(lock),
                None => return Ok(()),
            },
            None => None,
        };
        delete_by(trash, path)
    }
}
