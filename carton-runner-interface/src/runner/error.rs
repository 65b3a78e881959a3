//! Errors of one call, which the runner survives.

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
    /// Of what sort it is.
    pub kind: RunnerErrorKind,
}

/// Of what sort an error of a runner is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunnerErrorKind {
    /// None of the others: the model or its framework reported it.
    #[default]
    Failed,
    /// Something that the model needs is not on this machine, and could be: a library, a tool.
    Unavailable,
    /// Something that the model needs has to come over the network, and cannot.
    Network,
    /// Neither the model nor the runner is at fault: a full disk, a mistake in what was asked for.
    Setup,
}

impl RunnerError {
    /// An error with a message only.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), ..Self::default() }
    }

    /// Something that the model needs is not on this machine; `hint` says how it gets there.
    pub fn unavailable(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { kind: RunnerErrorKind::Unavailable, ..Self::new(message).with_hint(hint) }
    }

    /// Whether something that the model needs is not on this machine, and could be.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        self.kind == RunnerErrorKind::Unavailable
    }

    /// Adds what the user can do about it.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// An error with the message and the causes of `error`.
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
