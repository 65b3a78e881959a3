//! The signing bundles of cartons that came from servers. They are verified each time that they are read.

use super::CacheError;
use super::carton_records::CartonRecords;

/// Name of the bundle in the folder of its carton.
const NAME: &str = "signature";

impl CartonRecords<'_> {
    /// Returns the bundle that is kept for a carton, if it has at most `limit` bytes.
    pub(crate) fn bundle(&self, limit: usize) -> Option<Vec<u8>> {
        self.read(NAME, limit as u64)
    }

    /// Keeps the bundle of a carton, in place of an earlier one.
    pub(crate) fn remember_bundle(&self, bytes: &[u8]) -> Result<(), CacheError> {
        self.create_folder()?;
        self.write(NAME, bytes)
    }
}
