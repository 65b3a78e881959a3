//! A download in progress, and the files in its folder.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use carton_format::source::Source;

use super::DownloadReader;
use super::fetch::Fetch;
use super::journal::{self, Journal};
use super::reader::DownloadSource;
use crate::http::{NetworkError, Version};

/// The name of the file that holds the bytes.
pub(super) const DATA: &str = "data";
/// How long dropping a download waits for tasks that are in the middle of a write.
const LONGEST_GOODBYE: Duration = Duration::from_secs(1);

/// A download in progress. Dropping it ends its tasks and leaves the folder to a later attempt.
#[derive(Debug)]
pub struct Download {
    pub(super) fetch: Arc<Fetch>,
    pub(super) is_resumed: bool,
    pub(super) path: PathBuf,
    pub(super) tasks: Vec<tokio::task::AbortHandle>,
}

impl Download {
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
