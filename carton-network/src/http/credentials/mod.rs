//! Credentials for servers: logins in URLs, tokens and netrc files, and the servers that may receive them.
//!
//! The first of these that knows the host is used:
//! 1. `https://user:password@host/…`: the requested URL.
//! 2. `CARTON_TOKEN_<host>` in the environment, a bearer token, see [`Credentials::variable`].
//! 3. `[[credentials]]` in the configuration, bearer tokens too.
//! 4. For registries: the files of Docker and Podman, and the programs that these name.
//! 5. A netrc file. Its `default` is not used: a carton may name any host in its links, and must not receive passwords that way.
//!
//! Credentials are sent only to the scheme, host and port of the requested URL, never to the target of a redirect. They are sent over
//! `https`; over `http` only to this machine, or if the user allows it: in the URL, or by `allow_http` in the configuration. The login of a registry is
//! also sent where the configuration has `plain_http` for it, or names an `http` mirror.

mod authorization;
mod docker;
mod netrc;
mod secret;

use std::collections::BTreeMap;
use std::path::PathBuf;

pub use secret::Secret;

pub(super) use self::docker::RegistryCredential;
#[cfg(fuzzing)]
pub(super) use self::docker::find_in_file;
pub(super) use self::netrc::Machine;

/// Prefix of the names of variables that hold tokens.
pub const TOKEN_PREFIX: &str = "CARTON_TOKEN_";

/// The sources of credentials, in the order in which they are searched after the URL itself. Credentials are sent over `https`, or over
/// `http` to this machine, and never to a server to which a redirect leads. The `Debug` form shows no secrets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Credentials {
    /// Bearer tokens by the name of the environment variable that holds them.
    pub variables: BTreeMap<String, Secret>,
    /// Bearer tokens of the configuration; the first that matches is used.
    pub tokens: Vec<HostToken>,
    /// Logins by host.
    pub netrc: Option<NetrcFile>,
    /// Files of logins at registries, in the form of Docker's `config.json`. They need not exist.
    pub registry_files: Vec<PathBuf>,
}

/// The bearer token for one host.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HostToken {
    /// The host, on every port, or `host:port`.
    pub host: String,
    /// The token; `None` if the variable that should hold it is not set.
    pub token: Option<Secret>,
    /// The environment variable that holds the token, if any.
    pub variable: Option<String>,
    /// Whether it may be sent without encryption.
    pub allow_http: bool,
}

impl HostToken {
    /// Makes a token for a host that is sent over `https` only.
    #[must_use]
    pub fn new(host: impl Into<String>, token: impl Into<Option<Secret>>) -> Self {
        Self { host: host.into(), token: token.into(), variable: None, allow_http: false }
    }
}

/// A file of logins.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NetrcFile {
    /// Its path.
    pub path: PathBuf,
    /// Whether the user named the file, so that it should exist. False for the usual place, where it may be missing.
    pub named: bool,
}

impl NetrcFile {
    /// Makes a file that should exist.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), named: true }
    }

    /// Makes a file that may be missing.
    #[must_use]
    pub fn optional(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), named: false }
    }
}

/// The credentials that a server received.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CredentialsSent {
    /// None: the host has no credentials.
    None,
    /// None: the credentials from this source are not sent without encryption.
    Withheld(String),
    /// None: a request to another scheme, host or port was redirected there.
    Redirected,
    /// The credentials from this source: "the netrc file".
    From(String),
}

impl Credentials {
    /// The variable that may hold the token for a host: `CARTON_TOKEN_models_example_com` for `models.example.com`. A dot becomes `_` and
    /// a hyphen `__`, so that no two hosts share a variable: otherwise a token for `a.b.example` would be sent to `a-b.example`. Hosts
    /// with other characters have no variable, for the same reason.
    ///
    /// ```
    /// use carton_network::http::Credentials;
    /// assert_eq!(Credentials::variable("my-models.example").as_deref(), Some("CARTON_TOKEN_my__models_example"));
    /// assert_eq!(Credentials::variable("my_models.example"), None);
    /// ```
    pub fn variable(host: &str) -> Option<String> {
        let is_plain = |label: &str| {
            let ends = !label.is_empty() && !label.starts_with('-') && !label.ends_with('-');
            ends && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        };
        let name = host.to_ascii_lowercase().replace('-', "__").replace('.', "_");
        host.split('.').all(is_plain).then(|| format!("{TOKEN_PREFIX}{name}"))
    }
}
