//! The context of an operation: its cancel token, and the callback for its progress.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::cancel_token::CancelToken;
use crate::contents;
use crate::network::Activity;
use crate::progress::{ProgressCallback, ProgressEvent, Stage};

/// The context that an operation passes to its work on other threads. Clones share one state.
#[derive(Clone, Default)]
pub(crate) struct Context {
    cancel_token: CancelToken,
    progress: Option<ProgressCallback>,
}

impl Context {
    /// A context of work that `cancel_token` cancels, which reports to `progress`.
    pub(crate) fn new(cancel_token: CancelToken, progress: Option<ProgressCallback>) -> Self {
        Self { cancel_token, progress }
    }

    /// The token that cancels the work.
    pub(crate) fn cancel_token(&self) -> &CancelToken {
        &self.cancel_token
    }

    /// `Break` once the operation is cancelled.
    pub(crate) fn control(&self) -> ControlFlow<()> {
        self.cancel_token.control()
    }

    /// The activity under which the work waits for servers and other processes.
    pub(crate) fn activity(&self) -> &Arc<Activity> {
        self.cancel_token.activity()
    }

    /// The callback for progress, if there is one.
    pub(crate) fn progress(&self) -> Option<&ProgressCallback> {
        self.progress.as_ref()
    }

    /// Reports progress.
    pub(crate) fn report(&self, event: &ProgressEvent) {
        if let Some(progress) = &self.progress {
            progress(event);
        }
    }

    /// The progress callback for work on a carton's contents. It reports `stage`, or fetching while files are fetched.
    pub(crate) fn on_contents(&self, stage: Stage) -> impl Fn(contents::Progress) -> ControlFlow<()> + Sync {
        move |done| {
            self.report(&ProgressEvent::of_contents(stage.clone(), done));
            self.control()
        }
    }

    /// The progress callback for work that counts bytes: it takes the number of bytes done and their total.
    pub(crate) fn on_bytes(&self, stage: Stage) -> impl Fn(u64, u64) -> ControlFlow<()> + Sync {
        move |done, total| {
            self.report(&ProgressEvent::bytes(stage.clone(), done, total));
            self.control()
        }
    }
}
