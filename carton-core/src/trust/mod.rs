//! Who may sign which cartons (spec/signing.md): rules, keys, and what was found out about a carton's bundle.
//!
//! A bundle lies beside a carton, in a file or at a URL with `.sig` at its end. A [`TrustRule`] of the [configuration](crate::Config) says
//! for which places a bundle is required, and by whom: by keys, certificates, or identities that an instance of Sigstore vouches for.
//! The first rule whose places fit decides. One operation replaces the rules by keys of its own:
//! [`Load::trust_key`](crate::Load::trust_key). A required bundle that is missing, wrong or by somebody else is an error of the kind
//! [`ErrorKind::Untrusted`](crate::ErrorKind::Untrusted), before any file of the model is used.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use carton_core::Carton;
//! use carton_core::trust::{Curve, PrivateKey, SigningIdentity};
//!
//! let key = PrivateKey::generate(Curve::P256)?;
//! let public = key.public_key();
//! let bundle = Carton::open("digits.carton").await?.sign(&SigningIdentity::with_key(key));
//! std::fs::write("digits.carton.sig", bundle.unwrap_or_default())?;
//!
//! let model = Carton::load("digits.carton").trust_key(public).await?;
//! # let _ = model;
//! # Ok(())
//! # }
//! ```

mod error;
mod place;
mod rule;
mod status;

pub use carton_signing::{
    Certificate, CertificateError, ClaimedSigner, Curve, IdentityError, KeyError, PrivateKey, PublicKey,
    SigningIdentity, SigstoreRootError, VerifiedSigner, VerifyError,
};

pub(crate) use error::TrustError;
pub use place::bundle_path;
pub use rule::TrustRule;
pub(crate) use rule::{TrustSettings, check_pattern};
pub use status::SigningStatus;
