//! Opens the cache: creates its folders and deletes leftovers.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use super::folder::create_folder;
use super::layout::{BUCKETS, PARTIAL};
use super::{Cache, CacheError, downloads, partial};
use crate::error::Error;
use crate::private_folder;

/// The signature is the one that the Cache Directory Tagging Specification prescribes.
const TAG: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55\n# This folder is a cache of Carton's.\n";

impl Cache {
    /// Opens the cache in this folder, creating the folder if necessary, and deletes what dead processes left half-made.
    ///
    /// # Errors
    /// The folder cannot be created, or other users can write to it or to a folder above it, in which case its contents could not be trusted.
    pub fn open(cache_dir: &Path) -> Result<Cache, Error> {
        Ok(Self::in_folder(cache_dir)?)
    }

    /// As [`open`](Self::open), for other layers.
    pub(crate) fn in_folder(cache_dir: &Path) -> Result<Cache, CacheError> {
        // The path must be absolute: runners are given paths in the cache, and have a working folder of their own.
        let cache_dir = &std::path::absolute(cache_dir).map_err(CacheError::io("resolve", cache_dir))?;
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(cache_dir)
            .map_err(CacheError::io("create folder", cache_dir))?;
        let cache = Cache::new(cache_dir.to_path_buf());
        for bucket in BUCKETS {
            let path = cache.layout.bucket(bucket);
            create_folder(&path)?;
            // Unverified files could be put in, and records that claim verification.
            private_folder::check(&path)?;
        }
        partial::sweep(&cache.layout.bucket(PARTIAL))?;
        downloads::sweep(&cache);
        let tag = cache_dir.join("CACHEDIR.TAG");
        if !tag.exists() {
            cache.partial()?.publish(TAG, &tag)?;
        }
        Ok(cache)
    }
}
