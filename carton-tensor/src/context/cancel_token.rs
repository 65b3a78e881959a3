//! The token that cancels work on other threads.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Cancels work that blocks a thread. Clones share one state: a caller keeps one clone and passes another to the work.
///
/// Work checks its token between steps, and then ends with an error that says so. Work that waits for a server or another process
/// notices within about a tenth of a second. A token stays cancelled.
///
/// ```
/// let token = carton_tensor::context::CancelToken::default();
/// let given_to_the_work = token.clone();
/// token.cancel();
/// assert!(given_to_the_work.is_cancelled());
/// ```
#[derive(Clone, Debug, Default)]
pub struct CancelToken {
    is_cancelled: Arc<AtomicBool>,
}

/// The work was cancelled. Every error of work that can be cancelled is made from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the work was cancelled")]
pub struct Cancelled;

impl CancelToken {
    /// Asks the work to end when it next checks this token.
    pub fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
    }

    /// A guard that cancels this token when it is dropped, for work that must not outlive its caller.
    pub fn guard(&self) -> CancelGuard {
        CancelGuard(Some(self.clone()))
    }

    /// Whether [`cancel`](Self::cancel) was called, on this token or a clone.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed)
    }

    /// `Break` once the token is cancelled: the value that progress callbacks of cancellable work return.
    pub fn control(&self) -> ControlFlow<()> {
        if self.is_cancelled() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Checks that the work should go on. The error becomes one of the layer that checks.
    ///
    /// # Errors
    /// The token is cancelled.
    pub fn check(&self) -> Result<(), Cancelled> {
        if self.is_cancelled() { Err(Cancelled) } else { Ok(()) }
    }
}

/// Cancels a token when it is dropped. [`CancelToken::guard`] makes it.
///
/// ```
/// let token = carton_tensor::context::CancelToken::default();
/// token.guard().disarm();
/// assert!(!token.is_cancelled());
/// drop(token.guard());
/// assert!(token.is_cancelled());
/// ```
#[derive(Debug)]
#[must_use = "the token is cancelled as soon as this is dropped"]
pub struct CancelGuard(Option<CancelToken>);

impl CancelGuard {
    /// Drops the guard without cancelling the token.
    pub fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for CancelGuard {
    fn drop(&mut self) {
        if let Some(token) = &self.0 {
            token.cancel();
        }
    }
}
