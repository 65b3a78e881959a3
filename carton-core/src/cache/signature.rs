//! The signatures of cartons that came from servers. They are verified each time that they are read.

use super::CacheError;
use super::carton_records::CartonRecords;

/// Name of the signature in the folder of its carton.
const NAME: &str = "signature";

impl CartonRecords<'_> {
    /// Returns the signature that is kept for a carton, if it has at most `limit` bytes.
    pub(crate) fn signature(&self, limit: usize) -> Option<Vec<u8>> {
        self.read(NAME, limit as u64)
    }

    /// Keeps the signature of a carton, in place of an earlier one.
    pub(crate) fn remember_signature(&self, bytes: &[u8]) -> Result<(), CacheError> {
        self.create_folder()?;
        self.write(NAME, bytes)
    }
}
