//! The element types of carton format v1 (spec/carton-format.md, "Inputs and outputs").

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The type of a tensor's elements, named as in `carton.toml`.
///
/// ```
/// use carton_tensor::DataType;
/// assert_eq!("float32".parse(), Ok(DataType::Float32));
/// assert_eq!(DataType::Int64.size(), Some(8));
/// assert_eq!(DataType::String.size(), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum DataType {
    /// IEEE 754 binary32.
    Float32,
    /// IEEE 754 binary64.
    Float64,
    /// UTF-8 strings of any length.
    String,
    /// Signed, 1 byte.
    Int8,
    /// Signed, 2 bytes.
    Int16,
    /// Signed, 4 bytes.
    Int32,
    /// Signed, 8 bytes.
    Int64,
    /// Unsigned, 1 byte.
    Uint8,
    /// Unsigned, 2 bytes.
    Uint16,
    /// Unsigned, 4 bytes.
    Uint32,
    /// Unsigned, 8 bytes.
    Uint64,
}

impl DataType {
    /// Every dtype of format v1, in the order of the specification.
    pub const ALL: [Self; 11] = [
        Self::Float32,
        Self::Float64,
        Self::String,
        Self::Int8,
        Self::Int16,
        Self::Int32,
        Self::Int64,
        Self::Uint8,
        Self::Uint16,
        Self::Uint32,
        Self::Uint64,
    ];

    /// The name used in `carton.toml`, in `index.toml` and in runner messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Float32 => "float32",
            Self::Float64 => "float64",
            Self::String => "string",
            Self::Int8 => "int8",
            Self::Int16 => "int16",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Uint8 => "uint8",
            Self::Uint16 => "uint16",
            Self::Uint32 => "uint32",
            Self::Uint64 => "uint64",
        }
    }

    /// Returns the bytes per element; `None` for strings, whose size varies.
    #[must_use]
    pub const fn size(self) -> Option<usize> {
        match self {
            Self::String => None,
            Self::Int8 | Self::Uint8 => Some(1),
            Self::Int16 | Self::Uint16 => Some(2),
            Self::Float32 | Self::Int32 | Self::Uint32 => Some(4),
            Self::Float64 | Self::Int64 | Self::Uint64 => Some(8),
        }
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A dtype name that format v1 does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown dtype `{name}`, expected one of float32, float64, string, int8, int16, int32, int64, uint8, uint16, uint32, uint64{advice}",
    name = .0,
    advice = carrier(.0)
)]
pub struct UnknownDataType(pub String);

/// How elements are declared that have no dtype of their own.
fn carrier(name: &str) -> &'static str {
    if matches!(name, "bool" | "boolean") { "; booleans are `uint8` with `element = \"bool\"` beside it" } else { "" }
}

impl FromStr for DataType {
    type Err = UnknownDataType;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|dtype| dtype.name() == name).ok_or_else(|| UnknownDataType(name.to_owned()))
    }
}
