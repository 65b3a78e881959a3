//! Which version of a file a server has.

use serde::{Deserialize, Serialize};

/// What tells two versions of a file at one URL apart: its validators (RFC 9110, section 8.8) and its length.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// The `ETag`, with its quotes, and `W/` before it if it is weak.
    pub etag: Option<String>,
    /// The `Last-Modified` date as it was sent.
    pub last_modified: Option<String>,
    /// The length of the whole file in bytes, where the server told.
    pub length: Option<u64>,
}

impl Version {
    /// Whether `other` is another version as far as both tell.
    pub fn differs(&self, other: &Version) -> bool {
        let both = |one: &Option<String>, other: &Option<String>| one.is_some() && other.is_some() && one != other;
        both(&self.etag, &other.etag)
            || both(&self.last_modified, &other.last_modified)
            || matches!((self.length, other.length), (Some(one), Some(other)) if one != other)
    }

    /// What `If-Range` may say: only a strong `ETag` promises equal bytes; a date is better than nothing.
    pub fn if_range(&self) -> Option<&str> {
        match &self.etag {
            Some(etag) if !etag.starts_with("W/") => Some(etag),
            _ => self.last_modified.as_deref(),
        }
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let unknown = || "unknown".to_owned();
        let length = self.length.map_or_else(unknown, |length| format!("{length} bytes"));
        let validator = self.etag.as_ref().or(self.last_modified.as_ref());
        write!(formatter, "{} of {length}", validator.map_or("a version", String::as_str))
    }
}
