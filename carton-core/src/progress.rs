//! How far long work has come, and giving it up.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Told of progress, from any thread; it must not block.
pub type ProgressCallback = Arc<dyn Fn(&ProgressEvent) + Send + Sync>;

/// What is being done.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stage {
    /// Reading and hashing the files that go into a carton.
    Pack,
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
    /// Units in all, where known.
    pub total: Option<u64>,
    /// What is counted: `bytes`, unless the runner counts something else.
    pub unit: &'static str,
}

impl ProgressEvent {
    pub(crate) fn bytes(stage: Stage, done: u64, total: u64) -> Self {
        Self { stage, done, total: Some(total), unit: "bytes" }
    }
}

/// Whether work on another thread is still wanted: set when the future that waits for it is dropped.
#[derive(Clone, Debug, Default)]
pub(crate) struct Abandoned(Arc<AtomicBool>);

impl Abandoned {
    pub(crate) fn control(&self) -> ControlFlow<()> {
        if self.0.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Runs blocking work on tokio's threads for that. Dropping the future tells the work, through what it was given, to stop.
pub(crate) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce(Abandoned) -> Result<T, crate::Error> + Send + 'static,
) -> Result<T, crate::Error> {
    struct SetOnDrop(Abandoned);
    impl Drop for SetOnDrop {
        fn drop(&mut self) {
            self.0.0.store(true, Ordering::Relaxed);
        }
    }
    let abandoned = Abandoned::default();
    let guard = SetOnDrop(abandoned.clone());
    let result = tokio::task::spawn_blocking(move || work(abandoned)).await;
    drop(guard);
    result.map_err(|error| crate::Error::Internal(error.to_string()))?
}
