//! State shared between a fetch and the thread that watches it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use carton_format::context::CancelToken;

/// Counts fetched bytes, between the threads that fetch and the one that watches them, and has the token that cancels them all.
#[derive(Debug, Default)]
pub struct Activity {
    cancel_token: CancelToken,
    received: AtomicU64,
    kept: AtomicU64,
}

impl Activity {
    /// An activity that `cancel_token` cancels: everything that blocks under it then ends soon with
    /// [`NetworkError::Interrupted`](super::NetworkError).
    pub fn new(cancel_token: &CancelToken) -> Arc<Self> {
        Arc::new(Self { cancel_token: cancel_token.clone(), ..Self::default() })
    }

    /// Whether the activity was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.cancel_token.is_cancelled()
    }

    /// The number of bytes received over the network.
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// The number of bytes that need not be fetched, because an earlier attempt did.
    pub fn kept(&self) -> u64 {
        self.kept.load(Ordering::Relaxed)
    }

    /// Counts bytes that came from a server.
    pub(crate) fn add_received(&self, n_bytes: u64) {
        self.received.fetch_add(n_bytes, Ordering::Relaxed);
    }

    /// Counts bytes that an earlier attempt had received.
    pub(crate) fn add_kept(&self, n_bytes: u64) {
        self.kept.fetch_add(n_bytes, Ordering::Relaxed);
    }
}
