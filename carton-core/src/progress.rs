//! The progress of long work, as it is reported to callers.

use std::fmt;
use std::sync::Arc;

/// Called to report progress, from any thread; it must not block.
pub type ProgressCallback = Arc<dyn Fn(&ProgressEvent) + Send + Sync>;

/// The kind of work in progress.
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
    /// Downloading and unpacking a runner: the one of this name and version, or that of this archive.
    Install(String),
    /// The runner is loading the model; the text is the runner's own description of its work.
    Runner(String),
    /// Running the self-tests of a loaded model.
    SelfTests,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pack => f.write_str("packing"),
            Self::Fetch => f.write_str("downloading"),
            Self::Verify => f.write_str("verifying"),
            Self::Extract => f.write_str("extracting"),
            Self::Install(what) => write!(f, "installing {what}"),
            Self::Runner(what) => f.write_str(what),
            Self::SelfTests => f.write_str("running self-tests"),
        }
    }
}

/// One report of progress. A stage ends when `done` reaches `total`, or when another stage begins.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProgressEvent {
    /// The kind of work.
    pub stage: Stage,
    /// The number of units that are done.
    pub done: u64,
    /// The number of those units that an earlier, interrupted attempt had done.
    pub kept: u64,
    /// The total number of units, if known.
    pub total: Option<u64>,
    /// The unit: `bytes`; `self-tests` in [`Stage::SelfTests`]; empty in [`Stage::Runner`], because runners do not state theirs.
    pub unit: &'static str,
}

impl ProgressEvent {
    pub(crate) fn bytes(stage: Stage, done: u64, total: u64) -> Self {
        Self { stage, done, kept: 0, total: Some(total), unit: "bytes" }
    }

    /// Bytes that were received from servers in addition to `kept`, which an earlier attempt had received.
    pub(crate) fn fetch(received: u64, kept: u64, total: Option<u64>) -> Self {
        Self { stage: Stage::Fetch, done: received + kept, kept, total, unit: "bytes" }
    }

    /// `done` of `total` self-tests ran.
    pub(crate) fn self_tests(done: usize, total: usize) -> Self {
        let unit = "self-tests";
        Self { stage: Stage::SelfTests, done: done as u64, kept: 0, total: Some(total as u64), unit }
    }
}
