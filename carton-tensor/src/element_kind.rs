//! What elements mean beyond their dtype (spec/carton-format-extensions.md, "What elements are").

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::DataType;

/// What the elements of a tensor are, where its [`DataType`] does not say it: the field `element` of `carton.toml`.
///
/// ```
/// use carton_tensor::{DataType, ElementKind};
/// assert_eq!("bool".parse(), Ok(ElementKind::Bool));
/// assert_eq!(ElementKind::Bool.dtype(), DataType::Uint8);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ElementKind {
    /// Booleans: `uint8` that are 0 or 1.
    Bool,
}

impl ElementKind {
    /// Every kind that this version knows.
    pub const ALL: [Self; 1] = [Self::Bool];

    /// The name used in `carton.toml` and in runner messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
        }
    }

    /// The dtype that carries elements of this kind.
    #[must_use]
    pub const fn dtype(self) -> DataType {
        match self {
            Self::Bool => DataType::Uint8,
        }
    }
}

impl fmt::Display for ElementKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is no [`ElementKind`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown kind of elements `{0}`, expected bool")]
pub struct UnknownElementKind(pub String);

impl FromStr for ElementKind {
    type Err = UnknownElementKind;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| UnknownElementKind(name.to_owned()))
    }
}
