//! What a command ends with: an exit code, and for people and programs the error behind it.

use std::error::Error;
use std::process::ExitCode;

use carton_core::ErrorKind;
use serde::Serialize;

use crate::hints;
use crate::output::printable::shortened;

/// The exit codes of this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Everything worked.
    Ok,
    /// Something failed that no other code names.
    Failure,
    /// The arguments make no sense.
    Usage,
    /// A self-test ran and its outputs differ from what was expected.
    SelfTest,
    /// The model that is packed has other inputs or outputs than are declared.
    SignatureMismatch,
    /// The carton is malformed, incomplete or tampered with.
    Integrity,
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
            Self::SelfTest | Self::SignatureMismatch => 3,
            Self::Integrity => 4,
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
            Self::Integrity => "integrity",
            Self::NoRunner => "no_runner",
            Self::Runner => "runner",
            Self::Network => "network",
            Self::Interrupted => "interrupted",
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// An error with the exit code it leads to and, where there is something to do, what that is.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    error: Box<dyn Error + Send + Sync>,
    hint: Option<String>,
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

    /// Arguments that parse, and still make no sense.
    pub(crate) fn usage(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::with_exit(Exit::Usage, error)
    }

    /// A failure with an exit code of its own.
    pub(crate) fn with_exit(exit: Exit, error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { exit, error: error.into(), hint: None }
    }

    /// Adds what the user can do about it.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same failure with another exit code, where this one would mislead: what breaks the rules of the format while
    /// a carton is made is no damaged carton.
    pub(crate) fn instead_of(self, misleading: Exit, exit: Exit) -> Self {
        if self.exit == misleading { Self { exit, ..self } } else { self }
    }

    /// An argument parser's error, in one line.
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
        shortened(&self.error.to_string())
    }

    /// The messages of the errors behind it, nearest first.
    pub(crate) fn causes(&self) -> Vec<String> {
        causes(&*self.error)
    }

    /// What the user can do about it.
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
            _ if is_misuse(&error) => Exit::Usage,
            ErrorKind::Integrity => Exit::Integrity,
            ErrorKind::NoRunner => Exit::NoRunner,
            ErrorKind::RunnerCrashed => Exit::Runner,
            ErrorKind::SelfTest => Exit::SelfTest,
            ErrorKind::SignatureMismatch => Exit::SignatureMismatch,
            ErrorKind::Network => Exit::Network,
            ErrorKind::Interrupted => Exit::Interrupted,
            _ => Exit::Failure,
        };
        let hint = hints::hint(&error);
        Self { exit, error: Box::new(error), hint }
    }
}

/// Whether the place of the carton, as it was written, is what is wrong.
fn is_misuse(error: &carton_core::Error) -> bool {
    use carton_core::Error;
    matches!(error, Error::Location(_) | Error::Pin { .. } | Error::TwoPins { .. })
}

/// The messages of the errors behind one, nearest first.
fn causes(error: &dyn Error) -> Vec<String> {
    std::iter::successors(error.source(), |&cause| cause.source()).map(|cause| shortened(&cause.to_string())).collect()
}

/// An error and its causes in one line, for lists of them.
pub(crate) fn causes_in_one_line(error: &dyn Error) -> String {
    let mut text = error.to_string();
    for cause in causes(error) {
        text.push_str(": ");
        text.push_str(cause.trim_end());
    }
    text
}
