//! The progress of long work, as it is reported to callers.

use std::sync::Arc;

/// Called to report progress, from any thread; it must not block.
pub type ProgressCallback<S = &'static str> = Arc<dyn Fn(&ProgressEvent<S>) + Send + Sync>;

/// One report of progress. A stage ends when `done` reaches `total`, or when another stage begins.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProgressEvent<S = &'static str> {
    /// The kind of work.
    pub stage: S,
    /// The number of units that are done.
    pub done: u64,
    /// The number of those units that an earlier, interrupted attempt had done.
    pub kept: u64,
    /// The total number of units, if known.
    pub total: Option<u64>,
    /// What is counted, such as `bytes` or `rows`; empty if that is not known.
    pub unit: &'static str,
}

impl<S> ProgressEvent<S> {
    /// A report that `done` of `total` units are done, none of them by an earlier attempt.
    #[must_use]
    pub fn new(stage: S, done: u64, total: Option<u64>, unit: &'static str) -> Self {
        Self { stage, done, kept: 0, total, unit }
    }

    /// The same report, for work of which an earlier attempt had done `kept` units.
    #[must_use]
    pub fn with_kept(self, kept: u64) -> Self {
        Self { kept, ..self }
    }
}
