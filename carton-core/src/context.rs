//! The context of an operation: whether it is still wanted, and who is told how far it has come.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::cancel_token::CancelToken;
use crate::contents;
use crate::network::Activity;
use crate::progress::{ProgressCallback, ProgressEvent, Stage};

/// What work on other threads is given by the operation that it belongs to. Clones share it.
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

    /// The activity under which the work waits for servers and for other processes.
    pub(crate) fn activity(&self) -> &Arc<Activity> {
        self.cancel_token.activity()
    }

    /// Who is told of progress.
    pub(crate) fn progress(&self) -> Option<&ProgressCallback> {
        self.progress.as_ref()
    }

    /// Reports progress.
    pub(crate) fn report(&self, event: &ProgressEvent) {
        if let Some(progress) = &self.progress {
            progress(event);
        }
    }

    /// For work on a carton's contents: reports its progress, as `stage` where nothing has to be fetched.
    pub(crate) fn on_contents(&self, stage: Stage) -> impl Fn(contents::Progress) -> ControlFlow<()> + Sync {
        move |done| {
            self.report(&ProgressEvent::of_contents(stage.clone(), done));
            self.control()
        }
    }

    /// For work that counts bytes: reports how many of how many are done.
    pub(crate) fn on_bytes(&self, stage: Stage) -> impl Fn(u64, u64) -> ControlFlow<()> + Sync {
        move |done, total| {
            self.report(&ProgressEvent::bytes(stage.clone(), done, total));
            self.control()
        }
    }
}
