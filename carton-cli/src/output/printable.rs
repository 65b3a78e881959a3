//! Makes text from cartons, runners and files safe for a terminal. Pure.

/// Replaces control characters, which could clear the screen or hide text. Line ends and tabs stay.
pub(crate) fn printable(text: &str) -> String {
    text.chars()
        .map(|c| if is_harmful(c) && c != '\n' && c != '\t' { char::REPLACEMENT_CHARACTER } else { c })
        .collect()
}

/// As [`printable`], on one line.
pub(crate) fn one_line(text: &str) -> String {
    text.trim().chars().map(|c| if c == '\n' || c == '\t' { ' ' } else { c }).map(replaced).collect()
}

/// Truncates long lines: a message may quote a line of a file, and that line may be the whole file.
pub(crate) fn shortened(text: &str) -> String {
    const MAX_CHARACTERS: usize = 400;
    let shorten = |line: &str| match line.char_indices().nth(MAX_CHARACTERS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    };
    text.split('\n').map(shorten).collect::<Vec<_>>().join("\n")
}

fn replaced(c: char) -> char {
    if is_harmful(c) { char::REPLACEMENT_CHARACTER } else { c }
}

/// Control characters, and those that change the direction in which text is read.
fn is_harmful(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_replaced() {
        assert_eq!(printable("a\tb\n\x1b[2Jc\r"), "a\tb\n\u{fffd}[2Jc\u{fffd}");
        assert_eq!(printable("\u{202e}gnp"), "\u{fffd}gnp");
        assert_eq!(one_line(" a\nb\x07 "), "a b\u{fffd}");
    }

    #[test]
    fn long_lines_are_cut() {
        assert_eq!(shortened(&format!("a\n{}\nb", "é".repeat(1000))), format!("a\n{}…\nb", "é".repeat(400)));
        assert_eq!(shortened("short\n"), "short\n");
    }
}
