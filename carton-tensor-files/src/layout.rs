//! How tensors are stored in their file or carton.

use carton_tensor::ztensor::Format;
use carton_tensor::ztensor2::Layout;
use serde::{Serialize, Serializer};

/// How a tensor is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TensorLayout {
    /// Its elements, one after another.
    Dense,
    /// The values of a matrix that are not 0, row by row.
    SparseCsr,
    /// The values that are not 0, each with its position.
    SparseCoo,
    /// Integers of few bits, with scales for groups of them.
    QuantizedGroup,
    /// An object of a zTensor file whose format is not known.
    Other(String),
    /// Blocks of a quantized type of ggml, in a GGUF file.
    Ggml,
    /// A list of tensors of a carton.
    Nested,
}

impl TensorLayout {
    /// The name that is shown: `nested`, `ggml`, or that of the format in the specification of zTensor.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Dense => Format::Dense.name(),
            Self::SparseCsr => Format::SparseCsr.name(),
            Self::SparseCoo => Format::SparseCoo.name(),
            Self::QuantizedGroup => Format::QuantizedGroup.name(),
            Self::Other(name) => name,
            Self::Ggml => "ggml",
            Self::Nested => "nested",
        }
    }
}

impl From<Format<'_>> for TensorLayout {
    fn from(format: Format<'_>) -> Self {
        match format {
            Format::Dense => Self::Dense,
            Format::SparseCsr => Self::SparseCsr,
            Format::SparseCoo => Self::SparseCoo,
            Format::QuantizedGroup => Self::QuantizedGroup,
            Format::Other(name) => Self::Other(name.to_owned()),
        }
    }
}

/// Sparse objects of zTensor 2 are stored as those of other versions are.
impl From<Layout<'_>> for TensorLayout {
    fn from(layout: Layout<'_>) -> Self {
        match layout {
            Layout::Dense => Self::Dense,
            Layout::SparseCsr => Self::SparseCsr,
            Layout::SparseCoo => Self::SparseCoo,
            Layout::Other(name) => Self::Other(name.to_owned()),
        }
    }
}

impl Serialize for TensorLayout {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
