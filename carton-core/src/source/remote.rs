//! A file on an HTTP server, for the small parts of it that describe the rest.
//!
//! Whatever was read is kept: a file that has not changed is described by the same bytes, so those can be saved
//! ([`RemoteSource::blocks`]) and the file opened from them again without a request. Its large parts are not read through here;
//! they go to files ([`download`](crate::download)).

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use super::{FileIdentity, Source};
use crate::network::{Activity, Network, NetworkError, Part, Url, Version, Wanted, address};

/// The most that is read in one request. The directory of an archive has at most as much.
const LARGEST_READ: u64 = 256 << 20;
/// The most that is kept in memory: a directory and a MANIFEST of the largest size.
const MOST_KEPT: u64 = 512 << 20;

/// A file on an HTTP server.
#[derive(Debug)]
pub struct RemoteSource {
    network: Network,
    url: Url,
    address: String,
    version: Version,
    length: u64,
    activity: Arc<Activity>,
    /// What was read, by offset. Blocks may overlap.
    blocks: Mutex<BTreeMap<u64, Arc<[u8]>>>,
}

impl RemoteSource {
    /// A file of this length of which `blocks` are known. All else must come from the same `version`. What it reads blocks no
    /// longer than until `activity` stops.
    pub fn new(
        network: Network,
        url: Url,
        version: Version,
        length: u64,
        blocks: impl IntoIterator<Item = (u64, Vec<u8>)>,
        activity: Arc<Activity>,
    ) -> RemoteSource {
        let address = address(&url);
        let blocks = blocks.into_iter().map(|(offset, bytes)| (offset, bytes.into())).collect();
        RemoteSource { network, url, address, version, length, activity, blocks: Mutex::new(blocks) }
    }

    /// The server's access.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Where it is.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// The version that all of its bytes are of.
    pub fn version(&self) -> &Version {
        &self.version
    }

    /// What was read so far, by offset.
    pub fn blocks(&self) -> Vec<(u64, Vec<u8>)> {
        let blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        blocks.iter().map(|(offset, bytes)| (*offset, bytes.to_vec())).collect()
    }

    /// Whether these bytes are known, so that reading them takes no request.
    pub fn holds(&self, range: &Range<u64>) -> bool {
        self.block(range).is_some()
    }

    /// Reads these bytes by one request, unless they are known, so that reading them piece by piece takes none.
    ///
    /// # Errors
    /// As [`fetch`](Self::fetch).
    pub fn prefetch(&self, range: &Range<u64>) -> Result<(), NetworkError> {
        let range = range.start.min(self.length)..range.end.min(self.length);
        if range.start < range.end && !self.holds(&range) {
            self.read(range)?;
        }
        Ok(())
    }

    /// Reads these bytes and keeps none of them.
    ///
    /// # Errors
    /// As [`Network::read`]; another version than the one that the source is of.
    pub fn fetch(&self, range: Range<u64>, activity: &Arc<Activity>) -> Result<Vec<u8>, NetworkError> {
        let length = range.end.saturating_sub(range.start);
        if length == 0 {
            return Ok(Vec::new());
        }
        let wanted = Wanted {
            url: self.url.clone(),
            part: Part::Range(range.clone()),
            version: Some(self.version.clone()),
            known: None,
            limit: length.min(LARGEST_READ),
        };
        let fetched = self.network.read(wanted, activity)?;
        if fetched.bytes.len() as u64 != length {
            let found = fetched.bytes.len() as u64;
            return Err(NetworkError::Cut { url: self.address.clone(), expected: length, found });
        }
        Ok(fetched.bytes)
    }

    /// Reads and keeps.
    fn read(&self, range: Range<u64>) -> Result<Arc<[u8]>, NetworkError> {
        let kept: u64 = {
            let blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
            blocks.values().map(|bytes| bytes.len() as u64).sum()
        };
        if kept.saturating_add(range.end - range.start) > MOST_KEPT {
            return Err(NetworkError::TooLarge { url: self.address.clone(), limit: MOST_KEPT });
        }
        let bytes: Arc<[u8]> = self.fetch(range.clone(), &self.activity)?.into();
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner).insert(range.start, bytes.clone());
        Ok(bytes)
    }

    fn block(&self, range: &Range<u64>) -> Option<(u64, Arc<[u8]>)> {
        let blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        // Few: one for each read that was made to open an archive.
        let mut before = blocks.range(..=range.start).rev();
        let (offset, bytes) = before.find(|(offset, bytes)| range.end <= **offset + bytes.len() as u64)?;
        Some((*offset, bytes.clone()))
    }
}

impl Source for RemoteSource {
    fn len(&self) -> u64 {
        self.length
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let end = offset.checked_add(buffer.len() as u64).filter(|end| *end <= self.length);
        let Some(end) = end else { return Err(io::ErrorKind::UnexpectedEof.into()) };
        if buffer.is_empty() {
            return Ok(());
        }
        let (block_offset, bytes) = match self.block(&(offset..end)) {
            Some(found) => found,
            None => (offset, self.read(offset..end).map_err(io::Error::other)?),
        };
        // Both ends are within the block.
        let start = (offset - block_offset) as usize;
        buffer.copy_from_slice(&bytes[start..start + buffer.len()]);
        Ok(())
    }

    fn identity(&self) -> Option<FileIdentity> {
        None
    }

    fn file(&self) -> Option<&File> {
        None
    }

    fn remote(&self) -> Option<&RemoteSource> {
        Some(self)
    }

    fn location(&self) -> &str {
        &self.address
    }
}

/// Some bytes of a source that are in memory already; all others are read from the source itself.
pub struct Window {
    source: Arc<dyn Source>,
    start: u64,
    bytes: Vec<u8>,
}

impl Window {
    /// `bytes` are those of `source` from `start` on.
    pub fn new(source: Arc<dyn Source>, start: u64, bytes: Vec<u8>) -> Window {
        Window { source, start, bytes }
    }
}

impl Source for Window {
    fn len(&self) -> u64 {
        self.source.len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let start = offset.checked_sub(self.start).and_then(|start| usize::try_from(start).ok());
        let range = start.and_then(|start| Some(start..start.checked_add(buffer.len())?));
        match range.and_then(|range| self.bytes.get(range)) {
            Some(bytes) => {
                buffer.copy_from_slice(bytes);
                Ok(())
            }
            None => self.source.read_at(offset, buffer),
        }
    }

    fn identity(&self) -> Option<FileIdentity> {
        None
    }

    fn file(&self) -> Option<&File> {
        None
    }

    fn location(&self) -> &str {
        self.source.location()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::network::NetworkOptions;
    use crate::source::{MemorySource, behaviour};

    fn source(length: u64, blocks: &[(u64, &[u8])]) -> RemoteSource {
        let network = Network::new(NetworkOptions { offline: true, ..NetworkOptions::default() });
        let version = Version { etag: Some("\"1\"".to_owned()), last_modified: None, length: Some(length) };
        let blocks = blocks.iter().map(|(offset, bytes)| (*offset, bytes.to_vec()));
        RemoteSource::new(network, Url::parse("http://h/f").unwrap(), version, length, blocks, Arc::default())
    }

    #[test]
    fn what_is_known_takes_no_request() {
        for contents in [&b""[..], b"0123456789"] {
            behaviour::check(&source(contents.len() as u64, &[(0, contents)]), contents);
        }
        let parts = source(10, &[(0, b"0123"), (2, b"23"), (4, b"456789")]);
        let mut buffer = [0; 3];
        parts.read_at(5, &mut buffer).unwrap();
        assert_eq!(&buffer, b"567");
        // Behind a shorter block that begins nearer.
        parts.read_at(1, &mut buffer).unwrap();
        assert_eq!(&buffer, b"123");
        assert!(!parts.holds(&(2..6)));
        let error = parts.read_at(2, &mut [0; 4]).unwrap_err();
        assert!(matches!(error.downcast::<NetworkError>(), Ok(NetworkError::Offline { .. })));
    }

    #[test]
    fn a_window_behaves_as_its_source() {
        let contents = b"0123456789";
        let inner: Arc<dyn Source> = Arc::new(MemorySource::new(&contents[..], "memory"));
        behaviour::check(&Window::new(inner, 3, contents[3..7].to_vec()), contents);
        // What it has is not read from elsewhere.
        let inner: Arc<dyn Source> = Arc::new(source(10, &[]));
        Window::new(inner, 3, contents[3..7].to_vec()).read_at(3, &mut [0; 4]).unwrap();
    }
}
