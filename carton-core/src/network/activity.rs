//! What a fetch and whoever watches it share.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Counts what is fetched and carries the wish to stop, between the threads that fetch and the one that watches them.
#[derive(Debug, Default)]
pub struct Activity {
    stopped: AtomicBool,
    received: AtomicU64,
    kept: AtomicU64,
}

impl Activity {
    /// Makes everything that blocks under this activity end soon, with [`NetworkError::Interrupted`](super::NetworkError).
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Whether it is to stop.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// `Break` when it is to stop.
    pub fn control(&self) -> ControlFlow<()> {
        if self.is_stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Bytes that came over the network.
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Bytes that need not come, because an earlier attempt fetched them.
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
