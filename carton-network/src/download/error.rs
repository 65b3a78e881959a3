//! The errors of a download.

use std::io;
use std::path::{Path, PathBuf};

use carton_format::url::ShownUrl;

use crate::http::NetworkError;

/// Why a download ended early. The bytes that had arrived stay in its folder.
///
/// The variants are complete: callers match on both.
#[derive(Debug, thiserror::Error)]
pub enum DownloadError {
    /// The bytes could not be fetched.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// The bytes could not be stored.
    #[error("cannot {action} `{}`", path.display())]
    Io {
        /// The attempted action.
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

    /// Wraps the error for [`Read`](io::Read).
    pub(super) fn into_read(self) -> io::Error {
        let kind = match &self {
            Self::Io { source, .. } => source.kind(),
            Self::Network(_) => io::ErrorKind::Other,
        };
        io::Error::new(kind, self)
    }

    /// Extracts the error of a download from the error of a read, also through readers around it that pass errors on.
    ///
    /// # Errors
    /// Returns `error` itself if it has another origin.
    pub fn from_read(error: io::Error) -> Result<DownloadError, io::Error> {
        error.downcast()
    }

    /// The same failure for a further reader. The first reader gets the error itself, the others a copy of what can be copied.
    pub(super) fn again(&self, url: &ShownUrl) -> DownloadError {
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
                let source = carton_format::causes::in_one_line(error).into();
                NetworkError::Connection { action: "finish the download of", url: url.clone(), source }.into()
            }
        }
    }
}
