//! The failure of a command: an exit code, an error for people and programs, and perhaps a hint.

use std::error::Error;
use std::process::ExitCode;

use carton_core::ErrorKind;
use serde::Serialize;

use crate::hints;
use crate::text::{shortened, without_logins};

/// The exit codes of this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Everything worked.
    Ok,
    /// Something failed that no other code names.
    Failure,
    /// The arguments are invalid or contradict each other.
    Usage,
    /// A self-test ran and its outputs differ from the expected ones.
    SelfTest,
    /// The inputs or outputs of the packed model differ from the declared ones.
    SignatureMismatch,
    /// What was compared differs.
    Different,
    /// The carton, tensor file or dataset is malformed, incomplete or tampered with.
    Integrity,
    /// The carton is not signed as it must be.
    Untrusted,
    /// No installed runner fits the model.
    NoRunner,
    /// The runner crashed, or refused the model or the inputs.
    Runner,
    /// The network failed, or is needed and not allowed.
    Network,
    /// The user interrupted the program.
    Interrupted,
}

impl Exit {
    /// The code of the process.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Failure => 1,
            Self::Usage => 2,
            Self::SelfTest | Self::SignatureMismatch | Self::Different => 3,
            Self::Integrity | Self::Untrusted => 4,
            Self::NoRunner => 5,
            Self::Runner => 6,
            Self::Network => 7,
            // 128 + SIGINT
            Self::Interrupted => 130,
        }
    }

    /// The name of this kind of failure in `--json` output.
    fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failure => "failure",
            Self::Usage => "usage",
            Self::SelfTest => "self_test",
            Self::SignatureMismatch => "signature_mismatch",
            Self::Different => "different",
            Self::Integrity => "integrity",
            Self::Untrusted => "untrusted",
            Self::NoRunner => "no_runner",
            Self::Runner => "runner",
            Self::Network => "network",
            Self::Interrupted => "interrupted",
        }
    }
}

impl From<ErrorKind> for Exit {
    fn from(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::Integrity => Self::Integrity,
            ErrorKind::Untrusted => Self::Untrusted,
            ErrorKind::NoRunner => Self::NoRunner,
            ErrorKind::RunnerCrashed => Self::Runner,
            ErrorKind::SelfTest => Self::SelfTest,
            ErrorKind::SignatureMismatch => Self::SignatureMismatch,
            ErrorKind::Network => Self::Network,
            ErrorKind::Interrupted => Self::Interrupted,
            _ => Self::Failure,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// An error with its exit code and, if there is something to do about it, a hint.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    error: Box<dyn Error + Send + Sync>,
    hint: Option<String>,
}

/// What failed, and the error that it failed by.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
struct Outer {
    what: String,
    source: Box<dyn Error + Send + Sync>,
}

/// A failure as `--json` prints it.
#[derive(Serialize)]
struct JsonFailure<'a> {
    error: JsonError<'a>,
}

#[derive(Serialize)]
struct JsonError<'a> {
    kind: &'static str,
    message: String,
    causes: Vec<String>,
    hint: Option<&'a str>,
}

impl Failure {
    /// A failure that no other exit code names.
    pub(crate) fn new(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::with_exit(Exit::Failure, error)
    }

    /// A failure caused by arguments that parse, but are not valid.
    pub(crate) fn usage(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::with_exit(Exit::Usage, error)
    }

    /// A failure with an exit code of its own.
    pub(crate) fn with_exit(exit: Exit, error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { exit, error: error.into(), hint: None }
    }

    /// The failure for `what`, which this program was built without.
    #[cfg(not(all(feature = "card", feature = "server", feature = "tables")))]
    pub(crate) fn absent(what: &str) -> Self {
        Self::new(format!("this program was built without {what}"))
            .hint("a release has it, and so has what `cargo build --release -p carton-cli` builds")
    }

    /// Adds a hint: what the user can do about it.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(without_logins(&hint.into()));
        self
    }

    /// Replaces an exit code that would mislead: breaking the rules of the format while making a carton does not mean that a carton is
    /// damaged.
    pub(crate) fn instead_of(self, misleading: Exit, exit: Exit) -> Self {
        if self.exit == misleading { Self { exit, ..self } } else { self }
    }

    /// Puts the error below a message that says what failed because of it.
    pub(crate) fn because_of_it(self, what: impl Into<String>) -> Self {
        Self { error: Box::new(Outer { what: what.into(), source: self.error }), ..self }
    }

    /// Converts an error of the argument parser to one line.
    pub(crate) fn from_usage_error(error: &clap::Error) -> Self {
        let text = error.to_string();
        let mut paragraphs = text.split("\n\n");
        let message = paragraphs.next().unwrap_or_default().trim_start_matches("error: ").trim().to_owned();
        let lines: Vec<&str> = message.lines().map(str::trim).collect();
        Self::usage(lines.join(" ")).hint("run `carton --help` to see what is accepted")
    }

    /// The exit code.
    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }

    /// The error's own message.
    pub(crate) fn message(&self) -> String {
        shown(&*self.error)
    }

    /// The messages of its causes, nearest first.
    pub(crate) fn causes(&self) -> Vec<String> {
        causes(&*self.error)
    }

    /// The hint.
    pub(crate) fn advice(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// The object that `--json` prints.
    pub(crate) fn to_json(&self) -> impl Serialize + '_ {
        JsonFailure {
            error: JsonError {
                kind: self.exit.name(),
                message: self.message(),
                causes: self.causes(),
                hint: self.advice(),
            },
        }
    }
}

impl From<carton_core::Error> for Failure {
    fn from(error: carton_core::Error) -> Self {
        let exit = match error.kind() {
            _ if error.is_of_location() => Exit::Usage,
            // A refusal shares an exit code with crashes.
            ErrorKind::Model if error.is_of_start() => Exit::Runner,
            kind => Exit::from(kind),
        };
        let hint = hints::hint(&error).map(|hint| without_logins(&hint));
        Self { exit, error: Box::new(error), hint }
    }
}

/// Returns the messages of an error's causes, nearest first.
fn causes(error: &dyn Error) -> Vec<String> {
    std::iter::successors(error.source(), |&cause| cause.source()).map(shown).collect()
}

/// The message of an error, of a length that can be read, and without the password of a URL that was given as a path.
fn shown(error: &dyn Error) -> String {
    shortened(&without_logins(&error.to_string()))
}

/// Formats an error and its causes in one line, for lists of errors.
pub(crate) fn causes_in_one_line(error: &dyn Error) -> String {
    let mut text = error.to_string();
    for cause in causes(error) {
        text.push_str(": ");
        text.push_str(cause.trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_show_no_logins() {
        let failure = Failure::new("it failed").hint("try `https://me:pw@host/x`");
        assert_eq!(failure.advice(), Some("try `https://host/x`"));
    }
}
