//! The netrc format: logins by host, as `ftp`, `curl` and `git` read them.
//!
//! ```text
//! machine models.example.com login me password "with \"quotes\""
//! default login anonymous password me@here   # read but not used, because cartons name hosts
//! macdef init                                # skipped up to the next empty line
//! ```

use std::io::{self, Read};
use std::iter::Peekable;
use std::path::Path;
use std::str::CharIndices;

use super::{NetrcFile, Secret};

/// Limit for the size of a netrc file.
const MAX_BYTES: u64 = 1 << 20;

/// The statements of one `machine` entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::http) struct Machine {
    pub(super) host: String,
    pub(super) login: String,
    pub(super) password: Secret,
}

/// The reason why a netrc file is not used. Its contents are never shown.
#[derive(Debug, thiserror::Error)]
pub(super) enum NetrcError {
    #[error("it cannot be read")]
    Read(#[source] io::Error),
    #[error("it is not a regular file")]
    NoFile,
    #[error("it has more than {MAX_BYTES} bytes")]
    TooLarge,
    #[error("line {line}: {reason}")]
    Syntax { line: usize, reason: &'static str },
}

/// The machines of a file. Logs a warning and returns none if the file cannot be used; also warns if other users may read it.
pub(super) fn load(file: &NetrcFile) -> Vec<Machine> {
    let path = file.path.display();
    match read(&file.path) {
        Ok((machines, open_to_others)) => {
            if open_to_others && !machines.is_empty() {
                tracing::warn!("other users may read the passwords in `{path}`: change its mode to 600");
            }
            machines
        }
        Err(NetrcError::Read(error)) if error.kind() == io::ErrorKind::NotFound && !file.named => Vec::new(),
        Err(error) => {
            tracing::warn!("no passwords are taken from `{path}`: {}", carton_format::causes::in_one_line(&error));
            Vec::new()
        }
    }
}

fn read(path: &Path) -> Result<(Vec<Machine>, bool), NetrcError> {
    // Users name `/dev/null` to say that they have no such file. Opening anything else that is not a file might block.
    let metadata = std::fs::metadata(path).map_err(NetrcError::Read)?;
    if path == Path::new("/dev/null") {
        return Ok((Vec::new(), false));
    }
    if !metadata.is_file() {
        return Err(NetrcError::NoFile);
    }
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(NetrcError::Read)?;
    file.take(MAX_BYTES + 1).read_to_string(&mut text).map_err(NetrcError::Read)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(NetrcError::TooLarge);
    }
    Ok((parse(&text)?, is_open_to_others(&metadata)))
}

#[cfg(unix)]
fn is_open_to_others(metadata: &std::fs::Metadata) -> bool {
    std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o077 != 0
}

#[cfg(not(unix))]
fn is_open_to_others(_metadata: &std::fs::Metadata) -> bool {
    false
}

/// The machines that have a password, in the order of the file.
pub(super) fn parse(text: &str) -> Result<Vec<Machine>, NetrcError> {
    let mut words = Words { text, characters: text.char_indices().peekable(), line: 1 };
    let mut machines = Vec::new();
    // The host is `None` for `default`.
    let mut current: Option<Entry> = None;
    while let Some(keyword) = words.keyword()? {
        match keyword.as_str() {
            "machine" => {
                machines.extend(current.take().and_then(Entry::machine));
                current = Some(Entry { host: Some(words.value()?), ..Entry::default() });
            }
            "default" => {
                machines.extend(current.take().and_then(Entry::machine));
                current = Some(Entry::default());
            }
            "macdef" => words.skip_macro()?,
            "login" | "user" | "password" | "account" => {
                let value = words.value()?;
                let Some(entry) = &mut current else { return Err(words.error("it belongs to no machine")) };
                match keyword.as_str() {
                    "password" => entry.password = Some(Secret::verbatim(value)),
                    "account" => {}
                    _ => entry.login = value,
                }
            }
            _ => return Err(words.error("expected `machine`, `default`, `login`, `password`, `account` or `macdef`")),
        }
    }
    machines.extend(current.and_then(Entry::machine));
    Ok(machines)
}

#[derive(Default)]
struct Entry {
    host: Option<String>,
    login: String,
    password: Option<Secret>,
}

impl Entry {
    fn machine(self) -> Option<Machine> {
        Some(Machine { host: self.host?.to_ascii_lowercase(), login: self.login, password: self.password? })
    }
}

/// The words of a netrc file.
struct Words<'a> {
    text: &'a str,
    characters: Peekable<CharIndices<'a>>,
    line: usize,
}

impl Words<'_> {
    fn error(&self, reason: &'static str) -> NetrcError {
        NetrcError::Syntax { line: self.line, reason }
    }

    fn next(&mut self) -> Option<char> {
        let (_, character) = self.characters.next()?;
        self.line += usize::from(character == '\n');
        Some(character)
    }

    fn peek(&mut self) -> Option<char> {
        self.characters.peek().map(|(_, character)| *character)
    }

    /// The next keyword, after any comments.
    fn keyword(&mut self) -> Result<Option<String>, NetrcError> {
        loop {
            self.skip_space();
            match self.peek() {
                None => return Ok(None),
                Some('#') => while self.next().is_some_and(|character| character != '\n') {},
                Some(_) => return self.word().map(Some),
            }
        }
    }

    fn value(&mut self) -> Result<String, NetrcError> {
        self.skip_space();
        match self.peek() {
            None => Err(self.error("the file ends where a value is expected")),
            Some(_) => self.word(),
        }
    }

    fn skip_space(&mut self) {
        while self.peek().is_some_and(char::is_whitespace) {
            self.next();
        }
    }

    fn word(&mut self) -> Result<String, NetrcError> {
        let quoted = self.peek() == Some('"');
        if quoted {
            self.next();
        }
        let mut word = String::new();
        loop {
            match self.peek() {
                None | Some('\n') if quoted => return Err(self.error("a quote is not closed")),
                None => return Ok(word),
                Some('"') if quoted => {
                    self.next();
                    return match self.peek() {
                        Some(character) if !character.is_whitespace() => Err(self.error("text after a quote")),
                        _ => Ok(word),
                    };
                }
                Some('\\') => {
                    self.next();
                    match self.next() {
                        Some('n') if quoted => word.push('\n'),
                        Some('r') if quoted => word.push('\r'),
                        Some('t') if quoted => word.push('\t'),
                        Some(escaped) => word.push(escaped),
                        None => return Err(self.error("a backslash at the end of the file")),
                    }
                }
                Some(character) if character.is_whitespace() && !quoted => return Ok(word),
                Some(character) => {
                    self.next();
                    word.push(character);
                }
            }
        }
    }

    /// Skips a macro's name and its lines, up to an empty line.
    fn skip_macro(&mut self) -> Result<(), NetrcError> {
        self.value()?;
        while self.next().is_some_and(|character| character != '\n') {}
        loop {
            let start = self.characters.peek().map_or(self.text.len(), |(position, _)| *position);
            let mut end = start;
            while let Some(character) = self.next() {
                if character == '\n' {
                    break;
                }
                end += character.len_utf8();
            }
            if self.text[start..end].trim().is_empty() {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, expected: &[(&str, &str, &str)]) {
        let machines = parse(text).unwrap();
        let found: Vec<_> =
            machines.iter().map(|one| (one.host.as_str(), one.login.as_str(), one.password.expose())).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn what_netrc_files_hold() {
        check("", &[]);
        check("machine a login b password c", &[("a", "b", "c")]);
        check(
            "machine A.example\n\tlogin b\n\tpassword c\n\nmachine d password e\n",
            &[("a.example", "b", "c"), ("d", "", "e")],
        );
        check("# machine x password y\nmachine a # the first\nlogin b password #c", &[("a", "b", "#c")]);
        check("machine a login b account z password c", &[("a", "b", "c")]);
        check("machine a login b", &[]);
        check("machine a password c default login d password e", &[("a", "", "c")]);
        check("machine a login \"b c\" password \"d\\\"e\\\\f\\tg\"", &[("a", "b c", "d\"e\\f\tg")]);
        check("machine a login \"\" password \" \"", &[("a", "", " ")]);
        check("machine a password b\\ c", &[("a", "", "b c")]);
        check("macdef init\nmachine x password y\n  \nmachine a password b", &[("a", "", "b")]);
        check("machine a password b\nmacdef init\ncd /pub\nmachine", &[("a", "", "b")]);
        check("machine a password b machine a password c", &[("a", "", "b"), ("a", "", "c")]);
    }

    #[test]
    fn what_is_wrong_is_told_without_what_it_says() {
        let check = |text: &str, expected: &str| assert_eq!(parse(text).unwrap_err().to_string(), expected, "{text}");
        check("machine", "line 1: the file ends where a value is expected");
        check("\npassword secret", "line 2: it belongs to no machine");
        check(
            "machine a\nlogin b\nsecret",
            "line 3: expected `machine`, `default`, `login`, `password`, `account` or `macdef`",
        );
        check("machine a password \"secret", "line 1: a quote is not closed");
        check("machine a password \"secret\nmachine", "line 1: a quote is not closed");
        check("machine a password \"sec\"ret", "line 1: text after a quote");
        check("machine a password secret\\", "line 1: a backslash at the end of the file");
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(machine|default|login|password|macdef|[ \n\"\\\\#a]|\\PC){0,40}") {
            let _ = parse(&text);
        }

        #[test]
        fn what_is_quoted_is_read(login in "[^\n]{0,20}", password in "[^\n]{0,20}") {
            let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
            let text = format!("machine a login {} password {}", quoted(&login), quoted(&password));
            let machine = Machine { host: "a".to_owned(), login, password: Secret::verbatim(password) };
            prop_assert_eq!(parse(&text).unwrap(), vec![machine]);
        }
    }
}
