//! Licenses as cartons and packages state them: expressions of SPDX, or names that mean nothing to a program.

use spdx::{Expression, ParseMode, identifiers};

/// A license.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum License {
    /// An expression of SPDX.
    Expression(String),
    /// Any other text.
    Named(String),
}

impl License {
    /// Reads a license. An identifier of SPDX is recognized in any case, because the Hugging Face Hub writes `apache-2.0`.
    pub(crate) fn of(text: &str) -> Self {
        let text = text.trim();
        if let Some(license) = identifiers::LICENSES.iter().find(|license| license.name.eq_ignore_ascii_case(text)) {
            return Self::Expression(license.name.to_owned());
        }
        let mode = ParseMode { allow_deprecated: true, ..ParseMode::STRICT };
        match Expression::parse_mode(text, mode) {
            Ok(_) => Self::Expression(text.to_owned()),
            Err(_) => Self::Named(text.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_and_names() {
        let expression = |text: &str, expected: &str| {
            assert_eq!(License::of(text), License::Expression(expected.to_owned()));
        };
        expression("MIT", "MIT");
        expression("apache-2.0", "Apache-2.0");
        expression("Apache-2.0 OR MIT", "Apache-2.0 OR MIT");
        expression("GPL-2.0-only WITH Classpath-exception-2.0", "GPL-2.0-only WITH Classpath-exception-2.0");
        for name in ["llama3", "BSD 3-Clause", "mit, apache-2.0", "MIT AND", "(MIT", "Apache-2.0 with nothing"] {
            assert_eq!(License::of(name), License::Named(name.to_owned()));
        }
    }
}
