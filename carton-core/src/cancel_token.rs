//! The token that cancels work on other threads.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::network::Activity;

/// Cancels work that blocks a thread. Clones share one state: a caller keeps one clone and passes another to the work.
///
/// Work that waits for a server or another process notices within about a tenth of a second, and ends with an error of kind
/// [`ErrorKind::Interrupted`](crate::ErrorKind::Interrupted). A token stays cancelled.
///
/// ```
/// let token = carton_core::CancelToken::default();
/// let given_to_the_work = token.clone();
/// token.cancel();
/// assert!(given_to_the_work.is_cancelled());
/// ```
#[derive(Clone, Debug, Default)]
pub struct CancelToken {
    activity: Arc<Activity>,
}

impl CancelToken {
    /// Asks the work to end when it next checks this token.
    pub fn cancel(&self) {
        self.activity.stop();
    }

    /// Whether [`cancel`](Self::cancel) was called, on this token or a clone.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.activity.is_stopped()
    }

    /// `Break` once the token is cancelled: the value that progress callbacks of cancellable work return.
    pub fn control(&self) -> ControlFlow<()> {
        self.activity.control()
    }

    /// The activity under which the work waits for servers.
    pub(crate) fn activity(&self) -> &Arc<Activity> {
        &self.activity
    }
}
