//! Bytes that were fetched ahead, before the source that they are from.

use std::fs::File;
use std::io;
use std::sync::Arc;

use super::{FileIdentity, Source};

/// A source of which some bytes are in memory already; all others are read from the source itself.
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
    use crate::source::{MemorySource, behaviour};

    #[test]
    fn a_window_behaves_as_its_source() {
        let contents = b"0123456789";
        let inner: Arc<dyn Source> = Arc::new(MemorySource::new(&contents[..], "memory"));
        behaviour::check(&Window::new(inner, 3, contents[3..7].to_vec()), contents);
    }

    #[test]
    fn what_is_in_memory_is_not_read_again() {
        let inner: Arc<dyn Source> = Arc::new(MemorySource::new(&b"other byte"[..], "memory"));
        let mut buffer = [0; 4];
        Window::new(inner, 3, b"3456".to_vec()).read_at(3, &mut buffer).unwrap();
        assert_eq!(&buffer, b"3456");
    }
}
