//! Adapts [`FileBytes`] to [`Read`] and [`Seek`], for formats whose parser needs them.

use std::io::{self, Read, Seek, SeekFrom};

use crate::files::FileBytes;

pub(super) struct FileReader {
    bytes: FileBytes,
    position: u64,
}

impl FileReader {
    pub(super) fn new(bytes: FileBytes) -> Self {
        Self { bytes, position: 0 }
    }
}

impl Read for FileReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let rest = self.bytes.len().saturating_sub(self.position);
        let length = buffer.len().min(usize::try_from(rest).unwrap_or(usize::MAX));
        self.bytes.read_into(self.position, buffer.get_mut(..length).unwrap_or_default())?;
        self.position += length as u64;
        Ok(length)
    }
}

impl Seek for FileReader {
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
