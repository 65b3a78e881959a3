//! What stands in for the verification in a program that was built without it.

use jiff::Timestamp;

use super::{KeylessAuthority, SigstoreRootError};
use crate::certificate::Certificate;
use crate::error::{BundleError, VerifyError};
use crate::signer::VerifiedSigner;

/// What an instance of Sigstore is known by. In this program there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SigstoreRoot(std::convert::Infallible);

/// A keyless signature, of which only the certificate is read.
#[derive(Clone, Debug)]
pub(crate) struct Keyless {
    pub(crate) certificate: Certificate,
}

impl SigstoreRoot {
    /// Refuses the trusted root.
    ///
    /// # Errors
    /// Always [`SigstoreRootError::NotBuilt`].
    pub fn from_json(_text: &str) -> Result<Self, SigstoreRootError> {
        Err(SigstoreRootError::NotBuilt)
    }
}

impl Keyless {
    pub(crate) fn parse(_bytes: &[u8], certificate: Certificate) -> Result<Self, BundleError> {
        Ok(Self { certificate })
    }

    /// The identity in the certificate, which this program does not read.
    pub(crate) fn claims(&self) -> Option<(String, String)> {
        None
    }

    /// Refuses the signature: nothing confirms it.
    pub(crate) fn verify(
        &self,
        _payload: &[u8],
        _signature: &[u8],
        _subject: [u8; 32],
        _authority: &KeylessAuthority,
        _now: Timestamp,
    ) -> Result<VerifiedSigner, VerifyError> {
        Err(VerifyError::Keyless { reason: SigstoreRootError::NotBuilt.to_string(), is_broken: false })
    }
}
