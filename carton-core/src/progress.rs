//! How far long work has come, and giving it up.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::contents;
use crate::network::Activity;

/// Told of progress, from any thread; it must not block.
pub type ProgressCallback = Arc<dyn Fn(&ProgressEvent) + Send + Sync>;

/// What is being done.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stage {
    /// Reading and hashing the files that go into a carton.
    Pack,
    /// Fetching files from servers.
    Fetch,
    /// Hashing files of a carton.
    Verify,
    /// Writing verified files into the cache or a folder.
    Extract,
    /// The runner loads the model; it says itself what it does.
    Runner(String),
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pack => f.write_str("packing"),
            Self::Fetch => f.write_str("downloading"),
            Self::Verify => f.write_str("verifying"),
            Self::Extract => f.write_str("extracting"),
            Self::Runner(what) => f.write_str(what),
        }
    }
}

/// One report of progress.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProgressEvent {
    /// What is being done.
    pub stage: Stage,
    /// Units done.
    pub done: u64,
    /// How many of them an earlier attempt had done, which was interrupted.
    pub kept: u64,
    /// Units in all, where known.
    pub total: Option<u64>,
    /// What is counted: `bytes`, unless the runner counts something else.
    pub unit: &'static str,
}

impl ProgressEvent {
    pub(crate) fn bytes(stage: Stage, done: u64, total: u64) -> Self {
        Self { stage, done, kept: 0, total: Some(total), unit: "bytes" }
    }
}

impl ProgressEvent {
    /// The progress of work on a carton's contents; `stage` is what is done when nothing has to be fetched.
    pub(crate) fn of_contents(stage: Stage, progress: contents::Progress) -> Self {
        let stage = match progress.work {
            contents::Work::Fetch => Stage::Fetch,
            contents::Work::Read => stage,
        };
        Self { kept: progress.bytes_kept, ..Self::bytes(stage, progress.bytes_done, progress.bytes_total) }
    }
}

/// Whether work on another thread is still wanted: stopped when the future that waits for it is dropped.
#[derive(Clone, Debug, Default)]
pub(crate) struct Abandoned(Arc<Activity>);

impl Abandoned {
    pub(crate) fn control(&self) -> ControlFlow<()> {
        self.0.control()
    }

    /// For what is fetched meanwhile.
    pub(crate) fn activity(&self) -> &Arc<Activity> {
        &self.0
    }
}

/// Runs blocking work on tokio's threads for that. Dropping the future tells the work, through what it was given, to stop.
pub(crate) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce(Abandoned) -> Result<T, crate::Error> + Send + 'static,
) -> Result<T, crate::Error> {
    struct StopOnDrop(Option<Abandoned>);
    impl Drop for StopOnDrop {
        fn drop(&mut self) {
            if let Some(Abandoned(activity)) = &self.0 {
                activity.stop();
            }
        }
    }
    let abandoned = Abandoned::default();
    let mut guard = StopOnDrop(Some(abandoned.clone()));
    let result = tokio::task::spawn_blocking(move || work(abandoned)).await;
    // What the work returns may go on fetching under its activity.
    guard.0 = None;
    result.map_err(|error| crate::Error::Internal(error.to_string()))?
}
