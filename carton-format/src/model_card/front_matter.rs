//! Finds the front matter of a README: the YAML between two lines `---` at its beginning.

use thiserror::Error;

/// Longer front matter is refused. A model that was measured on a hundred tasks has 200 kB.
const MAX_LENGTH: usize = 1 << 20;

/// Why front matter cannot be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FrontMatterError {
    /// The file is not text.
    #[error("the front matter is not UTF-8")]
    NotUtf8,
    /// It is too long.
    #[error("the front matter has {found} bytes, more than {MAX_LENGTH}")]
    TooLong {
        /// Its length in bytes.
        found: usize,
    },
    /// The line `---` that ends it is missing.
    #[error("the front matter has no end: expected a line `---`")]
    NoEnd,
    /// It is not YAML.
    #[error("the front matter is not YAML: line {line}: {reason}")]
    Syntax {
        /// The line of the file, counted from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// It is YAML that this reader does not accept.
    #[error("the front matter, line {line}: expected {expected}, found {found}")]
    Refused {
        /// The line of the file, counted from 1.
        line: usize,
        /// What is accepted.
        expected: String,
        /// What is there.
        found: String,
    },
}

/// Whether a README begins with front matter, which may be malformed.
#[must_use]
pub fn has_front_matter(readme: &[u8]) -> bool {
    beginning(readme).is_some()
}

/// The bytes after the first line, if that is `---`.
fn beginning(readme: &[u8]) -> Option<&[u8]> {
    let text = readme.strip_prefix(b"\xef\xbb\xbf").unwrap_or(readme).strip_prefix(b"---")?;
    // Blanks are invisible at the end of a line.
    let blanks = text.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    let text = text.get(blanks..)?;
    text.strip_prefix(b"\n").or_else(|| text.strip_prefix(b"\r\n"))
}

/// The YAML of a README; `None` if it has no front matter.
pub(super) fn of(readme: &[u8]) -> Result<Option<&str>, FrontMatterError> {
    let Some(text) = beginning(readme) else { return Ok(None) };
    let mut end = 0;
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        if line.trim_ascii_end() == b"---" {
            let text = text.get(..end).unwrap_or_default();
            if text.len() > MAX_LENGTH {
                return Err(FrontMatterError::TooLong { found: text.len() });
            }
            return str::from_utf8(text).map(Some).map_err(|_| FrontMatterError::NotUtf8);
        }
        end += line.len();
    }
    Err(FrontMatterError::NoEnd)
}
