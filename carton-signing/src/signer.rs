//! Who signed, once that is verified.

use jiff::Timestamp;

/// A signer whose signature over a carton was verified.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum VerifiedSigner {
    /// A trusted key.
    Key {
        /// The SHA-256 of its PEM text.
        fingerprint: String,
    },
    /// A certificate from a trusted authority.
    Certificate {
        /// The identity that is trusted.
        identity: String,
        /// The distinguished name of the issuer.
        issuer: String,
        /// The last second at which the certificate is valid.
        valid_until: Timestamp,
    },
    /// An identity that an instance of Sigstore vouches for.
    Keyless {
        /// The identity that is trusted.
        identity: String,
        /// The provider that knows the identity.
        issuer: String,
        /// When the signature was made, as a log or an authority for timestamps says.
        signed_at: Timestamp,
    },
}
