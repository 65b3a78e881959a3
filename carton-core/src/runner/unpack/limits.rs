//! How much an archive may contain.

/// Limits for the contents of archives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct UnpackLimits {
    /// The number of files, folders and links, including folders that are only implied.
    pub(in super::super) n_entries: u64,
    /// The total size of all files in bytes.
    pub(in super::super) n_bytes: u64,
    /// An archive of `n` bytes may contain at most `free_bytes + ratio * n` bytes.
    pub(in super::super) free_bytes: u64,
    pub(in super::super) ratio: u64,
}

impl Default for UnpackLimits {
    fn default() -> Self {
        Self { n_entries: 1 << 20, n_bytes: 64 << 30, free_bytes: 64 << 20, ratio: 200 }
    }
}

impl UnpackLimits {
    /// Returns how many bytes an archive of this length may contain.
    pub(super) fn of_archive(&self, archive_length: u64) -> u64 {
        self.n_bytes.min(self.free_bytes.saturating_add(archive_length.saturating_mul(self.ratio)))
    }
}
