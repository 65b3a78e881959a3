//! Values of metadata as files have them: their types, and their bytes (spec/gguf.md §2). They are copied from one file to another without being parsed.

use std::io;
use std::ops::Range;

use super::value::MAX_TEXT;
use super::{Reader, ValueType};
use crate::files::FileBytes;

/// The bytes that are read at a time.
const AT_ONCE: u64 = 1 << 20;

/// A value as a file has it: the number of its type, and its bytes. Those of another file are read when they are needed.
#[derive(Clone, Debug)]
pub struct EncodedValue {
    bytes: FileBytes,
    range: Range<u64>,
}

impl EncodedValue {
    /// Encodes text.
    #[must_use]
    pub fn text(text: &str) -> Self {
        let of = ValueType::String.id().to_le_bytes();
        let bytes = [of.as_slice(), &(text.len() as u64).to_le_bytes(), text.as_bytes()].concat();
        Self { range: 0..bytes.len() as u64, bytes: bytes.into() }
    }

    /// The number of the bytes.
    #[must_use]
    pub fn n_bytes(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// The value, if it is an unsigned integer of 32 bits.
    ///
    /// # Errors
    /// The bytes cannot be read.
    pub fn as_u32(&self) -> io::Result<Option<u32>> {
        let mut found = [0; 8];
        if self.n_bytes() != 8 {
            return Ok(None);
        }
        self.bytes.read_into(self.range.start, &mut found)?;
        let [of @ .., a, b, c, d] = found;
        Ok((of == ValueType::Uint32.id().to_le_bytes()).then_some(u32::from_le_bytes([a, b, c, d])))
    }

    /// The length of text that is longer than what is read.
    pub(super) fn long_text(&self) -> io::Result<Option<u64>> {
        let Some(found) = self.n_bytes().checked_sub(4 + 8).filter(|found| *found > MAX_TEXT) else { return Ok(None) };
        let mut of = [0; 4];
        self.bytes.read_into(self.range.start, &mut of)?;
        Ok((of == ValueType::String.id().to_le_bytes()).then_some(found))
    }

    /// Passes the bytes to `visit`, a part at a time.
    ///
    /// # Errors
    /// The bytes cannot be read, and those of `visit`.
    pub(super) fn visit<E: From<io::Error>>(&self, mut visit: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let mut rest = self.range.clone();
        while rest.start < rest.end {
            let end = rest.end.min(rest.start.saturating_add(AT_ONCE));
            visit(&self.bytes.read(rest.start..end)?)?;
            rest.start = end;
        }
        Ok(())
    }

    /// Whether another value has the same type and bytes.
    ///
    /// # Errors
    /// The bytes cannot be read.
    pub fn is_same(&self, other: &Self) -> io::Result<bool> {
        if self.n_bytes() != other.n_bytes() {
            return Ok(false);
        }
        let mut done = 0;
        while done < self.n_bytes() {
            let end = self.n_bytes().min(done.saturating_add(AT_ONCE));
            let part = |of: &Self| of.bytes.read(of.range.start + done..of.range.start + end);
            if *part(self)? != *part(other)? {
                return Ok(false);
            }
            done = end;
        }
        Ok(true)
    }
}

impl Reader {
    /// The keys of the file with their values, in its order. No value is read.
    pub fn encoded_metadata(&self) -> impl ExactSizeIterator<Item = (&str, EncodedValue)> {
        let pairs = self.header().metadata().iter().zip(self.header().value_ranges());
        pairs
            .map(|((key, _), range)| (key.as_str(), EncodedValue { bytes: self.bytes().clone(), range: range.clone() }))
    }
}
