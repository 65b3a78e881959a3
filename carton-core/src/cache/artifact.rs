//! The manifests of cartons that came from registries: which blob of the registry has which file.

use super::folder::create_folder;
use super::record::read_own_file;
use super::{Cache, CacheError};
use crate::manifest::ManifestHash;

/// Name of the manifest in the folder of its carton.
const NAME: &str = "artifact";

/// Registries accept no larger manifest, in bytes.
const MAX_LENGTH: u64 = 4 << 20;

impl Cache {
    /// Returns the manifest that is kept for a carton.
    pub(crate) fn artifact(&self, carton: &ManifestHash) -> Option<Vec<u8>> {
        read_own_file(&self.carton_root(carton).join(NAME), MAX_LENGTH)
    }

    /// Keeps the manifest of a carton, in place of an earlier one.
    pub(crate) fn remember_artifact(&self, carton: &ManifestHash, bytes: &[u8]) -> Result<(), CacheError> {
        let root = self.carton_root(carton);
        create_folder(&root)?;
        self.partial()?.publish(bytes, &root.join(NAME))
    }
}
