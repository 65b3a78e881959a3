//! The verification itself.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use sigstore_verify::crypto::{install_default_provider, parse_certificate_info};
use sigstore_verify::types::{Artifact, Sha256Hash, SignatureContent};
use sigstore_verify::{CertificateError as Certification, Error, TransparencyLogError, VerificationPolicy, Verifier};

use super::{KeylessAuthority, SigstoreRootError, provider};
use crate::certificate::Certificate;
use crate::error::{BundleError, VerifyError};
use crate::pattern::matches;
use crate::signer::VerifiedSigner;

/// The largest trusted root. That of Sigstore's public instance has 7 KiB.
const MAX_ROOT_LENGTH: usize = 1 << 20;

/// A token is verified for each; the stock verifier has the same limit.
const MAX_TIMESTAMPS: usize = 32;

/// A checkpoint has the signature of its log, and those of witnesses, of which each may need a verification.
const MAX_CHECKPOINT_SIGNATURES: usize = 32;

/// What an instance of Sigstore is known by: the certificates of its authorities, and the keys of its logs. `Debug` shows their number.
#[derive(Clone)]
pub struct SigstoreRoot(Arc<Inner>);

struct Inner {
    text: String,
    verifier: Verifier,
    n_authorities: usize,
}

/// A keyless signature as it is in its bundle. Nothing in it is verified.
#[derive(Clone, Debug)]
pub(crate) struct Keyless {
    pub(crate) certificate: Certificate,
    bundle: Box<sigstore_verify::types::Bundle>,
}

impl SigstoreRoot {
    /// Reads a trusted root: the JSON of a `TrustedRoot` of Sigstore, usually named `trusted_root.json`.
    ///
    /// # Errors
    /// The text is something else, or names no certificate authority, no log of certificates or no log of signatures.
    pub fn from_json(text: &str) -> Result<Self, SigstoreRootError> {
        // Another provider that the program has installed serves as well.
        let _ = install_default_provider(&provider::RING);
        let malformed = |error: &dyn fmt::Display| SigstoreRootError::Malformed(error.to_string());
        if text.len() > MAX_ROOT_LENGTH {
            return Err(SigstoreRootError::Malformed(format!("it is larger than {MAX_ROOT_LENGTH} bytes")));
        }
        let root = sigstore_verify::trust_root::TrustedRoot::from_json(text).map_err(|error| malformed(&error))?;
        for (is_empty, what) in [
            (root.certificate_authorities.is_empty(), "certificate authority"),
            (root.ctlogs.is_empty(), "certificate transparency log"),
            (root.tlogs.is_empty(), "transparency log"),
        ] {
            if is_empty {
                return Err(SigstoreRootError::Incomplete(what));
            }
        }
        let verifier = Verifier::new(&root).map_err(|error| malformed(&error))?;
        let n_authorities = root.certificate_authorities.len();
        Ok(Self(Arc::new(Inner { text: text.to_owned(), verifier, n_authorities })))
    }
}

impl Keyless {
    /// Reads the parts of a bundle that are about the certificate and the log. `bytes` are those of the whole bundle.
    pub(crate) fn parse(bytes: &[u8], certificate: Certificate) -> Result<Self, BundleError> {
        let malformed = |error: &dyn fmt::Display| BundleError::Malformed(error.to_string());
        let text = std::str::from_utf8(bytes).map_err(|error| malformed(&error))?;
        let bundle = sigstore_verify::types::Bundle::from_json(text).map_err(|error| malformed(&error))?;
        let material = &bundle.verification_material;
        let n_timestamps = material.timestamp_verification_data.rfc3161_timestamps.len();
        if n_timestamps > MAX_TIMESTAMPS {
            return Err(BundleError::Timestamps(n_timestamps));
        }
        let checkpoints = material.tlog_entries.iter().filter_map(|entry| entry.inclusion_proof.as_ref());
        let n_signatures = checkpoints
            .filter_map(|proof| proof.checkpoint.checkpoint())
            .map(|checkpoint| checkpoint.signatures().len())
            .max();
        match n_signatures {
            Some(n_signatures) if n_signatures > MAX_CHECKPOINT_SIGNATURES => {
                Err(BundleError::CheckpointSignatures(n_signatures))
            }
            _ => Ok(Self { certificate, bundle: Box::new(bundle) }),
        }
    }

    /// Whether the verifier reads the same envelope from the bundle: the payload that was compared with the carton.
    fn has(&self, payload: &[u8], signature: &[u8]) -> bool {
        let SignatureContent::DsseEnvelope(envelope) = &self.bundle.content else { return false };
        let certificate = self.bundle.signing_certificate().map(|certificate| certificate.as_bytes());
        envelope.payload.as_bytes() == payload
            && envelope.signature.sig.as_bytes() == signature
            && certificate == Some(self.certificate.der())
    }

    /// The identity in the certificate, and the provider that vouches for it.
    pub(crate) fn claims(&self) -> Option<(String, String)> {
        let info = parse_certificate_info(self.bundle.signing_certificate()?).ok()?;
        Some((info.identity?.as_str().to_owned(), info.issuer?))
    }

    /// Verifies that somebody whom `authority` trusts made this signature while the certificate was valid. `payload` and `signature` are
    /// those of the envelope, and `subject` the digest of the statement's only subject. A time after `now` is refused.
    pub(crate) fn verify(
        &self,
        payload: &[u8],
        signature: &[u8],
        subject: [u8; 32],
        authority: &KeylessAuthority,
        now: Timestamp,
    ) -> Result<VerifiedSigner, VerifyError> {
        let refused = |reason: &str| VerifyError::Keyless { reason: reason.to_owned(), is_broken: true };
        if !self.has(payload, signature) {
            return Err(refused("the bundle can be read in two ways"));
        }
        self.certificate.check_usage()?;
        // Who may sign is decided below, because identities are patterns.
        let policy = VerificationPolicy::any_identity();
        let artifact = Artifact::from(Sha256Hash::new(subject));
        let result = authority
            .root
            .0
            .verifier
            .verify(artifact, &self.bundle, &policy)
            .map_err(|error| VerifyError::Keyless { is_broken: is_broken(&error), reason: error.to_string() })?;
        let is_verified = result.certificate_verified() && result.sct_verified() && result.tlog_verified();
        if let Some(time) = result.verified_timestamps().iter().find(|time| **time > now) {
            let reason = format!("it was made at {time}, which is in the future");
            return Err(VerifyError::Keyless { reason, is_broken: false });
        }
        let signed_at: Option<Timestamp> = result.verified_timestamps().iter().min().copied();
        let (true, Some(signed_at)) = (is_verified, signed_at) else { return Err(refused("it was not verified")) };
        let (Some(identity), Some(issuer)) = (result.identity(), result.issuer()) else {
            return Err(refused("its certificate names no identity or no provider of identities"));
        };
        let (identity, issuer) = (identity.as_str().to_owned(), issuer.to_owned());
        let is_trusted =
            issuer == authority.issuer && authority.identities.iter().any(|pattern| matches(pattern, &identity));
        match is_trusted {
            true => Ok(VerifiedSigner::Keyless { identity, issuer, signed_at }),
            false => Err(VerifyError::UnknownKeyless { identity, issuer }),
        }
    }
}

/// Whether no trusted root and no clock would make the signature right: the bundle contradicts itself.
fn is_broken(error: &Error) -> bool {
    match error {
        Error::SignatureInvalid(_) | Error::ArtifactMismatch(_) | Error::InvalidBundle(_) | Error::Bundle(_) => true,
        Error::TransparencyLog(error) => matches!(
            error,
            TransparencyLogError::InclusionProof(_)
                | TransparencyLogError::EntryMismatch(_)
                | TransparencyLogError::MalformedEntry(_)
        ),
        Error::Certificate(error) => {
            matches!(
                error,
                Certification::Malformed(_) | Certification::NotYetValid { .. } | Certification::Expired { .. }
            )
        }
        _ => false,
    }
}

impl PartialEq for SigstoreRoot {
    fn eq(&self, other: &Self) -> bool {
        self.0.text == other.0.text
    }
}

impl Eq for SigstoreRoot {}

impl fmt::Debug for SigstoreRoot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigstoreRoot(of {} certificate authorities)", self.0.n_authorities)
    }
}
