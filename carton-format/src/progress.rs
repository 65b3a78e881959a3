//! The stages of the work on cartons, in this crate and those above it, and the types that report their progress.

use std::fmt;

use carton_tensor::context;

/// Called to report progress, from any thread; it must not block.
pub type ProgressCallback = context::ProgressCallback<Stage>;

/// One report of progress. A stage ends when `done` reaches `total`, or when another stage begins. The unit is `bytes`; it is
/// `self-tests` in [`Stage::SelfTests`], and empty in [`Stage::Runner`], because runners do not state theirs.
pub type ProgressEvent = context::ProgressEvent<Stage>;

/// Returns the report that bytes were received from servers in addition to `kept`, which an earlier attempt had received.
pub fn fetched(received: u64, kept: u64, total: Option<u64>) -> ProgressEvent {
    ProgressEvent::new(Stage::Fetch, received + kept, total, "bytes").with_kept(kept)
}

/// The kind of work in progress.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stage {
    /// Reading and hashing the files that go into a carton.
    Pack,
    /// Fetching files from servers.
    Fetch,
    /// Sending files to a server.
    Upload,
    /// Hashing files of a carton.
    Verify,
    /// Comparing tensors of two cartons.
    Compare,
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
            Self::Upload => f.write_str("uploading"),
            Self::Verify => f.write_str("verifying"),
            Self::Compare => f.write_str("comparing"),
            Self::Extract => f.write_str("extracting"),
            Self::Install(what) => write!(f, "installing {what}"),
            Self::Runner(what) => f.write_str(what),
            Self::SelfTests => f.write_str("running self-tests"),
        }
    }
}
