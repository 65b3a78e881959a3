//! A file on an HTTP server, for the small parts of it that describe the rest.
//!
//! All bytes that were read are kept. They describe the file as long as it does not change, so they can be saved
//! ([`RemoteSource::blocks`]), and the file can be opened from them again without a request. The large parts of a file are not read here;
//! they go to files ([`download`](crate::download)).

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use carton_format::source::{FileIdentity, Source};
use carton_format::url::{ShownUrl, Url};
use parking_lot::Mutex;

use crate::http::{Activity, Network, NetworkError, Part, Version, Wanted};

/// Limit for one request, in bytes. The directory of an archive has the same limit.
const LARGEST_READ: u64 = 256 << 20;
/// Limit for the bytes kept in memory: a directory and a MANIFEST of the largest size.
const MOST_KEPT: u64 = 512 << 20;

/// A file on an HTTP server.
pub struct RemoteSource {
    network: Network,
    url: Url,
    address: ShownUrl,
    version: Version,
    length: u64,
    activity: Arc<Activity>,
    /// The bytes read so far, by offset. Blocks neither overlap nor touch.
    blocks: Mutex<BTreeMap<u64, Arc<[u8]>>>,
    /// A nearer source that has all bytes, while there is one.
    near: Mutex<Option<Arc<dyn Source>>>,
}

impl RemoteSource {
    /// A file of this length, of which `blocks` are known. All other bytes must come from the same `version`. Reads end with an error
    /// when `activity` is cancelled.
    pub fn new(
        network: Network,
        url: Url,
        version: Version,
        length: u64,
        blocks: impl IntoIterator<Item = (u64, Vec<u8>)>,
        activity: Arc<Activity>,
    ) -> RemoteSource {
        let address = url.shown();
        let mut known = BTreeMap::new();
        blocks.into_iter().for_each(|(offset, bytes)| insert(&mut known, offset, bytes));
        let blocks = known;
        let (blocks, near) = (Mutex::new(blocks), Mutex::default());
        RemoteSource { network, url, address, version, length, activity, blocks, near }
    }

    /// Reads unknown bytes from `near`, which has the same bytes, until [`forget_near`](Self::forget_near). Known bytes stay known.
    #[must_use]
    pub fn with_near(self, near: Arc<dyn Source>) -> RemoteSource {
        RemoteSource { near: Mutex::new(Some(near)), ..self }
    }

    /// From now on reads unknown bytes from the server.
    pub fn forget_near(&self) {
        *self.near.lock() = None;
    }

    /// The network over which its bytes are fetched.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The URL of the file.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// The version of the file. All of its bytes belong to that version.
    pub fn version(&self) -> &Version {
        &self.version
    }

    /// The bytes read so far, by offset.
    pub fn blocks(&self) -> Vec<(u64, Vec<u8>)> {
        let blocks = self.blocks.lock();
        blocks.iter().map(|(offset, bytes)| (*offset, bytes.to_vec())).collect()
    }

    /// Whether these bytes are known, so that reading them takes no request.
    pub fn holds(&self, range: &Range<u64>) -> bool {
        self.block(range).is_some()
    }

    /// Fetches these bytes with one request, unless they are known, so that later reads of parts of them take none.
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

    /// Fetches these bytes without keeping them.
    ///
    /// # Errors
    /// As [`Network::read`]; the server has another version of the file.
    pub fn fetch(&self, range: Range<u64>, activity: &Arc<Activity>) -> Result<Vec<u8>, NetworkError> {
        let length = range.end.saturating_sub(range.start);
        if length == 0 {
            return Ok(Vec::new());
        }
        let near = self.near.lock().clone();
        if let Some(near) = near.filter(|_| length <= LARGEST_READ) {
            let cut = || NetworkError::Cut { url: self.address.clone(), expected: length, found: 0 };
            let mut bytes = vec![0; usize::try_from(length).map_err(|_| cut())?];
            near.read_at(range.start, &mut bytes).map_err(|_| cut())?;
            return Ok(bytes);
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

    /// Fetches bytes and keeps them.
    fn read(&self, range: Range<u64>) -> Result<(), NetworkError> {
        let kept: u64 = {
            let blocks = self.blocks.lock();
            blocks.values().map(|bytes| bytes.len() as u64).sum()
        };
        if kept.saturating_add(range.end - range.start) > MOST_KEPT {
            return Err(NetworkError::TooLarge { url: self.address.clone(), limit: MOST_KEPT });
        }
        let bytes = self.fetch(range.clone(), &self.activity)?;
        insert(&mut self.blocks.lock(), range.start, bytes);
        Ok(())
    }

    fn block(&self, range: &Range<u64>) -> Option<(u64, Arc<[u8]>)> {
        let blocks = self.blocks.lock();
        let (offset, bytes) = blocks.range(..=range.start).next_back()?;
        (range.end <= *offset + bytes.len() as u64).then(|| (*offset, bytes.clone()))
    }
}

impl fmt::Debug for RemoteSource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = formatter.debug_struct("RemoteSource");
        fields.field("address", &self.address).field("version", &self.version).finish_non_exhaustive()
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
            None => {
                self.read(offset..end).map_err(io::Error::other)?;
                self.block(&(offset..end)).ok_or(io::ErrorKind::UnexpectedEof)?
            }
        };
        // Both ends of the range lie within the block.
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

    fn location(&self) -> &str {
        self.address.as_str()
    }
}

/// Adds a block and joins it with those that it overlaps or touches. All blocks belong to one version, so overlapping bytes are equal.
fn insert(blocks: &mut BTreeMap<u64, Arc<[u8]>>, offset: u64, bytes: Vec<u8>) {
    let end_of = |(offset, bytes): (&u64, &Arc<[u8]>)| *offset + bytes.len() as u64;
    let (mut start, mut joined) = (offset, bytes);
    // First the blocks that begin before it, then those that begin within it; each is removed and joined to it.
    while let Some(before) = blocks.range(..start).next_back().filter(|block| end_of(*block) >= start) {
        let before_start = *before.0;
        let Some(before) = blocks.remove(&before_start) else { break };
        let mut bytes = before.to_vec();
        let covered = bytes.len().min((start - before_start) as usize + joined.len());
        bytes.splice((start - before_start) as usize..covered, joined);
        (start, joined) = (before_start, bytes);
    }
    while let Some(&next) = blocks.range(start..=start + joined.len() as u64).next().map(|(offset, _)| offset) {
        let Some(after) = blocks.remove(&next) else { break };
        let covered = (start + joined.len() as u64 - next) as usize;
        joined.extend_from_slice(after.get(covered..).unwrap_or_default());
    }
    blocks.insert(start, joined.into());
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use carton_format::source::behaviour;
    use proptest::prelude::*;

    use super::*;
    use crate::http::NetworkOptions;

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
        parts.read_at(1, &mut buffer).unwrap();
        assert_eq!(&buffer, b"123");
        let gap = source(10, &[(0, b"0123"), (5, b"56789")]);
        assert!(gap.holds(&(0..4)) && !gap.holds(&(2..6)) && !gap.holds(&(4..5)));
        let error = gap.read_at(2, &mut [0; 4]).unwrap_err();
        assert!(matches!(error.downcast::<NetworkError>(), Ok(NetworkError::Offline { .. })));
    }

    proptest! {
        #[test]
        fn blocks_are_joined(ranges in proptest::collection::vec((0_usize..40, 0_usize..12), 0..12)) {
            let contents: Vec<u8> = (0..60).collect();
            let mut blocks = BTreeMap::new();
            let mut is_known = [false; 61];
            for (start, length) in ranges {
                insert(&mut blocks, start as u64, contents[start..start + length].to_vec());
                is_known[start..start + length].fill(true);
            }
            let mut end = None;
            for (offset, bytes) in &blocks {
                let start = *offset as usize;
                prop_assert_eq!(&**bytes, &contents[start..start + bytes.len()]);
                prop_assert!(end.is_none_or(|end| end < start), "{:?}", blocks);
                prop_assert!(!is_known[start + bytes.len()]);
                is_known[start..start + bytes.len()].fill(false);
                end = Some(start + bytes.len());
            }
            prop_assert!(is_known.iter().all(|known| !known));
        }
    }
}
