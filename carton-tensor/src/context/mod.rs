//! The context of work that takes long: how its caller cancels it, and where it reports its progress.
//!
//! Functions that take long have a parameter or an option [`Context`]. They check its [`CancelToken`] between steps, and report a
//! [`ProgressEvent`] after each. What is done, the *stage* `S`, is a text, unless a crate defines a type of its own.
//!
//! ```
//! use std::sync::Arc;
//! use carton_tensor::context::{CancelToken, Context, ProgressEvent};
//! let cancel_token = CancelToken::default();
//! let show = |event: &ProgressEvent| println!("{}: {} {}", event.stage, event.done, event.unit);
//! let context = Context::new(cancel_token.clone(), Some(Arc::new(show)));
//!
//! let meter = context.meter("copying", 300);
//! meter.advance(100)?;
//! // Another thread cancels the work.
//! cancel_token.cancel();
//! assert!(meter.advance(100).is_err());
//! # Ok::<(), carton_tensor::context::Cancelled>(())
//! ```

mod cancel_token;
mod progress;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub use cancel_token::{CancelGuard, CancelToken, Cancelled};
pub use progress::{ProgressCallback, ProgressEvent};

/// The context that an operation passes to its work, also on other threads. Clones share one state. By default the work is not
/// cancelled, and reports to nothing.
pub struct Context<S = &'static str> {
    cancel_token: CancelToken,
    progress: Option<ProgressCallback<S>>,
}

impl<S> Context<S> {
    /// A context of work that `cancel_token` cancels, which reports to `progress`.
    #[must_use]
    pub fn new(cancel_token: CancelToken, progress: Option<ProgressCallback<S>>) -> Self {
        Self { cancel_token, progress }
    }

    /// A context whose callback also gets the token, so that it can cancel the work at a certain point.
    #[must_use]
    pub fn watched(on_progress: impl Fn(&ProgressEvent<S>, &CancelToken) + Send + Sync + 'static) -> Self {
        let cancel_token = CancelToken::default();
        let given = cancel_token.clone();
        Self::new(cancel_token, Some(Arc::new(move |event: &ProgressEvent<S>| on_progress(event, &given))))
    }

    /// The same context with another token.
    #[must_use]
    pub fn with_cancel_token(self, cancel_token: CancelToken) -> Self {
        Self { cancel_token, ..self }
    }

    /// The same context with another callback for progress.
    #[must_use]
    pub fn with_progress(self, progress: ProgressCallback<S>) -> Self {
        Self { progress: Some(progress), ..self }
    }

    /// The token that cancels the work.
    #[must_use]
    pub fn cancel_token(&self) -> &CancelToken {
        &self.cancel_token
    }

    /// Checks that the work should go on.
    ///
    /// # Errors
    /// The work was cancelled.
    pub fn check(&self) -> Result<(), Cancelled> {
        self.cancel_token.check()
    }

    /// Reports progress.
    pub fn report(&self, event: &ProgressEvent<S>) {
        if let Some(progress) = &self.progress {
            progress(event);
        }
    }

    /// Reports progress, and checks that the work should go on.
    ///
    /// # Errors
    /// The work was cancelled.
    pub fn advance(&self, event: &ProgressEvent<S>) -> Result<(), Cancelled> {
        self.report(event);
        self.check()
    }

    /// Counts and reports the bytes of one stage of the work, of which there are `total`.
    #[must_use]
    pub fn meter(&self, stage: S, total: u64) -> Meter<'_, S> {
        Meter { context: self, stage, done: AtomicU64::new(0), total }
    }
}

impl<S> Default for Context<S> {
    fn default() -> Self {
        Self::new(CancelToken::default(), None)
    }
}

impl<S> Clone for Context<S> {
    fn clone(&self) -> Self {
        Self::new(self.cancel_token.clone(), self.progress.clone())
    }
}

impl<S> fmt::Debug for Context<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Context").field("cancel_token", &self.cancel_token).finish_non_exhaustive()
    }
}

/// Counts the bytes of one stage of an operation, on any number of threads.
#[derive(Debug)]
pub struct Meter<'a, S = &'static str> {
    context: &'a Context<S>,
    stage: S,
    done: AtomicU64,
    total: u64,
}

impl<'a, S> Meter<'a, S> {
    /// The context of the operation.
    #[must_use]
    pub fn context(&self) -> &'a Context<S> {
        self.context
    }
}

impl<S: Clone> Meter<'_, S> {
    /// Counts bytes and reports them. Callers do so at least every few megabytes.
    ///
    /// # Errors
    /// The operation was cancelled.
    pub fn advance(&self, n_bytes: u64) -> Result<(), Cancelled> {
        let done = self.done.fetch_add(n_bytes, Ordering::Relaxed) + n_bytes;
        let total = self.total.max(done);
        self.context.advance(&ProgressEvent::new(self.stage.clone(), done, Some(total), "bytes"))
    }
}
