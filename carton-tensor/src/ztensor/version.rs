//! The two versions of the format that are written.

use std::fmt;

use super::types;
use crate::files::ElementType;

/// A version of the format. Readers tell by the fields that are there, so that only writers need to know (spec/ztensor.md §6.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// Without logical types: FP8 and complex are storage types, and compressed components do not tell their size.
    V1_1,
    /// With logical types, and `uncompressed_length`.
    #[default]
    V1_2,
}

impl Version {
    /// As manifests have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::V1_1 => "1.1.0",
            Self::V1_2 => "1.2.0",
        }
    }

    /// Whether files of this version can hold elements of a type (spec/ztensor.md §3).
    ///
    /// ```
    /// use carton_tensor::files::ElementType;
    /// use carton_tensor::ztensor::Version;
    /// assert!(Version::V1_1.has(ElementType::Float8E5m2) && !Version::V1_1.has(ElementType::Float8E5m2Fnuz));
    /// ```
    #[must_use]
    pub fn has(self, dtype: ElementType) -> bool {
        types::spelling(dtype, self).is_some()
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
