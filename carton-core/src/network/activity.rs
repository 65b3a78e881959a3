//! State shared between a fetch and the thread that watches it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Counts fetched bytes and carries the request to stop, between the threads that fetch and the one that watches them.
#[derive(Debug, Default)]
pub struct Activity {
    stopped: AtomicBool,
    received: AtomicU64,
    kept: AtomicU64,
}

impl Activity {
    /// Makes everything that blocks under this activity end soon with [`NetworkError::Interrupted`](super::NetworkError).
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Whether a stop was requested.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// The number of bytes received over the network.
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// The number of bytes that need not be fetched, because an earlier attempt did.
    pub fn kept(&self) -> u64 {
        self.kept.load(Ordering::Relaxed)
    }

    pub(crate) fn add_received(&self, n_bytes: u64) {
        self.received.fetch_add(n_bytes, Ordering::Relaxed);
    }

    pub(crate) fn add_kept(&self, n_bytes: u64) {
        self.kept.fetch_add(n_bytes, Ordering::Relaxed);
    }
}
