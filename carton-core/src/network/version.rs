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
    /// Whether `other` is another version as far as both tell. An `ETag` that became weak is still the same: a server that sends a
    /// file through a filter may make it so.
    pub fn differs(&self, other: &Version) -> bool {
        let unlike =
            |one: Option<&str>, other: Option<&str>| matches!((one, other), (Some(one), Some(other)) if one != other);
        unlike(self.tag(), other.tag())
            || unlike(self.last_modified.as_deref(), other.last_modified.as_deref())
            || matches!((self.length, other.length), (Some(one), Some(other)) if one != other)
    }

    /// What `If-Range` may say: only a strong `ETag` promises equal bytes; a date is better than nothing.
    pub fn if_range(&self) -> Option<&str> {
        self.strong_etag().or(self.last_modified.as_deref())
    }

    /// The `ETag` if it is strong: the server then promises that answers with the same one have the same bytes.
    pub fn strong_etag(&self) -> Option<&str> {
        self.etag.as_deref().filter(|etag| !etag.starts_with("W/"))
    }

    /// The `ETag` whether it is weak or not.
    fn tag(&self) -> Option<&str> {
        self.etag.as_deref().map(|etag| etag.strip_prefix("W/").unwrap_or(etag))
    }

    /// What an answer without a body leaves out is as it was known.
    #[cfg(feature = "remote")]
    pub(super) fn or(self, known: Option<&Version>) -> Version {
        let Some(known) = known.cloned() else { return self };
        Version {
            etag: self.etag.or(known.etag),
            last_modified: self.last_modified.or(known.last_modified),
            length: self.length.or(known.length),
        }
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let validator = self.etag.as_ref().or(self.last_modified.as_ref()).map_or("a version", String::as_str);
        match self.length {
            Some(length) => write!(formatter, "{validator} of {length} bytes"),
            None => write!(formatter, "{validator} of unknown length"),
        }
    }
}
