//! stub
#![allow(missing_docs)]
use std::io;
use std::ops::Range;
use std::sync::Arc;

use super::ArchiveError;
use crate::source::Source;

/// The entry table of a zip file.
pub struct Archive {
    source: Arc<dyn Source>,
    entries: Vec<Entry>,
}

/// One entry.
#[derive(Debug, Clone)]
pub struct Entry {
    names: Arc<str>,
    name: Range<u32>,
    kind: EntryKind,
    method: Method,
    size: u64,
    compressed_size: u64,
    crc32: u32,
}

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A file.
    File,
    /// A symbolic link; its data is the target.
    Symlink,
    /// A folder; it has no data. Its name is without the slash at the end.
    Directory,
}

/// How an entry's bytes are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// As they are.
    Stored,
    /// Deflate.
    Deflate,
    /// Zstandard.
    Zstd,
}

/// An entry's bytes, decompressed.
pub struct EntryReader;

impl Archive {
    pub fn open(source: Arc<dyn Source>) -> Result<Archive, ArchiveError> {
        Ok(Self { source, entries: Vec::new() })
    }
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }
    pub fn get(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name() == name)
    }
    pub fn source(&self) -> &Arc<dyn Source> {
        &self.source
    }
    pub fn read(&self, entry: &Entry, cap: u64) -> Result<Vec<u8>, ArchiveError> {
        let _ = (entry, cap);
        Ok(Vec::new())
    }
    pub fn reader(&self, entry: &Entry) -> Result<EntryReader, ArchiveError> {
        let _ = entry;
        Ok(EntryReader)
    }
    pub fn stored_range(&self, entry: &Entry) -> Result<Option<Range<u64>>, ArchiveError> {
        let _ = entry;
        Ok(None)
    }
}

impl io::Read for EntryReader {
    fn read(&mut self, _buffer: &mut [u8]) -> io::Result<usize> {
        Ok(0)
    }
}

impl Entry {
    pub fn name(&self) -> &str {
        &self.names[self.name.start as usize..self.name.end as usize]
    }
    pub fn kind(&self) -> EntryKind {
        self.kind
    }
    pub fn method(&self) -> Method {
        self.method
    }
    pub fn size(&self) -> u64 {
        self.size
    }
    pub fn compressed_size(&self) -> u64 {
        self.compressed_size
    }
    pub fn crc32(&self) -> u32 {
        self.crc32
    }
}
