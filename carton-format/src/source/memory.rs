//! A source whose bytes are in memory.

use std::fs::File;
use std::io;

use super::{FileIdentity, Source};

/// The bytes of a buffer.
#[derive(Debug, Clone)]
pub struct MemorySource {
    bytes: Vec<u8>,
    location: String,
}

impl MemorySource {
    /// Takes `bytes`; `location` is only for error messages.
    pub fn new(bytes: impl Into<Vec<u8>>, location: impl Into<String>) -> Self {
        Self { bytes: bytes.into(), location: location.into() }
    }
}

impl Source for MemorySource {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let range = usize::try_from(offset).ok().and_then(|start| Some(start..start.checked_add(buffer.len())?));
        match range.and_then(|range| self.bytes.get(range)) {
            Some(bytes) => {
                buffer.copy_from_slice(bytes);
                Ok(())
            }
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    fn identity(&self) -> Option<FileIdentity> {
        None
    }

    fn file(&self) -> Option<&File> {
        None
    }

    fn location(&self) -> &str {
        &self.location
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_behaves_as_a_source() {
        for contents in [&b""[..], b"0123456789"] {
            crate::source::behaviour::check(&MemorySource::new(contents, "memory"), contents);
        }
    }
}
