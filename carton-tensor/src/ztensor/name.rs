//! Names from a file, for display in errors.

use std::fmt;

/// A name from a file. Displayed in backticks, escaped and shortened, so that no file can control a terminal or fill a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name(Box<str>);

/// The characters of a name that are shown.
const SHOWN: usize = 200;

impl Name {
    pub(crate) fn new(name: &str) -> Self {
        // Keeps one more character than is shown, to know whether there are more.
        Self(name.chars().take(SHOWN + 1).collect::<String>().into())
    }
}

impl Name {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (shown, dots) = match self.0.char_indices().nth(SHOWN) {
            Some((end, _)) => (&self.0[..end], "…"),
            None => (&*self.0, ""),
        };
        write!(f, "`{}{dots}`", shown.escape_debug())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_and_cut() {
        assert_eq!(Name::new("a\u{1b}[31m`").to_string(), "`a\\u{1b}[31m``");
        assert_eq!(Name::new(&"é".repeat(1000)).to_string(), format!("`{}…`", "é".repeat(200)));
        assert_eq!(Name::new(&"é".repeat(200)).to_string(), format!("`{}`", "é".repeat(200)));
    }
}
