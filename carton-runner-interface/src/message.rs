//! Wire types (spec/runner-protocol.md, "Messages"). Knows no transport.

use serde::{Deserialize, Serialize};

/// How important a log record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum LogLevel {
    /// Something failed.
    Error,
    /// Something looks wrong.
    Warn,
    /// Worth knowing.
    Info,
    /// For who looks for a fault.
    Debug,
    /// Every step.
    Trace,
}
