//! Reads ranges of the tensors that a packed tensor consists of.

use std::ops::Range;

use super::PackedError;
use crate::any_file::{Entry, TensorFile, TensorFileError};
use crate::files::{ElementType, FileBytes, SharedBytes};

/// A tensor that a packed one consists of.
pub(super) struct Part<'a> {
    entry: Entry<'a>,
    bytes: Bytes<'a>,
}

enum Bytes<'a> {
    /// This range of a file.
    InFile(&'a FileBytes, Range<u64>),
    /// Compressed, or not contiguous in the file, and so read whole.
    InMemory(SharedBytes),
}

impl<'a> Part<'a> {
    /// Finds the tensor of this name. Digests are compared if the file was asked to.
    pub(super) fn open(file: &'a TensorFile, name: &str) -> Result<Self, PackedError> {
        let entry = file.entry(name)?;
        let bytes = match entry.location() {
            Some((bytes, range)) => {
                if entry.is_verified() {
                    entry.verify()?;
                }
                Bytes::InFile(bytes, range)
            }
            None => Bytes::InMemory(entry.read()?.bytes().clone()),
        };
        Ok(Self { entry, bytes })
    }

    /// The element type; that of an entry that is no tensor of numbers is `uint8`, whose bytes fit no description.
    pub(super) fn dtype(&self) -> ElementType {
        self.entry.dtype().unwrap_or(ElementType::Uint8)
    }

    fn len(&self) -> u64 {
        match &self.bytes {
            Bytes::InFile(_, range) => range.end - range.start,
            Bytes::InMemory(bytes) => bytes.len() as u64,
        }
    }

    /// Fills `buffer` with the bytes from `start` on.
    pub(super) fn read_into(&self, start: u64, buffer: &mut [u8]) -> Result<(), PackedError> {
        let end = start.checked_add(buffer.len() as u64).filter(|end| *end <= self.len());
        let Some(end) = end else {
            return Err(PackedError::refused(self.entry.name(), "it has fewer bytes than its shape needs"));
        };
        match &self.bytes {
            Bytes::InFile(bytes, range) => bytes
                .read_into(range.start + start, buffer)
                .map_err(|source| TensorFileError::Io { place: self.entry.place().to_owned(), source }.into()),
            Bytes::InMemory(bytes) => {
                let found = usize::try_from(start).ok().zip(usize::try_from(end).ok());
                if let Some(found) = found.and_then(|(start, end)| bytes.get(start..end)) {
                    buffer.copy_from_slice(found);
                }
                Ok(())
            }
        }
    }

    /// Reads the bytes `within` each of `rows`, which have `row_bytes` bytes each, one after the other into `buffer`.
    pub(super) fn read_rows(
        &self,
        row_bytes: usize,
        rows: Range<usize>,
        within: Range<usize>,
        buffer: &mut Vec<u8>,
    ) -> Result<(), PackedError> {
        let width = within.len();
        buffer.clear();
        buffer.resize(rows.len().saturating_mul(width), 0);
        let start = |row: usize| (row as u64).saturating_mul(row_bytes as u64).saturating_add(within.start as u64);
        if width == row_bytes || rows.len() == 1 {
            return self.read_into(start(rows.start), buffer);
        }
        if width == 0 {
            return Ok(());
        }
        rows.zip(buffer.chunks_exact_mut(width)).try_for_each(|(row, chunk)| self.read_into(start(row), chunk))
    }

    /// Reads all bytes of a small tensor, of which there must be `n_bytes`.
    pub(super) fn read_all(&self, n_bytes: usize) -> Result<Vec<u8>, PackedError> {
        if self.len() != n_bytes as u64 {
            let reason = format!("it has {} bytes, expected {n_bytes}", self.len());
            return Err(PackedError::refused(self.entry.name(), reason));
        }
        let mut buffer = vec![0; n_bytes];
        self.read_into(0, &mut buffer)?;
        Ok(buffer)
    }
}
