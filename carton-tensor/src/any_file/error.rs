//! Why a tensor file of any format cannot be opened or read.

use super::format::{TensorFileFormat, has_ending};
use crate::checkpoint::{ShardedError, UnusableFile};
use crate::content::Content;
use crate::gguf::GgufError;
use crate::npy::NpyError;
use crate::onnx::OnnxError;
use crate::safetensors::SafetensorsError;
use crate::torch::TorchError;
use crate::ztensor::ZTensorError;
use crate::ztensor2::ZTensor2Error;

/// The reason that a tensor file cannot be opened or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TensorFileError {
    /// Opening or reading the file failed.
    #[error("cannot read `{place}`")]
    Io {
        /// The file.
        place: String,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// The file has no bytes.
    #[error("`{place}` is empty, expected {}", expected(*.named))]
    Empty {
        /// The file.
        place: String,
        /// The format that the name of the file suggests.
        named: Option<TensorFileFormat>,
    },
    /// The file is another kind of file.
    #[error("`{place}` is {content}{}, expected {}", beginning(.found.as_ref()), expected(*.named))]
    OtherContent {
        /// The file.
        place: String,
        /// What it is.
        content: Content,
        /// The first line, escaped, if the file is text.
        found: Option<String>,
        /// The format that the name of the file suggests.
        named: Option<TensorFileFormat>,
    },
    /// The format is not recognized.
    #[error(
        "`{place}` is not a tensor file: expected safetensors, zTensor, a PyTorch checkpoint, GGUF, ONNX, .npy or .npz, found `{found}` at its start"
    )]
    Unknown {
        /// The file.
        place: String,
        /// The first bytes of the file, escaped.
        found: String,
    },
    /// The file is not valid safetensors, or cannot be read as such.
    #[error(transparent)]
    Safetensors(#[from] SafetensorsError),
    /// The index of a sharded checkpoint is invalid, or does not match its files.
    #[error(transparent)]
    Sharded(#[from] ShardedError),
    /// The file is not valid zTensor, or cannot be read as such.
    #[error("{}", headline(.source, .place))]
    ZTensor {
        /// The file.
        place: String,
        /// The rule that the file breaks, or the failure.
        #[source]
        source: Box<ZTensorError>,
    },
    /// The file is not valid zTensor 2, or cannot be read as such.
    #[error("{}", headline_of_2(.source, .place))]
    ZTensor2 {
        /// The file.
        place: String,
        /// The rule that the file breaks, or the failure.
        #[source]
        source: Box<ZTensor2Error>,
    },
    /// The file is not a valid PyTorch checkpoint, or has something that is not read.
    #[error(transparent)]
    Torch(#[from] TorchError),
    /// The file is not a valid NumPy file, or cannot be read as such.
    #[error(transparent)]
    Npy(#[from] NpyError),
    /// The file is not valid GGUF, or cannot be read as such.
    #[error(transparent)]
    Gguf(#[from] GgufError),
    /// The file is not a valid ONNX model, or has something that is not read.
    #[error(transparent)]
    Onnx(#[from] OnnxError),
    /// The file has no tensor of this name.
    #[error("`{place}` has no tensor `{name}`")]
    NoSuchTensor {
        /// The file.
        place: String,
        /// The requested name, escaped.
        name: String,
    },
    /// The entry of this name cannot be read as one tensor of numbers.
    #[error("`{name}` in `{place}` is {found}, expected a tensor of numbers")]
    NoTensor {
        /// The file.
        place: String,
        /// The name of the entry, escaped.
        name: String,
        /// What the entry is.
        found: String,
    },
}

fn expected(named: Option<TensorFileFormat>) -> String {
    let any = || "a tensor file: safetensors, zTensor, a PyTorch checkpoint, GGUF, ONNX, .npy or .npz".to_owned();
    named.map_or_else(any, |format| format.name().to_owned())
}

/// What to do about a link that is not followed.
const FOLLOW_LINKS: &str =
    "if its target is one of the model's files, follow it with `--follow-links`, in Python `follow_links=True`";

/// Whether a file was not opened because it is a link.
fn is_link(error: &std::io::Error) -> bool {
    let unusable = error.get_ref().and_then(|inner| inner.downcast_ref());
    matches!(unusable, Some(UnusableFile::Link { .. }))
}

fn beginning(found: Option<&String>) -> String {
    found.map(|found| format!(" that begins with `{found}`")).unwrap_or_default()
}

/// The first line of a zTensor error; the rule that the file breaks follows as its source.
fn headline(error: &ZTensorError, place: &str) -> String {
    if matches!(error, ZTensorError::OtherVersion { .. }) {
        format!("`{place}` is not a file of zTensor 1.1 or 1.2")
    } else if error.is_malformed() {
        format!("`{place}` is not a valid zTensor file")
    } else {
        format!("cannot read `{place}`")
    }
}

fn headline_of_2(error: &ZTensor2Error, place: &str) -> String {
    if error.is_malformed() {
        format!("`{place}` is not a valid file of zTensor 2")
    } else {
        format!("cannot read `{place}`")
    }
}

impl TensorFileError {
    /// Whether the file breaks a rule of its format, or has another version of it. A file that is merely too large or too unusual for
    /// this library breaks no rule.
    #[must_use]
    pub fn is_malformed(&self) -> bool {
        match self {
            Self::Safetensors(error) => error.is_about_content(),
            Self::Sharded(error) => match error {
                ShardedError::Safetensors(error) => error.is_about_content(),
                // A file that an index names claims to be a checkpoint.
                ShardedError::Torch(error) => {
                    matches!(error, TorchError::Format { .. } | TorchError::OtherContent { .. })
                }
                ShardedError::Io { .. } | ShardedError::NoSuchTensor { .. } => false,
                // What is refused for safety, or is beyond a limit, may be whole.
                ShardedError::TooMany { .. } | ShardedError::Outside { .. } => false,
                _ => true,
            },
            Self::ZTensor { source, .. } => source.is_malformed(),
            Self::ZTensor2 { source, .. } => source.is_malformed(),
            Self::Npy(error) => matches!(error, NpyError::Format { .. }),
            Self::Gguf(error) => error.is_malformed(),
            Self::Torch(error) => matches!(error, TorchError::Format { .. }),
            Self::Onnx(error) => matches!(error, OnnxError::Format { .. } | OnnxError::Missing { .. }),
            Self::Empty { .. } => true,
            // A file that claims to be a tensor file by its name is no whole and correct one.
            Self::OtherContent { named, .. } => named.is_some(),
            Self::Io { .. } | Self::Unknown { .. } | Self::NoSuchTensor { .. } | Self::NoTensor { .. } => false,
        }
    }

    /// Whether the content of the file caused the error. If not, the error says nothing about the content: the file could not be read,
    /// or the caller asked for something that is not there.
    #[must_use]
    pub fn is_about_content(&self) -> bool {
        match self {
            Self::Safetensors(error) => error.is_about_content(),
            Self::Sharded(ShardedError::Safetensors(error)) => error.is_about_content(),
            Self::Sharded(ShardedError::Torch(error)) => error.is_about_content(),
            Self::Sharded(ShardedError::Io { .. } | ShardedError::NoSuchTensor { .. }) => false,
            Self::Sharded(_) | Self::Unknown { .. } | Self::NoTensor { .. } => true,
            Self::Empty { .. } | Self::OtherContent { .. } => true,
            Self::ZTensor { source, .. } => source.is_about_content(),
            Self::ZTensor2 { source, .. } => source.is_about_content(),
            Self::Torch(error) => error.is_about_content(),
            Self::Onnx(error) => error.is_about_content(),
            Self::Npy(error) => !matches!(error, NpyError::Io { .. } | NpyError::NoSuchArray { .. }),
            Self::Gguf(error) => error.is_about_content(),
            Self::Io { .. } | Self::NoSuchTensor { .. } => false,
        }
    }

    /// What the file is, if it is recognized as another kind of file.
    #[must_use]
    pub fn content(&self) -> Option<Content> {
        match self {
            Self::OtherContent { content, .. }
            | Self::Safetensors(SafetensorsError::OtherContent { content, .. })
            | Self::Sharded(ShardedError::Safetensors(SafetensorsError::OtherContent { content, .. }))
            | Self::Sharded(ShardedError::Torch(TorchError::OtherContent { content, .. }))
            | Self::Torch(TorchError::OtherContent { content, .. })
            | Self::Gguf(GgufError::OtherContent { content, .. })
            | Self::Npy(NpyError::NotNpz { content, .. }) => Some(*content),
            // A file with the name of an index is none of another kind.
            Self::Sharded(ShardedError::Index { place, .. }) if !has_ending(place, ".index.json") => {
                Some(Content::Json)
            }
            _ => None,
        }
    }

    /// What to do about the error, if there is something to do.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Sharded(ShardedError::Outside { .. }) => Some(FOLLOW_LINKS),
            Self::Gguf(GgufError::Io { source, .. }) if is_link(source) => Some(FOLLOW_LINKS),
            Self::Gguf(GgufError::NotDequantized { .. }) => {
                Some("the Python package `gguf` does not dequantize them either; choose other tensors")
            }
            Self::Onnx(OnnxError::Missing { .. }) => {
                Some("the model has weights in that file: put it into the folder of the model, under this name")
            }
            Self::Unknown { .. } => Some(
                "read are .safetensors, PyTorch's .pt, .pth and .bin, the .index.json of both, .zt, .gguf, .onnx, .npy and .npz",
            ),
            Self::Torch(TorchError::Refused { .. })
            | Self::Sharded(ShardedError::Torch(TorchError::Refused { .. })) => Some(
                "if you trust its author, read it in Python with `torch.load(FILE, map_location='cpu')`, and save the tensors with \
                 `safetensors.torch.save_file`",
            ),
            other => other.content().and_then(Content::hint),
        }
    }

    /// Describes the error and its causes in one line, without the name of the file where possible.
    pub(crate) fn reason(&self) -> String {
        let mut cause: &(dyn std::error::Error + 'static) = match self {
            Self::ZTensor { source, .. } => source.as_ref(),
            Self::ZTensor2 { source, .. } => source.as_ref(),
            Self::NoTensor { found, .. } => return format!("it is {found}, expected a tensor of numbers"),
            other => other,
        };
        let mut text = cause.to_string();
        while let Some(source) = cause.source() {
            cause = source;
            text.push_str(": ");
            text.push_str(&cause.to_string());
        }
        text
    }
}
