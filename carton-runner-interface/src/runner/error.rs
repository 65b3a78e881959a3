//! Errors of single calls. The runner goes on after them.

use carton_tensor::TensorError;

/// An error of one call: a message and the chain of causes.
#[derive(Clone, Debug, Default)]
pub struct RunnerError {
    /// What went wrong.
    pub message: String,
    /// Its causes, outermost first.
    pub causes: Vec<String>,
    /// What the user can do about it.
    pub hint: Option<String>,
    /// The sort of error.
    pub kind: RunnerErrorKind,
}

/// The sorts of errors of a runner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunnerErrorKind {
    /// An error of the model or its framework, or of no other sort.
    #[default]
    Failed,
    /// Something that the model needs is missing on this machine and can be installed: a library, a tool.
    Unavailable,
    /// Something that the model needs has to be downloaded, and cannot be.
    Network,
    /// Neither the model nor the runner is at fault: a full disk, a mistake in the request.
    Setup,
    /// The model cannot be loaded before [`Runner::prepare`](super::Runner::prepare) has made what it needs, or before this
    /// process may read what was made.
    Unprepared,
}

impl RunnerError {
    /// Creates an error with a message only.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), ..Self::default() }
    }

    /// Creates an error about something that the model needs and that is missing on this machine. `hint` says how to get it.
    pub fn unavailable(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { kind: RunnerErrorKind::Unavailable, ..Self::new(message).with_hint(hint) }
    }

    /// Whether something that the model needs is missing on this machine.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        self.kind == RunnerErrorKind::Unavailable
    }

    /// Adds a hint: what the user can do about the error.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Creates an error with the message and the causes of `error`.
    pub fn from_error(error: &dyn std::error::Error) -> Self {
        let mut causes = Vec::new();
        let mut source = error.source();
        while let Some(cause) = source {
            causes.push(cause.to_string());
            source = cause.source();
        }
        Self { causes, ..Self::new(error.to_string()) }
    }
}

impl From<TensorError> for RunnerError {
    fn from(error: TensorError) -> Self {
        Self::from_error(&error)
    }
}
