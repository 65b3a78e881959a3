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

mod netrc;
mod secret;

use std::collections::BTreeMap;
use std::fmt;

use percent_encoding::percent_decode_str;
use reqwest::RequestBuilder;
use url::Host;

pub use netrc::NetrcFile;
pub use secret::Secret;

pub(super) use self::netrc::Machine;
use super::{NetworkError, Url, address};

/// How the names of variables that hold tokens begin.
pub(crate) const TOKEN_PREFIX: &str = "CARTON_TOKEN_";

/// Where credentials come from, in the order in which they are looked for after those in the URL itself. They are sent over `https`,
/// or over `http` to this machine, and to no server that a redirect leads to. The `Debug` form shows no secrets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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

/// What is sent.
enum Credential {
    Basic { user: String, password: Secret },
    Bearer(Secret),
}

/// The credentials for one request, bound to whom they are for.
pub(super) struct Authorization {
    origin: url::Origin,
    found: Option<(Credential, String)>,
    withheld: Option<String>,
}

impl Credentials {
    /// The variable that may hold the token for a host: `CARTON_TOKEN_models_example_com` for `models.example.com`. A dot becomes
    /// `_` and a hyphen `__`, so that no two hosts share a variable: otherwise a token for `a.b.example` would be sent to
    /// `a-b.example`. For that reason, too, hosts with other characters have none.
    ///
    /// ```
    /// use carton_core::network::Credentials;
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

    /// The token from the environment for a host. The variable's name may also be written in capitals.
    fn variable_token(&self, host: &str) -> Option<(Credential, String)> {
        let name = Self::variable(host)?;
        let named = |name: &str| self.variables.get(name).filter(|token| !token.expose().is_empty()).cloned();
        let token = named(&name).or_else(|| named(&name.to_ascii_uppercase()))?;
        Some((Credential::Bearer(token), name))
    }

    /// The credentials for `url`. `machines` reads the netrc file when it comes to that.
    pub(super) fn find<'a>(&self, url: &Url, machines: impl FnOnce() -> &'a [Machine]) -> Authorization {
        let authorization = |found| Authorization { origin: url.origin(), found, withheld: None };
        if !url.username().is_empty() || url.password().is_some() {
            let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
            let password = Secret::verbatim(decoded(url.password().unwrap_or_default()));
            let user = decoded(url.username());
            return authorization(Some((Credential::Basic { user, password }, "the URL".to_owned())));
        }
        let Some(host) = url.host_str() else { return authorization(None) };
        let is_safe = url.scheme() == "https" || is_this_machine(url);
        let unless_unsafe = |found: (Credential, String), allowed: bool| match is_safe || allowed {
            true => authorization(Some(found)),
            false => Authorization { withheld: Some(found.1), ..authorization(None) },
        };
        if let Some(found) = self.variable_token(host) {
            return unless_unsafe(found, false);
        }
        if let Some((entry, token)) =
            self.tokens.iter().filter(|entry| entry.is_for(url)).find_map(|entry| Some((entry, entry.token.clone()?)))
        {
            return unless_unsafe((Credential::Bearer(token), "the configuration".to_owned()), entry.allow_http);
        }
        if let Some(machine) = machines().iter().find(|machine| machine.host == host) {
            let (user, password) = (machine.login.clone(), machine.password.clone());
            return unless_unsafe((Credential::Basic { user, password }, "the netrc file".to_owned()), false);
        }
        authorization(None)
    }

    pub(super) fn machines(&self) -> Vec<Machine> {
        self.netrc.as_ref().map(netrc::load).unwrap_or_default()
    }
}

impl HostToken {
    fn is_for(&self, url: &Url) -> bool {
        let Some(host) = url.host_str() else { return false };
        let wanted = self.host.to_ascii_lowercase();
        wanted == host || url.port_or_known_default().is_some_and(|port| wanted == format!("{host}:{port}"))
    }
}

impl Authorization {
    /// Adds the credentials to a request to `url` if they are for it, and says which the server is told.
    ///
    /// # Errors
    /// A token with characters that no header can have.
    pub(super) fn add(
        &self,
        url: &Url,
        request: RequestBuilder,
    ) -> Result<(RequestBuilder, CredentialsSent), NetworkError> {
        let Some((credential, from)) = &self.found else {
            let sent = self.withheld.clone().map_or(CredentialsSent::None, CredentialsSent::Withheld);
            return Ok((request, sent));
        };
        if url.origin() != self.origin {
            return Ok((request, CredentialsSent::Redirected));
        }
        let request = match credential {
            // Base64, of whatever characters.
            Credential::Basic { user, password } => request.basic_auth(user, Some(password.expose())),
            Credential::Bearer(token) if token.expose().bytes().all(|byte| byte.is_ascii_graphic()) => {
                request.bearer_auth(token.expose())
            }
            Credential::Bearer(_) => {
                let reason = "has characters that no token has".to_owned();
                return Err(NetworkError::Credentials { url: address(url), from: from.clone(), reason });
            }
        };
        Ok((request, CredentialsSent::From(from.clone())))
    }
}

impl fmt::Debug for Authorization {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let from = self.found.as_ref().map(|(_, from)| from);
        formatter.debug_struct("Authorization").field("from", &from).finish_non_exhaustive()
    }
}

/// Whether nobody but this machine sees what is sent there.
fn is_this_machine(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    }
}
