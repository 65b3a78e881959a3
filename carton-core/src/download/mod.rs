//! A remote file, or a range of it, into a local file: by several ranges at once, and resumable.
//!
//! A download lives in a folder of its own:
//!
//! ```text
//! folder/data      the bytes, each at its place; sparse until complete
//! folder/journal   whose bytes they are, and which of them are there
//! ```
//!
//! The folder can be left at any moment, by a process that is killed too; the next [`Download::start`] goes on where the journal
//! ends, if the server still has the same version. Nothing is verified here: who wants the bytes hashes them while they arrive,
//! with [`Download::reader`].
//!
//! A server without ranges is read in one stream, which a later attempt cannot continue. If a range was asked for, such a server
//! is an error: reading everything before the range may take arbitrarily long, and who needs it asks for the whole file.

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

/// The name of the file with the bytes.
const DATA: &str = "data";
/// How long dropping a download waits for tasks that are in the middle of a write.
const LONGEST_GOODBYE: Duration = Duration::from_secs(1);

/// What is downloaded, and into which folder.
#[derive(Clone, Debug)]
pub struct Target<'a> {
    /// The file.
    pub url: &'a Url,
    /// The version it must be of. Otherwise it is the one that the server has at the first request.
    pub version: Option<&'a Version>,
    /// The part of the file; all of it if there is none.
    pub range: Option<Range<u64>>,
    /// A folder that exists and that nobody else uses meanwhile. It may hold an earlier attempt, at this or at anything else.
    pub folder: &'a Path,
    /// Whether the bytes may come compressed. They are then kept as they come.
    pub accept_encoded: bool,
    /// The most bytes that are accepted, compressed ones if they are.
    pub limit: u64,
}

/// A download that is under way. Dropping it ends its tasks and leaves the folder to a later attempt.
#[derive(Debug)]
pub struct Download {
    fetch: Arc<Fetch>,
    is_resumed: bool,
    path: PathBuf,
    tasks: Vec<tokio::task::AbortHandle>,
}

impl Download {
    /// Begins a download, or goes on with an earlier one. Blocks until the server has answered once; what an earlier attempt had
    /// completed needs no request.
    ///
    /// # Errors
    /// [`NetworkError`]: the server does not answer, has another version, more than the limit, or no ranges where a range is
    /// wanted; the activity stops. [`DownloadError::Io`]: the folder cannot be used, or has too little space.
    pub fn start(network: &Network, target: &Target<'_>, activity: &Arc<Activity>) -> Result<Download, DownloadError> {
        if activity.is_stopped() {
            return Err(NetworkError::Interrupted.into());
        }
        Starter::new(network, target, activity).start()
    }

    /// How many bytes there will be, where the server told.
    pub fn length(&self) -> Option<u64> {
        self.fetch.store.length()
    }

    /// The content encodings of the bytes, in the order they were applied.
    pub fn encodings(&self) -> &[String] {
        &self.fetch.encodings
    }

    /// The version of the remote file that the bytes are of.
    pub fn version(&self) -> &Version {
        &self.fetch.version
    }

    /// Whether some of the bytes are from an earlier attempt. If what was downloaded then turns out to be wrong, it may be these:
    /// [`forget`](Self::forget) them and try once more.
    pub fn is_resumed(&self) -> bool {
        self.is_resumed
    }

    /// The file with the bytes; of a range it holds the range alone. Complete when a reader has come to its end.
    pub fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// The bytes from the start on, in order, as they arrive.
    pub fn reader(&self) -> DownloadReader {
        DownloadReader::new(self.fetch.store.clone())
    }

    /// The bytes at the positions that they have in the remote file. Its length is the end of the range.
    pub fn source(&self) -> Arc<dyn Source> {
        Arc::new(DownloadSource { store: self.fetch.store.clone(), start: self.fetch.offset })
    }

    /// Whether a folder holds a part of a download, though perhaps not one that can be continued.
    pub fn has_begun(folder: &Path) -> bool {
        Journal::exists(folder)
    }

    /// Deletes what a folder holds of a download, to start over.
    ///
    /// # Errors
    /// The files are there and cannot be deleted.
    pub fn forget(folder: &Path) -> io::Result<()> {
        // First what claims the bytes, then the bytes.
        Journal::remove(folder)?;
        journal::remove(&folder.join(DATA))
    }
}

impl Drop for Download {
    fn drop(&mut self) {
        self.fetch.store.fail(NetworkError::Interrupted.into());
        self.tasks.iter().for_each(tokio::task::AbortHandle::abort);
        // Who is told that the folder is free may delete or reuse it.
        self.fetch.store.wait_for_tasks(LONGEST_GOODBYE);
    }
}
