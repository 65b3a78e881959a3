//! What can go wrong.

use std::io;
use std::path::{Path, PathBuf};

/// A model that cannot be recognized or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// The operating system refuses.
    #[error("cannot {verb} `{}`", path.display())]
    Io {
        /// What was to be done, such as `open`.
        verb: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A folder that is to be written has files already.
    #[error("`{}` is not empty", path.display())]
    NotEmpty {
        /// The folder.
        path: PathBuf,
    },
    /// The file is of a known kind, and not as files of that kind are.
    #[error("`{}` is {kind}, and {problem}", path.display())]
    Malformed {
        /// The file or folder.
        path: PathBuf,
        /// What it is, such as `a Keras model`.
        kind: &'static str,
        /// What is wrong with it.
        problem: String,
        /// What the user can do.
        hint: Option<String>,
    },
}

impl TemplateError {
    /// What the user can do, if there is something to do.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Io { .. } => None,
            Self::NotEmpty { .. } => Some("name a folder that does not exist yet"),
            Self::Malformed { hint, .. } => hint.as_deref(),
        }
    }

    pub(crate) fn io(verb: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io { verb, path, source }
    }
}
