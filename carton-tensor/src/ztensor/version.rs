//! The two versions of the format that can be written.

use std::fmt;

/// A version of the format. Only writers need it, because readers depend on the fields that are present (spec/ztensor.md §6.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// Without logical types: FP8 and complex are storage types, and compressed components do not state their size.
    V1_1,
    /// With logical types and `uncompressed_length`.
    #[default]
    V1_2,
}

impl Version {
    /// The version number in manifests.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::V1_1 => "1.1.0",
            Self::V1_2 => "1.2.0",
        }
    }
}

/// Returns the minor number of the version that a manifest states; `None` if it has no valid one.
pub(super) fn minor(version: &str) -> Option<u64> {
    version.split('.').nth(1)?.parse().ok()
}

/// Whether a manifest states a version below 1.2.
pub(super) fn is_before_1_2(version: &str) -> bool {
    minor(version).is_some_and(|minor| minor < 2)
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
