//! Reads a header from the start of a file to its end, a part of the file at a time: how long the header is, it does not say.

use std::io;

use super::HeaderError;
use crate::files::{FileBytes, SharedBytes};

/// The bytes that are read first, and the most that are read at a time unless a single text is longer.
const PARTS: (u64, u64) = (64 << 10, 4 << 20);

/// The longest header that is read, in bytes. Those of models with large vocabularies have some tens of megabytes.
const MAX_HEADER: u64 = 512 << 20;

/// Why a header cannot be read.
pub(super) enum Failed {
    Io(io::Error),
    Rule(HeaderError),
}

impl From<HeaderError> for Failed {
    fn from(rule: HeaderError) -> Self {
        Self::Rule(rule)
    }
}

/// A position in a file, and the bytes that were read around it.
pub(super) struct Cursor<'f> {
    file: &'f FileBytes,
    position: u64,
    part: SharedBytes,
    /// Where `part` is in the file.
    part_start: u64,
    next_part: u64,
}

impl<'f> Cursor<'f> {
    pub(super) fn new(file: &'f FileBytes) -> Self {
        let next_part = if file.is_in_memory() { MAX_HEADER } else { PARTS.0 };
        Self { file, position: 0, part: Vec::<u8>::new().into(), part_start: 0, next_part }
    }

    /// The position in the file.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Checks that this many bytes, which are `what`, are there, and returns where they end.
    fn check(&self, n_bytes: u64, what: &'static str) -> Result<u64, HeaderError> {
        let left = self.file.len().saturating_sub(self.position);
        if n_bytes > left {
            return Err(HeaderError::PastTheEnd { at: self.position, what, needed: n_bytes, left });
        }
        let end = self.position.saturating_add(n_bytes);
        if end > MAX_HEADER { Err(HeaderError::TooLong { most: MAX_HEADER }) } else { Ok(end) }
    }

    /// Passes over bytes.
    pub(super) fn skip(&mut self, n_bytes: u64, what: &'static str) -> Result<(), Failed> {
        self.position = self.check(n_bytes, what)?;
        Ok(())
    }

    /// Returns the next bytes.
    fn take(&mut self, n_bytes: u64, what: &'static str) -> Result<&[u8], Failed> {
        let end = self.check(n_bytes, what)?;
        let part_end = self.part_start.saturating_add(self.part.len() as u64);
        if self.position < self.part_start || end > part_end {
            let length = n_bytes.max(self.next_part).min(self.file.len().saturating_sub(self.position));
            self.part = self.file.read(self.position..self.position.saturating_add(length)).map_err(Failed::Io)?;
            self.part_start = self.position;
            self.next_part = self.next_part.saturating_mul(2).min(PARTS.1.max(self.next_part));
        }
        // The part has these bytes, and its length fits in usize.
        let (start, end) = (self.position - self.part_start, end - self.part_start);
        self.position = self.part_start.saturating_add(end);
        Ok(self.part.get(start as usize..end as usize).unwrap_or_default())
    }

    /// Returns the next bytes as an array.
    pub(super) fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], Failed> {
        let mut array = [0; N];
        // A mapped file that has become shorter reads as no bytes.
        if let Some(bytes) = self.take(N as u64, what)?.first_chunk() {
            array = *bytes;
        }
        Ok(array)
    }

    /// Reads a number of `what`, of which each takes at least `least` bytes, and checks that they fit in the file.
    pub(super) fn count(&mut self, what: &'static str, least: u64) -> Result<u64, Failed> {
        let at = self.position;
        let found = u64::from_le_bytes(self.array("a number")?);
        let left = self.file.len().saturating_sub(self.position);
        match found.checked_mul(least) {
            Some(needed) if needed <= left => Ok(found),
            _ => Err(HeaderError::TooMany { at, what, found, most: left / least.max(1) }.into()),
        }
    }

    /// Returns bytes that follow their number, which is at most `most`.
    pub(super) fn counted(&mut self, what: &'static str, most: u64) -> Result<&[u8], Failed> {
        let at = self.position;
        let length = self.count(what, 1)?;
        if length > most {
            return Err(HeaderError::TooMany { at, what, found: length, most }.into());
        }
        self.take(length, what)
    }
}
