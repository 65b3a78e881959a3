//! Why a model is not loaded or called as its caller asks.

use carton_format::error_kind::ErrorKind;

use crate::Error;
use crate::error::{Advice, Failure};
use crate::runner::Crash;
use crate::runner::launch::LaunchError;
use crate::runner_failure::RunnerFailure;

/// Why a model is not loaded or called as its caller asks.
#[derive(Debug, thiserror::Error)]
pub(super) enum ModelError {
    /// The carton supports only other platforms.
    #[error("the model runs on {} only, this is {found}", required.join(", "))]
    Platform {
        /// `required_platforms` of the carton.
        required: Vec<String>,
        /// This platform.
        found: &'static str,
    },
    /// Sealed inputs were passed to another model than the one that they are sealed for.
    #[error("the inputs are sealed for another model")]
    SealedForAnother,
}

impl Failure for ModelError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Platform { .. } => ErrorKind::Unsupported,
            Self::SealedForAnother => ErrorKind::InvalidInput,
        }
    }

    fn advice(&self) -> Option<Advice> {
        match self {
            Self::SealedForAnother => Some("seal them for the model that is called".into()),
            Self::Platform { .. } => None,
        }
    }
}

impl Error {
    /// Whether there is no runner that has the model: it could not be started, refused the model or ran out of time with it, or died earlier
    /// and is not restarted. A runner that dies while it loads is not told from one that dies in a call.
    #[must_use]
    pub fn is_of_start(&self) -> bool {
        use RunnerFailure::{Gone, LoadTimeout, Refused};
        let is_of_load = matches!(self.find(), Some(Refused { .. } | LoadTimeout { .. } | Gone { .. }));
        is_of_load || self.find::<LaunchError>().is_some()
    }

    /// Whether the runner is gone that had the call: it died, or it was killed because the call ran out of time.
    #[must_use]
    pub fn is_runner_lost(&self) -> bool {
        self.find::<Crash>().is_some() || matches!(self.find(), Some(RunnerFailure::Timeout { waiting: false, .. }))
    }
}
