//! Errors of the configuration.

use std::io;
use std::path::PathBuf;

use carton_format::error_kind::ErrorKind;
use carton_format::invalid_toml::InvalidToml;

use crate::error::Failure;

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    /// The file cannot be read. A missing file is an error only if the caller or the environment named it.
    #[error("cannot read the configuration `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The file is not TOML, or a value has the wrong type or is not allowed.
    #[error("the configuration `{}` is not valid", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// The position and the reason.
        source: InvalidToml,
    },
    /// An environment variable has an invalid value.
    #[error("expected `1` or `0` as {variable}, found `{found}`")]
    Variable {
        /// The variable.
        variable: &'static str,
        /// Its value.
        found: String,
    },
    /// The server of the Hub is not a web server.
    #[error(
        "`{found}` is not a server of models: expected an `http` or `https` URL without a login, a query or a fragment as `hub`"
    )]
    Hub {
        /// What the key `hub` or the variable HF_ENDPOINT has.
        found: crate::ShownUrl,
    },
    /// A path begins with `~`, which cannot be replaced by a home directory.
    #[error("cannot use the path `{found}` as {key}: {reason}")]
    Home {
        /// The key or the variable.
        key: &'static str,
        /// The first component of the path.
        found: String,
        /// The reason, in words.
        reason: &'static str,
    },
    /// There is no home directory for the default folders.
    #[error("no home directory: set HOME, or name `{key}` in the environment as {variable}")]
    NoHome {
        /// The key without a value.
        key: &'static str,
        /// The variable that would set it.
        variable: &'static str,
    },
}

impl Failure for ConfigError {
    fn kind(&self) -> ErrorKind {
        ErrorKind::InvalidInput
    }
}
