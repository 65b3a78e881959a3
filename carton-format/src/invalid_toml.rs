//! The errors of TOML files whose values must not be shown.
//!
//! The TOML reader's own errors quote the line, and name the unexpected value. In a configuration, that may be a token; in LINKS, a URL
//! with a password or a signature.

use crate::causes::without_value;

/// Where a TOML file is invalid, and why, without its values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct InvalidToml {
    /// The line, counted from 1.
    pub line: usize,
    /// The reason, in words.
    pub reason: String,
}

impl InvalidToml {
    /// Converts the reader's `error` about `text`.
    pub fn new(text: &str, error: &toml::de::Error) -> InvalidToml {
        let position = error.span().map_or(0, |span| span.start);
        if unquoted_word(text, error).is_some() {
            return InvalidToml::at(text, position, "quotes are missing around a text");
        }
        InvalidToml::at(text, position, without_value(error.message()))
    }

    /// An error at a byte of `text`.
    pub fn at(text: &str, position: usize, reason: impl Into<String>) -> InvalidToml {
        InvalidToml { line: line_at(text, position), reason: reason.into() }
    }
}

/// The line of a byte of `text`, counted from 1.
pub(crate) fn line_at(text: &str, position: usize) -> usize {
    text.bytes().take(position).filter(|byte| *byte == b'\n').count() + 1
}

/// The text that lacks quotes, and its line, if that is the mistake: `dtype = int64`.
///
/// The TOML reader takes a word with the first letters of `inf`, `nan`, `true` or `false` for a misspelling of it, and reports that. It
/// does not take a version requirement such as `>=1.2` for a word at all.
pub(crate) fn unquoted_word<'text>(text: &'text str, error: &toml::de::Error) -> Option<(usize, &'text str)> {
    let span = error.span()?;
    let line = line_at(text, span.start);
    let word = text.get(span.clone()).unwrap_or_default();
    let message = error.message();
    let is_taken_for_another = message.starts_with("invalid float") || message.starts_with("invalid boolean");
    // A misspelled keyword such as `True` needs no quotes.
    let is_keyword = ["true", "false", "inf", "nan"].iter().any(|keyword| word.eq_ignore_ascii_case(keyword));
    if message.starts_with("string values must be quoted") && !word.is_empty()
        || is_taken_for_another && !is_keyword && word.starts_with(char::is_alphabetic)
    {
        return Some((line, word));
    }
    let line_start = text.get(..span.start)?.rfind('\n').map_or(0, |end| end + 1);
    let content = text.get(line_start..)?.lines().next()?;
    let (key, value) = content.split_once('=')?;
    // At another position of the line, or in the middle of a longer text, the reader reports a different mistake. Of `>=1.2`, it has
    // already passed the `>`.
    let value_start = line_start + key.len() + 1 + (value.len() - value.trim_start().len());
    if span.start > value_start + 1 {
        return None;
    }
    let value = value.split('#').next().unwrap_or_default().trim();
    value.starts_with(['=', '<', '>', '^', '~']).then_some((line, value))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn texts_without_quotes() {
        let check = |value: &str, expected: Option<&str>| {
            let text = format!("spec_version = 1\n[a]\nkey = {value}\nlast = 2\n");
            let error = toml::from_str::<toml::Table>(&text).unwrap_err();
            assert_eq!(unquoted_word(&text, &error), expected.map(|word| (3, word)), "{value}: {error}");
        };
        for word in
            ["int64", "float32", "string", "uint8", "noop", "none", "i", "x.npy", "@tensor_data/x", "*", "a b", "1x"]
        {
            check(word, Some(word));
            check(&format!("{word} # a comment"), Some(word));
        }
        check("[1, n]", Some("n"));
        check("[batch, 3]", Some("batch"));
        check("{ dtype = int8 }", Some("int8"));
        check("=1.2.3", Some("=1.2.3"));
        check(">=1.12, <2 # a comment", Some(">=1.12, <2"));
        check("^1", Some("^1"));
        for other in ["True", "NaN", "\"x", "", "[1, 2", "{ a = 1, b }", "1.2.3", "\"a\" b"] {
            check(other, None);
        }
        let escape = "a = \"\"\"\nb => c \\q\n\"\"\"";
        for text in ["[runner", "a", "dtype int64", "a = 1\na = 2", escape] {
            assert_eq!(unquoted_word(text, &toml::from_str::<toml::Table>(text).unwrap_err()), None, "{text}");
        }
    }

    #[test]
    fn values_are_not_shown() {
        let text = "a = 1\ntoken = secret\n";
        let error = InvalidToml::new(text, &toml::from_str::<toml::Table>(text).unwrap_err());
        assert_eq!(error.to_string(), "line 2: quotes are missing around a text");
    }
}
