//! Verifies a bundle: whose signature it is, and whether it is about this carton (spec/signing.md, "Verifying").

use jiff::Timestamp;

use crate::bundle::{Bundle, Material};
use crate::certificate::Certificate;
use crate::error::VerifyError;
use crate::key::PublicKey;
use crate::keyless::{Keyless, KeylessAuthority};
use crate::pattern::matches;
use crate::signer::VerifiedSigner;
use crate::statement::{SignedFiles, StatementError};

/// Who may sign. An empty one trusts no signature.
#[derive(Clone, Debug, Default)]
pub struct Trusted {
    /// Keys that may sign.
    pub keys: Vec<PublicKey>,
    /// Authorities, and the identities whose certificates from them may sign.
    pub authorities: Vec<Authority>,
    /// Instances of Sigstore, and the identities whose keyless signatures are accepted.
    pub keyless: Vec<KeylessAuthority>,
}

impl Trusted {
    /// Whether nobody is trusted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.authorities.is_empty() && self.keyless.is_empty()
    }
}

/// A certificate authority, and the identities that are trusted among those it vouches for.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Authority {
    /// The certificates that chains may lead to.
    pub roots: Vec<Certificate>,
    /// The names of certificates that may sign: mail addresses, URIs, host names or distinguished names. `*` in one stands for any
    /// characters.
    pub identities: Vec<String>,
}

impl Authority {
    /// Trusts `identities` whose certificates lead to one of `roots`.
    #[must_use]
    pub fn new(roots: Vec<Certificate>, identities: Vec<String>) -> Self {
        Self { roots, identities }
    }

    fn trusts(&self, name: &str) -> bool {
        self.identities.iter().any(|pattern| matches(pattern, name))
    }
}

/// Whom a bundle names as its signer. Nothing of it is verified.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClaimedSigner {
    /// The key with this fingerprint; empty if the bundle does not say.
    Key {
        /// The SHA-256 of its PEM text.
        fingerprint: String,
    },
    /// The owner of a certificate.
    Certificate {
        /// The names in it.
        names: Vec<String>,
        /// The distinguished name of its issuer.
        issuer: String,
    },
    /// An identity with a keyless signature.
    Keyless {
        /// The identity.
        identity: String,
        /// The provider that knows the identity.
        issuer: String,
    },
}

impl Bundle {
    /// Whom the bundle names as its signer; for people, and to find a key. Anyone can claim anything.
    #[must_use]
    pub fn claimed_signer(&self) -> ClaimedSigner {
        match &self.material {
            Material::Key { hint } => ClaimedSigner::Key { fingerprint: hint.chars().take(64).collect() },
            Material::Chain(chain) => chain
                .first()
                .map_or_else(|| ClaimedSigner::Certificate { names: Vec::new(), issuer: String::new() }, claimed),
            Material::Keyless(keyless) => match keyless.claims() {
                Some((identity, issuer)) => ClaimedSigner::Keyless { identity, issuer },
                None => claimed(&keyless.certificate),
            },
        }
    }

    /// Checks that the bundle is about exactly these files, without looking at who signed.
    ///
    /// # Errors
    /// It is about another carton, or malformed.
    pub fn check_files(&self, files: &SignedFiles) -> Result<(), StatementError> {
        files.check(&self.payload_type, &self.payload).map(drop)
    }

    /// Verifies that somebody who is trusted signed exactly these files. Certificates must be valid at `now`; those of keyless signatures when
    /// they were used.
    ///
    /// # Errors
    /// [`VerifyError`]: the signature is about another carton, does not hold, or is by somebody who is not trusted.
    pub fn verify(
        &self,
        files: &SignedFiles,
        trusted: &Trusted,
        now: Timestamp,
    ) -> Result<VerifiedSigner, VerifyError> {
        let subject = files.check(&self.payload_type, &self.payload)?;
        match &self.material {
            Material::Key { hint } => self.verify_by_key(hint, &trusted.keys),
            Material::Chain(chain) => self.verify_by_chain(chain, trusted, now),
            Material::Keyless(keyless) => self.verify_keyless(keyless, subject, &trusted.keyless, now),
        }
    }

    fn verify_by_key(&self, hint: &str, keys: &[PublicKey]) -> Result<VerifiedSigner, VerifyError> {
        if keys.is_empty() {
            return Err(VerifyError::NoSuchTrust { found: "a key", expected: "key" });
        }
        let signed = Self::signed_bytes(&self.payload_type, &self.payload);
        // The hint is not signed, so it decides nothing.
        match keys.iter().find(|key| key.verifies(&signed, &self.signature)) {
            Some(key) => Ok(VerifiedSigner::Key { fingerprint: key.fingerprint() }),
            None => Err(VerifyError::UnknownKey { hint: hint.chars().take(64).collect() }),
        }
    }

    fn verify_by_chain(
        &self,
        chain: &[Certificate],
        trusted: &Trusted,
        now: Timestamp,
    ) -> Result<VerifiedSigner, VerifyError> {
        let [leaf, intermediates @ ..] = chain else { return Err(VerifyError::UnknownIdentity { names: Vec::new() }) };
        if !leaf.public_key()?.verifies(&Self::signed_bytes(&self.payload_type, &self.payload), &self.signature) {
            return Err(VerifyError::NotByCertificate { subject: leaf.subject() });
        }
        if trusted.authorities.is_empty() && !trusted.keyless.is_empty() {
            return Err(VerifyError::NotLogged);
        }
        let names = leaf.names();
        let mut refused = VerifyError::NoSuchTrust { found: "a certificate", expected: "certificate authority" };
        for authority in &trusted.authorities {
            match leaf.check_chain(intermediates, &authority.roots, now) {
                Ok(()) => match names.iter().find(|name| authority.trusts(name)) {
                    Some(identity) => {
                        let (issuer, valid_until) = (leaf.issuer(), leaf.validity().1);
                        return Ok(VerifiedSigner::Certificate { identity: identity.clone(), issuer, valid_until });
                    }
                    None => refused = VerifyError::UnknownIdentity { names: names.clone() },
                },
                // That the owner is unknown says more than that another authority does not know the certificate.
                Err(error) if !matches!(refused, VerifyError::UnknownIdentity { .. }) => refused = error.into(),
                Err(_) => {}
            }
        }
        Err(refused)
    }

    fn verify_keyless(
        &self,
        keyless: &Keyless,
        subject: [u8; 32],
        authorities: &[KeylessAuthority],
        now: Timestamp,
    ) -> Result<VerifiedSigner, VerifyError> {
        let expected = "root of Sigstore";
        let mut refused = VerifyError::NoSuchTrust { found: "an identity of Sigstore", expected };
        for authority in authorities {
            match keyless.verify(&self.payload, &self.signature, subject, authority, now) {
                // That the owner is unknown says more than that another instance does not know the certificate.
                Err(error) if !matches!(refused, VerifyError::UnknownKeyless { .. }) => refused = error,
                Err(_) => {}
                verified => return verified,
            }
        }
        Err(refused)
    }
}

fn claimed(certificate: &Certificate) -> ClaimedSigner {
    ClaimedSigner::Certificate { names: certificate.names(), issuer: certificate.issuer() }
}

#[cfg(test)]
mod tests {
    use crate::pattern::matches;

    #[test]
    fn an_asterisk_stands_for_any_characters() {
        let check = |pattern: &str, text: &str, expected: bool| {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        };
        check("me@example.com", "me@example.com", true);
        check("me@example.com", "me@example.com.evil.org", false);
        check("*@example.com", "me@example.com", true);
        check("*@example.com", "me@example.com.evil.org", false);
        check("https://host/org/*/release.yml@*", "https://host/org/a/release.yml@refs/tags/1", true);
        check("https://host/org/*/release.yml@*", "https://host/orgs/a/release.yml@x", false);
        check("a*b*a", "aba", true);
        check("a*a", "a", false);
        check("*", "", true);
        check("", "a", false);
    }
}
