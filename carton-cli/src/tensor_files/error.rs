//! Errors of tensor files on the command line, with their exit codes and hints.

use std::error::Error;
use std::io;
use std::path::PathBuf;

use carton_tensor::any_file;
use carton_tensor::content::Content;
use carton_tensor::context::Cancelled;
use carton_tensor::npy::NpyError;
use carton_tensor::safetensors::SafetensorsError;
use carton_tensor::weights::WeightsError;
use carton_tensor::ztensor::{SparseError, ZTensorError};

use crate::failure::{Exit, Failure};
use crate::hints;
use crate::text::count;

/// An error of reading or writing tensors.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TensorFileError {
    #[error("cannot {action} `{}`", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error("`{}` is not a file", path.display())]
    NotAFile { path: PathBuf },
    #[error("`{place}` has no tensor `{name}`")]
    NoSuchTensor { place: String, name: String, present: Vec<String> },
    #[error("no tensor of `{place}` is called `{}`", patterns.join("` or `"))]
    NoneMatches { place: String, patterns: Vec<String> },
    #[error("`{place}` has {}, and one was expected", count(*found, "tensor"))]
    NotOne { place: String, found: usize },
    #[error("an .npy file holds one tensor, and {} would go to `{}`", count(*found, "tensor"), path.display())]
    OneFits { path: PathBuf, found: usize },
    #[error("tensor `{name}` is of a kind that this version does not know")]
    UnknownKind { name: String },
    #[error("cannot write to `{}`: its extension names no format", path.display())]
    UnknownOutput { path: PathBuf },
    #[error("`{}` is the file that is read", path.display())]
    OutputIsSource { path: PathBuf },
    #[error("{option} is for .zt files: `{}` would be {format}", path.display())]
    NotForFormat { option: &'static str, path: PathBuf, format: &'static str },
    #[error("{format} cannot hold tensor `{name}`, {what}")]
    CannotHold { format: &'static str, name: String, what: String, hint: &'static str },
    #[error("two tensors would be called `{name}`")]
    TwoOfOneName { name: String },
    #[error("`{place}` has no tensor of floats to quantize")]
    NothingToQuantize { place: String, schemes: Vec<&'static str> },
    #[error("cannot make a quantized group of tensor `{name}`")]
    NotInGroups { name: String, source: Box<WeightsError> },
    #[error("interrupted")]
    Interrupted,
    #[error("cannot use the slice `{slice}`: {reason}")]
    Slice { slice: String, reason: String },
    #[error(transparent)]
    File(#[from] any_file::TensorFileError),
    #[error(transparent)]
    Safetensors(#[from] SafetensorsError),
    #[error(transparent)]
    Ztensor(#[from] ZTensorError),
    #[error(transparent)]
    Npy(#[from] NpyError),
    #[error(transparent)]
    Weights(WeightsError),
    #[error(transparent)]
    Carton(#[from] carton_core::Error),
}

impl From<Cancelled> for TensorFileError {
    fn from(_: Cancelled) -> Self {
        Self::Interrupted
    }
}

impl From<WeightsError> for TensorFileError {
    fn from(error: WeightsError) -> Self {
        match error {
            WeightsError::Interrupted => Self::Interrupted,
            WeightsError::File(error) => Self::File(error),
            error => Self::Weights(error),
        }
    }
}

impl TensorFileError {
    /// Whether the file breaks a rule of its format.
    pub(crate) fn is_malformed(&self) -> bool {
        match self {
            Self::File(error) => error.is_malformed(),
            Self::Ztensor(error) => error.is_malformed(),
            _ => false,
        }
    }

    /// Returns the error of a zTensor file, if this is one.
    fn as_ztensor(&self) -> Option<&ZTensorError> {
        match self {
            Self::File(any_file::TensorFileError::ZTensor { source, .. }) => Some(source),
            Self::Ztensor(error) => Some(error),
            _ => None,
        }
    }

    pub(crate) fn not_in_groups(name: &str, source: WeightsError) -> Self {
        Self::NotInGroups { name: shown_name(name), source: Box::new(source) }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::NoSuchTensor { present, .. } if present.is_empty() => Some("it has none".to_owned()),
            Self::NoSuchTensor { present, .. } => {
                const SHOWN: usize = 5;
                // Names come from a file, so control characters are not printed.
                let shown: Vec<String> = present.iter().take(SHOWN).map(|name| shown_name(name)).collect();
                let more = present.len().saturating_sub(SHOWN);
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                Some(format!("it has `{}`{more}; `carton tensor ls` shows all", shown.join("`, `")))
            }
            Self::NothingToQuantize { schemes, .. } if !schemes.is_empty() => {
                let schemes = schemes.join("; ");
                Some(format!("what it has is quantized already ({schemes}), and would only lose precision"))
            }
            Self::NothingToQuantize { .. } => {
                Some("`carton tensor ls` shows their dtypes, and --only chooses by name".to_owned())
            }
            Self::TwoOfOneName { .. } => {
                Some("a quantized tensor has its scale beside it; leave one as it is with --only".to_owned())
            }
            Self::NotInGroups { .. } => Some("leave it as it is with --only, or leave --group-size out".to_owned()),
            Self::OneFits { .. } => Some("choose one with --only NAME, or write an .npz file".to_owned()),
            Self::NoneMatches { .. } | Self::NotOne { .. } => Some("`carton tensor ls` shows their names".to_owned()),
            Self::File(error) if error.content() == Some(Content::Carton) => {
                Some("name it FILE.carton, or read its tensors as FILE#tensor_data".to_owned())
            }
            // The library reads tensor files only.
            Self::File(error @ any_file::TensorFileError::Unknown { .. }) => {
                error.hint().map(|hint| format!("{hint}, and cartons (.carton)"))
            }
            Self::File(error) if error.hint().is_some() => error.hint().map(str::to_owned),
            Self::UnknownOutput { .. } => {
                Some("name a file .safetensors, .zt, .npz or .npy; `carton pack` makes cartons".to_owned())
            }
            Self::OutputIsSource { .. } => Some("write to another file, and rename it afterwards".to_owned()),
            Self::CannotHold { hint, .. } => Some((*hint).to_owned()),
            Self::Carton(error) => hints::hint(error),
            error => match error.as_ztensor()? {
                ZTensorError::Sparse(SparseError::DenseSize { .. }) => {
                    Some("if it should be that large, allow it with --max-dense SIZE, such as 64GB".to_owned())
                }
                ZTensorError::OtherVersion { version } => Some(format!(
                    "read it with a release {version} of the ztensor library, and save its tensors as safetensors, which can be converted"
                )),
                _ => None,
            },
        }
    }
}

/// Formats a name for a line of text: without control characters, and truncated.
pub(crate) fn shown_name(name: &str) -> String {
    const LONGEST: usize = 100;
    let mut shown: String = name.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    if name.chars().nth(LONGEST).is_some() {
        shown.push('…');
    }
    shown
}

/// Returns the operating system's error, if that is why writing failed, whatever the format.
pub(super) fn io_cause(error: &TensorFileError) -> Option<io::Error> {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(io) = error.downcast_ref::<io::Error>() {
            return Some(match io.raw_os_error() {
                Some(code) => io::Error::from_raw_os_error(code),
                None => io::Error::new(io.kind(), io.to_string()),
            });
        }
        cause = error.source();
    }
    None
}

impl From<TensorFileError> for Failure {
    fn from(error: TensorFileError) -> Self {
        let hint = error.hint();
        let failure = match error {
            TensorFileError::Carton(error) => Self::from(error),
            error if error.is_malformed() => Self::with_exit(Exit::Integrity, error),
            error @ TensorFileError::Interrupted => Self::with_exit(Exit::Interrupted, error),
            error @ (TensorFileError::UnknownOutput { .. }
            | TensorFileError::NotForFormat { .. }
            | TensorFileError::OutputIsSource { .. }
            | TensorFileError::Slice { .. }
            | TensorFileError::Weights(WeightsError::Pattern { .. })
            | TensorFileError::OneFits { .. }
            | TensorFileError::NotOne { .. }) => Self::usage(error),
            error => Self::new(error),
        };
        match hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}
