//! Why a request is not answered as asked: one type for HTTP and gRPC, with text that may leave the server.

use std::time::Duration;

use carton_core::{Error, ErrorKind};

/// Why a request failed. The text is for the client: it names no path of this machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Failure {
    pub(crate) reason: Reason,
    pub(crate) message: String,
    /// When the same request may succeed.
    pub(crate) retry_after: Option<Duration>,
}

/// The kind of a [`Failure`], which decides its status in each protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Reason {
    /// The request is malformed, or contradicts the model's signature.
    InvalidArgument,
    /// The request has no token, or a wrong one.
    Unauthenticated,
    /// The operator did not enable what is asked for.
    Forbidden,
    /// There is no such model, version or page.
    NotFound,
    /// The resource has no such method.
    WrongMethod,
    /// The client sends its request too slowly.
    SlowClient,
    /// The client left before it had its answer.
    ClientLeft,
    /// The deadline of the request passed.
    DeadlineExceeded,
    /// The request exceeds a limit.
    TooLarge,
    /// The request has more headers than the limits allow.
    TooManyHeaders,
    /// The request has an encoding that the server does not know.
    UnsupportedEncoding,
    /// Too many requests wait.
    Overloaded,
    /// The model is not ready, or its runner died in the call.
    Unavailable,
    /// The model failed on this input.
    Model,
    /// Anything else, which is a fault of the server or of its machine.
    Internal,
}

impl Reason {
    /// All kinds, in the order of their declaration.
    pub(crate) const ALL: [Self; 15] = [
        Self::InvalidArgument,
        Self::Unauthenticated,
        Self::Forbidden,
        Self::NotFound,
        Self::WrongMethod,
        Self::SlowClient,
        Self::ClientLeft,
        Self::DeadlineExceeded,
        Self::TooLarge,
        Self::TooManyHeaders,
        Self::UnsupportedEncoding,
        Self::Overloaded,
        Self::Unavailable,
        Self::Model,
        Self::Internal,
    ];

    /// The name in metrics and in the access log.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::InvalidArgument => "invalid_argument",
            Self::Unauthenticated => "unauthenticated",
            Self::Forbidden => "forbidden",
            Self::NotFound => "not_found",
            Self::WrongMethod => "wrong_method",
            Self::SlowClient => "slow_client",
            Self::ClientLeft => "client_left",
            Self::DeadlineExceeded => "deadline_exceeded",
            Self::TooLarge => "too_large",
            Self::TooManyHeaders => "too_many_headers",
            Self::UnsupportedEncoding => "unsupported_encoding",
            Self::Overloaded => "overloaded",
            Self::Unavailable => "unavailable",
            Self::Model => "model",
            Self::Internal => "internal",
        }
    }
}

/// The pause that a client is asked for when nothing better is known.
const RETRY_AFTER: Duration = Duration::from_secs(1);

impl Failure {
    pub(crate) fn new(reason: Reason, message: impl Into<String>) -> Self {
        let retry_after = matches!(reason, Reason::Overloaded | Reason::Unavailable).then_some(RETRY_AFTER);
        Self { reason, message: shortened(message.into()), retry_after }
    }

    /// The request is malformed, or contradicts the signature.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(Reason::InvalidArgument, message)
    }

    pub(crate) fn unknown_model(name: &str, version: Option<&str>) -> Self {
        let version = version.map(|version| format!(" version {}", quoted(version))).unwrap_or_default();
        Self::new(Reason::NotFound, format!("no model {}{version} is served", quoted(name)))
    }

    /// Says when the same request may succeed.
    pub(crate) fn retry_after(self, pause: Duration) -> Self {
        Self { retry_after: Some(pause), ..self }
    }

    pub(crate) fn deadline() -> Self {
        Self::new(Reason::DeadlineExceeded, "the deadline of the request passed")
    }
}

/// Converts the error of a call. Errors that say more about this machine than about the call are logged, and the client gets their kind only.
impl From<&Error> for Failure {
    fn from(error: &Error) -> Self {
        if error.is_of_start() {
            tracing::error!(target: "carton::serve", "a call failed: {}", in_one_line(error));
            return Self::new(Reason::Unavailable, "the model's runner died, and cannot be started again");
        }
        match error.kind() {
            ErrorKind::InvalidInput => Self::invalid(without_paths(&shortened(error.to_string()))),
            ErrorKind::Timeout => Self::deadline(),
            ErrorKind::Busy => Self::new(Reason::Overloaded, "too many calls wait for the model"),
            ErrorKind::Model => Self::new(Reason::Model, model_failure(error)),
            ErrorKind::RunnerCrashed => Self::new(Reason::Unavailable, "the model's runner died during the call"),
            kind => {
                tracing::error!(target: "carton::serve", ?kind, "a call failed: {}", in_one_line(error));
                Self::new(Reason::Internal, "the server cannot answer this call; its log says why")
            }
        }
    }
}

/// What the model says of its failure, with its causes.
fn model_failure(error: &Error) -> String {
    let causes = std::iter::successors(std::error::Error::source(error), |cause| cause.source());
    let said: Vec<String> = causes.map(ToString::to_string).collect();
    match said.is_empty() {
        // Outputs that contradict the signature say so themselves.
        true if error.is_of_signature() => {
            format!("the model failed: {}", without_paths(&shortened(in_one_line(error))))
        }
        true => "the model failed".to_owned(),
        false => format!("the model failed: {}", without_paths(&shortened(said.join(": ")))),
    }
}

/// An error and its causes, for the log.
pub(crate) fn in_one_line(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |cause| cause.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// The most characters of a text of somebody else in a message.
const MAX_QUOTED: usize = 200;
/// The most characters of a message. Longer ones are cut before anything looks at them: a request can name an input of a megabyte.
const MAX_MESSAGE: usize = 2000;

/// Text of a request in a message: in backticks, without control characters, and not longer than is useful.
pub(crate) fn quoted(text: &str) -> String {
    let shown: String = text.chars().take(MAX_QUOTED).flat_map(char::escape_debug).collect();
    let rest = if text.chars().nth(MAX_QUOTED).is_some() { "…" } else { "" };
    format!("`{shown}{rest}`")
}

fn shortened(text: String) -> String {
    match text.char_indices().nth(MAX_MESSAGE) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Replaces absolute paths by `…`: they tell how this machine is laid out, and models name them in their messages. A path in quotes ends with
/// them. Another one ends at a blank, or at a delimiter behind its last `/`.
fn without_paths(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    let mut before = None;
    while let Some(character) = rest.chars().next() {
        let behind = &text[..text.len() - rest.len()];
        let begins = character == '/' && !continues_word(behind);
        let length = if begins { path_length(rest, before) } else { 0 };
        if rest.starts_with("//") && ["http:", "https:"].iter().any(|scheme| behind.ends_with(scheme)) {
            // A link is no path of this machine.
            shown.push_str(&rest[..length]);
            before = rest[..length].chars().next_back();
            rest = &rest[length..];
        } else if length > 1 {
            shown.push('…');
            before = rest[..length].chars().next_back();
            rest = &rest[length..];
        } else {
            shown.push(character);
            before = Some(character);
            rest = &rest[character.len_utf8()..];
        }
    }
    shown
}

/// The length of the path that a text begins with, behind this character.
fn path_length(text: &str, before: Option<char>) -> usize {
    if let Some(quote @ ('\'' | '"' | '`')) = before
        && let Some(length) = text.find([quote, '\n'])
        && text[length..].starts_with(quote)
    {
        return length;
    }
    let word = text.split(char::is_whitespace).next().unwrap_or_default();
    let name = word.rfind('/').map_or(0, |slash| slash + 1);
    word[name..].find(|c| "'\"`,;:()[]{}<>|".contains(c)).map_or(word.len(), |length| name + length)
}

/// Whether a `/` behind this text is within a word, as in `and/or`, `../x` and `1/2`.
fn continues_word(text: &str) -> bool {
    // The end of an escaped line, and of a colour.
    if ["\\n", "\\r", "\\t"].iter().any(|escape| text.ends_with(escape)) {
        return false;
    }
    if let Some((_, sequence)) = text.rsplit_once("\u{1b}[")
        && sequence.strip_suffix('m').is_some_and(|code| code.bytes().all(|byte| byte.is_ascii_digit() || byte == b';'))
    {
        return false;
    }
    // A flag of another program, as `-I/usr/include`.
    let word = text.rsplit(|c: char| c.is_whitespace() || "'\"`".contains(c)).next().unwrap_or_default();
    if word.strip_prefix('-').is_some_and(|flag| flag.starts_with(char::is_alphabetic)) {
        return false;
    }
    let behind_dots = text.trim_end_matches('.');
    match behind_dots.len() == text.len() {
        true => text.ends_with(char::is_alphanumeric),
        // Dots that begin a word.
        false => !behind_dots.ends_with(char::is_alphanumeric),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_here() {
        let check = |text: &str, expected: &str| assert_eq!(without_paths(text), expected);
        check("cannot open `/home/user/model.onnx`: gone", "cannot open `…`: gone");
        check("File \"/tmp/a b.py\", line 3", "File \"…\", line 3");
        check("no file: '/home/a b/c:d' or \"/x", "no file: '…' or \"…");
        check("/a:b/c.py:12: /d", "…:12: …");
        check("/a,b/c, /1:2/d", "…, …");
        check(
            "gcc -I/srv/x -L/y see https://example.com/docs/help, /z",
            "gcc -I… -L… see https://example.com/docs/help, …",
        );
        check("x:\\n/home/m.py \u{1b}[31m/srv/x loading.../srv/y ../z ./z", "x:\\n… \u{1b}[31m… loading...… ../z ./z");
        check("file:///home/x, or `/a\nb`", "file:…, or `…\nb`");
        check("/etc/passwd", "…");
        check("1/2 of FP32/INT8, a / b, and/or", "1/2 of FP32/INT8, a / b, and/or");
        check("ratio(/x)", "ratio(…)");
        check("äö /ü/ß end", "äö … end");
        check("", "");
    }

    #[test]
    fn text_of_requests_is_quoted() {
        assert_eq!(quoted("a\nb\u{1b}"), "`a\\nb\\u{1b}`");
        assert_eq!(quoted(&"x".repeat(1000)).chars().count(), MAX_QUOTED + 3);
    }
}
