//! Why a bundle cannot be read, and why a signature is not accepted.

use crate::certificate::CertificateError;
use crate::statement::StatementError;

pub(crate) const MEDIA_TYPE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";

/// Why a bundle cannot be read. It may still be a signature of a kind that a later version can verify.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BundleError {
    /// The text is not JSON of a bundle's form.
    #[error("it is not a Sigstore bundle: {0}")]
    Malformed(String),
    /// The bundle is larger than any signature of this carton can be.
    #[error("the bundle is too large: at most {limit} bytes, found {found}")]
    TooLong {
        /// The limit.
        limit: usize,
        /// The size.
        found: usize,
    },
    /// The bundle has another version.
    #[error("it is a bundle of the type `{0}`, expected `{MEDIA_TYPE}`")]
    MediaType(String),
    /// The bundle holds no signature, or several.
    #[error("the bundle holds {0} signatures, expected 1")]
    Signatures(usize),
    /// The bundle names no signer, or several ways to know one.
    #[error("the bundle must name one of a key, a chain of certificates, or a certificate with a log entry")]
    Material,
    /// A keyless signature has several log entries, which could disagree.
    #[error("the bundle has {0} entries of transparency logs, expected 1")]
    LogEntries(usize),
    /// The bundle has more timestamps than any signature needs.
    #[error("the bundle has {0} timestamps, which is too many")]
    Timestamps(usize),
    /// The checkpoint of the log has more signatures than any log has witnesses.
    #[error("the checkpoint in the bundle has {0} signatures, which is too many")]
    CheckpointSignatures(usize),
    /// A certificate cannot be read.
    #[error("a certificate of the bundle cannot be read: {0}")]
    Certificate(String),
}

/// Why a signature is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// The signature is about something else.
    #[error(transparent)]
    Statement(#[from] StatementError),
    /// The bundle says that a key signed, and no trusted key made this signature.
    #[error("the bundle is by no trusted key (it names {})", shown_key(hint))]
    UnknownKey {
        /// The key that the bundle names.
        hint: String,
    },
    /// The certificate's key did not make this signature.
    #[error("the bundle is not by the key of its certificate ({subject})")]
    NotByCertificate {
        /// The subject of the certificate.
        subject: String,
    },
    /// The certificate is not one to trust.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The certificate is good, and its owner is not trusted.
    #[error("the bundle is by {}, who is not trusted", names.join(", "))]
    UnknownIdentity {
        /// The names of the signer.
        names: Vec<String>,
    },
    /// The bundle is by an authority, and the user trusts only keys; or the reverse.
    #[error("the bundle is by {found}, and no {expected} is trusted")]
    NoSuchTrust {
        /// What the bundle has.
        found: &'static str,
        /// What the user would have to trust.
        expected: &'static str,
    },
    /// The signature is a keyless one, and the trusted root does not confirm it.
    #[error("the keyless bundle is not confirmed: {reason}")]
    Keyless {
        /// The reason, in words.
        reason: String,
        /// Whether no trusted root would confirm it.
        is_broken: bool,
    },
    /// The keyless signature is good, and the identity is not trusted.
    #[error("the bundle is by {identity} (as {issuer} says), who is not trusted")]
    UnknownKeyless {
        /// The identity.
        identity: String,
        /// The provider that knows the identity.
        issuer: String,
    },
    /// The certificate is one for keyless signatures, and the log entry is missing that says when it was used.
    #[error("the bundle has no entry of a transparency log, without which a keyless bundle proves nothing")]
    NotLogged,
}

impl VerifyError {
    /// Whether no trust in any signer would make the signature right: it is for another carton, or contradicts itself.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        matches!(self, Self::Statement(_) | Self::NotByCertificate { .. } | Self::Keyless { is_broken: true, .. })
    }
}

fn shown_key(hint: &str) -> String {
    if hint.is_empty() { "no key".to_owned() } else { format!("the key `{}`", hint.escape_debug()) }
}
