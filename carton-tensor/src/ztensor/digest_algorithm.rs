//! Which algorithms digests are made with (spec/ztensor.md §4.3).

use std::fmt;

/// The algorithm of a digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DigestAlgorithm {
    /// SHA-256, which is collision-resistant: an attacker cannot construct other bytes with the same digest.
    Sha256,
    /// CRC-32C, which detects accidental changes and is many times faster.
    Crc32c,
}

impl DigestAlgorithm {
    /// All algorithms.
    pub const ALL: [Self; 2] = [Self::Sha256, Self::Crc32c];

    /// The prefix of digests of this algorithm.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Crc32c => "crc32c",
        }
    }
}

impl fmt::Display for DigestAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
