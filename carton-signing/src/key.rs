//! Keys: ECDSA on the curves P-256 and P-384, in PEM (spec/signing.md, "Keys").

use std::fmt;

use p256::ecdsa::signature::{Signer as _, Verifier as _};
use p256::elliptic_curve::Generate as _;
use pkcs8::{DecodePrivateKey, EncodePrivateKey, EncodePublicKey, LineEnding};
use sha2::{Digest as _, Sha256};

/// A curve that keys may be on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Curve {
    /// NIST P-256, with SHA-256.
    #[default]
    P256,
    /// NIST P-384, with SHA-384.
    P384,
}

/// Why a key cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The text has no PEM block of a kind that is expected.
    #[error("expected a PEM block with {expected}, found {found}")]
    NotAKey {
        /// A description of what was expected.
        expected: &'static str,
        /// What the text has.
        found: String,
    },
    /// The key is encrypted, and no password was given.
    #[error("the private key is encrypted, and no password was given")]
    NoPassword,
    /// The key is encrypted, and the password does not decrypt it.
    #[error("the private key cannot be decrypted: the password is wrong, or the encryption is not supported")]
    WrongPassword,
    /// The key is of another algorithm, or on another curve.
    #[error("the key is not on one of the curves P-256 and P-384: {0}")]
    Unsupported(String),
    /// The system gives no random numbers.
    #[error("no random numbers for a new key: {0}")]
    Random(String),
}

/// A public key, by which signatures are verified.
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey(PublicInner);

#[derive(Clone, PartialEq, Eq)]
enum PublicInner {
    P256(p256::ecdsa::VerifyingKey),
    P384(p384::ecdsa::VerifyingKey),
}

/// A private key, with which cartons are signed. Its `Debug` form shows the public key alone.
pub struct PrivateKey(PrivateInner);

enum PrivateInner {
    P256(p256::ecdsa::SigningKey),
    P384(p384::ecdsa::SigningKey),
}

impl PublicKey {
    /// Reads a public key from PEM (`PUBLIC KEY`, as OpenSSL writes it).
    ///
    /// ```
    /// use carton_signing::{Curve, PrivateKey, PublicKey};
    ///
    /// let public = PrivateKey::generate(Curve::P256)?.public_key();
    /// assert_eq!(PublicKey::from_pem(&public.to_pem())?, public);
    /// # Ok::<(), carton_signing::KeyError>(())
    /// ```
    ///
    /// # Errors
    /// The text is no public key, or one on another curve than P-256 and P-384.
    pub fn from_pem(text: &str) -> Result<Self, KeyError> {
        let found = label(text);
        if found.as_deref() != Some("PUBLIC KEY") {
            return Err(not_a_key("a public key", found));
        }
        let (_, document) = pkcs8::SecretDocument::from_pem(text.trim()).map_err(malformed)?;
        Self::from_spki(document.as_bytes())
    }

    /// Reads a public key from the DER of a SubjectPublicKeyInfo (RFC 5280, section 4.1).
    ///
    /// # Errors
    /// As [`from_pem`](Self::from_pem).
    pub(crate) fn from_spki(der: &[u8]) -> Result<Self, KeyError> {
        let info = pkcs8::SubjectPublicKeyInfoRef::try_from(der).map_err(malformed)?;
        if let Ok(key) = p256::ecdsa::VerifyingKey::try_from(info.clone()) {
            return Ok(Self(PublicInner::P256(key)));
        }
        p384::ecdsa::VerifyingKey::try_from(info).map(|key| Self(PublicInner::P384(key))).map_err(malformed)
    }

    /// The key in PEM.
    #[must_use]
    pub fn to_pem(&self) -> String {
        let pem = match &self.0 {
            PublicInner::P256(key) => key.to_public_key_pem(LineEnding::LF),
            PublicInner::P384(key) => key.to_public_key_pem(LineEnding::LF),
        };
        // The encoding of a point on a known curve has a fixed length.
        pem.unwrap_or_default()
    }

    /// The SHA-256 of the PEM text, in hexadecimal digits: the hint by which a bundle names the key.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        hex(&Sha256::digest(self.to_pem()))
    }

    /// The curve that the key is on.
    #[must_use]
    pub fn curve(&self) -> Curve {
        match &self.0 {
            PublicInner::P256(_) => Curve::P256,
            PublicInner::P384(_) => Curve::P384,
        }
    }

    /// Whether `signature` (DER) is this key's over `message`, with the hash of the key's curve.
    pub(crate) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        match &self.0 {
            PublicInner::P256(key) => p256::ecdsa::DerSignature::from_bytes(signature)
                .is_ok_and(|signature| key.verify(message, &signature).is_ok()),
            PublicInner::P384(key) => p384::ecdsa::DerSignature::from_bytes(signature)
                .is_ok_and(|signature| key.verify(message, &signature).is_ok()),
        }
    }
}

impl PrivateKey {
    /// Makes a new key.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub fn generate(curve: Curve) -> Result<Self, KeyError> {
        let inner = match curve {
            Curve::P256 => p256::ecdsa::SigningKey::try_generate().map(PrivateInner::P256),
            Curve::P384 => p384::ecdsa::SigningKey::try_generate().map(PrivateInner::P384),
        };
        inner.map(Self).map_err(|error| KeyError::Random(error.to_string()))
    }

    /// Reads a private key from PEM: `PRIVATE KEY` or `ENCRYPTED PRIVATE KEY` (PKCS#8), or `EC PRIVATE KEY` (SEC 1), as OpenSSL writes
    /// them. A password that the key does not need is ignored.
    ///
    /// # Errors
    /// The text is no private key, or one on another curve than P-256 and P-384, or it is encrypted and `password` does not decrypt it.
    pub fn from_pem(text: &str, password: Option<&str>) -> Result<Self, KeyError> {
        // `openssl ecparam -genkey` writes the parameters of the curve before the key.
        let text = text.find("-----END EC PARAMETERS-----").map_or(text, |end| &text[end + 27..]).trim();
        let secret = match label(text).as_deref() {
            Some("PRIVATE KEY") => {
                Secret::from_pkcs8(pkcs8::SecretDocument::from_pem(text).map_err(malformed)?.1.as_bytes())
            }
            Some("ENCRYPTED PRIVATE KEY") => {
                let password = password.ok_or(KeyError::NoPassword)?;
                let (_, document) = pkcs8::SecretDocument::from_pem(text).map_err(malformed)?;
                let encrypted = pkcs8::EncryptedPrivateKeyInfoRef::try_from(document.as_bytes()).map_err(malformed)?;
                let decrypted = encrypted.decrypt(password).map_err(|_| KeyError::WrongPassword)?;
                Secret::from_pkcs8(decrypted.as_bytes())
            }
            Some("EC PRIVATE KEY") if text.contains("Proc-Type:") => Err(KeyError::Unsupported(
                "it is encrypted as PEM, without PKCS#8; `openssl pkcs8 -topk8` rewrites it".to_owned(),
            )),
            Some("EC PRIVATE KEY") => Secret::from_sec1(text),
            found => Err(not_a_key("a private key", found.map(ToOwned::to_owned))),
        }?;
        Ok(Self(match secret {
            Secret::P256(key) => PrivateInner::P256(key.into()),
            Secret::P384(key) => PrivateInner::P384(key.into()),
        }))
    }

    /// The key in PEM (PKCS#8), encrypted if there is a password.
    ///
    /// # Errors
    /// The system gives no random numbers for the encryption.
    pub fn to_pem(&self, password: Option<&str>) -> Result<String, KeyError> {
        let random = |error: pkcs8::Error| KeyError::Random(error.to_string());
        let document = match &self.0 {
            PrivateInner::P256(key) => p256::SecretKey::from(key).to_pkcs8_der(),
            PrivateInner::P384(key) => p384::SecretKey::from(key).to_pkcs8_der(),
        }
        .map_err(random)?;
        let (label, document) = match password {
            None => ("PRIVATE KEY", document),
            Some(password) => {
                let plain = pkcs8::PrivateKeyInfoRef::try_from(document.as_bytes()).map_err(malformed)?;
                ("ENCRYPTED PRIVATE KEY", plain.encrypt(password).map_err(random)?)
            }
        };
        let pem = document.to_pem(label, LineEnding::LF).map_err(malformed)?;
        Ok(pem.to_string())
    }

    /// The public key of the pair.
    #[must_use]
    pub fn public_key(&self) -> PublicKey {
        PublicKey(match &self.0 {
            PrivateInner::P256(key) => PublicInner::P256(*key.verifying_key()),
            PrivateInner::P384(key) => PublicInner::P384(*key.verifying_key()),
        })
    }

    /// The signature (DER) over `message`, with the hash of the key's curve. It is the same each time (RFC 6979).
    pub(crate) fn sign(&self, message: &[u8]) -> Vec<u8> {
        match &self.0 {
            PrivateInner::P256(key) => {
                let signature: p256::ecdsa::DerSignature = key.sign(message);
                signature.as_bytes().to_vec()
            }
            PrivateInner::P384(key) => {
                let signature: p384::ecdsa::DerSignature = key.sign(message);
                signature.as_bytes().to_vec()
            }
        }
    }
}

/// A private key on its way from its text.
enum Secret {
    P256(p256::SecretKey),
    P384(p384::SecretKey),
}

impl Secret {
    fn from_pkcs8(der: &[u8]) -> Result<Self, KeyError> {
        if let Ok(key) = p256::SecretKey::from_pkcs8_der(der) {
            return Ok(Self::P256(key));
        }
        p384::SecretKey::from_pkcs8_der(der).map(Self::P384).map_err(malformed)
    }

    fn from_sec1(text: &str) -> Result<Self, KeyError> {
        if let Ok(key) = p256::SecretKey::from_sec1_pem(text) {
            return Ok(Self::P256(key));
        }
        p384::SecretKey::from_sec1_pem(text)
            .map(Self::P384)
            .map_err(|_| KeyError::Unsupported("another curve, or a damaged key".to_owned()))
    }
}

/// The label of the first PEM block of a text.
fn label(text: &str) -> Option<String> {
    let (_, rest) = text.split_once("-----BEGIN ")?;
    rest.split_once("-----").map(|(label, _)| label.to_owned())
}

fn not_a_key(expected: &'static str, found: Option<String>) -> KeyError {
    let found = found.map_or_else(|| "no PEM block".to_owned(), |label| format!("`{label}`"));
    KeyError::NotAKey { expected, found }
}

fn malformed(error: impl fmt::Display) -> KeyError {
    KeyError::Unsupported(error.to_string())
}

/// Bytes as hexadecimal digits in lower case.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        text.push(char::from_digit(u32::from(byte >> 4), 16).unwrap_or('0'));
        text.push(char::from_digit(u32::from(byte & 15), 16).unwrap_or('0'));
        text
    })
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({:?}, {})", self.curve(), self.fingerprint())
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrivateKey(of {:?})", self.public_key())
    }
}
