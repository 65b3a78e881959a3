//! What goes wrong with a runner that was started: it refuses the model, the model fails in it, or it takes too long.

use carton_format::error_kind::ErrorKind;
use carton_runner_interface::runner::{RunnerError, RunnerErrorKind};

use crate::Error;
use crate::error::{Advice, Failure};
use crate::runner_message::{RunnerMessage, runner_error};
use crate::sandbox::SuspectedLimit;

/// What went wrong with a runner. `runner` is its name and version.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunnerFailure {
    /// A runner gave an invalid answer.
    #[error("runner {runner} answered `{found}`, expected {expected}")]
    Answer {
        runner: String,
        /// What would be valid.
        expected: &'static str,
        found: String,
    },
    /// The runner died earlier, and the carton was loaded with restarts turned off.
    #[error("runner {runner} died earlier and is not restarted")]
    Gone { runner: String },
    /// The runner will not load or pack this model.
    #[error("runner {runner} refused the model")]
    Refused { runner: String, source: RunnerMessage },
    /// The runner lacks something on this machine that the model needs: a library, a tool, packages.
    #[error("runner {runner} lacks something that the model needs")]
    Unavailable { runner: String, source: RunnerMessage },
    /// Something that the runner needs for the model must be fetched over the network and cannot be.
    #[error("runner {runner} cannot get what the model needs")]
    Network { runner: String, source: RunnerMessage },
    /// Something on this machine, or in what was asked for, keeps the runner from preparing the model.
    #[error("runner {runner} cannot prepare the model")]
    Setup { runner: String, source: RunnerMessage },
    /// The model or its framework failed in this call; the runner goes on.
    #[error("the model failed in runner {runner}")]
    Model { runner: String, source: RunnerMessage },
    /// A call took longer than its timeout.
    #[error("{}", timeout_text(runner, *waiting))]
    Timeout {
        runner: String,
        /// Whether the call was still waiting: for its turn, for a fresh runner, or for the answer to a ping. If it was running,
        /// the runner was killed.
        waiting: bool,
        /// What the user can do about it, if more is known than that it takes long.
        hint: Option<String>,
    },
    /// The runner did not load the model within [`Load::load_timeout`](crate::Load::load_timeout), and was killed.
    #[error("loading the model ran out of time; runner {runner} was killed")]
    LoadTimeout { runner: String, hint: Option<String> },
}

impl RunnerFailure {
    /// The failure of a model that `runner` refuses to load or pack.
    pub(crate) fn refused(runner: String, error: RunnerError, limits: Vec<SuspectedLimit>) -> Self {
        let kind = error.kind;
        let source = runner_error(error, limits);
        match kind {
            RunnerErrorKind::Unavailable => Self::Unavailable { runner, source },
            RunnerErrorKind::Network => Self::Network { runner, source },
            RunnerErrorKind::Setup => Self::Setup { runner, source },
            _ => Self::Refused { runner, source },
        }
    }
}

impl Failure for RunnerFailure {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Answer { .. } => ErrorKind::Other,
            Self::Gone { .. } => ErrorKind::RunnerCrashed,
            Self::Refused { .. } | Self::Model { .. } => ErrorKind::Model,
            Self::Unavailable { .. } => ErrorKind::NoRunner,
            Self::Network { .. } => ErrorKind::Network,
            Self::Setup { .. } => ErrorKind::Machine,
            Self::Timeout { .. } | Self::LoadTimeout { .. } => ErrorKind::Timeout,
        }
    }

    fn advice(&self) -> Option<Advice> {
        match self {
            Self::Refused { source, .. } | Self::Setup { source, .. } | Self::Model { source, .. } => {
                source.hint.clone().map(Advice::OfRunner)
            }
            Self::Unavailable { source, .. } | Self::Network { source, .. } => source.hint.clone().map(Advice::Text),
            Self::Timeout { hint, .. } | Self::LoadTimeout { hint, .. } => Some(match hint {
                Some(hint) => Advice::Text(hint.clone()),
                None => "allow more time, or check that the model does not hang".into(),
            }),
            Self::Answer { .. } | Self::Gone { .. } => None,
        }
    }

    fn suspected_limits(&self) -> &[SuspectedLimit] {
        match self {
            Self::Refused { source, .. }
            | Self::Unavailable { source, .. }
            | Self::Network { source, .. }
            | Self::Setup { source, .. }
            | Self::Model { source, .. } => &source.limits,
            _ => &[],
        }
    }
}

impl Error {
    /// Whether the model or its framework failed in the call. Its runner goes on.
    #[must_use]
    pub fn is_of_model(&self) -> bool {
        matches!(self.find(), Some(RunnerFailure::Model { .. }))
    }

    /// Whether a call ran out of time before it had its turn.
    pub(crate) fn had_no_turn(&self) -> bool {
        matches!(self.find(), Some(RunnerFailure::Timeout { waiting: true, .. }))
    }
}

fn timeout_text(runner: &str, waiting: bool) -> String {
    if waiting {
        format!("the call ran out of time while it waited for runner {runner}")
    } else {
        format!("the call ran out of time; runner {runner} was killed")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_is_for_people() {
        let gone = Error::from(RunnerFailure::Gone { runner: "onnx 1.32.0".to_owned() });
        assert_eq!(format!("{gone:?}"), "runner onnx 1.32.0 died earlier and is not restarted");
        let said = RunnerError {
            message: "outer\nsecond line".to_owned(),
            causes: vec!["inner".to_owned()],
            hint: Some("do this".to_owned()),
            ..RunnerError::default()
        };
        let refused = Error::from(RunnerFailure::refused("onnx 1.32.0".to_owned(), said, Vec::new()));
        let expected = "runner onnx 1.32.0 refused the model\n\nCaused by:\n    outer\n    second line\n    inner\n\n\
                        hint: do this";
        assert_eq!(format!("{refused:?}"), expected);
        assert_eq!(format!("{refused:#?}"), expected);
    }
}
