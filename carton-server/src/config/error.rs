//! Errors of the configuration.

use std::io;
use std::path::PathBuf;

use crate::access::AccessLogError;

/// A server's configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A file cannot be read.
    #[error("cannot read the {what} `{}`", path.display())]
    Read {
        /// What it is for.
        what: &'static str,
        /// The file, or a folder of cartons.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file is not TOML, or has a key or a value that it may not have.
    #[error("`{}` is not valid: {reason}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        reason: String,
    },
    /// A model cannot be served as it is configured.
    #[error("model {model}: {reason}")]
    Model {
        /// Its name, or its number in the file.
        model: String,
        /// The reason, in words.
        reason: String,
    },
    /// A token cannot be used.
    #[error("no token for {purpose}: {reason}")]
    Token {
        /// What the token allows.
        purpose: &'static str,
        /// The reason, in words.
        reason: String,
    },
    /// The access log cannot be written.
    #[error(transparent)]
    AccessLog(#[from] AccessLogError),
}
