//! Puts fetched files into the cache, if they have the right digest.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use super::Fetch;
use crate::cache::FileLock;
use crate::contents::{ContentsError, ErrorKind};
use crate::digest::{Sha256Digest, hash_all};
use crate::download::Download;

/// The name that a file without its compression or encoding has in the folder of its download.
pub(super) const DECODED: &str = "decoded";

/// A complete file on the disk, whose digest was not compared yet.
pub(super) struct Unverified {
    pub(super) digest: Sha256Digest,
    pub(super) file: PathBuf,
}

impl Fetch<'_> {
    /// Puts what an attempt fetches into the cache, if it is the file with this digest.
    ///
    /// What an earlier process left of the download may have been damaged by a loss of power. If the bytes are wrong and some of
    /// them are from then, everything is fetched again, once.
    pub(super) fn settle(
        &self,
        lock: &FileLock<'_>,
        folder: &Path,
        path: &str,
        digest: Sha256Digest,
        attempt: impl Fn() -> Result<Unverified, ContentsError>,
    ) -> Result<(), ContentsError> {
        let try_once = || {
            let result = attempt().and_then(|fetched| match fetched.digest == digest {
                true => Ok(fetched.file),
                false => Err(ContentsError::Digest { path: path.to_owned(), expected: digest, found: fetched.digest }),
            });
            match result {
                Ok(file) => {
                    lock.adopt(&file)?;
                    Ok(())
                }
                Err(error) => {
                    // What is wrong, or cannot be gone on with, only takes room.
                    if error.kind() == ErrorKind::Integrity || !Download::has_begun(folder) {
                        lock.discard()?;
                    }
                    Err(error)
                }
            }
        };
        let has_earlier_bytes = Download::has_begun(folder);
        match try_once() {
            Err(error) if has_earlier_bytes && error.kind() == ErrorKind::Integrity => {
                tracing::warn!(path, "what an earlier download left is damaged; the file is fetched again");
                lock.download_folder()?;
                try_once()
            }
            result => result,
        }
    }

    /// Reads to the end and returns the digest.
    pub(super) fn hash(&self, reader: &mut dyn Read, path: &str) -> Result<Sha256Digest, ContentsError> {
        self.consume(reader, path, &mut |_| Ok(()))
    }

    /// Writes what is read to a new file and returns its digest.
    pub(super) fn write(&self, reader: &mut dyn Read, file: &Path, path: &str) -> Result<Sha256Digest, ContentsError> {
        let mut output = File::create(file).map_err(ContentsError::io("create", file))?;
        self.consume(reader, path, &mut |chunk| output.write_all(chunk).map_err(ContentsError::io("write", file)))
    }

    /// Hands all that is read to `sink` and returns its digest.
    pub(super) fn consume(
        &self,
        reader: &mut dyn Read,
        path: &str,
        sink: &mut dyn FnMut(&[u8]) -> Result<(), ContentsError>,
    ) -> Result<Sha256Digest, ContentsError> {
        hash_all(
            reader,
            |error| ContentsError::from_fetch(error, path),
            |chunk| {
                self.checkpoint()?;
                sink(chunk)
            },
        )
    }
}
