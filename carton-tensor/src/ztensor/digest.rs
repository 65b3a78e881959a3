//! Digests of stored bytes (spec/ztensor.md §4.3).

use std::fmt;

use sha2::{Digest as _, Sha256};

use super::ZTensorError;
use super::digest_algorithm::DigestAlgorithm;
use super::name::Name;
use super::place::FilePart;

impl DigestAlgorithm {
    /// Computes the digest of some bytes.
    ///
    /// ```
    /// use carton_tensor::ztensor::DigestAlgorithm;
    /// assert_eq!(DigestAlgorithm::Crc32c.digest(b"123456789").to_string(), "crc32c:0xE3069283");
    /// ```
    #[must_use]
    pub fn digest(self, bytes: &[u8]) -> Digest {
        let mut hasher = Hasher::new(self);
        hasher.update(bytes);
        hasher.finish()
    }
}

/// A digest. Its text form is that of manifests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Digest {
    /// SHA-256.
    Sha256([u8; 32]),
    /// CRC-32C.
    Crc32c(u32),
}

impl Digest {
    pub(super) fn parse(text: &str, at: impl Fn() -> Box<FilePart>) -> Result<Self, ZTensorError> {
        let malformed = |algorithm| ZTensorError::MalformedDigest { at: at(), found: Name::new(text), algorithm };
        if let Some(hex) = text.strip_prefix("sha256:") {
            return sha256(hex).map(Self::Sha256).ok_or_else(|| malformed(DigestAlgorithm::Sha256));
        }
        if let Some(hex) = text.strip_prefix("crc32c:") {
            return crc32c(hex).map(Self::Crc32c).ok_or_else(|| malformed(DigestAlgorithm::Crc32c));
        }
        Err(ZTensorError::UnknownDigest { at: at(), found: Name::new(text) })
    }

    /// The algorithm of the digest.
    #[must_use]
    pub const fn algorithm(&self) -> DigestAlgorithm {
        match self {
            Self::Sha256(_) => DigestAlgorithm::Sha256,
            Self::Crc32c(_) => DigestAlgorithm::Crc32c,
        }
    }

    pub(super) fn verify(&self, bytes: &[u8], at: impl Fn() -> Box<FilePart>) -> Result<(), ZTensorError> {
        let found = self.algorithm().digest(bytes);
        if found == *self {
            return Ok(());
        }
        Err(ZTensorError::DigestMismatch { at: at(), expected: self.to_string(), found: found.to_string() })
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sha256(digest) => {
                f.write_str("sha256:")?;
                digest.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            Self::Crc32c(digest) => write!(f, "crc32c:0x{digest:08X}"),
        }
    }
}

/// Parses 64 hexadecimal digits of either case.
fn sha256(hex: &str) -> Option<[u8; 32]> {
    let mut digest = [0; 32];
    if hex.len() != 64 || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, index) in digest.iter_mut().zip((0..64).step_by(2)) {
        *byte = u8::from_str_radix(hex.get(index..index + 2)?, 16).ok()?;
    }
    Some(digest)
}

/// Parses eight hexadecimal digits of either case, with or without `0x`.
fn crc32c(hex: &str) -> Option<u32> {
    let digits = hex.strip_prefix("0x").or_else(|| hex.strip_prefix("0X")).unwrap_or(hex);
    let is_one = digits.len() == 8 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_one.then(|| u32::from_str_radix(digits, 16).ok())?
}

/// Computes a digest of bytes that arrive in pieces.
pub(super) enum Hasher {
    Sha256(Box<Sha256>),
    Crc32c(u32),
}

impl Hasher {
    pub(super) fn new(algorithm: DigestAlgorithm) -> Self {
        match algorithm {
            DigestAlgorithm::Sha256 => Self::Sha256(Box::default()),
            DigestAlgorithm::Crc32c => Self::Crc32c(0),
        }
    }

    pub(super) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha256(hasher) => hasher.update(bytes),
            Self::Crc32c(digest) => *digest = crc32c::crc32c_append(*digest, bytes),
        }
    }

    pub(super) fn finish(self) -> Digest {
        match self {
            Self::Sha256(hasher) => Digest::Sha256(hasher.finalize().into()),
            Self::Crc32c(digest) => Digest::Crc32c(digest),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn texts_are_read_as_they_are_written() {
        for algorithm in [DigestAlgorithm::Sha256, DigestAlgorithm::Crc32c] {
            let digest = algorithm.digest(b"123456789");
            let at = || FilePart::object("x");
            let parse = |text: &str| Digest::parse(text, at);
            assert_eq!(parse(&digest.to_string()).unwrap(), digest);
            assert_eq!(parse(&digest.to_string().replace("0x", "")).unwrap(), digest);
            let text = digest.to_string();
            assert!(matches!(parse(&text[..text.len() - 1]), Err(ZTensorError::MalformedDigest { .. })));
            assert!(matches!(parse(&format!("{text}0")), Err(ZTensorError::MalformedDigest { .. })));
            digest.verify(b"123456789", at).unwrap();
            assert!(matches!(digest.verify(b"123456780", at), Err(ZTensorError::DigestMismatch { .. })));
        }
        let sum = DigestAlgorithm::Sha256.digest(b"").to_string();
        assert_eq!(sum, "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        let at = || FilePart::object("x");
        assert!(matches!(Digest::parse("md5:00", at), Err(ZTensorError::UnknownDigest { .. })));
        assert!(matches!(Digest::parse("crc32c:0x+1234567", at), Err(ZTensorError::MalformedDigest { .. })));
    }
}
