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

/// Removes users and passwords from URLs in a text. A command that takes only paths quotes a URL as it was typed, or with its two slashes
/// joined into one, as in a path.
pub(crate) fn without_logins(text: &str) -> String {
    let mut rest = text;
    let mut shown = String::with_capacity(text.len());
    while let Some(at) = rest.find(":/") {
        let (before, after) = rest.split_at(at + 1);
        let slashes = after.len() - after.trim_start_matches('/').len();
        let (slashes, after) = after.split_at(slashes);
        let url = after.split(|c: char| c.is_whitespace() || matches!(c, '`' | '"' | '\'')).next().unwrap_or_default();
        shown.push_str(before);
        shown.push_str(slashes);
        rest = &after[if is_of_mlflow(before, slashes) { 0 } else { login_length(url) }..];
    }
    shown.push_str(rest);
    shown
}

/// Whether what ends with a scheme, and the slashes behind it, begin a name of MLflow, in which an alias follows the `@`: `models:/cities@best`.
fn is_of_mlflow(before: &str, slashes: &str) -> bool {
    let scheme = before.rsplit(|c: char| !c.is_ascii_alphanumeric() && c != ':').next().unwrap_or_default();
    slashes == "/" && matches!(scheme, "models:" | "runs:")
}

/// The length of `user:password@` at the start of a URL without its scheme.
fn login_length(url: &str) -> usize {
    let authority = url.split(['/', '?', '#']).next().unwrap_or_default();
    let has_port = |host: &str| host.split_once(':').is_none_or(|(_, port)| port.parse::<u16>().is_ok());
    // A password with a slash ends the authority too early. What stands there is then no host with a port.
    let login = match authority.rfind('@') {
        None if !authority.starts_with('[') && !has_port(authority) => url.rfind('@'),
        at => at,
    };
    login.map_or(0, |at| at + 1)
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
    fn logins_in_urls_are_removed() {
        let check = |text: &str, expected: &str| assert_eq!(without_logins(text), expected);
        check("cannot open `https://me:pw@host/x`", "cannot open `https://host/x`");
        check("cannot open `/work/https:/me:pw@host/x`", "cannot open `/work/https:/host/x`");
        check("`https://me@h/a` and `http://me:p@w@h:80/b@c`", "`https://h/a` and `http://h:80/b@c`");
        check("`https://me:p/w@host/x`", "`https://host/x`");
        check("`models://me@host/x` `mymodels:/me@host`", "`models://host/x` `mymodels:/host`");
        for text in [
            "`https://host/x@1?a#b`: 404",
            "`https://host:8080/x@1`",
            "`http://[::1]:80/x@1`",
            "no `@misc/a.png`, a: /b@c",
            "`file:///a/b@c`",
            "`models:/cities@best` and `runs:/a/b@c`",
            "https://",
        ] {
            check(text, text);
        }
    }

    #[test]
    fn long_lines_are_cut() {
        assert_eq!(shortened(&format!("a\n{}\nb", "é".repeat(1000))), format!("a\n{}…\nb", "é".repeat(400)));
        assert_eq!(shortened("short\n"), "short\n");
    }
}
