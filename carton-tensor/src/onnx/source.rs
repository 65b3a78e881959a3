//! A file as the source of a message. Large data is passed over without being read: only a window of the file is in memory.

use std::cell::RefCell;
use std::ops::Range;

use super::error::{Problem, refused};
use super::wire;
use crate::files::{FileBytes, SharedBytes};

/// The bytes that are read first at a position, and the most that are read at a time.
const PARTS: (u64, u64) = (4 << 10, 1 << 20);

pub(super) type Message<'a> = wire::Message<'a, FileSource>;
pub(super) type Field<'a> = wire::Field<'a, FileSource>;

/// A file, and the window of it that was read last.
pub(super) struct FileSource {
    file: FileBytes,
    window: RefCell<Window>,
}

struct Window {
    bytes: SharedBytes,
    start: u64,
    /// How many bytes are read next, if they follow the window.
    next: u64,
}

impl Window {
    fn byte(&self, position: u64) -> Option<u8> {
        let index = position.checked_sub(self.start)?;
        self.bytes.get(usize::try_from(index).ok()?).copied()
    }

    fn range(&self, range: &Range<u64>) -> Option<&[u8]> {
        let start = usize::try_from(range.start.checked_sub(self.start)?).ok()?;
        let end = usize::try_from(range.end.checked_sub(self.start)?).ok()?;
        self.bytes.get(start..end)
    }
}

impl FileSource {
    pub(super) fn new(file: FileBytes) -> Self {
        let window = Window { bytes: Vec::<u8>::new().into(), start: 0, next: PARTS.0 };
        Self { file, window: RefCell::new(window) }
    }

    /// The whole file.
    pub(super) fn range(&self) -> Range<u64> {
        0..self.file.len()
    }

    /// Copies a range of the file, whose length the caller has limited.
    fn copy(&self, range: Range<u64>) -> Result<Vec<u8>, Problem> {
        if let Some(bytes) = self.window.borrow().range(&range) {
            return Ok(bytes.to_vec());
        }
        Ok(self.file.read(range)?.to_vec())
    }
}

impl wire::Source for FileSource {
    type Error = Problem;

    fn byte(&self, position: u64) -> Result<Option<u8>, Problem> {
        let mut window = self.window.borrow_mut();
        if let Some(byte) = window.byte(position) {
            return Ok(Some(byte));
        }
        let length = self.file.len();
        if position >= length {
            return Ok(None);
        }
        if self.file.is_in_memory() {
            // A view of all of it.
            window.bytes = self.file.read(0..length)?;
            window.start = 0;
            return Ok(window.byte(position));
        }
        let follows = position == window.start.saturating_add(window.bytes.len() as u64);
        let n_bytes = if follows { window.next } else { PARTS.0 };
        window.next = n_bytes.saturating_mul(2).min(PARTS.1);
        window.bytes = self.file.read(position..position.saturating_add(n_bytes).min(length))?;
        window.start = position;
        Ok(window.byte(position))
    }
}

/// The text of a field, which `what` names, of at most `most` bytes.
pub(super) fn text(field: &Field<'_>, what: &str, most: u64) -> Result<String, Problem> {
    let range = field.range()?;
    let length = range.end - range.start;
    if length > most {
        return refused(format!("{what} at byte {} has {length} bytes, at most {most} are read", field.offset()));
    }
    String::from_utf8(field.source().copy(range)?).map_err(|_| field.invalid_text().into())
}
