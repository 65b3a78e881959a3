//! The progress of a long operation, reported to the caller.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

use super::ContentsError;

/// What is being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Files are fetched: bytes are those that are sent.
    Fetch,
    /// Files are read: bytes are those of the files, uncompressed.
    Read,
}

/// How far an operation is. Fetching comes before reading, and is counted for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    /// What is being done.
    pub work: Work,
    /// Bytes that are done.
    pub bytes_done: u64,
    /// How many of them were done before: by an earlier attempt that was interrupted.
    pub bytes_kept: u64,
    /// All bytes, as far as their number is known beforehand.
    pub bytes_total: u64,
}

/// Called from several threads, at least every few megabytes and while waiting for another process. `Break` ends the
/// operation with [`ContentsError::Interrupted`]; nothing is left behind then.
pub(crate) type OnProgress<'a> = &'a (dyn Fn(Progress) -> ControlFlow<()> + Sync);

/// An [`OnProgress`] that shows nothing and never stops.
pub(crate) fn silent(_progress: Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// Counts the bytes of one operation.
pub(super) struct Meter<'a> {
    done: AtomicU64,
    total: u64,
    on_progress: OnProgress<'a>,
}

impl<'a> Meter<'a> {
    pub(super) fn new(total: u64, on_progress: OnProgress<'a>) -> Meter<'a> {
        Meter { done: AtomicU64::new(0), total, on_progress }
    }

    pub(super) fn advance(&self, n_bytes: u64) -> Result<(), ContentsError> {
        let bytes_done = self.done.fetch_add(n_bytes, Ordering::Relaxed) + n_bytes;
        let bytes_total = self.total.max(bytes_done);
        self.report(Progress { work: Work::Read, bytes_done, bytes_kept: 0, bytes_total })
    }

    /// Bytes that came over the network, those that an earlier attempt left, and how many there are in all.
    pub(super) fn fetched(&self, received: u64, kept: u64, total: u64) -> Result<(), ContentsError> {
        let bytes_done = received + kept;
        let bytes_total = total.max(bytes_done);
        self.report(Progress { work: Work::Fetch, bytes_done, bytes_kept: kept, bytes_total })
    }

    fn report(&self, progress: Progress) -> Result<(), ContentsError> {
        match (self.on_progress)(progress) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(ContentsError::Interrupted),
        }
    }
}
