//! Tells work that has begun that the object it belongs to was closed.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Whether an object was closed. It stays closed.
#[derive(Default)]
pub(crate) struct Closing {
    is_closed: AtomicBool,
    notify: Notify,
}

impl Closing {
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.notify.notify_waiters();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Waits until the object is closed.
    pub(crate) async fn closed(&self) {
        // First, so that no notification is missed.
        let notified = self.notify.notified();
        if !self.is_closed() {
            notified.await;
        }
    }
}
