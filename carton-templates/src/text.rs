//! Texts of model files in messages, names and requirements. The files are not trusted, so a text is used as it is only if it has the form that
//! is expected.

/// The most characters of a file's text that a message repeats.
const MAX_PRINTED: usize = 80;

/// Returns `text` for a message: without control characters, and not longer than a line.
pub(crate) fn printable(text: &str) -> String {
    let mut printed: String = text.chars().take(MAX_PRINTED).flat_map(char::escape_debug).collect();
    if text.chars().nth(MAX_PRINTED).is_some() {
        printed.push('…');
    }
    printed
}

/// Returns the numbers at the start of a version, such as `2.15.0` of `2.15.0+cu130`. `None` if there are not two of them at least.
pub(crate) fn release(version: &str) -> Option<String> {
    let is_number = |part: &&str| !part.is_empty() && part.len() < 9 && part.bytes().all(|byte| byte.is_ascii_digit());
    let plain = version.split(|char: char| !char.is_ascii_digit() && char != '.').next()?;
    let numbers: Vec<&str> = plain.split('.').take_while(is_number).take(4).collect();
    (numbers.len() >= 2).then(|| numbers.join("."))
}

/// Returns the first number of a version.
pub(crate) fn major(release: &str) -> u32 {
    release.split('.').next().and_then(|number| number.parse().ok()).unwrap_or_default()
}

/// Returns `name` with `suffix` at its end, which some frameworks look at.
pub(crate) fn with_suffix(name: String, suffix: &str) -> String {
    if name.ends_with(suffix) { name } else { name + suffix }
}

/// Whether `name` is the name of a file or folder directly in a folder.
pub(crate) fn is_plain_name(name: &str) -> bool {
    !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\\', '\0'])
}

/// Whether `name` could be the name of a class or module.
pub(crate) fn is_identifier(name: &str) -> bool {
    name.len() <= 200 && !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Returns `line` if it is a requirement of a package by its name and version alone, such as `spacy>=3.8,<3.9`.
pub(crate) fn plain_requirement(line: &str) -> Option<String> {
    let is_allowed = |char: char| char.is_ascii_alphanumeric() || "-_.[],<>=!~ *".contains(char);
    let plain = line.len() <= 200
        && line.starts_with(|char: char| char.is_ascii_alphanumeric())
        && line.chars().all(is_allowed);
    plain.then(|| line.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_the_numbers_at_the_start() {
        let check =
            |version: &str, expected: Option<&str>| assert_eq!(release(version).as_deref(), expected, "{version}");
        check("2.15.0+cu132", Some("2.15.0"));
        check("2.16.0a0+git12", Some("2.16.0"));
        check("4.49.0.dev0", Some("4.49.0"));
        check("3.15.1", Some("3.15.1"));
        check("3", None);
        check("", None);
        check("x3.1", None);
        check("3.1\n--index-url=https://a", Some("3.1"));
        check("3.99999999999999", None);
        check("3..1", None);
    }

    #[test]
    fn requirements_are_names_and_versions() {
        let check =
            |line: &str, expected: Option<&str>| assert_eq!(plain_requirement(line).as_deref(), expected, "{line}");
        check("spacy-transformers>=1.3.0,<1.4.0", Some("spacy-transformers>=1.3.0,<1.4.0"));
        check("x[y]~=1.0", Some("x[y]~=1.0"));
        check("x @ https://example.com/x.whl", None);
        check("--index-url x", None);
        check("x\n--pre", None);
        check("x ${Y}", None);
    }

    #[test]
    fn printed_texts_have_no_control_characters() {
        assert_eq!(printable("a\x1b[31m\n"), "a\\u{1b}[31m\\n");
        assert_eq!(printable(&"é".repeat(81)).chars().count(), 81);
    }
}
