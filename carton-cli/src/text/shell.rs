//! Quotes text for a shell's command line. Pure.

/// Quotes `text` so that a POSIX shell takes it as one literal word.
pub(crate) fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=@%+,".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_shell_reads_the_words_back() {
        for text in ["model.carton", "", "a b", "it's", "$(id)", "`id`", "a\\b", "~", "*", "#", "é", "!x", "x=[y]"] {
            let script = format!("printf %s {}", shell_word(text));
            let output = std::process::Command::new("sh").arg("-c").arg(script).output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), text);
        }
        assert_eq!(shell_word("image=image.npy"), "image=image.npy");
    }
}
