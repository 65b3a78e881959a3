//! The setters of types whose calls block.

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
