//! Reads a download while it arrives.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::sync::Arc;

use carton_format::source::{FileIdentity, Source};

use super::DownloadError;
use super::store::Store;

/// The bytes of a download from its start on, in order. A read blocks until more bytes arrive, fails with the error that ended the
/// download, and ends with an error when its activity is cancelled.
#[derive(Debug)]
pub struct DownloadReader {
    store: Arc<Store>,
    position: u64,
    /// The bytes before this position are known to be present.
    frontier: u64,
}

impl DownloadReader {
    pub(super) fn new(store: Arc<Store>) -> DownloadReader {
        DownloadReader { store, position: 0, frontier: 0 }
    }
}

impl Read for DownloadReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.position == self.frontier {
            self.frontier = self.store.wait_beyond(self.position).map_err(DownloadError::into_read)?;
        }
        let available = usize::try_from(self.frontier - self.position).unwrap_or(usize::MAX);
        let n_wanted = buffer.len().min(available);
        if n_wanted == 0 {
            return Ok(0);
        }
        let n_bytes = self.store.read(self.position, &mut buffer[..n_wanted]).map_err(DownloadError::into_read)?;
        if n_bytes == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the downloaded file was cut short meanwhile"));
        }
        self.position += n_bytes as u64;
        Ok(n_bytes)
    }
}

/// A remote file of which a part is being downloaded. A read blocks until its bytes are present.
#[derive(Debug)]
pub(super) struct DownloadSource {
    pub(super) store: Arc<Store>,
    /// The offset in the remote file at which the local file begins.
    pub(super) start: u64,
}

impl DownloadSource {
    /// The range of these bytes in the local file.
    fn local(&self, offset: u64, n_bytes: usize) -> Option<Range<u64>> {
        let start = offset.checked_sub(self.start)?;
        let range = start..start.checked_add(n_bytes as u64)?;
        self.store.length().is_none_or(|length| range.end <= length).then_some(range)
    }
}

impl Source for DownloadSource {
    /// Blocks until the length is known.
    fn len(&self) -> u64 {
        self.start + self.store.wait_for_length().unwrap_or_else(|_| self.store.frontier())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let range = self.local(offset, buffer.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        if !self.store.wait_for(&range).map_err(DownloadError::into_read)? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.store.read_exact(range.start, buffer).map_err(DownloadError::into_read)
    }

    fn identity(&self) -> Option<FileIdentity> {
        None
    }

    fn file(&self) -> Option<&File> {
        None
    }

    fn location(&self) -> &str {
        self.store.location().as_str()
    }
}
