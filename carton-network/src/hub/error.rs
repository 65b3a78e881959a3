//! Why something on the Hub cannot be used.

use carton_format::error_kind::ErrorKind;

use crate::http::NetworkError;

/// Why something on the Hub cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HubError {
    /// The server was not reached, or it refused.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// The repository has no carton.
    #[error("`{repository}` has no carton: none of its files ends with `.carton`")]
    NoCarton {
        /// The name of the repository.
        repository: String,
    },
    /// The repository has several cartons, and the name does not say which one is meant.
    #[error("`{repository}` has several cartons: {}", files.join(", "))]
    SeveralCartons {
        /// The name of the repository.
        repository: String,
        /// The paths of the cartons.
        files: Vec<String>,
    },
    /// The repository has no files to pack.
    #[error("`{repository}` has no files")]
    Empty {
        /// The name of the repository.
        repository: String,
    },
    /// The server's answer is not what it should be.
    #[error("`{repository}`: expected {expected}, found {found}")]
    Answer {
        /// The name of the repository.
        repository: String,
        /// What it should be.
        expected: String,
        /// What it is.
        found: String,
    },
}

impl HubError {
    /// What the user can do about the error, if anything.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoCarton { .. } => {
                Some("a repository with a bare model can be packed, or run by a runner that is named".to_owned())
            }
            Self::SeveralCartons { repository, files } => {
                files.first().map(|file| format!("name the file: {repository}/{file}"))
            }
            Self::Network(error) => error.hint(),
            Self::Empty { .. } | Self::Answer { .. } => None,
        }
    }

    /// The kind of the failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NoCarton { .. } | Self::SeveralCartons { .. } | Self::Empty { .. } => ErrorKind::InvalidInput,
            Self::Network(error) => error.kind(),
            Self::Answer { .. } => ErrorKind::Network,
        }
    }
}
