//! The errors of carton.toml.

use crate::invalid_toml::unquoted_word;

/// Why a carton.toml cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MetadataError {
    /// The file is not UTF-8, as TOML must be.
    #[error("carton.toml is not UTF-8: invalid byte at offset {offset}")]
    NotUtf8 {
        /// The position of the first invalid byte.
        offset: usize,
    },
    /// The text is not TOML. The source shows the line.
    #[error("carton.toml is not valid TOML")]
    Syntax(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The text is not TOML, because a string has no quotes.
    #[error("carton.toml is not valid TOML: quotes are missing in line {line}, expected `\"{word}\"`, found `{word}`")]
    MissingQuotes {
        /// The line, counted from 1.
        line: usize,
        /// The text that should be in quotes.
        word: String,
    },
    /// The carton uses another version of the format. Nothing else in the file was checked.
    #[error("unsupported carton format: expected spec_version 1, found {found}")]
    UnsupportedVersion {
        /// The `spec_version` of the file.
        found: String,
    },
    /// A field has the wrong type, or a required one is missing.
    #[error("carton.toml: `{field}`: {detail}")]
    WrongType {
        /// The field, as in `input[0].dtype`; `.` for the whole file.
        field: String,
        /// The expected and the actual type.
        detail: String,
    },
    /// A field has the right type, but a value that the format does not allow.
    #[error("carton.toml: `{field}`: expected {expected}, found {found}")]
    Invalid {
        /// The field, as in `input[0].dtype`.
        field: String,
        /// The values that the format allows there.
        expected: String,
        /// The value in the file.
        found: String,
    },
}

impl MetadataError {
    /// Converts the TOML reader's error about `text`.
    pub(super) fn syntax(text: &str, error: toml::de::Error) -> Self {
        // The reader's own message would mislead: it says that `int64` should have been `inf`.
        match unquoted_word(text, &error) {
            Some((line, word)) => Self::MissingQuotes { line, word: shortened(word) },
            None => Self::Syntax(Box::new(error)),
        }
    }

    /// A value that the format does not allow.
    pub(super) fn invalid(
        field: impl Into<String>,
        expected: impl Into<String>,
        found: impl std::fmt::Display,
    ) -> Self {
        Self::Invalid { field: field.into(), expected: expected.into(), found: shortened(&found.to_string()) }
    }

    /// A required field is missing.
    pub(super) fn missing(field: impl Into<String>, expected: impl Into<String>) -> Self {
        Self::Invalid { field: field.into(), expected: expected.into(), found: "nothing".to_owned() }
    }
}

/// Makes `text` fit into an error message: on one line and not too long, because the quoted value may be anything.
fn shortened(text: &str) -> String {
    const LIMIT: usize = 120;
    let mut shown: String = text.chars().take(LIMIT).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().nth(LIMIT).is_some() {
        shown.push('…');
    }
    shown
}
