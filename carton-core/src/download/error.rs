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

    /// The same error once more, because every reader of a download gets it. Causes become their text.
    pub(super) fn duplicate(&self) -> DownloadError {
        match self {
            Self::Io { action, path, source } => {
                let source = match source.raw_os_error() {
                    Some(code) => io::Error::from_raw_os_error(code),
                    None => io::Error::new(source.kind(), source.to_string()),
                };
                Self::Io { action, path: path.clone(), source }
            }
            Self::Network(error) => Self::Network(duplicate(error)),
        }
    }
}

fn duplicate(error: &NetworkError) -> NetworkError {
    use NetworkError::{
        Answer, Changed, Connection, Cut, Internal, Interrupted, Offline, Redirects, Stalled, Status, TooLarge,
    };
    match error {
        Offline { url } => Offline { url: url.clone() },
        Connection { action, url, source } => {
            let causes = std::iter::successors(Some(&**source as &dyn std::error::Error), |error| error.source());
            let text: Vec<String> = causes.map(ToString::to_string).collect();
            Connection { action, url: url.clone(), source: text.join(": ").into() }
        }
        Stalled { url, after } => Stalled { url: url.clone(), after: *after },
        Status { url, status, retry_after } => Status { url: url.clone(), status: *status, retry_after: *retry_after },
        Redirects { url, limit } => Redirects { url: url.clone(), limit: *limit },
        Answer { url, expected, found } => {
            Answer { url: url.clone(), expected: expected.clone(), found: found.clone() }
        }
        Cut { url, expected, found } => Cut { url: url.clone(), expected: *expected, found: *found },
        Changed { url, expected, found } => {
            Changed { url: url.clone(), expected: expected.clone(), found: found.clone() }
        }
        TooLarge { url, limit } => TooLarge { url: url.clone(), limit: *limit },
        Interrupted => Interrupted,
        Internal(what) => Internal(what.clone()),
    }
}
