//! The context of an operation: its cancel token, and the callback for its progress.

pub(crate) use carton_tensor::context::Cancelled;
pub use carton_tensor::context::{CancelGuard, CancelToken};

use crate::progress::Stage;

/// The context that an operation passes to its work, also on other threads. Clones share one state.
pub type Context = carton_tensor::context::Context<Stage>;

/// Counts the bytes of one stage of an operation, on any number of threads.
pub(crate) type Meter<'a> = carton_tensor::context::Meter<'a, Stage>;

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
