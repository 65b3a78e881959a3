//! Sizes in error messages.

use std::fmt;

/// A number of bytes, exact or with a lower bound only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bytes {
    /// Exactly this number.
    Exactly(u64),
    /// More than this number. The exact number was not determined.
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
