//! Digests of decoded bytes (spec/ztensor2.md §4.3).

use std::fmt;
use std::hash::Hasher as _;

use sha2::{Digest as _, Sha256};
use twox_hash::XxHash3_64;

use super::ZTensor2Error;
use super::error::malformed;
use crate::ztensor::Name;

/// A digest. Its text form is that of manifests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Digest {
    /// XXH3 of 64 bits, which detects accidental changes.
    Xxh3(u64),
    /// SHA-256, which is collision-resistant.
    Sha256([u8; 32]),
}

/// The prefixes of digests of the algorithms that are known.
const XXH3: &str = "xxh3:";
const SHA256: &str = "sha256:";

/// Whether the algorithm of a digest is known.
pub(super) fn is_known(text: &str) -> bool {
    text.starts_with(XXH3) || text.starts_with(SHA256)
}

/// Parses a digest that is stated at a byte of the file. `None` for an algorithm that is not known.
pub(super) fn parse(text: &str, at: u64) -> Result<Option<Digest>, ZTensor2Error> {
    let wrong = |n_digits| {
        malformed("4.3", at, format!("the digest {}, expected {n_digits} hexadecimal digits", Name::new(text)))
    };
    // The parser of the manifest has checked that all digits are hexadecimal, in lower case.
    if let Some(hex) = text.strip_prefix(XXH3) {
        let digest = Some(hex).filter(|hex| hex.len() == 16).and_then(|hex| u64::from_str_radix(hex, 16).ok());
        return digest.map(|digest| Some(Digest::Xxh3(digest))).ok_or_else(|| wrong(16));
    }
    let Some(hex) = text.strip_prefix(SHA256) else { return Ok(None) };
    let mut digest = [0; 32];
    for (byte, index) in digest.iter_mut().zip((0..64).step_by(2)) {
        let digits = hex.get(index..index + 2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        *byte = digits.ok_or_else(|| wrong(64))?;
    }
    if hex.len() == 64 { Ok(Some(Digest::Sha256(digest))) } else { Err(wrong(64)) }
}

impl Digest {
    /// Computes the XXH3 of bytes.
    #[must_use]
    pub fn xxh3(bytes: &[u8]) -> Self {
        Self::Xxh3(xxh3(bytes))
    }

    /// Whether the bytes have this digest.
    #[must_use]
    pub fn is_of(&self, bytes: &[u8]) -> bool {
        let mut hasher = Hasher::like(self);
        hasher.update(bytes);
        hasher.finish() == *self
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Xxh3(digest) => write!(f, "{XXH3}{digest:016x}"),
            Self::Sha256(digest) => {
                f.write_str(SHA256)?;
                digest.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }
    }
}

/// Computes a digest of bytes that arrive in pieces.
pub(super) enum Hasher {
    Xxh3(Box<XxHash3_64>),
    Sha256(Box<Sha256>),
}

impl Hasher {
    pub(super) fn xxh3() -> Self {
        Self::Xxh3(Box::new(XxHash3_64::new()))
    }

    pub(super) fn sha256() -> Self {
        Self::Sha256(Box::default())
    }

    /// Starts a digest of the algorithm of another.
    pub(super) fn like(digest: &Digest) -> Self {
        match digest {
            Digest::Xxh3(_) => Self::xxh3(),
            Digest::Sha256(_) => Self::sha256(),
        }
    }

    pub(super) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Xxh3(hasher) => hasher.write(bytes),
            Self::Sha256(hasher) => hasher.update(bytes),
        }
    }

    pub(super) fn finish(self) -> Digest {
        match self {
            Self::Xxh3(hasher) => Digest::Xxh3(hasher.finish()),
            Self::Sha256(hasher) => Digest::Sha256(hasher.finalize().into()),
        }
    }
}

/// The XXH3 of bytes.
pub(super) fn xxh3(bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot(bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn texts_are_read_as_they_are_written() {
        for mut hasher in [Hasher::xxh3(), Hasher::sha256()] {
            hasher.update(b"123");
            hasher.update(b"456789");
            let digest = hasher.finish();
            assert!(digest.is_of(b"123456789") && !digest.is_of(b"123456780"));
            let text = digest.to_string();
            assert_eq!(parse(&text, 0).unwrap(), Some(digest));
            for wrong in [text[..text.len() - 1].to_owned(), format!("{text}0")] {
                assert!(matches!(parse(&wrong, 7), Err(ZTensor2Error::Malformed { section: "4.3", at: 7, .. })));
            }
        }
        // XXH3 of no bytes, by the tests of its author.
        assert_eq!(Digest::Xxh3(xxh3(b"")).to_string(), "xxh3:2d06800538d394c2");
        assert_eq!(parse("crc32c:00", 0).unwrap(), None);
    }
}
