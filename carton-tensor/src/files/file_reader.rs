//! Adapts [`FileBytes`] to [`Read`] and [`Seek`], for formats whose parser needs them.

use std::io::{self, BufReader, Read, Seek, SeekFrom};

use super::FileBytes;

/// Reads a file from a position of its own. Reads of a few bytes are buffered.
pub(crate) struct FileReader(BufReader<Unbuffered>);

#[derive(Clone)]
struct Unbuffered {
    bytes: FileBytes,
    position: u64,
}

impl FileReader {
    pub(crate) fn new(bytes: FileBytes) -> Self {
        Self(BufReader::new(Unbuffered { bytes, position: 0 }))
    }
}

impl Clone for FileReader {
    /// Returns a reader at the same position, which further reads of either leave to the other.
    fn clone(&self) -> Self {
        let Unbuffered { bytes, position } = self.0.get_ref().clone();
        let position = position.saturating_sub(self.0.buffer().len() as u64);
        Self(BufReader::new(Unbuffered { bytes, position }))
    }
}

impl Read for FileReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Seek for FileReader {
    fn seek(&mut self, target: SeekFrom) -> io::Result<u64> {
        self.0.seek(target)
    }
}

impl Read for Unbuffered {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let rest = self.bytes.len().saturating_sub(self.position);
        let length = buffer.len().min(usize::try_from(rest).unwrap_or(usize::MAX));
        self.bytes.read_into(self.position, buffer.get_mut(..length).unwrap_or_default())?;
        self.position += length as u64;
        Ok(length)
    }
}

impl Seek for Unbuffered {
    fn seek(&mut self, target: SeekFrom) -> io::Result<u64> {
        let position = match target {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::End(distance) => self.bytes.len().checked_add_signed(distance),
            SeekFrom::Current(distance) => self.position.checked_add_signed(distance),
        };
        self.position = position.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok(self.position)
    }
}
