//! What can be wrong with tensor files on the command line.

use std::io;
use std::path::PathBuf;

use carton_tensor::files::RawTensorError;
use carton_tensor::npy::NpyError;
use carton_tensor::safetensors::{SafetensorsError, ShardedError};
use carton_tensor::ztensor::ZTensorError;

use crate::failure::{Exit, Failure};
use crate::output::count;

/// Why tensors cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TensorFileError {
    #[error("cannot {action} `{}`", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error("`{}` is no file", path.display())]
    NotAFile { path: PathBuf },
    #[error("`{}` is in no format that is known", path.display())]
    UnknownFormat { path: PathBuf },
    #[error("`{place}` has no tensor `{name}`")]
    NoSuchTensor { place: String, name: String, present: Vec<String> },
    #[error("no tensor of `{place}` is called `{}`", patterns.join("` or `"))]
    NoneMatches { place: String, patterns: Vec<String> },
    #[error("`{place}` has {}, and one was expected", count(*found, "tensor"))]
    NotOne { place: String, found: usize },
    #[error("tensor `{name}` is of a kind that this version does not know")]
    UnknownKind { name: String },
    #[error("cannot write to `{}`: its extension names no format", path.display())]
    UnknownOutput { path: PathBuf },
    #[error("`{}` is what is read", path.display())]
    OutputIsSource { path: PathBuf },
    #[error("{option} is for .zt files: `{}` would be {format}", path.display())]
    NotForFormat { option: &'static str, path: PathBuf, format: &'static str },
    #[error("{format} cannot hold tensor `{name}`, {what}")]
    CannotHold { format: &'static str, name: String, what: String, hint: &'static str },
    #[error("two tensors would be called `{name}`")]
    TwoOfOneName { name: String },
    #[error("`{place}` has no tensor of floats to quantize")]
    NothingToQuantize { place: String },
    #[error("tensor `{name}` is malformed")]
    Tensor { name: String, source: RawTensorError },
    #[error("interrupted")]
    Interrupted,
    #[error("cannot use the slice `{slice}`: {reason}")]
    Slice { slice: String, reason: String },
    #[error(transparent)]
    Safetensors(#[from] SafetensorsError),
    #[error(transparent)]
    Sharded(#[from] ShardedError),
    #[error(transparent)]
    Ztensor(#[from] ZTensorError),
    #[error(transparent)]
    Npy(#[from] NpyError),
    #[error(transparent)]
    Carton(#[from] Box<carton_core::Error>),
}

impl From<carton_core::Error> for TensorFileError {
    fn from(error: carton_core::Error) -> Self {
        Self::Carton(Box::new(error))
    }
}

impl TensorFileError {
    /// Whether it is the file that breaks a rule of its format.
    pub(crate) fn is_malformed(&self) -> bool {
        match self {
            Self::Safetensors(error) => matches!(error, SafetensorsError::Header { .. }),
            Self::Sharded(error) => match error {
                ShardedError::Shard(error) => matches!(error, SafetensorsError::Header { .. }),
                ShardedError::Io { .. } | ShardedError::NoSuchTensor { .. } => false,
                _ => true,
            },
            Self::Npy(error) => matches!(error, NpyError::Format { .. }),
            Self::Ztensor(error) => !matches!(
                error,
                ZTensorError::Open { .. }
                    | ZTensorError::Io(_)
                    | ZTensorError::Memory { .. }
                    | ZTensorError::OtherVersion { .. }
                    | ZTensorError::NoSuchObject { .. }
                    | ZTensorError::WrongFormat { .. }
                    | ZTensorError::NotInVersion { .. }
                    | ZTensorError::QuantizedAttribute { .. }
            ),
            Self::Tensor { .. } => true,
            _ => false,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::NoSuchTensor { present, .. } if present.is_empty() => Some("it has none".to_owned()),
            Self::NoSuchTensor { present, .. } => {
                const SHOWN: usize = 5;
                let shown: Vec<&str> = present.iter().take(SHOWN).map(String::as_str).collect();
                let more = present.len().saturating_sub(SHOWN);
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                Some(format!("it has `{}`{more}; `carton tensor ls` shows all", shown.join("`, `")))
            }
            Self::NothingToQuantize { .. } => {
                Some("`carton tensor ls` shows their dtypes, and --only chooses by name".to_owned())
            }
            Self::NoneMatches { .. } | Self::NotOne { .. } => Some("`carton tensor ls` shows their names".to_owned()),
            Self::UnknownFormat { .. } => Some(
                "read are .safetensors, .safetensors.index.json, .zt, .npy, .npz and MODEL.carton#tensor_data"
                    .to_owned(),
            ),
            Self::UnknownOutput { .. } => {
                Some("name a file .safetensors, .zt, .npz or .npy; `carton pack` makes cartons".to_owned())
            }
            Self::OutputIsSource { .. } => Some("write to another file, and rename it afterwards".to_owned()),
            Self::CannotHold { hint, .. } => Some((*hint).to_owned()),
            Self::Carton(error) => error.hint(),
            _ => None,
        }
    }
}

impl From<TensorFileError> for Failure {
    fn from(error: TensorFileError) -> Self {
        let hint = error.hint();
        let failure = match error {
            TensorFileError::Carton(error) => Self::from(*error),
            error if error.is_malformed() => Self::with_exit(Exit::Integrity, error),
            error @ TensorFileError::Interrupted => Self::with_exit(Exit::Interrupted, error),
            error @ (TensorFileError::UnknownOutput { .. }
            | TensorFileError::NotForFormat { .. }
            | TensorFileError::OutputIsSource { .. }
            | TensorFileError::Slice { .. }
            | TensorFileError::NotOne { .. }) => Self::usage(error),
            error => Self::new(error),
        };
        match hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}
