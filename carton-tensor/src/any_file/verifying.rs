//! The digests that a zTensor file of any version states, and readers that compare them.

use super::{Inner, TensorFile};
use crate::ztensor::{self, Checks};
use crate::ztensor2;

/// The digest that some bytes should have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExpectedDigest {
    ZTensor(ztensor::Digest),
    ZTensor2(ztensor2::Digest),
}

impl ExpectedDigest {
    /// Whether the bytes have this digest.
    pub(crate) fn is_of(&self, bytes: &[u8]) -> bool {
        match self {
            Self::ZTensor(digest) => digest.algorithm().digest(bytes) == *digest,
            Self::ZTensor2(digest) => digest.is_of(bytes),
        }
    }

    /// The SHA-256, if it is one. Other digests say nothing about bytes that somebody chose.
    pub(crate) fn sha256(&self) -> Option<[u8; 32]> {
        match self {
            Self::ZTensor(ztensor::Digest::Sha256(digest)) | Self::ZTensor2(ztensor2::Digest::Sha256(digest)) => {
                Some(*digest)
            }
            _ => None,
        }
    }
}

/// A second reader of a file, which compares the digests of exactly the bytes that it returns.
#[derive(Clone, Debug)]
pub(crate) enum VerifyingReader {
    ZTensor(ztensor::Reader),
    ZTensor2(ztensor2::Reader),
}

impl TensorFile {
    /// Returns a second reader of the file that compares digests. `None` if the format has none.
    pub(crate) fn verifying_reader(&self) -> Option<VerifyingReader> {
        let checks = Checks { digests: true, ..Checks::default() };
        match &self.inner {
            Inner::ZTensor(reader) => Some(VerifyingReader::ZTensor(reader.clone().checking(checks))),
            Inner::ZTensor2(reader) => Some(VerifyingReader::ZTensor2(reader.clone().checking(checks))),
            _ => None,
        }
    }
}
