//! Pieces of buffers, by position.

use std::ops::Range;

/// A range of one of the buffers. A manifest has at most 1 GiB, and so have the buffers, so that 32 bits are enough.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl Span {
    pub(crate) const fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.start == self.end
    }
}
