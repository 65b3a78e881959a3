//! Why an archive cannot be unpacked, or must not be.

use std::io;
use std::path::{Path, PathBuf};

use crate::ErrorKind;
use crate::archive::ArchiveError;
use crate::name::NameError;

/// Why an archive cannot be unpacked, or must not be.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UnpackError {
    /// It is of another format.
    #[error("expected a zip, tar or tar.gz file, found {found}")]
    Format {
        /// What it is.
        found: &'static str,
    },
    /// The zip file breaks a rule.
    #[error(transparent)]
    Zip(ArchiveError),
    /// The tar file, or its compression, is damaged.
    #[error("the archive is damaged")]
    Damaged(#[source] io::Error),
    /// A name that is not allowed.
    #[error("name `{name}` is not allowed")]
    Name {
        /// The name, with bytes that cannot be printed escaped.
        name: String,
        /// Why not.
        source: NameError,
    },
    /// Something is there twice, or is a folder here and a file there.
    #[error("`{name}` is there twice")]
    Duplicate {
        /// The name.
        name: String,
    },
    /// A link that leads out of the folder, or nowhere.
    #[error("link `{name}` to `{target}` {problem}")]
    Link {
        /// The link.
        name: String,
        /// Where it leads to.
        target: String,
        /// What is wrong with that.
        problem: &'static str,
    },
    /// Something that is neither file, folder nor link.
    #[error("`{name}` is {found}, only files, folders and links are allowed")]
    Kind {
        /// The name.
        name: String,
        /// What it is.
        found: &'static str,
    },
    /// More than is allowed.
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
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// Nobody waits any more.
    #[error("interrupted")]
    Interrupted,
}

impl UnpackError {
    pub(super) fn io<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> Self + 'a {
        move |source| Self::Io { action, path: path.to_path_buf(), source }
    }

    /// The error behind one that a reader returned: our own, or damage.
    pub(super) fn from_read(error: io::Error) -> Self {
        match error.downcast::<UnpackError>() {
            Ok(error) => error,
            Err(error) => match error.downcast::<ArchiveError>() {
                Ok(error) => Self::Zip(error),
                Err(error) => Self::Damaged(error),
            },
        }
    }

    /// What sort of failure this is.
    pub(crate) fn kind(&self) -> ErrorKind {
        match self {
            Self::Io { .. } | Self::Zip(ArchiveError::Io { .. }) => ErrorKind::Other,
            Self::Interrupted => ErrorKind::Interrupted,
            _ => ErrorKind::Integrity,
        }
    }
}
