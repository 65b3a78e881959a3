//! The version of a file on a server.

use serde::{Deserialize, Serialize};

/// Distinguishes two versions of the file at one URL, by its validators (RFC 9110, section 8.8) and its length.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// The `ETag`, with its quotes, and `W/` before it if it is weak.
    pub etag: Option<String>,
    /// The `Last-Modified` date as the server sent it.
    pub last_modified: Option<String>,
    /// The length of the whole file in bytes, if the server stated it.
    pub length: Option<u64>,
}

impl Version {
    /// Whether `other` is a different version, as far as both have the same fields. An `ETag` that became weak still counts as equal: a
    /// server that sends a file through a filter may weaken it.
    pub fn differs(&self, other: &Version) -> bool {
        let unlike =
            |one: Option<&str>, other: Option<&str>| matches!((one, other), (Some(one), Some(other)) if one != other);
        unlike(self.tag(), other.tag())
            || unlike(self.last_modified.as_deref(), other.last_modified.as_deref())
            || matches!((self.length, other.length), (Some(one), Some(other)) if one != other)
    }

    /// The value for `If-Range`: only a strong `ETag` promises equal bytes, but a date is better than nothing.
    pub fn if_range(&self) -> Option<&str> {
        self.strong_etag().or(self.last_modified.as_deref())
    }

    /// The `ETag` if it is strong: the server then promises that answers with the same `ETag` have the same bytes.
    pub fn strong_etag(&self) -> Option<&str> {
        self.etag.as_deref().filter(|etag| !etag.starts_with("W/"))
    }

    /// The `ETag`, weak or strong, without the mark `W/`.
    fn tag(&self) -> Option<&str> {
        self.etag.as_deref().map(|etag| etag.strip_prefix("W/").unwrap_or(etag))
    }

    /// Fills in what an answer without a body leaves out from the known version.
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
