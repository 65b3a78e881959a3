//! One file of a checkpoint, of any kind that an index may name.

use super::error::ShardedError;
use super::kind::ShardKind;
use crate::content::Content;
use crate::files::{FileBytes, RawTensor};
use crate::safetensors::{self, Header};
use crate::torch;

/// An open file of a checkpoint.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Shard {
    /// A safetensors file.
    Safetensors(Box<safetensors::Reader>),
    /// A PyTorch checkpoint.
    Torch(torch::Reader),
}

impl Shard {
    /// Opens a file from its bytes. Those decide the kind, and the name only for a file that is of neither kind, whose error then says what
    /// was expected.
    ///
    /// # Errors
    /// [`ShardedError::Safetensors`], [`ShardedError::Torch`].
    pub(super) fn open(bytes: FileBytes, place: String) -> Result<Self, ShardedError> {
        let start = match bytes.start(Content::START) {
            Ok(start) => start,
            Err(source) => return Err(ShardedError::Io { place, source }),
        };
        Ok(match kind(&start, &place) {
            ShardKind::Safetensors => Self::Safetensors(Box::new(safetensors::Reader::new(bytes, place)?)),
            ShardKind::Torch => Self::Torch(torch::Reader::new(bytes, place)?),
        })
    }

    /// The kind of the file.
    #[must_use]
    pub fn kind(&self) -> ShardKind {
        match self {
            Self::Safetensors(_) => ShardKind::Safetensors,
            Self::Torch(_) => ShardKind::Torch,
        }
    }

    /// The name by which errors refer to the file.
    #[must_use]
    pub fn place(&self) -> &str {
        match self {
            Self::Safetensors(reader) => reader.place(),
            Self::Torch(reader) => reader.place(),
        }
    }

    /// The names of the tensors, in the order of the file.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        match self {
            Self::Safetensors(reader) => reader.names().collect(),
            Self::Torch(reader) => reader.tensors().iter().map(torch::TensorInfo::name).collect(),
        }
    }

    /// Whether the file has a tensor of this name.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        match self {
            Self::Safetensors(reader) => reader.get(name).is_some(),
            Self::Torch(reader) => reader.get(name).is_some(),
        }
    }

    /// Returns the dimensions of a tensor.
    #[must_use]
    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        match self {
            Self::Safetensors(reader) => reader.get(name).map(|tensor| tensor.shape),
            Self::Torch(reader) => reader.get(name).map(torch::TensorInfo::shape),
        }
    }

    /// Reads the tensor of this name.
    ///
    /// # Errors
    /// Those of the reader of the file.
    pub fn read(&self, name: &str) -> Result<RawTensor, ShardedError> {
        Ok(match self {
            Self::Safetensors(reader) => reader.read(name)?,
            Self::Torch(reader) => reader.read(name)?,
        })
    }

    /// Returns the reader of a safetensors file.
    #[must_use]
    pub fn as_safetensors(&self) -> Option<&safetensors::Reader> {
        match self {
            Self::Safetensors(reader) => Some(reader),
            Self::Torch(_) => None,
        }
    }

    /// Returns the reader of a PyTorch checkpoint.
    #[must_use]
    pub fn as_torch(&self) -> Option<&torch::Reader> {
        match self {
            Self::Torch(reader) => Some(reader),
            Self::Safetensors(_) => None,
        }
    }
}

/// The kind of a file with these first bytes and this name.
fn kind(start: &[u8], name: &str) -> ShardKind {
    const ENDINGS: [&str; 3] = [".bin", ".pt", ".pth"];
    // The length of a header may begin like the magic bytes of another kind.
    if Header::is_at(start) {
        return ShardKind::Safetensors;
    }
    let is_torch = match Content::of_start(start) {
        // The first entry of an archive need not be the pickle.
        Some(
            Content::TorchArchive | Content::TorchPickle | Content::TorchScript | Content::TorchTar | Content::Zip,
        ) => true,
        _ => ENDINGS.iter().any(|ending| name.ends_with(ending)),
    };
    if is_torch { ShardKind::Torch } else { ShardKind::Safetensors }
}
