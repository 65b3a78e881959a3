//! Challenges: what a server demands in `WWW-Authenticate` (RFC 9110, section 11.6.1). Pure.

use reqwest::header::{HeaderMap, WWW_AUTHENTICATE};

/// What a registry demands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Challenge {
    /// User and password.
    Basic,
    /// A token that the server at `realm` gives.
    Bearer { realm: String, service: Option<String> },
}

impl Challenge {
    /// The challenge among those of an answer that is answered: one for a token before one for a password.
    pub(super) fn best(headers: &HeaderMap) -> Option<Self> {
        let values = headers.get_all(WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok());
        let mut found: Vec<Self> = values.flat_map(Self::parse).collect();
        match found.iter().position(|challenge| matches!(challenge, Self::Bearer { .. })) {
            Some(at) => Some(found.swap_remove(at)),
            None => found.pop(),
        }
    }

    /// The known challenges in one header.
    fn parse(text: &str) -> Vec<Self> {
        let mut found = Vec::new();
        let mut scheme = String::new();
        let mut parameters: Vec<(String, String)> = Vec::new();
        let mut rest = text;
        while let Some((word, after)) = token(rest) {
            match after.strip_prefix('=') {
                Some(after) => {
                    let (value, after) = value(after);
                    parameters.push((word.to_ascii_lowercase(), value));
                    rest = after;
                }
                // A word without a value begins the next challenge.
                None => {
                    found.extend(Self::make(&scheme, &parameters));
                    (scheme, parameters) = (word.to_ascii_lowercase(), Vec::new());
                    rest = after;
                }
            }
        }
        found.extend(Self::make(&scheme, &parameters));
        found
    }

    fn make(scheme: &str, parameters: &[(String, String)]) -> Option<Self> {
        let value = |key: &str| parameters.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone());
        match scheme {
            "basic" => Some(Self::Basic),
            "bearer" => Some(Self::Bearer { realm: value("realm")?, service: value("service") }),
            _ => None,
        }
    }
}

/// The next word, and what follows it.
fn token(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start_matches([' ', '\t', ',']);
    let end = text.find([' ', '\t', ',', '=']).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

/// The value at the start of the text, without its quotes, and what follows it.
fn value(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([' ', '\t', ',']).unwrap_or(text.len());
        return (text[..end].to_owned(), &text[end..]);
    };
    let mut value = String::new();
    let mut chars = quoted.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (value, &quoted[at + 1..]),
            '\\' => value.extend(chars.next().map(|(_, c)| c)),
            c => value.push(c),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn challenges_are_read() {
        let bearer = |realm: &str, service: Option<&str>| Challenge::Bearer {
            realm: realm.to_owned(),
            service: service.map(str::to_owned),
        };
        let check = |text: &str, expected: &[Challenge]| assert_eq!(Challenge::parse(text), expected, "{text}");
        check("Basic realm=\"x\"", &[Challenge::Basic]);
        check("basic", &[Challenge::Basic]);
        check(
            "Bearer realm=\"https://auth/token\",service=\"registry\",scope=\"repository:a:pull,push\"",
            &[bearer("https://auth/token", Some("registry"))],
        );
        check("bearer realm=/token , error=\"a \\\"b\\\"\"", &[bearer("/token", None)]);
        check("Basic realm=\"a, b\", Bearer realm=\"c\"", &[Challenge::Basic, bearer("c", None)]);
        check("Negotiate, Basic realm=x", &[Challenge::Basic]);
        check("Bearer service=\"x\"", &[]);
        check("Bearer realm=\"never ends", &[bearer("never ends", None)]);
        check("", &[]);
        check("= , =x", &[]);
    }

    proptest! {
        #[test]
        fn any_header_is_read_to_its_end(text in "[ -~]{0,60}") {
            let _ = Challenge::parse(&text);
        }
    }
}
