//! How far writing has come.

use std::ops::ControlFlow;

use crate::error::DatasetError;

/// How far writing has come. Numbers only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriteProgress {
    /// The rows that were given.
    pub rows: u64,
    /// The bytes that were written to shards, unfinished ones among them.
    pub bytes: u64,
    /// The shards that are complete.
    pub shards: u64,
    /// Whether the dataset appears now. What follows is not given up, so that this is the last time to end it by `Break`.
    pub is_publishing: bool,
}

/// Told of progress; ends the work by [`ControlFlow::Break`]. It must not block.
pub(super) type OnProgress = Box<dyn FnMut(&WriteProgress) -> ControlFlow<()> + Send>;

/// Progress, and who is told of it.
#[derive(Default)]
pub(super) struct Meter {
    pub(super) progress: WriteProgress,
    pub(super) on_progress: Option<OnProgress>,
}

impl Meter {
    /// Tells of progress.
    pub(super) fn tell(&mut self) -> Result<(), DatasetError> {
        match self.ask() {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(DatasetError::Interrupted),
        }
    }

    /// The same, with the answer as it is.
    pub(super) fn ask(&mut self) -> ControlFlow<()> {
        self.on_progress.as_mut().map_or(ControlFlow::Continue(()), |tell| tell(&self.progress))
    }
}
