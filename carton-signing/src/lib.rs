//! Signing of cartons (spec/signing.md): who made a carton, said by a key, a certificate or an identity of Sigstore.
//!
//! What signs a carton is an OpenSSF Model Signing bundle over the lines of a carton's MANIFEST and MANIFEST itself. This crate makes and verifies
//! bundles from digests; it opens no carton and no file, and asks no server. Which bundles are looked for, and where, is decided by
//! `carton-core`.
//!
//! ```
//! use carton_signing::{Bundle, Curve, PrivateKey, SignedFiles, SigningIdentity, Trusted, VerifiedSigner};
//!
//! let key = PrivateKey::generate(Curve::P256)?;
//! let public = key.public_key();
//! let files = SignedFiles::new([1; 32], [("carton.toml", [2; 32]), ("model/a.onnx", [3; 32])]);
//! let bytes = SigningIdentity::with_key(key).sign(&files);
//!
//! let trusted = Trusted { keys: vec![public.clone()], ..Trusted::default() };
//! let signer = Bundle::parse(&bytes, files.max_bundle_length())?.verify(&files, &trusted, jiff::Timestamp::now())?;
//! assert_eq!(signer, VerifiedSigner::Key { fingerprint: public.fingerprint() });
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Modules
//!
//! Each uses only those before it.
//!
//! - `key`, `certificate`, `statement`: private and public keys; X.509 certificates and their chains; what is signed, and its
//!   comparison with a carton.
//! - `error`, `pattern`, `signer`: why a bundle or a signature is not accepted; patterns of identities; who signed, once that is
//!   verified.
//! - `keyless`: signatures of Sigstore, without keys of the signer's own.
//! - `bundle`: the file of a signature.
//! - `sign`, `verify`: making and checking one.

mod bundle;
mod certificate;
mod error;
mod key;
mod keyless;
mod pattern;
mod sign;
mod signer;
mod statement;
mod verify;

pub use bundle::Bundle;
pub use certificate::{Certificate, CertificateError};
pub use error::{BundleError, VerifyError};
pub use key::{Curve, KeyError, PrivateKey, PublicKey};
pub use keyless::{KeylessAuthority, SigstoreRoot, SigstoreRootError};
pub use sign::{IdentityError, SigningIdentity};
pub use signer::VerifiedSigner;
pub use statement::{SignedFiles, StatementError};
pub use verify::{Authority, ClaimedSigner, Trusted};
