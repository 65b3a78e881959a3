//! The Sigstore bundle that holds a signature: JSON in, parts out, and back (spec/signing.md, "The bundle").

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::certificate::Certificate;
use crate::error::{BundleError, MEDIA_TYPE};
use crate::keyless::Keyless;

/// A chain has a leaf, a root and a few certificates between them.
const MAX_CERTIFICATES: usize = 16;

/// A signature as it is read from a file or a server: nothing in it is verified yet.
#[derive(Clone, Debug)]
pub struct Bundle {
    pub(crate) payload_type: String,
    pub(crate) payload: Vec<u8>,
    pub(crate) signature: Vec<u8>,
    pub(crate) material: Material,
}

/// What a bundle says about who signed.
#[derive(Clone, Debug)]
pub(crate) enum Material {
    /// The hint of a key; it may be empty.
    Key { hint: String },
    /// The leaf first.
    Chain(Vec<Certificate>),
    /// A certificate for minutes, and the entry of a public log that says when it was used.
    Keyless(Box<Keyless>),
}

/// What a new bundle says about who signed.
pub(crate) enum Signer<'a> {
    /// The hint of a key.
    Key { hint: String },
    /// The leaf first.
    Chain(&'a [Certificate]),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawBundle {
    media_type: String,
    verification_material: RawMaterial,
    dsse_envelope: RawEnvelope,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawMaterial {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    public_key: Option<RawKey>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    x509_certificate_chain: Option<RawChain>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    certificate: Option<RawCertificate>,
    #[serde(default)]
    tlog_entries: Vec<serde_json::Value>,
}

#[derive(Serialize, Deserialize)]
struct RawKey {
    #[serde(default)]
    hint: String,
}

#[derive(Serialize, Deserialize)]
struct RawChain {
    certificates: Vec<RawCertificate>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawCertificate {
    raw_bytes: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawEnvelope {
    payload: String,
    payload_type: String,
    signatures: Vec<RawSignature>,
}

#[derive(Serialize, Deserialize)]
struct RawSignature {
    sig: String,
    #[serde(default)]
    keyid: String,
}

impl Bundle {
    /// Reads a bundle. `limit` is the [largest](crate::SignedFiles::max_bundle_length) that a signature of the carton can be.
    ///
    /// # Errors
    /// The bytes are not a bundle of version 0.3 with one signature and one signer.
    pub fn parse(bytes: &[u8], limit: usize) -> Result<Self, BundleError> {
        if bytes.len() > limit {
            return Err(BundleError::TooLong { limit, found: bytes.len() });
        }
        let raw: RawBundle =
            serde_json::from_slice(bytes).map_err(|error| BundleError::Malformed(error.to_string()))?;
        if raw.media_type != MEDIA_TYPE {
            return Err(BundleError::MediaType(raw.media_type.chars().take(100).collect()));
        }
        let [signature] = raw.dsse_envelope.signatures.as_slice() else {
            return Err(BundleError::Signatures(raw.dsse_envelope.signatures.len()));
        };
        Ok(Self {
            payload: decode("payload", &raw.dsse_envelope.payload)?,
            signature: decode("sig", &signature.sig)?,
            payload_type: raw.dsse_envelope.payload_type,
            material: Material::parse(raw.verification_material, bytes)?,
        })
    }

    /// The JSON of a bundle with this content.
    pub(crate) fn write(payload_type: &str, payload: &[u8], signature: &[u8], signer: &Signer<'_>) -> Vec<u8> {
        let raw_certificate =
            |certificate: &Certificate| RawCertificate { raw_bytes: STANDARD.encode(certificate.der()) };
        let mut material =
            RawMaterial { public_key: None, x509_certificate_chain: None, certificate: None, tlog_entries: Vec::new() };
        match signer {
            Signer::Key { hint } => material.public_key = Some(RawKey { hint: hint.clone() }),
            Signer::Chain(chain) => {
                let certificates = chain.iter().map(raw_certificate).collect();
                material.x509_certificate_chain = Some(RawChain { certificates });
            }
        }
        let raw = RawBundle {
            media_type: MEDIA_TYPE.to_owned(),
            verification_material: material,
            dsse_envelope: RawEnvelope {
                payload: STANDARD.encode(payload),
                payload_type: payload_type.to_owned(),
                signatures: vec![RawSignature { sig: STANDARD.encode(signature), keyid: String::new() }],
            },
        };
        let mut json = serde_json::to_vec(&raw).unwrap_or_default();
        json.push(b'\n');
        json
    }

    /// The bytes over which the signature is made: the pre-authentication encoding of DSSE, version 1.
    pub(crate) fn signed_bytes(payload_type: &str, payload: &[u8]) -> Vec<u8> {
        let mut bytes = format!("DSSEv1 {} {payload_type} {} ", payload_type.len(), payload.len()).into_bytes();
        bytes.extend_from_slice(payload);
        bytes
    }
}

impl Material {
    /// `bundle` are the bytes of the whole bundle, which a keyless signature is verified from.
    fn parse(raw: RawMaterial, bundle: &[u8]) -> Result<Self, BundleError> {
        let certificate = |raw: &RawCertificate| {
            Certificate::from_der(&decode("rawBytes", &raw.raw_bytes)?)
                .map_err(|error| BundleError::Certificate(error.to_string()))
        };
        let n_entries = raw.tlog_entries.len();
        match (raw.public_key, raw.x509_certificate_chain, raw.certificate) {
            (Some(key), None, None) => Ok(Self::Key { hint: key.hint }),
            (None, Some(chain), None)
                if n_entries == 0 && (1..=MAX_CERTIFICATES).contains(&chain.certificates.len()) =>
            {
                Ok(Self::Chain(chain.certificates.iter().map(certificate).collect::<Result<_, _>>()?))
            }
            (None, None, Some(raw)) => match n_entries {
                0 => Ok(Self::Chain(vec![certificate(&raw)?])),
                1 => Ok(Self::Keyless(Box::new(Keyless::parse(bundle, certificate(&raw)?)?))),
                n_entries => Err(BundleError::LogEntries(n_entries)),
            },
            _ => Err(BundleError::Material),
        }
    }
}

fn decode(what: &str, text: &str) -> Result<Vec<u8>, BundleError> {
    STANDARD.decode(text).map_err(|error| BundleError::Malformed(format!("`{what}` is not base64: {error}")))
}
