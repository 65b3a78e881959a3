//! What was found out about one part of a machine.

use serde::Serialize;

use crate::output::Role;

/// What a finding means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Status {
    /// The thing is there and works.
    Ok,
    /// It is not there, and only some models need it.
    Missing,
    /// It works less well than it could.
    Warning,
    /// Models cannot run, or an installed runner cannot be used.
    Bad,
}

impl Status {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Missing => "missing",
            Self::Warning => "warning",
            Self::Bad => "bad",
        }
    }

    pub(super) fn role(self) -> Role {
        match self {
            Self::Ok => Role::Good,
            Self::Missing => Role::Faint,
            Self::Warning => Role::Notice,
            Self::Bad => Role::Bad,
        }
    }
}

/// One line of the report.
#[derive(Debug, Serialize)]
pub(super) struct Finding {
    /// What was examined.
    pub(super) check: String,
    pub(super) status: Status,
    /// What was found.
    pub(super) detail: String,
    /// The command that mends it.
    command: Option<String>,
    /// What to do where no command does.
    advice: Option<String>,
}

impl Finding {
    fn new(status: Status, check: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { check: check.into(), status, detail: detail.into(), command: None, advice: None }
    }

    pub(super) fn ok(check: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(Status::Ok, check, detail)
    }

    pub(super) fn missing(check: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(Status::Missing, check, detail)
    }

    pub(super) fn warning(check: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(Status::Warning, check, detail)
    }

    pub(super) fn bad(check: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(Status::Bad, check, detail)
    }

    /// Names the command that mends it.
    pub(super) fn command(mut self, command: impl Into<String>) -> Self {
        self.command = Some(command.into());
        self
    }

    /// Says what to do.
    pub(super) fn advice(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }

    /// The text for people.
    pub(super) fn line(&self) -> String {
        let command = self.command.as_ref().map(|command| format!("`{command}`"));
        let parts = [Some(self.detail.clone()), command, self.advice.clone()];
        parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
    }
}
