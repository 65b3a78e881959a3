//! Model folders of a cache for tests: which there are, and deleting one.

use std::collections::BTreeSet;
use std::io;

use carton_format::manifest::ManifestHash;

use crate::cache::layout::MODELS;
use crate::cache::lock::{self, Mode};
use crate::cache::{Cache, CacheError};

/// The result of a request to delete something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Removed {
    /// It was deleted.
    Yes,
    /// It is in use; nothing was deleted.
    InUse,
    /// It did not exist.
    NotThere,
}

impl Cache {
    /// The manifest hashes of the model folders in the cache, sorted.
    ///
    /// # Errors
    /// The bucket cannot be listed.
    pub(crate) fn models(&self) -> Result<Vec<ManifestHash>, CacheError> {
        let bucket = self.layout.bucket(MODELS);
        let mut found = BTreeSet::new();
        for entry in std::fs::read_dir(&bucket).map_err(CacheError::io("list", &bucket))? {
            let entry = entry.map_err(CacheError::io("list", &bucket))?;
            found.extend(entry.file_name().to_str().and_then(|name| name.parse::<ManifestHash>().ok()));
        }
        Ok(found.into_iter().collect())
    }

    /// Deletes a model folder, unless it is in use. Files that it shares with others stay.
    ///
    /// # Errors
    /// It cannot be deleted.
    pub(crate) fn remove_model(&self, manifest: &ManifestHash) -> Result<Removed, CacheError> {
        let root = self.layout.model(manifest);
        let Some(_lease) = lock::try_acquire(&self.layout.lease(manifest), Mode::Exclusive)? else {
            return Ok(Removed::InUse);
        };
        let partial = self.partial()?;
        // The move takes it out of sight at once; deleting a large folder takes a while.
        match std::fs::rename(&root, partial.fresh_path()) {
            Ok(()) => Ok(Removed::Yes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Removed::NotThere),
            Err(error) => Err(CacheError::io("delete", &root)(error)),
        }
    }
}
