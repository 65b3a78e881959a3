//! Chooses the credentials for a request, and the servers that may receive them.

use std::fmt;

use carton_format::url::Url;
use percent_encoding::percent_decode_str;
use reqwest::RequestBuilder;

use super::docker::{self, RegistryCredential};
use super::netrc::{self, Machine};
use super::{Credentials, CredentialsSent, HostToken, Secret};
use crate::http::NetworkError;

/// The credential in the `Authorization` header.
#[derive(Clone)]
enum Credential {
    Basic { user: String, password: Secret },
    Bearer(Secret),
}

/// The credentials for one request, bound to the origin that may receive them.
pub(in crate::http) struct Authorization {
    origin: url::Origin,
    found: Option<(Credential, String)>,
    withheld: Option<String>,
}

impl Credentials {
    /// The token for a host from the environment. The variable's name may also be in capitals.
    fn variable_token(&self, host: &str) -> Option<(Credential, String)> {
        let name = Self::variable(host)?;
        let named = |name: &str| self.variables.get(name).filter(|token| !token.expose().is_empty()).cloned();
        let token = named(&name).or_else(|| named(&name.to_ascii_uppercase()))?;
        Some((Credential::Bearer(token), name))
    }

    /// Finds the credentials for `url`. `machines` reads the netrc file, and is called only if the other places have none.
    pub(in crate::http) fn find<'a>(&self, url: &Url, machines: impl FnOnce() -> &'a [Machine]) -> Authorization {
        let authorization = |found| Authorization { origin: url.origin(), found, withheld: None };
        if url.has_user() {
            let url = url.expose();
            let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
            let password = Secret::verbatim(decoded(url.password().unwrap_or_default()));
            let user = decoded(url.username());
            return authorization(Some((Credential::Basic { user, password }, "the URL".to_owned())));
        }
        let Some(host) = url.host_str() else { return authorization(None) };
        let is_safe = url.scheme() == "https" || url.is_this_machine();
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
            let from = entry.variable.clone().unwrap_or_else(|| "the configuration".to_owned());
            return unless_unsafe((Credential::Bearer(token), from), entry.allow_http);
        }
        if let Some(machine) = machines().iter().find(|machine| machine.host == host) {
            let (user, password) = (machine.login.clone(), machine.password.clone());
            return unless_unsafe((Credential::Basic { user, password }, "the netrc file".to_owned()), false);
        }
        authorization(None)
    }

    /// Finds the login for a repository of the registry that `registry` is a URL of, and where it is from.
    pub(in crate::http) fn find_for_registry<'a>(
        &self,
        registry: &Url,
        repository: &str,
        machines: impl FnOnce() -> &'a [Machine],
    ) -> Option<(RegistryCredential, String)> {
        let found = |authorization: &Authorization| match authorization.found.clone() {
            Some((Credential::Bearer(token), from)) => Some((RegistryCredential::Bearer(token), from)),
            Some((Credential::Basic { user, password }, from)) => {
                Some((RegistryCredential::Basic { user, password }, from))
            }
            None => None,
        };
        let host = registry.host_str()?;
        let server = registry.expose().port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        let first = found(&self.find(registry, || &[]));
        first.or_else(|| docker::find(&self.registry_files, &server, repository)).or_else(|| {
            let last = self.find(registry, machines);
            if let Some(from) = &last.withheld {
                tracing::warn!(
                    "the login for `{server}` from {from} is sent over https only, and the registry is asked over http"
                );
            }
            found(&last)
        })
    }

    pub(in crate::http) fn machines(&self) -> Vec<Machine> {
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
    /// Adds the credentials to a request to `url` if its origin may receive them. Also returns which ones the request sends.
    ///
    /// # Errors
    /// The token has characters that a header cannot have.
    pub(in crate::http) fn add(
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
            // Basic credentials are sent in Base64, so any characters are valid.
            Credential::Basic { user, password } => request.basic_auth(user, Some(password.expose())),
            Credential::Bearer(token) if token.expose().bytes().all(|byte| byte.is_ascii_graphic()) => {
                request.bearer_auth(token.expose())
            }
            Credential::Bearer(_) => {
                let reason = "has characters that a token cannot have".to_owned();
                return Err(NetworkError::Credentials { url: url.shown(), from: from.clone(), reason });
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
