//! Fetches a file whose SHA-256 is known, and compares the digest. What happens to the file afterwards is up to the caller.
//!
//! The file is written to its download folder in the cache, under the lock of its digest ([`FileLock`]). So only one process
//! fetches it, and an interrupted attempt is resumed by the next.

use std::path::{Path, PathBuf};

use carton_format::digest::Sha256Digest;
use carton_network::download::Download;

use crate::cache::{CacheError, FileLock};

/// A complete file on disk whose digest has not been compared yet.
pub(crate) struct Unverified {
    pub(crate) digest: Sha256Digest,
    pub(crate) file: PathBuf,
}

/// The error type of an attempt at a fetch.
pub(crate) trait FetchError: From<CacheError> {
    /// Makes the error for a file called `name` whose digest is not the expected one.
    fn digest_mismatch(name: &str, expected: Sha256Digest, found: Sha256Digest) -> Self;

    /// Whether the fetched bytes are wrong, as opposed to missing.
    fn is_integrity(&self) -> bool;
}

/// Fetches the file that `lock` is for. Returns its path in the download folder, where it stays until the holder of the lock
/// adopts or discards it. Errors call the file `name`.
///
/// `attempt` writes the file to the folder that it is given. That folder may hold an earlier download to resume, which a power
/// failure may have damaged. If the bytes are wrong and some of them are from an earlier attempt, the whole file is fetched once
/// more.
///
/// # Errors
/// The errors of `attempt`; a digest mismatch; a cache that cannot be written. After an error, only what a later attempt can
/// resume is left.
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
            // Wrong bytes, and bytes that cannot be resumed, only take up space.
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
