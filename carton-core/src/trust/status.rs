//! What was found out about a carton's bundle.

use carton_signing::{ClaimedSigner, VerifiedSigner};
use serde::ser::{Serialize, SerializeMap, Serializer};

/// What is known of a carton's bundle: whether there is one, by whom, and whether that signer is trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SigningStatus {
    /// There is no bundle at the place where it was looked for.
    Unsigned {
        /// The place: a path, or the part of a URL that may be shown.
        place: String,
    },
    /// A trusted signer signed exactly this carton.
    Trusted {
        /// Where the bundle was.
        place: String,
        /// Who signed.
        signer: VerifiedSigner,
    },
    /// There is a bundle, and it is not accepted.
    Untrusted {
        /// Where the bundle was.
        place: String,
        /// Whom it names as its signer, which anyone can write; `None` if it cannot be read.
        claimed: Option<ClaimedSigner>,
        /// Why it is not accepted.
        reason: String,
        /// Whether no trust in any signer would make the bundle right: it is malformed, or for another carton.
        is_broken: bool,
    },
}

impl SigningStatus {
    /// Whether a trusted signer signed the carton.
    #[must_use]
    pub fn is_trusted(&self) -> bool {
        matches!(self, Self::Trusted { .. })
    }

    /// Who signed, in words: `key 3f2a…`, `release@example.com (certificate of CN=Example CA)`. `None` if nothing says so.
    #[must_use]
    pub fn signer(&self) -> Option<String> {
        match self {
            Self::Unsigned { .. } => None,
            Self::Trusted { signer, .. } => Some(match signer {
                VerifiedSigner::Certificate { identity, issuer, .. } => format!("{identity} (certificate of {issuer})"),
                VerifiedSigner::Keyless { identity, issuer, signed_at } => {
                    format!("{identity} (as {issuer} says, signed at {signed_at})")
                }
                VerifiedSigner::Key { fingerprint } => format!("key {fingerprint}"),
                _ => return None,
            }),
            Self::Untrusted { claimed, .. } => match claimed.as_ref()? {
                ClaimedSigner::Key { fingerprint } if fingerprint.is_empty() => Some("a key".to_owned()),
                ClaimedSigner::Key { fingerprint } => Some(format!("key {fingerprint}")),
                ClaimedSigner::Certificate { names, issuer } => {
                    Some(format!("{} (certificate of {issuer})", names.join(", ")))
                }
                ClaimedSigner::Keyless { identity, issuer } => Some(format!("{identity} (as {issuer} says)")),
                _ => None,
            },
        }
    }
}

impl Serialize for SigningStatus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (status, place, reason) = match self {
            Self::Unsigned { place } => ("unsigned", place, None),
            Self::Trusted { place, .. } => ("trusted", place, None),
            Self::Untrusted { place, reason, is_broken: true, .. } => ("broken", place, Some(reason)),
            Self::Untrusted { place, reason, .. } => ("untrusted", place, Some(reason)),
        };
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("status", status)?;
        map.serialize_entry("place", place)?;
        map.serialize_entry("signer", &self.signer())?;
        map.serialize_entry("reason", &reason)?;
        map.end()
    }
}
