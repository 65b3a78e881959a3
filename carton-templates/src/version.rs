//! Versions of packages that model files state.

use std::fmt;

/// A version that may be written into a requirement: digits and dots, and at most the parts of PEP 440 for releases before and after one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    text: String,
    release: Vec<u64>,
}

impl Version {
    /// `None` for text that is no such version, which then gets nowhere.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if text.len() > 32 {
            return None;
        }
        let length =
            text.find(|character: char| !(character.is_ascii_digit() || character == '.')).unwrap_or(text.len());
        let (release, rest) = text.split_at(length);
        // `1.5.post1` has its dot before the word.
        let (release, rest) = match release.strip_suffix('.') {
            Some(release) if !rest.is_empty() => (release, rest),
            _ => (release, rest),
        };
        let word = rest.trim_end_matches(|character: char| character.is_ascii_digit());
        if !["", "a", "b", "rc", "post", "dev"].contains(&word) || (rest == word && !word.is_empty()) {
            return None;
        }
        let release = release.split('.').map(|part| part.parse().ok()).collect::<Option<_>>()?;
        Some(Self { text: text.to_owned(), release })
    }

    /// Returns the numbers before any word.
    pub(crate) fn release(&self) -> &[u64] {
        &self.release
    }
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::Version;

    #[test]
    fn only_versions_are_taken() {
        for text in ["1.5.2", "1", "1.6.0rc1", "0.24.2.post1", "1.8.dev0"] {
            assert_eq!(Version::parse(text).map(|version| version.to_string()).as_deref(), Some(text));
        }
        for text in [
            "",
            ".",
            "1.",
            "1..2",
            "a1",
            "1.2a",
            "1.2; x",
            "1.2\n-r x",
            "1.2 @ file:///x",
            "１.2",
            "1.2+local",
            "99999999999999999999",
        ] {
            assert_eq!(Version::parse(text), None, "{text:?}");
        }
        assert_eq!(Version::parse("1.6.0rc1").unwrap().release(), [1, 6, 0]);
    }
}
