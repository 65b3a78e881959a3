//! What a runner said went wrong, as an error of this library.

use std::fmt;

use carton_runner_interface::runner::RunnerError;

use crate::sandbox::SuspectedLimit;

/// What a runner said went wrong, with its causes as the source chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunnerMessage {
    message: String,
    cause: Option<Box<RunnerMessage>>,
    /// What the user can do about it.
    pub(crate) hint: Option<String>,
    /// The limits that are the likely cause.
    pub(crate) limits: Vec<SuspectedLimit>,
}

impl fmt::Display for RunnerMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for RunnerMessage {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.as_deref().map(|cause| cause as _)
    }
}

/// Makes the message of `error`, for which `limits` are the likely cause.
pub(crate) fn runner_error(error: RunnerError, limits: Vec<SuspectedLimit>) -> RunnerMessage {
    let RunnerError { message, causes, hint, .. } = error;
    let because = |cause, message| Some(Box::new(RunnerMessage { message, cause, hint: None, limits: Vec::new() }));
    RunnerMessage { message, cause: causes.into_iter().rev().fold(None, because), hint, limits }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[test]
    fn a_runners_causes_become_the_source_chain() {
        let error = runner_error(
            RunnerError {
                message: "outer".to_owned(),
                causes: vec!["middle".to_owned(), "inner".to_owned()],
                ..RunnerError::default()
            },
            Vec::new(),
        );
        let middle = error.source().map(ToString::to_string);
        let inner = error.source().and_then(|middle| middle.source()).map(ToString::to_string);
        assert_eq!(
            (error.to_string().as_str(), middle.as_deref(), inner.as_deref()),
            ("outer", Some("middle"), Some("inner"))
        );
    }
}
