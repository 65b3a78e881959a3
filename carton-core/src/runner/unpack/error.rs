//! Why an archive cannot be unpacked, or breaks a rule.

use std::io;
use std::path::{Path, PathBuf};

use carton_format::archive::ArchiveError;
use carton_format::context::Cancelled;
use carton_format::error_kind::ErrorKind;
use carton_format::name::NameError;

use crate::error::Failure;

/// Why an archive cannot be unpacked, or breaks a rule.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UnpackError {
    /// The file has another format.
    #[error("expected a zip, tar or tar.gz file, found {found}")]
    Format {
        /// A description of what was found.
        found: &'static str,
    },
    /// The zip file breaks a rule.
    #[error(transparent)]
    Zip(ArchiveError),
    /// The tar file, or its compression, is damaged.
    #[error("the archive is damaged")]
    Damaged(#[source] io::Error),
    /// A name is not allowed.
    #[error("name `{name}` is not allowed")]
    Name {
        /// The name, with bytes that cannot be printed escaped.
        name: String,
        /// Why not.
        source: NameError,
    },
    /// A name occurs twice, or is that of a folder and of a file.
    #[error("`{name}` is there twice")]
    Duplicate {
        /// The name.
        name: String,
    },
    /// A link leads out of the folder, or its target cannot be used.
    #[error("link `{name}` to `{target}` {problem}")]
    Link {
        /// The link.
        name: String,
        /// Its target.
        target: String,
        /// What is wrong with the target.
        problem: &'static str,
    },
    /// An entry is neither a file, a folder nor a link.
    #[error("`{name}` is {found}, only files, folders and links are allowed")]
    Kind {
        /// The name.
        name: String,
        /// A description of what was found.
        found: &'static str,
    },
    /// A limit is exceeded.
    #[error("{what}: at most {limit} allowed")]
    Limit {
        /// What is limited.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
    /// A file cannot be read or written.
    #[error("cannot {action} `{}`", path.display())]
    Io {
        /// What was tried, as a verb.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// The work was cancelled.
    #[error("interrupted")]
    Interrupted,
}

impl UnpackError {
    pub(super) fn io<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> Self + 'a {
        move |source| Self::Io { action, path: path.to_path_buf(), source }
    }

    /// Converts an error of a reader: returns the error of this crate inside it, or else reports a damaged archive.
    pub(super) fn from_read(error: io::Error) -> Self {
        match error.downcast::<UnpackError>() {
            Ok(error) => error,
            Err(error) => match error.downcast::<ArchiveError>() {
                Ok(error) => Self::Zip(error),
                Err(error) => Self::Damaged(error),
            },
        }
    }
}

impl Failure for UnpackError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Io { .. } | Self::Zip(ArchiveError::Io { .. }) => ErrorKind::Machine,
            Self::Interrupted => ErrorKind::Interrupted,
            _ => ErrorKind::Integrity,
        }
    }
}

impl From<Cancelled> for UnpackError {
    fn from(_: Cancelled) -> Self {
        Self::Interrupted
    }
}
