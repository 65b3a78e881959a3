//! The progress of writing, and the callback that receives it.

use std::ops::ControlFlow;

use crate::error::DatasetError;

/// The progress of writing. Its numbers never decrease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriteProgress {
    /// The number of rows that were given.
    pub rows: u64,
    /// The number of bytes written to shards, including unfinished ones.
    pub bytes: u64,
    /// The number of complete shards.
    pub shards: u64,
    /// Whether the dataset is about to be published. What follows cannot be interrupted, so this is the last call in which `Break` has an
    /// effect.
    pub is_publishing: bool,
}

/// Receives the progress, and ends the work by [`ControlFlow::Break`]. It must not block.
pub(super) type OnProgress = Box<dyn FnMut(&WriteProgress) -> ControlFlow<()> + Send>;

/// The progress so far, and the callback that receives it.
#[derive(Default)]
pub(super) struct Meter {
    pub(super) progress: WriteProgress,
    pub(super) on_progress: Option<OnProgress>,
}

impl Meter {
    /// Reports the progress.
    pub(super) fn tell(&mut self) -> Result<(), DatasetError> {
        match self.ask() {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(DatasetError::Interrupted),
        }
    }

    /// Reports the progress, and returns the callback's answer.
    pub(super) fn ask(&mut self) -> ControlFlow<()> {
        self.on_progress.as_mut().map_or(ControlFlow::Continue(()), |tell| tell(&self.progress))
    }
}
