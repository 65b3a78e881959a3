//! Why a download ended early.

use std::io;
use std::path::{Path, PathBuf};

use crate::network::NetworkError;

/// Why a download ended early. What had arrived stays in its folder.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DownloadError {
    /// The bytes could not be fetched.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// The bytes could not be kept.
    #[error("cannot {action} `{}`", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
}

impl DownloadError {
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> DownloadError {
        move |source| Self::Io { action, path: path.to_owned(), source }
    }

    /// The error as [`Read`](io::Read) returns it.
    pub(super) fn into_read(self) -> io::Error {
        let kind = match &self {
            Self::Io { source, .. } => source.kind(),
            Self::Network(_) => io::ErrorKind::Other,
        };
        io::Error::new(kind, self)
    }

    /// Takes the error of a download out of what a read from it returned, through any number of readers around it that pass
    /// errors on.
    ///
    /// # Errors
    /// `error` itself, when it comes from somewhere else.
    pub fn from_read(error: io::Error) -> Result<DownloadError, io::Error> {
        error.downcast()
    }

    /// The same failure for one more reader. The first one gets the error itself, the others what can be copied of it.
    pub(super) fn again(&self, url: &str) -> DownloadError {
        match self {
            Self::Io { action, path, source } => {
                let source = match source.raw_os_error() {
                    Some(code) => io::Error::from_raw_os_error(code),
                    None => io::Error::new(source.kind(), source.to_string()),
                };
                Self::Io { action, path: path.clone(), source }
            }
            Self::Network(NetworkError::Interrupted) => NetworkError::Interrupted.into(),
            Self::Network(NetworkError::Changed { url, expected, found }) => {
                NetworkError::Changed { url: url.clone(), expected: expected.clone(), found: found.clone() }.into()
            }
            Self::Network(error) => {
                let source = crate::causes::in_one_line(error).into();
                NetworkError::Connection { action: "finish the download of", url: url.to_owned(), source }.into()
            }
        }
    }
}
