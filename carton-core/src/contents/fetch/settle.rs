//! Puts fetched files into the cache, if they have the right digest.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use carton_format::digest::{Sha256Digest, hash_all};

use super::Fetch;
use crate::cache::FileLock;
use crate::contents::ContentsError;
use crate::fetch_verified::{Unverified, fetch_verified};

/// The name of the decoded file in the folder of its download.
pub(super) const DECODED: &str = "decoded";

/// Puts what an attempt fetches into the cache, if it is the file that the lock is for (see [`fetch_verified`]).
pub(super) fn settle(
    lock: &FileLock<'_>,
    path: &str,
    attempt: impl Fn(&Path) -> Result<Unverified, ContentsError>,
) -> Result<(), ContentsError> {
    lock.adopt(&fetch_verified(lock, path, attempt)?)?;
    Ok(())
}

impl Fetch<'_> {
    /// Reads to the end and returns the digest.
    pub(super) fn hash(&self, reader: &mut dyn Read, path: &str) -> Result<Sha256Digest, ContentsError> {
        self.consume(reader, path, &mut |_| Ok(()))
    }

    /// Writes all bytes of the reader to a new file and returns their digest.
    pub(super) fn write(&self, reader: &mut dyn Read, file: &Path, path: &str) -> Result<Sha256Digest, ContentsError> {
        let mut output = File::create(file).map_err(ContentsError::io("create", file))?;
        self.consume(reader, path, &mut |chunk| output.write_all(chunk).map_err(ContentsError::io("write", file)))
    }

    /// Passes all bytes of the reader to `sink` and returns their digest.
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
                self.context.check()?;
                sink(chunk)
            },
        )
    }
}
