//! Bounds the size of a page: everything that is embedded takes bytes of one budget.

/// The bytes that may still be embedded.
#[derive(Debug)]
pub(crate) struct Budget {
    left: u64,
}

impl Budget {
    pub(crate) fn new(n_bytes: u64) -> Self {
        Self { left: n_bytes }
    }

    /// Whether this many bytes are left.
    pub(crate) fn has(&self, n_bytes: u64) -> bool {
        n_bytes <= self.left
    }

    /// Takes bytes; `false`, and nothing is taken, if there are too few.
    pub(crate) fn take(&mut self, n_bytes: u64) -> bool {
        let is_enough = self.has(n_bytes);
        if is_enough {
            self.left -= n_bytes;
        }
        is_enough
    }
}
