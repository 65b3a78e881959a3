//! The signatures of cartons that came from servers. They are verified each time that they are read.

use carton_format::manifest::ManifestHash;

use super::folder::create_folder;
use super::record::read_own_file;
use super::{Cache, CacheError};

/// Name of the signature in the folder of its carton.
const NAME: &str = "signature";

impl Cache {
    /// Returns the signature that is kept for a carton, if it has at most `limit` bytes.
    pub(crate) fn signature(&self, manifest: &ManifestHash, limit: usize) -> Option<Vec<u8>> {
        read_own_file(&self.carton_root(manifest).join(NAME), limit as u64)
    }

    /// Keeps the signature of a carton, in place of an earlier one.
    pub(crate) fn remember_bundle(&self, manifest: &ManifestHash, bytes: &[u8]) -> Result<(), CacheError> {
        let root = self.carton_root(manifest);
        create_folder(&root)?;
        self.partial()?.publish(bytes, &root.join(NAME))
    }
}
