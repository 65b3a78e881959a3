//! Why an ONNX model cannot be read.

use std::fmt;
use std::io;

use super::wire::WireError;
use crate::TensorError;
use crate::files::RawTensorError;

/// The reason that an ONNX model cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OnnxError {
    /// The bytes violate the format.
    #[error("`{place}` is not a valid ONNX model: {problem} (spec/onnx-tensors.md)")]
    Format {
        /// The file.
        place: String,
        /// Where it is, what was expected and what was found.
        problem: String,
    },
    /// The model has something that is not read, or more than a limit allows.
    #[error("`{place}` is refused: {problem} (spec/onnx-tensors.md)")]
    Refused {
        /// The file.
        place: String,
        /// What it is.
        problem: String,
    },
    /// A file that holds data of the model is not there.
    #[error("`{file}`, which holds data of `{place}`, is missing")]
    Missing {
        /// The model.
        place: String,
        /// The path of the file, escaped.
        file: String,
    },
    /// The model has no tensor of this name.
    #[error("`{place}` has no tensor {}", quoted(.name))]
    NoSuchTensor {
        /// The file.
        place: String,
        /// The requested name.
        name: String,
    },
    /// A sparse tensor, or one of strings, needs more memory than the caller allows.
    #[error("tensor {} in `{place}` needs {n_bytes} bytes in memory; at most {limit} are allowed", quoted(.name))]
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
    /// Strings have more dimensions than a tensor can have.
    #[error("tensor {} in `{place}` cannot be read", quoted(.name))]
    Strings {
        /// The file.
        place: String,
        /// The name of the tensor.
        name: String,
        /// What is wrong with it.
        #[source]
        source: TensorError,
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

impl OnnxError {
    /// Whether the content of the file caused the error, not the system or a request for what is not there.
    #[must_use]
    pub fn is_about_content(&self) -> bool {
        !matches!(self, Self::Io { .. } | Self::NoSuchTensor { .. })
    }
}

/// A problem of a file that is not named yet.
#[derive(Debug)]
pub(super) enum Problem {
    Malformed(String),
    Refused(String),
    Io(io::Error),
    /// The file of external data with this position in the list of them cannot be read.
    External(usize, io::Error),
    /// No problem: whoever gets the elements wants no more.
    Stopped,
}

impl Problem {
    /// Names the model, and the file of external data that could not be read.
    pub(super) fn at(self, place: &str, external: impl Fn(usize) -> String) -> OnnxError {
        let place = place.to_owned();
        match self {
            Self::Malformed(problem) => OnnxError::Format { place, problem },
            Self::Refused(problem) => OnnxError::Refused { place, problem },
            Self::Io(source) => OnnxError::Io { place, source },
            Self::External(file, source) => OnnxError::Io { place: external(file), source },
            Self::Stopped => OnnxError::Io { place, source: io::ErrorKind::Interrupted.into() },
        }
    }
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<WireError> for Problem {
    fn from(error: WireError) -> Self {
        match error {
            WireError::TooDeep { .. } | WireError::TooMany => Self::Refused(error.to_string()),
            error => Self::Malformed(error.to_string()),
        }
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

/// A name for a message: escaped, and shortened.
pub(super) fn quoted(name: &str) -> impl fmt::Display {
    const SHOWN: usize = 200;
    let shown: String = name.chars().take(SHOWN).flat_map(char::escape_debug).collect();
    let more = if name.chars().nth(SHOWN).is_some() { "…" } else { "" };
    format!("`{shown}{more}`")
}
