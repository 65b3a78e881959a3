//! The progress of the writer.

use std::ops::ControlFlow;

/// The progress of the writer. Bytes are those of the files, before compression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteProgress {
    /// The number of bytes read and hashed.
    pub bytes_done: u64,
    /// The total number of bytes.
    pub bytes_total: u64,
    /// The number of files read and hashed.
    pub files_done: u64,
    /// The total number of files.
    pub files_total: u64,
}

/// Called every few megabytes, from any of the writer's threads. `Break` ends the writing with
/// `ArchiveError::Interrupted`.
pub(crate) type Progress<'a> = &'a (dyn Fn(WriteProgress) -> ControlFlow<()> + Sync);
