//! The token that cancels work on other threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

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
    /// The flags that are set: [`CANCELLED`], [`PUBLISHING`].
    flags: Arc<AtomicU8>,
}

/// The work is asked to end.
const CANCELLED: u8 = 1;
/// Work gives its results their names. One atomic value has both flags, so that exactly one of them comes first.
const PUBLISHING: u8 = 2;

/// The work was cancelled. Every error of work that can be cancelled is made from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the work was cancelled")]
pub struct Cancelled;

impl CancelToken {
    /// Asks the work to end when it next checks this token. Returns `false` if that is too late: some of the work has
    /// [begun to publish](Self::begin_publishing) its results, and may succeed nevertheless.
    pub fn cancel(&self) -> bool {
        self.flags.fetch_or(CANCELLED, Ordering::AcqRel) & PUBLISHING == 0
    }

    /// Called by work before its results become visible. From then on it no longer checks the token, because it could not say truthfully
    /// that it was cancelled.
    ///
    /// ```
    /// let (early, late) = (carton_tensor::context::CancelToken::default(), carton_tensor::context::CancelToken::default());
    /// assert!(early.cancel() && early.begin_publishing().is_err());
    /// assert!(late.begin_publishing().is_ok() && !late.cancel());
    /// ```
    ///
    /// # Errors
    /// The token is cancelled.
    pub fn begin_publishing(&self) -> Result<(), Cancelled> {
        let begin = |flags: u8| (flags & CANCELLED == 0).then_some(flags | PUBLISHING);
        self.flags.fetch_update(Ordering::AcqRel, Ordering::Acquire, begin).map(drop).map_err(|_| Cancelled)
    }

    /// A guard that cancels this token when it is dropped, for work that must not outlive its caller.
    pub fn guard(&self) -> CancelGuard {
        CancelGuard(Some(self.clone()))
    }

    /// Whether [`cancel`](Self::cancel) was called, on this token or a clone.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.flags.load(Ordering::Acquire) & CANCELLED != 0
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
