//! Text that is never shown.

use std::fmt;

/// A token or a password. Its `Debug` form hides it, and it has no `Display` form.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a token. Whitespace at its ends is removed, because tokens are often read from files that end with a newline.
    pub fn new(text: impl AsRef<str>) -> Secret {
        Secret(text.as_ref().trim().to_owned())
    }

    /// Wraps a password, in which whitespace may matter.
    pub(super) fn verbatim(text: String) -> Secret {
        Secret(text)
    }

    pub(in crate::http) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("…")
    }
}
