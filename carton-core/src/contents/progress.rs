//! How far a long operation is, told to whoever waits for it.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

use super::ContentsError;

/// How far an operation is. Bytes are those of the files, uncompressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes that are done.
    pub bytes_done: u64,
    /// All bytes, as far as their number is known beforehand.
    pub bytes_total: u64,
}

/// Called from several threads, at least every few megabytes and while waiting for another process. `Break` ends the
/// operation with [`ContentsError::Interrupted`]; nothing of it is left behind then.
pub type OnProgress<'a> = &'a (dyn Fn(Progress) -> ControlFlow<()> + Sync);

/// An [`OnProgress`] that shows nothing and never stops.
pub fn silent(_progress: Progress) -> ControlFlow<()> {
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
        match (self.on_progress)(Progress { bytes_done, bytes_total: self.total.max(bytes_done) }) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(ContentsError::Interrupted),
        }
    }
}
