//! Sizes, as errors tell them.

use std::fmt;

/// A number of bytes that is known, or only known to be too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bytes {
    /// So many.
    Exactly(u64),
    /// More than so many; nobody looked how many.
    MoreThan(u64),
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exactly(n_bytes) => write!(f, "{n_bytes}"),
            Self::MoreThan(n_bytes) => write!(f, "more than {n_bytes}"),
        }
    }
}
