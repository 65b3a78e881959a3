//! Why a PyTorch checkpoint cannot be read.

use std::io;

use crate::content::Content;
use crate::files::RawTensorError;
pub(super) use crate::files::quoted;

/// The reason that a PyTorch checkpoint cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TorchError {
    /// The bytes violate the format.
    #[error("`{place}` is not a valid PyTorch checkpoint: {problem} (spec/torch.md)")]
    Format {
        /// The file.
        place: String,
        /// Where it is, what was expected and what was found.
        problem: String,
    },
    /// The file has something that is not read: a class, a function, a kind of tensor, or more than a limit allows.
    #[error("`{place}` is refused: {problem} (spec/torch.md)")]
    Refused {
        /// The file.
        place: String,
        /// Where it is, and what it is.
        problem: String,
    },
    /// The file is another kind of file.
    #[error("`{place}` is {content}, expected a PyTorch checkpoint (`torch.save`)")]
    OtherContent {
        /// The file.
        place: String,
        /// What it is.
        content: Content,
    },
    /// The file has no tensor of this name.
    #[error("`{place}` has no tensor {}", quoted(.name))]
    NoSuchTensor {
        /// The file.
        place: String,
        /// The requested name.
        name: String,
    },
    /// A tensor that repeats elements of its storage needs more bytes than the caller allows.
    #[error(
        "tensor {} in `{place}` repeats elements, and needs {n_bytes} bytes without that; at most {limit} are allowed",
        quoted(.name)
    )]
    TooLarge {
        /// The file.
        place: String,
        /// The name of the tensor.
        name: String,
        /// The bytes of all elements.
        n_bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// A tensor does not fit in memory.
    #[error("tensor {} in `{place}` cannot be read", quoted(.name))]
    Tensor {
        /// The file.
        place: String,
        /// The name of the tensor.
        name: String,
        /// What is wrong with it.
        #[source]
        source: RawTensorError,
    },
    /// Reading failed.
    #[error("cannot read `{place}`")]
    Io {
        /// The file.
        place: String,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
}

impl TorchError {
    /// Whether the content of the file caused the error, not the system or a request for what is not there.
    #[must_use]
    pub fn is_about_content(&self) -> bool {
        !matches!(self, Self::Io { .. } | Self::NoSuchTensor { .. })
    }
}

/// A problem of a file that is not named yet.
#[derive(Debug)]
pub(super) enum Problem {
    /// The pickle goes on behind the bytes that are there.
    Truncated,
    Malformed(String),
    Refused(String),
    OtherContent(Content),
    Io(io::Error),
}

impl Problem {
    /// Names the file.
    pub(super) fn at(self, place: &str) -> TorchError {
        let place = place.to_owned();
        match self {
            Self::Truncated => TorchError::Format { place, problem: "its pickle is truncated".to_owned() },
            Self::Malformed(problem) => TorchError::Format { place, problem },
            Self::Refused(problem) => TorchError::Refused { place, problem },
            Self::OtherContent(content) => TorchError::OtherContent { place, content },
            Self::Io(source) => TorchError::Io { place, source },
        }
    }
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Makes a [`Problem::Malformed`] of a text.
pub(super) fn malformed<T>(problem: impl Into<String>) -> Result<T, Problem> {
    Err(Problem::Malformed(problem.into()))
}

/// Makes a [`Problem::Refused`] of a text.
pub(super) fn refused<T>(problem: impl Into<String>) -> Result<T, Problem> {
    Err(Problem::Refused(problem.into()))
}
