//! Fetches a file whose SHA-256 is known, and compares it, for whatever is then done with the file.
//!
//! The file is made in the folder of its download in the cache, under the lock of its digest ([`FileLock`]): one process fetches
//! it, and what an interrupted attempt left is gone on with.

use std::path::{Path, PathBuf};

use crate::cache::{CacheError, FileLock};
use crate::digest::Sha256Digest;
use crate::download::Download;

/// A complete file on the disk, whose digest was not compared yet.
pub(crate) struct Unverified {
    pub(crate) digest: Sha256Digest,
    pub(crate) file: PathBuf,
}

/// The errors of attempts at a fetch.
pub(crate) trait FetchError: From<CacheError> {
    /// What was fetched for `name` has another digest.
    fn digest_mismatch(name: &str, expected: Sha256Digest, found: Sha256Digest) -> Self;

    /// Whether the bytes that were fetched are wrong, as opposed to missing.
    fn is_integrity(&self) -> bool;
}

/// Fetches the file that `lock` is for, and returns its path in the folder of its download, where it stays until the lock's holder
/// adopts or discards it. Errors call the file `name`.
///
/// An attempt makes the file in the folder that it is given. That folder may hold a download to go on with, which a loss of power
/// may have damaged: if the bytes are wrong and some of them are from an earlier attempt, everything is fetched again, once.
///
/// # Errors
/// Those of `attempt`; another digest; a cache that cannot be written to. Only what a later attempt can go on with is left then.
pub(crate) fn fetch_verified<E: FetchError>(
    lock: &FileLock<'_>,
    name: &str,
    attempt: impl Fn(&Path) -> Result<Unverified, E>,
) -> Result<PathBuf, E> {
    let expected = lock.digest();
    let try_once = || {
        let folder = lock.download_folder()?;
        let has_earlier_bytes = Download::has_begun(&folder);
        let result = attempt(&folder).and_then(|fetched| match fetched.digest == expected {
            true => Ok(fetched.file),
            false => Err(E::digest_mismatch(name, expected, fetched.digest)),
        });
        if let Err(error) = &result
            && (error.is_integrity() || !Download::has_begun(&folder))
        {
            // What is wrong, or cannot be gone on with, only takes room.
            lock.discard()?;
        }
        Ok((result, has_earlier_bytes))
    };
    match try_once()? {
        (Err(error), true) if error.is_integrity() => {
            tracing::warn!(name, "what an earlier download left is damaged; the file is fetched again");
            try_once()?.0
        }
        (result, _) => result,
    }
}
