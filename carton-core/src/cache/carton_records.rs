//! The records about one carton, in its folder of `cartons-v1`.

use std::path::PathBuf;

use carton_format::manifest::ManifestHash;

use super::folder::create_folder;
use super::record::read_own_file;
use super::{Cache, CacheError};

/// Reads and writes the records about a carton. Each kind of record has a module: `about`, `checksums`, `bundle`.
pub(crate) struct CartonRecords<'a> {
    cache: &'a Cache,
    manifest: ManifestHash,
}

impl<'a> CartonRecords<'a> {
    pub(super) fn new(cache: &'a Cache, manifest: ManifestHash) -> Self {
        Self { cache, manifest }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.cache.layout.carton(&self.manifest).join(name)
    }

    /// The record with this name, if it has at most `cap` bytes.
    pub(super) fn read(&self, name: &str, cap: u64) -> Option<Vec<u8>> {
        read_own_file(&self.path(name), cap)
    }

    /// Writes a record, in place of an earlier one.
    pub(super) fn write(&self, name: &str, bytes: &[u8]) -> Result<(), CacheError> {
        self.cache.partial()?.publish(bytes, &self.path(name))
    }

    /// Creates the folder, for a carton of which there may be no record.
    pub(super) fn create_folder(&self) -> Result<(), CacheError> {
        create_folder(&self.cache.layout.carton(&self.manifest))
    }
}
