//! A range of a source, read from front to back through a small buffer.

use std::io;
use std::sync::Arc;

use crate::source::Source;

/// The bytes of a source from a position to an end.
pub(super) struct Section {
    source: Arc<dyn Source>,
    /// The offset of the bytes after the buffered ones.
    position: u64,
    end: u64,
    buffer: Vec<u8>,
    /// The number of bytes consumed from `buffer`.
    taken: usize,
}

/// The number of bytes that are read at once. Larger reads bypass the buffer.
const BUFFER_LENGTH: usize = 128 << 10;

impl Section {
    /// The bytes from `start` to `end`. `buffer` holds the first of them, from index `taken` on.
    pub(super) fn new(source: Arc<dyn Source>, start: u64, end: u64, mut buffer: Vec<u8>, taken: usize) -> Self {
        let length = usize::try_from(end.saturating_sub(start)).unwrap_or(usize::MAX);
        let taken = taken.min(buffer.len());
        buffer.truncate(taken.saturating_add(length));
        let position = start + (buffer.len() - taken) as u64;
        Self { source, position, end, buffer, taken }
    }

    /// The number of bytes left.
    pub(super) fn remaining(&self) -> u64 {
        self.end - self.position + (self.buffer.len() - self.taken) as u64
    }

    /// The next bytes, without consuming them; empty only at the end.
    pub(super) fn peek(&mut self) -> io::Result<&[u8]> {
        if self.taken == self.buffer.len() {
            let length = (self.end - self.position).min(BUFFER_LENGTH as u64);
            self.taken = 0;
            self.buffer.resize(length as usize, 0);
            if let Err(error) = self.source.read_at(self.position, &mut self.buffer) {
                self.buffer.clear();
                return Err(error);
            }
            self.position += length;
        }
        Ok(&self.buffer[self.taken..])
    }

    /// Consumes `length` of the bytes that `peek` returned.
    pub(super) fn take(&mut self, length: usize) {
        self.taken = self.buffer.len().min(self.taken + length);
    }

    /// Fills the start of `output` and returns the number of bytes; 0 only at the end, or if `output` is empty.
    pub(super) fn read(&mut self, output: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.buffer.len() && output.len() >= BUFFER_LENGTH {
            let length = (self.end - self.position).min(output.len() as u64);
            self.source.read_at(self.position, &mut output[..length as usize])?;
            self.position += length;
            return Ok(length as usize);
        }
        let next = self.peek()?;
        let length = next.len().min(output.len());
        output[..length].copy_from_slice(&next[..length]);
        self.take(length);
        Ok(length)
    }
}
