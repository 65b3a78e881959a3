//! Reading single files, verified.

use std::io::{self, Read};

use carton_format::context::Context;
use carton_format::digest::Hasher;

use super::raw_reader::{CHUNK_LENGTH, RawReader};
use super::tree::Item;
use super::{Contents, ContentsError};

impl Contents {
    /// A file as a whole, if it has at most `cap` bytes.
    ///
    /// # Errors
    /// There is no such file, it is larger, it is linked and not fetched, or its bytes are not what MANIFEST lists.
    pub(crate) fn read(&self, path: &str, cap: u64, context: &Context) -> Result<Vec<u8>, ContentsError> {
        let item = self.tree().find(path)?;
        let too_large =
            |found| ContentsError::Size { path: path.to_owned(), expected: format!("at most {cap}"), found };
        let mut bytes = Vec::new();
        if let Some(size) = self.locator.size(item) {
            if size > cap {
                return Err(too_large(size));
            }
            // Only a hint, and what it claims may be a lie: more is allocated as the bytes come.
            bytes.reserve(usize::try_from(size).unwrap_or(0).min(1024 * CHUNK_LENGTH));
        }
        let mut hasher = Hasher::new();
        self.feed(item, context, &mut |chunk| {
            let length = bytes.len() as u64 + chunk.len() as u64;
            if length > cap {
                return Err(too_large(length));
            }
            hasher.update(chunk);
            bytes.extend_from_slice(chunk);
            Ok(())
        })?;
        item.compare(hasher)?;
        Ok(bytes)
    }

    /// Fills `buffer` with a file that has exactly its length, hashing each piece while it is in the processor's cache.
    /// After an error the buffer's contents mean nothing.
    ///
    /// # Errors
    /// As for [`Contents::read`]; a file of another length is an error too.
    pub(crate) fn read_into(&self, path: &str, buffer: &mut [u8], context: &Context) -> Result<(), ContentsError> {
        let item = self.tree().find(path)?;
        let expected = buffer.len() as u64;
        let wrong_size =
            |found| ContentsError::Size { path: path.to_owned(), expected: format!("exactly {expected}"), found };
        if let Some(size) = self.locator.size(item).filter(|size| *size != expected) {
            return Err(wrong_size(size));
        }
        let mut reader = self.raw_reader(item, context)?;
        let mut hasher = Hasher::new();
        let mut filled = 0;
        while filled < buffer.len() {
            let end = buffer.len().min(filled + CHUNK_LENGTH);
            let n_bytes = reader.read(&mut buffer[filled..end])?;
            if n_bytes == 0 {
                return Err(wrong_size(filled as u64));
            }
            hasher.update(&buffer[filled..filled + n_bytes]);
            filled += n_bytes;
            context.check()?;
        }
        // The end must be reached, because the archive makes its own checks there.
        if reader.read(&mut [0])? != 0 {
            return Err(wrong_size(expected.saturating_add(1)));
        }
        item.compare(hasher)
    }

    /// A file's bytes as they are asked for. They are verified at the end: until `read` has returned `Ok(0)` they may be
    /// wrong, and a wrong digest is an error in its place ([`ContentsError::from_read`]).
    ///
    /// # Errors
    /// There is no such file, it is linked and not fetched, or it cannot be opened.
    pub(crate) fn reader(&self, path: &str, context: &Context) -> Result<Box<dyn Read + Send + '_>, ContentsError> {
        let item = self.tree().find(path)?;
        let reader = self.raw_reader(item, context)?;
        Ok(Box::new(VerifyingReader { item, reader, hasher: Some(Hasher::new()), context: context.clone() }))
    }
}

struct VerifyingReader<'a> {
    item: &'a Item,
    reader: RawReader<'a>,
    /// None when the end was met.
    hasher: Option<Hasher>,
    context: Context,
}

impl Read for VerifyingReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        self.context.check().map_err(|cancelled| into_read(cancelled.into()))?;
        let n_bytes = self.reader.read(buffer).map_err(into_read)?;
        if n_bytes > 0 {
            if let Some(hasher) = &mut self.hasher {
                hasher.update(&buffer[..n_bytes]);
            }
        } else if let Some(hasher) = self.hasher.take() {
            self.item.compare(hasher).map_err(into_read)?;
        }
        Ok(n_bytes)
    }
}

fn into_read(error: ContentsError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
