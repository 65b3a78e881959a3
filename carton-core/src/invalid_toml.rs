//! What is wrong with a TOML file whose values must not be shown.
//!
//! The TOML reader's own errors quote the line, and name the value that they do not expect. In a configuration that may be a token,
//! in LINKS a URL with a password or a signature.

use crate::causes::without_value;

/// Where a TOML file is wrong, and how, without its values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct InvalidToml {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong there.
    pub reason: String,
}

impl InvalidToml {
    /// What `error` says about `text`.
    pub(crate) fn new(text: &str, error: &toml::de::Error) -> InvalidToml {
        let position = error.span().map_or(0, |span| span.start);
        InvalidToml::at(text, position, without_value(error.message()))
    }

    /// Something wrong at a byte of `text`.
    pub(crate) fn at(text: &str, position: usize, reason: impl Into<String>) -> InvalidToml {
        let line = text.bytes().take(position).filter(|byte| *byte == b'\n').count() + 1;
        InvalidToml { line, reason: reason.into() }
    }
}
