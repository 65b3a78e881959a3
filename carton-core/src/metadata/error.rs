//! What can be wrong with a carton.toml.

use crate::invalid_toml::unquoted_word;

/// Why a carton.toml cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MetadataError {
    /// TOML is UTF-8.
    #[error("carton.toml is not UTF-8: invalid byte at offset {offset}")]
    NotUtf8 {
        /// Where the first invalid byte is.
        offset: usize,
    },
    /// The text is not TOML. The source shows the line.
    #[error("carton.toml is not valid TOML")]
    Syntax(#[source] Box<toml::de::Error>),
    /// The text is not TOML, because a string has no quotes.
    #[error("carton.toml is not valid TOML: quotes are missing in line {line}, expected `\"{word}\"`, found `{word}`")]
    MissingQuotes {
        /// The line, counted from 1.
        line: usize,
        /// What should be in quotes.
        word: String,
    },
    /// The carton was made for another version of the format. Nothing else in the file was judged.
    #[error("unsupported carton format: expected spec_version 1, found {found}")]
    UnsupportedVersion {
        /// The `spec_version` of the file.
        found: String,
    },
    /// A field has the wrong type, or a required one is missing.
    #[error("carton.toml: `{field}`: {detail}")]
    WrongType {
        /// Where, as in `input[0].dtype`; `.` for the whole file.
        field: String,
        /// What was expected and what was found.
        detail: String,
    },
    /// A field has the right type and a value that the format does not allow.
    #[error("carton.toml: `{field}`: expected {expected}, found {found}")]
    Invalid {
        /// Where, as in `input[0].dtype`.
        field: String,
        /// What the format allows there.
        expected: String,
        /// What was found.
        found: String,
    },
}

impl MetadataError {
    /// What the TOML reader has against `text`.
    pub(super) fn syntax(text: &str, error: toml::de::Error) -> Self {
        // What the TOML reader says of it misleads: that `int64` should have been `inf`.
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

    /// A required field that is not there.
    pub(super) fn missing(field: impl Into<String>, expected: impl Into<String>) -> Self {
        Self::Invalid { field: field.into(), expected: expected.into(), found: "nothing".to_owned() }
    }
}

/// `text` on one line and short enough for an error message: what is quoted here may be anything.
fn shortened(text: &str) -> String {
    const LIMIT: usize = 120;
    let mut shown: String = text.chars().take(LIMIT).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().nth(LIMIT).is_some() {
        shown.push('…');
    }
    shown
}
