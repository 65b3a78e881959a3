//! Why a carton is not trusted, or why that cannot be found out.

use std::path::PathBuf;

use carton_format::error_kind::ErrorKind;
use carton_signing::{CertificateError, KeyError, SigstoreRootError};

use crate::error::{Advice, Failure};

/// Why a carton is not trusted, or why that cannot be found out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TrustError {
    /// A bundle is required, and there is none.
    #[error("`{carton}` is not signed, and must be: {}", no_bundle(bundle))]
    Unsigned {
        /// The carton.
        carton: String,
        /// Where a bundle was looked for.
        bundle: String,
    },
    /// A bundle is required, and the one that is there is not accepted.
    #[error("the signing bundle `{bundle}` of `{carton}` is not accepted: {reason}")]
    Refused {
        /// The carton.
        carton: String,
        /// The bundle.
        bundle: String,
        /// The reason, in words.
        reason: String,
    },
    /// A bundle is required, and a model that is not in a carton cannot have one.
    #[error("`{}` is not a carton, so it cannot be signed, and must be", path.display())]
    Bare {
        /// The model.
        path: PathBuf,
    },
    /// A bundle is required, and neither the configuration nor the caller says whose.
    #[error("`{carton}` must be signed, and no key, certificate or identity is trusted for it")]
    NoTrust {
        /// The carton.
        carton: String,
    },
    /// A file that a rule names cannot be read.
    #[error("cannot read `{}`, which a trust rule names", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A file that a rule names holds no usable key.
    #[error("`{}`, which a trust rule names, is not a usable public key", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: KeyError,
    },
    /// A file that a rule names holds no usable certificates.
    #[error("`{}`, which a trust rule names, holds no usable certificates", path.display())]
    Certificates {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: CertificateError,
    },
    /// A file that a rule names holds no usable trusted root.
    #[error("`{}`, which a trust rule names, is not a usable trusted root", path.display())]
    TrustedRoot {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: SigstoreRootError,
    },
}

/// Says where nothing was found. In a registry, a bundle has no name of its own.
fn no_bundle(place: &str) -> String {
    match is_in_registry(place) {
        true => "none refers to it in the registry".to_owned(),
        false => format!("there is no `{place}`"),
    }
}

fn is_in_registry(place: &str) -> bool {
    place.split_once("://").is_some_and(|(scheme, _)| scheme == carton_network::oci::SCHEME)
}

impl Failure for TrustError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Unsigned { .. } | Self::Refused { .. } | Self::Bare { .. } => ErrorKind::Untrusted,
            _ => ErrorKind::InvalidInput,
        }
    }

    fn advice(&self) -> Option<Advice> {
        match self {
            Self::Unsigned { bundle, .. } if !is_in_registry(bundle) => {
                Some("get its signing bundle from whom the carton is from, and put it beside the carton".into())
            }
            Self::Bare { .. } => Some("pack the model, and sign the carton".into()),
            Self::NoTrust { .. } => Some(Advice::TrustSomebody),
            _ => None,
        }
    }
}
