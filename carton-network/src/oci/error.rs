//! Why a registry does not do what it is asked for.

use carton_format::digest::Sha256Digest;
use carton_format::error_kind::ErrorKind;

use super::Reference;
use crate::http::{CredentialsSent, NetworkError};

/// Why a registry does not do what it is asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OciError {
    /// The registry has no such artifact.
    #[error("there is no `{reference}`")]
    NotFound {
        /// The name of the artifact.
        reference: String,
        /// The answer.
        source: Box<NetworkError>,
    },
    /// The registry cannot be reached, or refuses a request.
    #[error("cannot {action} `{reference}`{}", said(message))]
    Refused {
        /// The attempt: "read", "write to", "list the tags of".
        action: &'static str,
        /// The name of the artifact.
        reference: String,
        /// The registry's own words; empty if it has none.
        message: String,
        /// The answer.
        source: Box<NetworkError>,
    },
    /// The artifact is not a carton.
    #[error("`{reference}` is not a carton: {reason}")]
    NotACarton {
        /// The name of the artifact.
        reference: String,
        /// What it is.
        reason: String,
    },
    /// The registry's answer is not what the protocol demands.
    #[error("`{reference}`: expected {expected}, found {found}")]
    Answer {
        /// The name of the artifact.
        reference: String,
        /// What the protocol demands.
        expected: String,
        /// What the registry answered.
        found: String,
    },
    /// A manifest or a blob has another digest than was asked for.
    #[error("what the registry sent as `{reference}` has the SHA-256 {found}")]
    Digest {
        /// The name of the repository, with the expected digest.
        reference: String,
        /// The digest of what was sent.
        found: Sha256Digest,
    },
    /// A carton is pushed under a tag, and the name has a digest.
    #[error("a carton is pushed under a tag, and `{reference}` has a digest, which follows from the carton")]
    DigestGiven {
        /// The name of the artifact.
        reference: String,
    },
    /// The name of a repository to take blobs over from is not one.
    #[error(
        "`{repository}` is not a repository of a registry: expected a name such as team/model, without host and tag"
    )]
    NotARepository {
        /// The name.
        repository: String,
    },
    /// The manifest would list too many files.
    #[error("the manifest of `{reference}` would have {found} bytes, and registries accept at most {limit}")]
    TooManyFiles {
        /// The name of the artifact.
        reference: String,
        /// The length of the manifest in bytes.
        found: u64,
        /// The limit in bytes.
        limit: u64,
    },
}

/// Makes the error of a request that a network error ended.
pub(super) fn refused(action: &'static str, reference: &Reference) -> impl Fn(NetworkError) -> OciError {
    let reference = reference.to_string();
    move |source| OciError::Refused {
        action,
        reference: reference.clone(),
        message: String::new(),
        source: Box::new(source),
    }
}

fn said(message: &str) -> String {
    if message.is_empty() { String::new() } else { format!(": {message}") }
}

impl OciError {
    /// What the user can do about the error, if anything.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Refused { reference, source, .. } | Self::NotFound { reference, source } => match source.as_ref() {
                NetworkError::Status { status, credentials: CredentialsSent::None, .. }
                    if matches!(status.code(), 401 | 403) =>
                {
                    let host =
                        reference.strip_prefix("oci://").and_then(|rest| rest.split('/').next()).unwrap_or_default();
                    Some(format!(
                        "log in as Docker or Podman do (`docker login {host}`, `podman login {host}`), or put a login for `{host}` into ~/.netrc"
                    ))
                }
                NetworkError::Tls { source, .. } if source.to_string().contains("InvalidContentType") => Some(
                    "the server does not seem to use encryption: where the network to it can be trusted, set `plain_http = true` in its entry of \
                     `[[registries]]` in the configuration"
                        .to_owned(),
                ),
                source => source.hint(),
            },
            Self::TooManyFiles { .. } => Some(
                "leave more of the files in the small layer: raise the size from which files are layers".to_owned(),
            ),
            Self::NotACarton { .. }
            | Self::Answer { .. }
            | Self::Digest { .. }
            | Self::DigestGiven { .. }
            | Self::NotARepository { .. } => None,
        }
    }

    /// Whether the registry answered that it does not give away what was asked for, and not that it wants another login.
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::NotFound { .. } => true,
            Self::Refused { source, .. } => {
                matches!(&**source, NetworkError::Status { status, .. } if matches!(status.code(), 403 | 404 | 410 | 451))
            }
            _ => false,
        }
    }

    /// The kind of the failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Refused { source, .. } if matches!(**source, NetworkError::Interrupted) => ErrorKind::Interrupted,
            Self::NotFound { .. } | Self::Refused { .. } | Self::Answer { .. } => ErrorKind::Network,
            Self::NotACarton { .. } | Self::Digest { .. } => ErrorKind::Integrity,
            Self::TooManyFiles { .. } | Self::DigestGiven { .. } | Self::NotARepository { .. } => {
                ErrorKind::InvalidInput
            }
        }
    }
}
