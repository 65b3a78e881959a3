//! Who we are to a server: logins in URLs, tokens and netrc files, and to whom they may be told.
//!
//! The first of these that knows the host is used:
//! 1. `https://user:password@host/…`: the URL that was asked for.
//! 2. `CARTON_TOKEN_<host>` in the environment, a bearer token, see [`Credentials::variable`].
//! 3. `[[credentials]]` in the configuration, bearer tokens too.
//! 4. A netrc file. Its `default` is not used: a carton may name any host in its links, and ought not to learn passwords so.
//!
//! What is found is sent to the scheme, host and port that were asked for, never to where a redirect leads. It is sent over
//! `https`; over `http` only to this machine, or where the user says so: by the URL, or by `allow_http` in the configuration.

#[cfg(feature = "remote")]
mod authorization;
#[cfg(feature = "remote")]
mod netrc;
mod secret;

use std::collections::BTreeMap;
use std::path::PathBuf;

pub use secret::Secret;

#[cfg(feature = "remote")]
pub(super) use self::netrc::Machine;

/// How the names of variables that hold tokens begin.
pub(crate) const TOKEN_PREFIX: &str = "CARTON_TOKEN_";

/// Where credentials come from, in the order in which they are looked for after those in the URL itself. They are sent over `https`,
/// or over `http` to this machine, and to no server that a redirect leads to. The `Debug` form shows no secrets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Credentials {
    /// Bearer tokens by the name of the environment variable that holds them.
    pub variables: BTreeMap<String, Secret>,
    /// Bearer tokens of the configuration, the first that fits is used.
    pub tokens: Vec<HostToken>,
    /// Logins by host.
    pub netrc: Option<NetrcFile>,
}

/// The bearer token for one host.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HostToken {
    /// The host, on every port; or `host:port`.
    pub host: String,
    /// The token; none when the variable that is to hold it is not set.
    pub token: Option<Secret>,
    /// The variable it is taken from, if it is.
    pub variable: Option<String>,
    /// Whether it may be sent without encryption.
    pub allow_http: bool,
}

/// A file of logins.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NetrcFile {
    /// Where it is.
    pub path: PathBuf,
    /// Whether the user named it, rather than that it is looked for where it usually is: then it ought to be there.
    pub named: bool,
}

/// Which credentials a server was told.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CredentialsSent {
    /// None: there are none for this host.
    None,
    /// None, although there are: they are not sent without encryption.
    Withheld(String),
    /// None, because another host, port or scheme was asked for, which led there.
    Redirected,
    /// Those from here: "the netrc file".
    From(String),
}

impl Credentials {
    /// The variable that may hold the token for a host: `CARTON_TOKEN_models_example_com` for `models.example.com`. A dot becomes
    /// `_` and a hyphen `__`, so that no two hosts share a variable: otherwise a token for `a.b.example` would be sent to
    /// `a-b.example`. For that reason, too, hosts with other characters have none.
    ///
    /// ```
    /// use carton_core::config::Credentials;
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
