//! The formats of bills of materials.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// A format of bills of materials.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// CycloneDX 1.6, as JSON (ECMA-424).
    CycloneDx,
    /// SPDX 3.0.1 with the AI profile, as JSON-LD.
    Spdx,
}

/// A name that is that of no format.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{}` is no format of bills of materials: expected `cyclonedx` or `spdx`", .0.escape_debug())]
pub struct UnknownFormat(String);

impl Format {
    /// All formats.
    pub const ALL: [Self; 2] = [Self::CycloneDx, Self::Spdx];

    /// The name: `cyclonedx`, `spdx`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::CycloneDx => "cyclonedx",
            Self::Spdx => "spdx",
        }
    }
}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Self, UnknownFormat> {
        Self::ALL.into_iter().find(|format| format.name() == text).ok_or_else(|| UnknownFormat(text.to_owned()))
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
