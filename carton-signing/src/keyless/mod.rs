//! Keyless signatures of Sigstore, verified without a server (spec/signing.md, "Keyless signatures").
//!
//! Such a signature has a certificate that is valid for minutes, and the entry of a public log that says when it was used. All that decides
//! is in the bundle and in a trusted root that the user gives. `sigstore-verify` compares them; `sigstore` limits what it is given, adds
//! the checks that it leaves to its callers, and gives it the cryptography of `ring`.
//!
//! Without the feature `sigstore`, `without` stands in for it: it refuses trusted roots, and confirms no signature.

#[cfg(feature = "sigstore")]
mod provider;
#[cfg(feature = "sigstore")]
mod sigstore;
#[cfg(not(feature = "sigstore"))]
#[path = "without.rs"]
mod sigstore;

pub(crate) use sigstore::Keyless;
pub use sigstore::SigstoreRoot;

/// Why a trusted root cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SigstoreRootError {
    /// The text is not a trusted root, or has a key or certificate that cannot be used.
    #[error("not a trusted root of Sigstore: {0}")]
    Malformed(String),
    /// This program was built without keyless signatures.
    #[error("this program was built without the verification of keyless bundles, which a release has")]
    NotBuilt,
    /// Without these, no signature can be verified.
    #[error("the trusted root names no {0}")]
    Incomplete(&'static str),
}

/// An instance of Sigstore, and the identities that are trusted among those it vouches for.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct KeylessAuthority {
    /// The instance.
    pub root: SigstoreRoot,
    /// The provider of identities that signers must have logged in to, such as `https://token.actions.githubusercontent.com`.
    pub issuer: String,
    /// The identities that may sign, as this provider knows them: mail addresses, or the URIs of workflows. `*` in one stands for any characters.
    pub identities: Vec<String>,
}

impl KeylessAuthority {
    /// Trusts `identities` that `issuer` vouches for at the instance of Sigstore with this root.
    #[must_use]
    pub fn new(root: SigstoreRoot, issuer: impl Into<String>, identities: Vec<String>) -> Self {
        Self { root, issuer: issuer.into(), identities }
    }
}
