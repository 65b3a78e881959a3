//! Makes a signature (spec/signing.md, "Signing").

use crate::bundle::{Bundle, Signer};
use crate::certificate::{Certificate, CertificateError};
use crate::key::PrivateKey;
use crate::statement::{PAYLOAD_TYPE, SignedFiles};

/// Who signs: a private key, with the chain of certificates that says whose it is if there is one.
#[derive(Debug)]
pub struct SigningIdentity {
    key: PrivateKey,
    chain: Vec<Certificate>,
}

/// Why a key and a chain do not belong together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdentityError {
    /// The first certificate is for another key.
    #[error("the certificate of {subject} is for another key than the private key")]
    OtherKey {
        /// The subject of the first certificate.
        subject: String,
    },
    /// The first certificate has a key that cannot sign here.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
}

impl SigningIdentity {
    /// Signs with a key. Who verifies needs the public key.
    #[must_use]
    pub fn with_key(key: PrivateKey) -> Self {
        Self { key, chain: Vec::new() }
    }

    /// Signs with a key and certificates for it: the key's own first, then those that lead to a root. Who verifies needs the root.
    ///
    /// # Errors
    /// The first certificate is for another key.
    pub fn with_certificates(key: PrivateKey, chain: Vec<Certificate>) -> Result<Self, IdentityError> {
        if let Some(leaf) = chain.first()
            && leaf.public_key()? != key.public_key()
        {
            return Err(IdentityError::OtherKey { subject: leaf.subject() });
        }
        Ok(Self { key, chain })
    }

    /// The key that signs.
    #[must_use]
    pub fn key(&self) -> &PrivateKey {
        &self.key
    }

    /// The certificate of the key.
    #[must_use]
    pub fn certificate(&self) -> Option<&Certificate> {
        self.chain.first()
    }

    /// Signs the files of a carton. Returns the JSON of a bundle, which is the same each time.
    #[must_use]
    pub fn sign(&self, files: &SignedFiles) -> Vec<u8> {
        let payload = files.to_json();
        let signature = self.key.sign(&Bundle::signed_bytes(PAYLOAD_TYPE, &payload));
        let signer = match self.chain.is_empty() {
            true => Signer::Key { hint: self.key.public_key().fingerprint() },
            false => Signer::Chain(&self.chain),
        };
        Bundle::write(PAYLOAD_TYPE, &payload, &signature, &signer)
    }
}
