//! X.509 certificates: who they name, and whether a chain leads to a trusted root (spec/signing.md, "Certificates").

use std::fmt;

use jiff::Timestamp;
use rustls_pki_types::{CertificateDer, UnixTime};
use sha2::{Digest as _, Sha256};
use webpki::{EndEntityCert, KeyUsage as UsageRule, anchor_from_trusted_cert};
use x509_cert::der::{Decode as _, Encode as _};
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::ext::pkix::{ExtendedKeyUsage, KeyUsage, SubjectAltName};

use crate::key::{KeyError, PublicKey, hex};

/// id-kp-codeSigning (RFC 5280, section 4.2.1.12), as text and as the bytes of its DER.
const CODE_SIGNING: &str = "1.3.6.1.5.5.7.3.3";
const CODE_SIGNING_DER: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 3];

/// A certificate. `Debug` shows its subject.
#[derive(Clone, PartialEq, Eq)]
pub struct Certificate {
    der: Vec<u8>,
    parsed: x509_cert::Certificate,
}

/// Why a certificate cannot be read, or does not make a key trusted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// The text or the bytes are not a certificate.
    #[error("not a certificate: {0}")]
    Malformed(String),
    /// The text has no certificate.
    #[error("no certificate: expected PEM blocks `CERTIFICATE`")]
    Empty,
    /// The chain does not lead to a trusted root, or is not valid now.
    #[error("the certificate of {subject} is not trusted: {reason}")]
    Untrusted {
        /// The subject of the leaf.
        subject: String,
        /// The reason, in words.
        reason: String,
    },
    /// The certificate is not one for signatures.
    #[error("the certificate of {subject} is not for signing code: {reason}")]
    Usage {
        /// The subject of the leaf.
        subject: String,
        /// Which rule it breaks.
        reason: &'static str,
    },
    /// The certificate's key is of an unsupported kind.
    #[error("the certificate of {subject} has an unusable key")]
    Key {
        /// The subject of the leaf.
        subject: String,
        /// The cause.
        source: KeyError,
    },
}

impl Certificate {
    /// Reads all certificates of a PEM file, in their order.
    ///
    /// # Errors
    /// The text has no certificate, or one that is malformed.
    pub fn from_pem(text: &str) -> Result<Vec<Self>, CertificateError> {
        // Text around the blocks is allowed, as `openssl x509 -text` writes it.
        let blocks: Vec<_> =
            text.match_indices("-----BEGIN CERTIFICATE-----").map(|(start, _)| &text[start..]).collect();
        if blocks.is_empty() {
            return Err(CertificateError::Empty);
        }
        let read = |block: &&str| {
            const END: &str = "-----END CERTIFICATE-----";
            let end = block.find(END).ok_or_else(|| CertificateError::Malformed(format!("there is no `{END}`")))?;
            let (_, der) = x509_cert::der::SecretDocument::from_pem(&block[..end + END.len()])
                .map_err(|error| CertificateError::Malformed(error.to_string()))?;
            Self::from_der(der.as_bytes())
        };
        blocks.iter().map(read).collect()
    }

    /// Reads a certificate.
    pub(crate) fn from_der(der: &[u8]) -> Result<Self, CertificateError> {
        let parsed =
            x509_cert::Certificate::from_der(der).map_err(|error| CertificateError::Malformed(error.to_string()))?;
        Ok(Self { der: der.to_vec(), parsed })
    }

    pub(crate) fn der(&self) -> &[u8] {
        &self.der
    }

    /// The subject's distinguished name (RFC 4514), or its first other name where it has none.
    #[must_use]
    pub fn subject(&self) -> String {
        let name = self.parsed.tbs_certificate().subject().to_string();
        if name.is_empty() { self.names().into_iter().next().unwrap_or_default() } else { name }
    }

    /// The issuer's distinguished name.
    #[must_use]
    pub fn issuer(&self) -> String {
        self.parsed.tbs_certificate().issuer().to_string()
    }

    /// The identities that the certificate is issued for: the mail addresses, URIs and host names among its alternative names, and its
    /// distinguished name.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let alternative = self.parsed.tbs_certificate().get_extension::<SubjectAltName>().ok().flatten();
        let alternative = alternative.map(|(_, names)| names.0).unwrap_or_default();
        let text = |name: GeneralName| match name {
            GeneralName::Rfc822Name(text)
            | GeneralName::DnsName(text)
            | GeneralName::UniformResourceIdentifier(text) => Some(text.as_str().to_owned()),
            _ => None,
        };
        let subject = self.parsed.tbs_certificate().subject().to_string();
        alternative.into_iter().filter_map(text).chain((!subject.is_empty()).then_some(subject)).collect()
    }

    /// The SHA-256 of the certificate, in hexadecimal digits.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        hex(&Sha256::digest(&self.der))
    }

    /// The first and the last second at which the certificate is valid.
    #[must_use]
    pub fn validity(&self) -> (Timestamp, Timestamp) {
        let time = |time: &x509_cert::time::Time| {
            let seconds = i64::try_from(time.to_unix_duration().as_secs()).unwrap_or(i64::MAX);
            Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX)
        };
        let validity = self.parsed.tbs_certificate().validity();
        (time(&validity.not_before), time(&validity.not_after))
    }

    /// The key that the certificate is for.
    pub(crate) fn public_key(&self) -> Result<PublicKey, CertificateError> {
        let unusable = |source| CertificateError::Key { subject: self.subject(), source };
        let der = self.parsed.tbs_certificate().subject_public_key_info().to_der();
        PublicKey::from_spki(&der.map_err(|error| unusable(KeyError::Unsupported(error.to_string())))?)
            .map_err(unusable)
    }

    /// Checks that this leaf is one for signing code, and that `intermediates` lead from it to one of `roots`, all valid at `now`.
    ///
    /// The stock tool checks the chain at the leaf's first second and takes the certificates of servers; this does neither.
    pub(crate) fn check_chain(
        &self,
        intermediates: &[Self],
        roots: &[Self],
        now: Timestamp,
    ) -> Result<(), CertificateError> {
        self.check_usage()?;
        let untrusted = |reason: String| CertificateError::Untrusted { subject: self.subject(), reason };
        let anchors_der: Vec<_> = roots.iter().map(|root| CertificateDer::from(root.der.as_slice())).collect();
        let anchors = anchors_der
            .iter()
            .map(|der| {
                anchor_from_trusted_cert(der).map_err(|error| untrusted(format!("a root cannot be used: {error}")))
            })
            .collect::<Result<Vec<_>, _>>()?;
        // A trust anchor alone has no dates: a root that has expired is no root.
        let is_valid = |root: &&Self| (root.validity().0..=root.validity().1).contains(&now);
        let anchors: Vec<_> =
            roots.iter().zip(anchors).filter(|(root, _)| is_valid(root)).map(|(_, anchor)| anchor).collect();
        let intermediates: Vec<_> =
            intermediates.iter().map(|certificate| CertificateDer::from(certificate.der.as_slice())).collect();
        let leaf_der = CertificateDer::from(self.der.as_slice());
        let leaf = EndEntityCert::try_from(&leaf_der).map_err(|error| untrusted(describe(&error)))?;
        let now =
            UnixTime::since_unix_epoch(std::time::Duration::from_secs(u64::try_from(now.as_second()).unwrap_or(0)));
        let usage = UsageRule::required_if_present(CODE_SIGNING_DER);
        leaf.verify_for_usage(webpki::ALL_VERIFICATION_ALGS, &anchors, &intermediates, now, usage, None, None)
            .map(drop)
            .map_err(|error| untrusted(describe(&error)))
    }

    /// Checks that the certificate may be used to sign code: where it says what it is for, it must say so; it must say something.
    pub(crate) fn check_usage(&self) -> Result<(), CertificateError> {
        let unfit = |reason| CertificateError::Usage { subject: self.subject(), reason };
        let unreadable = |_| unfit("its usage cannot be read");
        let certificate = self.parsed.tbs_certificate();
        let usage = certificate.get_extension::<KeyUsage>().map_err(unreadable)?;
        let extended = certificate.get_extension::<ExtendedKeyUsage>().map_err(unreadable)?;
        match (&usage, &extended) {
            (Some((_, usage)), _) if !usage.digital_signature() => Err(unfit("its key usage lacks `digitalSignature`")),
            (_, Some((_, extended))) if !extended.0.iter().any(|oid| oid.to_string() == CODE_SIGNING) => {
                Err(unfit("its extended key usage lacks `codeSigning`"))
            }
            (None, None) => Err(unfit("it has neither key usage nor extended key usage")),
            _ => Ok(()),
        }
    }
}

/// An error of webpki in words.
fn describe(error: &webpki::Error) -> String {
    let time = |seconds: u64| {
        let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
        Timestamp::from_second(seconds).map_or_else(|_| seconds.to_string(), |time| time.to_string())
    };
    match error {
        webpki::Error::CertExpired { not_after, .. } => {
            format!("a certificate of its chain expired at {}", time(not_after.as_secs()))
        }
        webpki::Error::CertNotValidYet { not_before, .. } => {
            format!("a certificate of its chain is not valid before {}", time(not_before.as_secs()))
        }
        webpki::Error::UnknownIssuer => "its chain leads to no trusted root".to_owned(),
        webpki::Error::CaUsedAsEndEntity => "it is the certificate of an authority".to_owned(),
        error => error.to_string(),
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Certificate({})", self.subject())
    }
}
