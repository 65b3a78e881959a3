//! Downloads a remote file, or a range of it, into a local file: with several ranges at once, and resumable.
//!
//! A download has its own folder:
//!
//! ```text
//! folder/data      the bytes, each at its offset; sparse until complete
//! folder/journal   which file they belong to, and which of them are present
//! ```
//!
//! A process can leave the folder at any moment, also by being killed; the next [`Download::start`] continues where the journal ends, if
//! the server still has the same version. Nothing is verified here: the caller hashes the bytes while they arrive, with
//! [`Download::reader`].
//!
//! From a server without ranges the file is read in one stream, which a later attempt cannot continue. If a range was requested, such a
//! server is an error: reading everything before the range may take arbitrarily long, and a caller that needs it can request the whole
//! file.

mod error;
mod fetch;
mod journal;
mod ledger;
mod pace;
mod reader;
mod start;
mod store;
#[cfg(test)]
mod tests;

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::network::{Activity, Network, NetworkError, Url, Version};
use crate::source::Source;

pub use error::DownloadError;
pub(crate) use reader::DownloadReader;

use fetch::Fetch;
use journal::Journal;
use reader::DownloadSource;
use start::Starter;

/// The name of the file that holds the bytes.
const DATA: &str = "data";
/// How long dropping a download waits for tasks that are in the middle of a write.
const LONGEST_GOODBYE: Duration = Duration::from_secs(1);

/// What to download, and into which folder.
#[derive(Clone, Debug)]
pub struct Target<'a> {
    /// The file.
    pub url: &'a Url,
    /// The version that the file must have. By default, the one that the server has at the first request.
    pub version: Option<&'a Version>,
    /// The part of the file; `None` for all of it.
    pub range: Option<Range<u64>>,
    /// An existing folder that nothing else uses meanwhile. It may hold an earlier attempt, at this or at any other file.
    pub folder: &'a Path,
    /// Whether the bytes may come compressed. They are then stored compressed.
    pub accept_encoded: bool,
    /// The largest number of bytes that is accepted. For compressed bytes, it limits their compressed length.
    pub limit: u64,
}

/// A download in progress. Dropping it ends its tasks and leaves the folder to a later attempt.
#[derive(Debug)]
pub struct Download {
    fetch: Arc<Fetch>,
    is_resumed: bool,
    path: PathBuf,
    tasks: Vec<tokio::task::AbortHandle>,
}

impl Download {
    /// Starts a download, or continues an earlier one. Blocks until the server has answered once; if an earlier attempt completed the
    /// download, no request is sent.
    ///
    /// # Errors
    /// [`NetworkError`]: the server does not answer, has another version, more than the limit, or no ranges although one was requested;
    /// or the activity stops. [`DownloadError::Io`]: the folder cannot be used, or has too little space.
    pub fn start(network: &Network, target: &Target<'_>, activity: &Arc<Activity>) -> Result<Download, DownloadError> {
        if activity.is_stopped() {
            return Err(NetworkError::Interrupted.into());
        }
        Starter::new(network, target, activity).start()
    }

    /// The total number of bytes, if the server stated it.
    pub fn length(&self) -> Option<u64> {
        self.fetch.store.length()
    }

    /// The content encodings of the bytes, in the order they were applied.
    pub fn encodings(&self) -> &[String] {
        &self.fetch.encodings
    }

    /// The version of the remote file to which the bytes belong.
    pub fn version(&self) -> &Version {
        &self.fetch.version
    }

    /// Whether some of the bytes come from an earlier attempt. If the downloaded bytes then turn out to be wrong, those may be the cause:
    /// [`forget`](Self::forget) them and try once more.
    pub fn is_resumed(&self) -> bool {
        self.is_resumed
    }

    /// The path of the file with the bytes. For a range, it holds that range alone. It is complete when a reader has reached its end.
    pub fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// Reads the bytes from the start on, in order, as they arrive.
    pub fn reader(&self) -> DownloadReader {
        DownloadReader::new(self.fetch.store.clone())
    }

    /// The bytes at their offsets in the remote file. The length of the source is the end of the range.
    pub fn source(&self) -> Arc<dyn Source> {
        Arc::new(DownloadSource { store: self.fetch.store.clone(), start: self.fetch.offset })
    }

    /// Whether a folder holds a part of a download, which may be impossible to continue.
    pub fn has_begun(folder: &Path) -> bool {
        Journal::exists(folder)
    }

    /// Deletes a download from its folder, to start over.
    ///
    /// # Errors
    /// The files are there and cannot be deleted.
    pub fn forget(folder: &Path) -> io::Result<()> {
        // First the journal, which claims that the bytes are present, then the bytes.
        Journal::remove(folder)?;
        journal::remove(&folder.join(DATA))
    }
}

impl Drop for Download {
    fn drop(&mut self) {
        self.fetch.store.fail(NetworkError::Interrupted.into());
        self.tasks.iter().for_each(tokio::task::AbortHandle::abort);
        // The caller may delete or reuse the folder after this.
        self.fetch.store.wait_for_tasks(LONGEST_GOODBYE);
    }
}
