//! The context of an operation: its cancel token, and the callback for its progress.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::cancel_token::{CancelToken, Cancelled};
use crate::network::Activity;
use crate::progress::{ProgressCallback, ProgressEvent, Stage};

/// The context that an operation passes to its work, also on other threads. Clones share one state.
#[derive(Clone, Default)]
pub struct Context {
    cancel_token: CancelToken,
    progress: Option<ProgressCallback>,
}

impl Context {
    /// A context of work that `cancel_token` cancels, which reports to `progress`.
    pub(crate) fn new(cancel_token: CancelToken, progress: Option<ProgressCallback>) -> Self {
        Self { cancel_token, progress }
    }

    /// The same context with another token.
    pub(crate) fn with_cancel_token(self, cancel_token: CancelToken) -> Self {
        Self { cancel_token, ..self }
    }

    /// The same context with another callback for progress.
    pub(crate) fn with_progress(self, progress: ProgressCallback) -> Self {
        Self { progress: Some(progress), ..self }
    }

    /// A context whose callback also gets the token, so that it can cancel the work at a certain point.
    #[cfg(test)]
    pub(crate) fn watched(on_progress: impl Fn(&ProgressEvent, &CancelToken) + Send + Sync + 'static) -> Self {
        let cancel_token = CancelToken::default();
        let given = cancel_token.clone();
        Self::new(cancel_token, Some(Arc::new(move |event: &ProgressEvent| on_progress(event, &given))))
    }

    /// The token that cancels the work.
    pub(crate) fn cancel_token(&self) -> &CancelToken {
        &self.cancel_token
    }

    /// An error once the operation is cancelled.
    pub(crate) fn check(&self) -> Result<(), Cancelled> {
        self.cancel_token.check()
    }

    /// The activity under which the work waits for servers and other processes.
    pub(crate) fn activity(&self) -> &Arc<Activity> {
        self.cancel_token.activity()
    }

    /// Reports progress.
    pub(crate) fn report(&self, event: &ProgressEvent) {
        if let Some(progress) = &self.progress {
            progress(event);
        }
    }

    /// Counts and reports the bytes of one stage of the work, of which there are `total`.
    pub(crate) fn meter(&self, stage: Stage, total: u64) -> Meter<'_> {
        Meter { context: self, stage, done: AtomicU64::new(0), total }
    }
}

/// Defines the setters of a type whose calls block, and which keeps its [`Context`] in the field `context`.
macro_rules! blocking_setters {
    () => {
        /// Ends the calls of this value once `cancel_token` is cancelled, with an error of the kind
        /// [`ErrorKind::Interrupted`](crate::ErrorKind::Interrupted).
        #[must_use]
        pub fn cancel_token(mut self, cancel_token: $crate::CancelToken) -> Self {
            self.context = self.context.with_cancel_token(cancel_token);
            self
        }

        /// Calls `on_progress` to report progress. The call may come from any thread and must not block.
        #[must_use]
        pub fn progress(mut self, on_progress: impl Fn(&$crate::ProgressEvent) + Send + Sync + 'static) -> Self {
            self.context = self.context.with_progress(std::sync::Arc::new(on_progress));
            self
        }
    };
}

pub(crate) use blocking_setters;

impl std::fmt::Debug for Context {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Context").field("cancel_token", &self.cancel_token).finish_non_exhaustive()
    }
}

/// Counts the bytes of one stage of an operation, on any number of threads.
pub(crate) struct Meter<'a> {
    context: &'a Context,
    stage: Stage,
    done: AtomicU64,
    total: u64,
}

impl<'a> Meter<'a> {
    /// The context of the operation.
    pub(crate) fn context(&self) -> &'a Context {
        self.context
    }

    /// Counts bytes and reports them, at least every few megabytes. Fails once the operation is cancelled.
    pub(crate) fn advance(&self, n_bytes: u64) -> Result<(), Cancelled> {
        let done = self.done.fetch_add(n_bytes, Ordering::Relaxed) + n_bytes;
        self.context.report(&ProgressEvent::bytes(self.stage.clone(), done, self.total.max(done)));
        self.context.check()
    }
}
